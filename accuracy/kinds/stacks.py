"""Where a row ran: chip, core size and the software profile of its stack."""

from accuracy.prediction import Target
from accuracy.rows import Row

NATIVE = "torchneuron-2.33"
LAZY = "xla-2.9"
SERVING = "nxd-inference-2.28"
DIRECT = "nkipy"

# Words of the workload or stack, in this order, and the profile they mean.
_PROFILES = (
    ("native", NATIVE),
    ("xla lazy", LAZY),
    ("torch-xla", LAZY),
    ("nkipy", DIRECT),
    ("hlo backend", DIRECT),
    ("neff wall", DIRECT),
)


def target(row: Row, default: str = SERVING) -> Target:
    """Chip, core size and profile of a row."""
    words = f"{row.stack} {row.text}"
    named = (profile for word, profile in _PROFILES if word in words)
    return Target(row.chip, row.logical_core_size, next(named, default))


def cores_per_chip(row: Row) -> int:
    """Logical cores of one chip at the row's core size; both chips have eight physical ones."""
    return 8 // row.logical_core_size
