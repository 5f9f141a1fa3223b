"""Fits the free constants of the cost model to measurements and writes calibrated.toml.

What the measurements ran is not known here: a `Problem` brings a function from constants to
predictions. Needs scipy, as only development does.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from statistics import median, quantiles

from torch_trainium.hardware.facts import DATA

CALIBRATED = DATA / "calibrated.toml"

# Relative errors beyond this count by their logarithm: a row that the model does not know how to
# predict must not bend it for the others.
OUTLIER_ERROR = 0.1
# A group determines a constant if 10 % more of it moves one of the group's rows by this much.
SENSITIVITY = 0.002
NAMED_GROUPS = 6


@dataclass(frozen=True)
class Constant:
    """A free constant: its value, what physics allows, and its unit."""

    name: str
    value: float
    lower: float
    upper: float
    unit: str


@dataclass(frozen=True)
class Observation:
    """One measurement: `group` is the document it comes from, `weight` its part in the fit."""

    name: str
    group: str
    measured: float
    weight: float


@dataclass(frozen=True)
class Problem:
    """Observations, and their predictions for constants and positions of observations."""

    observations: tuple[Observation, ...]
    predict: Callable[[Mapping[str, float], Sequence[int]], Sequence[float]]


@dataclass(frozen=True)
class Calibration:
    """Fitted constants, errors of the fit, and what determines each constant."""

    constants: tuple[Constant, ...]
    errors: tuple[float, ...]
    groups: Mapping[str, tuple[str, ...]]

    def values(self) -> dict[str, float]:
        """The constants by name."""
        return {constant.name: constant.value for constant in self.constants}


def read_constants(path: Path = CALIBRATED) -> tuple[Constant, ...]:
    """The free constants of a calibrated.toml."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["constants"]
    return tuple(
        Constant(name, c["value"], c["lower"], c["upper"], c["unit"]) for name, c in tables.items()
    )


def fit(problem: Problem, start: Sequence[Constant]) -> Calibration:
    """The constants within their bounds that predict `problem` best.

    Minimizes weighted logarithms of predicted over measured under a Cauchy loss.
    """
    everything = range(len(problem.observations))
    constants = _solve(problem, start, everything, evaluations=60)
    values = {constant.name: constant.value for constant in constants}
    return Calibration(
        constants,
        tuple(_errors(problem, values, everything)),
        {constant.name: _determining(problem, values, constant.name) for constant in constants},
    )


def leave_one_group_out(problem: Problem, fitted: Calibration) -> dict[str, float]:
    """Every observation as predicted by a fit to all other groups, by name."""
    predicted: dict[str, float] = {}
    for group in sorted({one.group for one in problem.observations}):
        inside = [i for i, one in enumerate(problem.observations) if one.group == group]
        outside = [i for i, one in enumerate(problem.observations) if one.group != group]
        constants = _solve(problem, fitted.constants, outside, evaluations=8)
        values = {constant.name: constant.value for constant in constants}
        for i, prediction in zip(inside, problem.predict(values, inside), strict=True):
            predicted[problem.observations[i].name] = prediction
    return predicted


def write(calibration: Calibration, held_out_errors: Sequence[float], path: Path) -> None:
    """Write the constants, what determines them, and both errors as calibrated.toml."""
    lines = [
        "# Free constants of the cost model, one set for every chip, fitted to measured.csv by",
        "# `make calibrate`. `groups` are the documents whose rows move most with the constant.",
        "",
        "[fit]",
        f"rows = {len(calibration.errors)}",
        f"median_error = {median(calibration.errors):.4f}",
        f"error_90th = {quantiles(calibration.errors, n=10)[-1]:.4f}",
        f"held_out_median_error = {median(held_out_errors):.4f}",
        f"held_out_error_90th = {quantiles(held_out_errors, n=10)[-1]:.4f}",
        "",
        "[constants]",
    ]
    for c in calibration.constants:
        groups = calibration.groups[c.name]
        lines += [
            f"[constants.{c.name}]",
            f"value = {_rounded(c.value):g}",
            f"lower = {c.lower:g}",
            f"upper = {c.upper:g}",
            f'unit = "{c.unit}"',
            f"group_count = {len(groups)}",
            "groups = [",
            *(f'  "{group}",' for group in groups[:NAMED_GROUPS]),
            "]",
            "",
        ]
    path.write_text("\n".join(lines), encoding="utf-8")


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _errors(problem: Problem, values: Mapping[str, float], positions: Sequence[int]) -> list[float]:
    predictions = problem.predict(values, positions)
    observations = (problem.observations[i] for i in positions)
    return [abs(p / one.measured - 1) for p, one in zip(predictions, observations, strict=True)]


def _solve(
    problem: Problem, start: Sequence[Constant], positions: Sequence[int], evaluations: int
) -> tuple[Constant, ...]:
    from scipy.optimize import least_squares  # type: ignore[import-untyped]

    names = [constant.name for constant in start]
    scale = [max(abs(constant.value), 1e-3) for constant in start]
    observations = [problem.observations[i] for i in positions]

    def residuals(x: Sequence[float]) -> list[float]:
        predictions = problem.predict(dict(zip(names, map(float, x), strict=True)), positions)
        return [
            one.weight * log(max(prediction, 1e-12) / one.measured)
            for prediction, one in zip(predictions, observations, strict=True)
        ]

    solution = least_squares(
        residuals,
        [constant.value for constant in start],
        bounds=([c.lower for c in start], [c.upper for c in start]),
        x_scale=scale,
        loss="cauchy",
        f_scale=OUTLIER_ERROR,
        diff_step=1e-3,
        max_nfev=evaluations,
    )
    return tuple(
        Constant(c.name, _rounded(value), c.lower, c.upper, c.unit)
        for c, value in zip(start, solution.x, strict=True)
    )


def _determining(problem: Problem, values: Mapping[str, float], name: str) -> tuple[str, ...]:
    everything = range(len(problem.observations))
    before = problem.predict(values, everything)
    after = problem.predict({**values, name: values[name] * 1.1}, everything)
    most: dict[str, float] = {}
    for one, old, new in zip(problem.observations, before, after, strict=True):
        most[one.group] = max(most.get(one.group, 0.0), abs(new / old - 1))
    moved = [group for group in most if most[group] >= SENSITIVITY]
    return tuple(sorted(moved, key=lambda group: (-most[group], group)))
