"""What runs programs: engines, which compile StableHLO and run it on raw addresses.

engine       the interface every engine has
programs     the programs of this process
xla_cpu      programs on the host, by XLA's CPU compiler
rewrites     what programs do there by PyTorch's kernels
mlir         jaxlib's MLIR
"""

import os

# Before jaxlib is loaded, which else prints lines on stderr for each client.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
