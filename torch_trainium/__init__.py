"""The `neuron` device for PyTorch: AWS Trainium, on the chip or emulated on any Linux machine.

Nothing has to be imported: `import torch` loads this package, after which "neuron" is a
device like any other and `torch.neuron` its module. Importing it activates the device also
where that gave way to another accelerator.
"""

from torch_trainium import _autoload
from torch_trainium._autoload import AutoloadStatus, autoload_status

__all__ = ["AutoloadStatus", "__version__", "autoload_status"]

__version__ = "0.1.0"

if not _autoload.imported_by_torch():
    _autoload.activate()
