"""Fit the free constants to every measurement that can be predicted.

`python -m accuracy.calibrate` writes the data file calibrated.toml and held_out.json, the
predictions of each document by constants that have not seen it.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from accuracy.prediction import Prediction
from accuracy.predictions import evaluate, map_rows
from accuracy.reservations import reservation
from accuracy.rows import read_rows
from torch_trainium.hardware import calibrate

HELD_OUT = Path(__file__).parent / "held_out.json"

# A copy has no free constant.
NOT_FITTED = ("transfers",)
# A product alone says most of the array, a collective alone most of the links; a first token
# includes the host time of its server, of which the sources say little.
FAMILY_WEIGHTS = {"serving prefill": 0.4, "instructions": 0.4, "gemm": 4.0, "collectives": 2.0}
# The newer chip has an eighth of the rows.
CHIP_WEIGHTS = {"trn3": 2.0}
# Rows of one document and family are versions of one experiment: this many count as such.
ROWS_AT_FULL_WEIGHT = 4


def problem(predictions: Sequence[Prediction]) -> calibrate.Problem:
    """The rows as observations, each weighted by how many its document has of its family."""
    members = Counter((p.row.group, p.family) for p in predictions)

    def weight(p: Prediction) -> float:
        share: float = min(1.0, ROWS_AT_FULL_WEIGHT / members[p.row.group, p.family]) ** 0.5
        return share * FAMILY_WEIGHTS.get(p.family, 1.0) * CHIP_WEIGHTS.get(p.row.chip, 1.0)

    def predict(constants: Mapping[str, float], positions: Sequence[int]) -> list[float]:
        chosen = [predictions[i] for i in positions]
        return [scored.predicted for scored in evaluate(chosen, constants)]

    observations = tuple(
        calibrate.Observation(p.row.id, p.row.group, p.row.value, weight(p)) for p in predictions
    )
    return calibrate.Problem(observations, predict)


def main() -> None:
    """Fit, hold out, write."""
    mapped, _ = map_rows(read_rows())
    claimed = [p for p in mapped if reservation(p) is None and p.family not in NOT_FITTED]
    fitted = problem(claimed)
    calibration = calibrate.fit(fitted, calibrate.read_constants())
    held_out = calibrate.leave_one_group_out(fitted, calibration)
    errors = [abs(held_out[one.name] / one.measured - 1) for one in fitted.observations]
    calibrate.write(calibration, errors, calibrate.CALIBRATED)
    rounded = {name: float(f"{value:.6g}") for name, value in sorted(held_out.items())}
    HELD_OUT.write_text(json.dumps(rounded, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
