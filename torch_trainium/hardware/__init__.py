"""Hardware facts and what follows from them. Imports no torch.

- `facts`: chips, servers and UltraServers, read from `data/`, where each value names its source.
- `environment`: the devices one process sees, from environment variables.
- `topology`: how fast chips reach each other, and the way between two of them.
- `pricing`: what a machine costs.
- `operator_classes`: how each ATen operator uses a core.

Only what `import torch` needs is imported here.
"""

from torch_trainium.hardware.environment import ConfigurationError, Machine, machine
from torch_trainium.hardware.facts import (
    Chip,
    Instance,
    UltraServer,
    chips,
    instances,
    ultraservers,
)

__all__ = [
    "Chip",
    "ConfigurationError",
    "Instance",
    "Machine",
    "UltraServer",
    "chips",
    "instances",
    "machine",
    "ultraservers",
]
