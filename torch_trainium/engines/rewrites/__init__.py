"""Operations for which XLA:CPU has slow code, as calls of PyTorch's kernels.

For speed on the emulated device alone: lowerings do not know of them, and neither does what a
program is said to cost.

table         which operations, and the rewriting of a module
strided       transposed arrays without a copy
dot           products of matrices
convolution   convolutions and their gradients
scan          running sums and products
top_k         sorting
"""

import hashlib
from functools import cache
from pathlib import Path


@cache
def fingerprint() -> str:
    """Which rewrites these are: a digest of their sources. Loads no MLIR."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]
