"""Every row of a table mapped, and all predictions evaluated for a set of constants."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from accuracy import exclusions
from accuracy.kinds import collectives, inference, instructions, kernels, training
from accuracy.prediction import Excluded, Prediction, Target
from accuracy.rows import Row
from accuracy.workload import Stack
from torch_trainium.hardware import costs

_KINDS = {
    "infer": (inference.predict,),
    "kernel": (kernels.predict,),
    "micro": (instructions.predict,),
    "collective": (collectives.predict,),
    "overhead": (collectives.predict_copy,),
    "train": (training.predict,),
}


@dataclass(frozen=True)
class Scored:
    """A prediction beside what was measured."""

    prediction: Prediction
    predicted: float

    @property
    def row(self) -> Row:
        """The measurement."""
        return self.prediction.row

    @property
    def error(self) -> float:
        """Predicted over measured, minus one."""
        return self.predicted / self.row.value - 1


def map_row(row: Row) -> Prediction | Excluded:
    """The workload of a row, or the reason why there is none."""
    reason = exclusions.reason(row)
    if reason is not None:
        return Excluded(row, reason)
    for predict in _KINDS.get(row.kind, ()):
        prediction = predict(row)
        if prediction is not None:
            return prediction
    return Excluded(row, "no definition of this model or kernel, or its shapes are not published")


def map_rows(rows: Iterable[Row]) -> tuple[list[Prediction], list[Excluded]]:
    """All rows mapped; of the versions of one configuration only the best is predicted."""
    mapped = [map_row(row) for row in rows]
    predictions = [m for m in mapped if isinstance(m, Prediction)]
    excluded = [m for m in mapped if isinstance(m, Excluded)]
    best: dict[tuple[object, ...], Prediction] = {}
    for prediction in predictions:
        key = (prediction.family, *prediction.configuration)
        if key not in best or _is_better(prediction, best[key]):
            best[key] = prediction
    kept = {id(prediction) for prediction in best.values()}
    excluded += [
        Excluded(p.row, "another version of the same configuration was measured to be faster")
        for p in predictions
        if id(p) not in kept
    ]
    return list(best.values()), excluded


def _is_better(one: Prediction, other: Prediction) -> bool:
    if one.measure.is_rate:
        return one.row.value > other.row.value
    return one.row.value < other.row.value


def evaluate(
    predictions: Iterable[Prediction], constants: Mapping[str, float] | None = None
) -> list[Scored]:
    """Predict with the constants of the data files, `constants` in place of some of them."""
    stacks: dict[Target, Stack] = {}
    scored = []
    for prediction in predictions:
        where = prediction.target
        if where not in stacks:
            stacks[where] = _stack(where, constants or {})
        seconds = prediction.workload.seconds(stacks[where])
        scored.append(Scored(prediction, prediction.measure.value(seconds)))
    return scored


def _stack(where: Target, constants: Mapping[str, float]) -> Stack:
    model = costs.cost_model(where.chip, where.logical_core_size, constants)
    return Stack(model, _profile(where.profile, where.chip))


@cache
def _profile(name: str, chip: str) -> costs.Profile:
    return costs.profile(name, chip)
