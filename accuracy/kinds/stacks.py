"""Where a row ran: chip, core size and the software profile of its stack."""

import re
import tomllib
from functools import cache
from pathlib import Path

from accuracy.prediction import Target
from accuracy.rows import Row

NATIVE = "torchneuron-2.33"
LAZY = "xla-2.9"
SERVING = "nxd-inference-2.28"
DIRECT = "nkipy"

# Words of the workload or stack, in this order, and the profile they mean.
_PROFILES = (
    ("xla lazy", LAZY),
    ("torch-xla", LAZY),
    ("native", NATIVE),
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


def request_seconds(row: Row) -> float:
    """Host time of each request where a server answered it, which rows with a concurrency say."""
    is_served = "vllm" in f"{row.stack} {row.text}" or "concurrency" in row.params
    return _server_seconds() if is_served else 0.0


@cache
def _server_seconds() -> float:
    tables = tomllib.loads((Path(__file__).parents[1] / "servers.toml").read_text("utf-8"))
    return float(tables["vllm"]["request_ms"]["value"]) / 1e3


# Words of a workload, and the parts of the model that hand-written kernels then cover.
_KERNELS = (
    (re.compile(r"megakernel|\bexp\d|merged dma"), frozenset({""})),
    (re.compile(r"tkg kernel|moe_fused\+qkv|\bnki\b(?<!no nki)"), frozenset({"attention"})),
    (re.compile(r"moe_fused"), frozenset({"experts"})),
)


def fused_regions(row: Row) -> frozenset[str]:
    """Which parts of the model the source ran as hand-written kernels; "" is all of it.

    The serving library runs prompts through its own flash attention unless told otherwise.
    """
    named = (regions for words, regions in _KERNELS if words.search(row.text))
    regions = next(named, frozenset())
    return regions if regions == frozenset({""}) else regions | {"flash attention"}
