"""Builds the C++ table of operator classes alone and compares it with the data file."""

import os
import re
import runpy
import subprocess
from pathlib import Path

import pytest

from torch_trainium.hardware.operator_classes import operators_by_class

HERE = Path(__file__).resolve().parent
CSRC = HERE.parents[1] / "csrc"
CLASSES = re.findall(r'_\(k\w+, "(\w+)"\)', (CSRC / "timeline" / "cost_class.h").read_text())


@pytest.fixture(scope="module")
def classes_of(tmp_path_factory):
    """A function from operator names to what the C++ table says: (class, whether listed)."""
    folder = tmp_path_factory.mktemp("operator_classes")
    generator = runpy.run_path(str(CSRC / "codegen" / "operator_classes.py"))
    generator["write"](folder / "operator_classes.inc")
    compiler = [os.environ.get("CXX", "g++"), "-std=c++20", "-O0", f"-I{CSRC}", f"-I{folder}"]
    sources = [HERE / "operator_classes_test.cpp", CSRC / "timeline" / "operator_classes.cpp"]
    binary = folder / "test"
    subprocess.run([*compiler, *sources, "-o", binary], check=True)

    def classes(names):
        done = subprocess.run(
            [binary], input="\n".join(names), capture_output=True, text=True, check=True
        )
        rows = (line.split() for line in done.stdout.splitlines())
        return [(CLASSES[int(number)], listed == "1") for number, listed in rows]

    return classes


def test_every_listed_operator_has_its_class(classes_of):
    expected = {
        name: (cost_class, True)
        for cost_class, operators in operators_by_class().items()
        for name in operators
    }
    assert dict(zip(expected, classes_of(expected), strict=True)) == expected


# Names before the first row, after the last, and beside rows that they begin or extend.
@pytest.mark.parametrize(
    "name", ["", "aa::op", "zz::op", "aten::add", "aten::reluu", "aten::add.Tensor "]
)
def test_an_unlisted_operator_runs_on_the_host(classes_of, name):
    assert classes_of([name, "aten::relu"])[0] == ("cpu_fallback", False)
