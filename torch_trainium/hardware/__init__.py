"""Hardware facts and what follows from them. Imports no torch.

- `facts`: chips and instances, read from `data/`, where each value names its source.
- `environment`: the devices one process sees, from environment variables.
"""

from torch_trainium.hardware.environment import ConfigurationError, Machine, machine
from torch_trainium.hardware.facts import Chip, Instance, chips, instances

__all__ = ["Chip", "ConfigurationError", "Instance", "Machine", "chips", "instances", "machine"]
