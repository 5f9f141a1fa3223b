"""Every operator of PyTorch's database once: one dtype, forward and backward, against the CPU.

The cases of the collected tests run together in a separate process, which forks its workers
before the device is touched; each test then looks its own result up.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance import operators
from tests.conformance.case import FAILURES, Result

ROOT = Path(__file__).resolve().parents[2]
CASES = [case.id for case in operators.sample("neuron")]


@pytest.fixture(scope="module")
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("conformance")
    listed, output = folder / "cases.txt", folder / "results.json"
    wanted = [
        item.callspec.params["case"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == "test_operator"
    ]
    listed.write_text("\n".join(wanted))
    command = [sys.executable, "-m", "tests.conformance.run"]
    command += ["--cases-from", str(listed), "--json", str(output)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert output.exists(), run.stdout + run.stderr
    found = [Result.from_json(row) for row in json.loads(output.read_text())]
    return {result.case.id: result for result in found}


@pytest.mark.parametrize("case", CASES)
def test_operator(case: str, results: dict[str, Result]) -> None:
    result = results[case]
    assert result.status not in FAILURES, "\n".join(result.failures)
