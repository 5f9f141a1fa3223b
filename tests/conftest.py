"""Makes the neuron device available to every test, whether or not the package is installed."""

import torch_trainium  # noqa: F401
