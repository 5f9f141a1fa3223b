"""Makes the neuron device available to every test, whether or not the package is installed."""

import torch

import torch_trainium  # noqa: F401

# Many tests use float64, which no chip has; those of fallbacks say what they want instead.
torch.neuron.set_fallback("allow")
