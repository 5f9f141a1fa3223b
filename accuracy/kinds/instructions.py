"""Single instructions of the engines, and DMA descriptors."""

import re
from collections.abc import Callable

from accuracy.kinds.stacks import target
from accuracy.measure import Measure
from accuracy.prediction import Prediction
from accuracy.rows import Row
from accuracy.workload import Descriptors, Instruction, Workload

# Descriptors of a copy that names none: the packet of a compute queue, and of a queue that
# software fills (AWS Neuron documentation, nki/get-started/about/nki-dma-overview.rst).
PACKET_BYTES = 4096

Builder = Callable[[Row], Workload | None]


def predict(row: Row) -> Prediction | None:
    """The workload of a row about one instruction; None if the cost model has none such."""
    build = next((build for words, build in _BUILDERS if words.search(row.text)), None)
    workload = build(row) if build else None
    if workload is None:
        return None
    return Prediction(
        row=row,
        target=target(row),
        family="instructions",
        workload=workload,
        measure=Measure(row.unit, row.number("bytes", default=1) or 1),
        configuration=(row.chip, workload, _state(row)),
    )


def _state(row: Row) -> str:
    """A throttled array is another state of the hardware, not another version."""
    return "throttled" if "throttled" in row.text and "unthrottled" not in row.text else ""


def _columns(row: Row) -> float | None:
    return row.number("N", default=_last_dimension(row.workload))


def _last_dimension(text: str) -> float | None:
    found = re.search(r"\[\d+,\s*(\d+)\]", text)
    return float(found.group(1)) if found else None


def _compute(engine: str, cycles: float) -> Builder:
    def build(row: Row) -> Workload | None:
        columns = _columns(row)
        return None if columns is None else Instruction(engine, columns, cycles)

    return build


def _matmul(row: Row) -> Workload | None:
    columns = _columns(row)
    if columns is None:
        return None
    passes = row.number("passes", default=1) or 1
    slowdown = 2.0 if _state(row) else 1.0
    return Instruction("tensor", max(columns, 64), passes * slowdown)


def _descriptor(row: Row) -> Workload | None:
    size = row.number("bytes")
    if size is None:
        return None
    return Descriptors(size, software=row.word("queue") == "software_dynamic")


def _copy(row: Row) -> Workload | None:
    """A copy cut into descriptors and spread over engines."""
    size, engines = row.number("bytes"), row.number("engines", default=1) or 1
    if size is None:
        return None
    pieces = re.search(r"(\d+)x(\d+) b\b", row.text)
    piece = float(pieces.group(2)) if pieces else _row_bytes(row) or PACKET_BYTES
    return Descriptors(piece, size / piece / engines, software="swdge" in row.text)


def _row_bytes(row: Row) -> float | None:
    """Bytes of one row of a 16-bit tile, which is what one descriptor moves."""
    columns = _last_dimension(row.workload)
    return None if columns is None else 2.0 * columns


_BUILDERS: tuple[tuple[re.Pattern[str], Builder], ...] = tuple(
    (re.compile(words), build)
    for words, build in (
        (r"table.?load", lambda row: None),
        (r"\bmatmul\b", _matmul),
        (r"ldweights", lambda row: None),
        (r"square\+reduce", _compute("scalar", 1)),
        (r"tensor_scalar.*(fp32|2x)", _compute("vector", 0.5)),
        (r"tensor_reduce|abs-max|scalar_tensor_tensor|copy vectore", _compute("vector", 1)),
        (r"reciprocal", _compute("vector", 8)),
        (r"activate|\bact\b|copy scalare|cast scalare", _compute("scalar", 1)),
        (r"dma descriptor", _descriptor),
        (r"^dma \d|^dma \[", _copy),
    )
)
