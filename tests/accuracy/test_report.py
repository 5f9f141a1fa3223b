import pytest

from accuracy.exclusions import RULES
from accuracy.predictions import evaluate, map_rows
from accuracy.report import document
from accuracy.reservations import reservation
from accuracy.rows import MEASURED, Row, read_rows


def row(id, kind, workload, metric, unit, value, **params):
    params = {"family": "trn2", "lnc": 2, "group": id} | params
    return Row(id, kind, workload, params, "trn2.3xlarge", metric, value, unit, "nowhere")


@pytest.fixture(scope="module")
def written():
    rows = [
        row("GEMM", "kernel", "gemm", "latency", "us", 100.0, M=1024, K=1024, N=1024),
        row("HYBRID", "infer", "Qwen3.5-2B", "tpot", "ms", 4.0, tp=4),
        row("START", "overhead", "NRT init warm", "latency", "s", 0.1),
    ]
    predictions, excluded = map_rows(rows)
    return document(evaluate(predictions), excluded, {"GEMM": 50.0})


def test_every_row_is_predicted_reserved_or_excluded_once(written):
    assert "Of 3 rows 2 are predicted and 1 are not" in written
    assert all(written.count(f"| {name} |") == 1 for name in ("GEMM", "HYBRID"))
    assert "START" in written.partition("## What is not covered")[2]


def test_reserved_rows_do_not_count_in_the_families(written):
    families = written.partition("## By family")[2].partition("## Reported")[0]
    assert "decode" not in families


def test_held_out_errors_stand_beside_those_of_the_fit(written):
    assert "| 50.0 % | 50.0 % |" in written


def test_every_rule_excludes_a_published_row():
    rows = read_rows(MEASURED)
    idle = [reason for reason, applies in RULES if not any(map(applies, rows))]
    assert idle == []


def test_training_is_never_claimed():
    rows = [r for r in read_rows(MEASURED) if r.kind == "train" and "ViT" in r.workload]
    predictions, _ = map_rows(rows)
    assert predictions
    assert all(reservation(p) is not None for p in predictions)
