"""Collectives alone, and copies between host and device."""

import re

from accuracy.kinds.stacks import LAZY, NATIVE, SERVING, cores_per_chip, target
from accuracy.measure import Measure
from accuracy.prediction import Prediction
from accuracy.rows import Row
from accuracy.workload import (
    Exchange,
    Launched,
    Repeated,
    Sequential,
    Transfer,
    Workload,
    eager_collective,
    group_of,
)

# A size at which bandwidth no longer grows, where a source gives its best over sizes.
LARGE_BYTES = 256 << 20

_KINDS = (
    ("all_reduce", re.compile(r"all[-_ ]?reduce")),
    ("all_gather", re.compile(r"all[-_ ]?gather")),
    ("reduce_scatter", re.compile(r"reduce[-_ ]?scatter")),
    ("all_to_all", re.compile(r"all[-_ ]?to[-_ ]?all")),
    ("broadcast", re.compile(r"broadcast")),
    ("send_receive", re.compile(r"ping[-_ ]?pong|send[-_ ]?recv|point to point")),
)
# Traffic per byte of the tensor that "bus bandwidth" counts, times n / (n - 1).
_BUS_FACTOR = {"all_reduce": 2.0}


def predict(row: Row) -> Prediction | None:
    """The workload of a row about one collective; None if it names none."""
    kind = next((kind for kind, words in _KINDS if words.search(row.text)), None)
    if kind is None:
        return None
    ranks = row.count("ranks", default=2)
    size = row.count("bytes", default=LARGE_BYTES)
    group = group_of(kind, ranks, cores_per_chip(row))
    where = target(row, SERVING)
    workload: Workload = Exchange(group, size)
    if where.profile == LAZY:
        there_and_back = 2 if kind == "send_receive" else 1
        workload = Sequential(((there_and_back, Launched(workload)),))
    elif where.profile == NATIVE and row.metric == "latency":
        workload = Repeated(eager_collective(group, size))
    traffic = float(size)
    if "bus" in row.metric:
        traffic *= _BUS_FACTOR.get(kind, 1.0) * (ranks - 1) / ranks
    return Prediction(
        row=row,
        target=where,
        family="collectives",
        workload=workload,
        measure=Measure(row.unit, traffic),
        configuration=(kind, ranks, size, where, row.metric),
    )


def predict_copy(row: Row) -> Prediction | None:
    """The workload of a row about a copy between host and device; None if it is none."""
    text = row.text
    if not re.search(r"host\s*(<->|->|to)\s*device|device\s*(->|to)\s*host|h2d|d2h", text):
        return None
    size = row.count("bytes", default=LARGE_BYTES)
    to_device = not re.search(r"device\s*(->|to)\s*host|d2h", text)
    return Prediction(
        row=row,
        target=target(row, NATIVE),
        family="transfers",
        workload=Transfer(size, to_device, row.count("ranks", default=1)),
        measure=Measure(row.unit, size),
        configuration=(row.id,),
    )
