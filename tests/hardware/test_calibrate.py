"""Calibration on problems whose answer is known."""

import tomllib
from dataclasses import replace

import pytest

from torch_trainium.hardware import calibrate, costs
from torch_trainium.hardware.calibrate import Constant, Observation, Problem

pytest.importorskip("scipy")

TRUTH = {"rate": 3.0, "start": 20.0}
SIZES = {f"row{i}": 10.0 * (i + 1) for i in range(12)}
START = (Constant("rate", 1.0, 0.5, 10.0, "us"), Constant("start", 5.0, 0.0, 100.0, "us"))


def predict_one(constants, size):
    return constants["start"] + constants["rate"] * size


def problem(**measured):
    rows = {name: predict_one(TRUTH, size) for name, size in SIZES.items()} | measured
    observations = tuple(
        Observation(name, f"group{i % 4}", value, 1.0)
        for i, (name, value) in enumerate(rows.items())
    )
    names = list(rows)

    def predict(constants, positions):
        return [predict_one(constants, SIZES[names[i]]) for i in positions]

    return Problem(observations, predict)


def test_the_constants_that_made_the_rows_are_found():
    fitted = calibrate.fit(problem(), START)
    assert fitted.values() == pytest.approx(TRUTH, rel=1e-2)
    assert max(fitted.errors) < 1e-2


def test_one_wrong_row_does_not_bend_the_others():
    fitted = calibrate.fit(problem(row5=1e6), START)
    assert fitted.values() == pytest.approx(TRUTH, rel=0.05)


def test_constants_stay_within_their_bounds():
    tight = (replace(START[0], upper=2.0), START[1])
    assert calibrate.fit(problem(), tight).values()["rate"] <= 2.0


def test_every_row_is_predicted_without_its_group():
    rows = problem()
    held_out = calibrate.leave_one_group_out(rows, calibrate.fit(rows, START))
    assert held_out == pytest.approx({o.name: o.measured for o in rows.observations}, rel=0.05)


def test_what_is_written_reads_back(tmp_path):
    path = tmp_path / "calibrated.toml"
    fitted = calibrate.fit(problem(), START)
    calibrate.write(fitted, fitted.errors, path)
    assert calibrate.read_constants(path) == fitted.constants
    assert tomllib.loads(path.read_text())["fit"]["rows"] == len(SIZES)


def test_the_free_constants_are_few_bounded_and_each_seen_by_several_documents():
    tables = tomllib.loads(calibrate.CALIBRATED.read_text(encoding="utf-8"))["constants"]
    assert len(tables) <= 20
    for constant in calibrate.read_constants():
        assert constant.lower <= constant.value <= constant.upper, constant
    assert all(table["group_count"] >= 2 for table in tables.values())


def test_the_bf16_product_of_the_operator_benchmark_is_met():
    left, right = costs.TensorShape((1024, 4096)), costs.TensorShape((4096, 4096))
    call = costs.OperatorCall("aten::mm", (left, right), (costs.TensorShape((1024, 4096)),))
    times = 50
    seconds = costs.eager_time(costs.cost_model(), costs.profile(), [call] * times) / times
    assert seconds * 1e6 == pytest.approx(276.8, rel=0.05)  # measured.csv, row NE0001
