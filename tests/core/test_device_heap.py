"""Compiles device_heap_test.cpp and runs its cases."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from torch.utils import cpp_extension

HERE = Path(__file__).resolve().parent
CSRC = HERE.parent.parent / "csrc"
TEST = HERE / "device_heap_test.cpp"
UNITS = (
    "allocation_trace",
    "block_pool",
    "device_heap",
    "heap_events",
    "heap_pools",
    "heap_report",
    "heap_segments",
)
CASES = re.findall(r"CASE\((\w+)\),", TEST.read_text())


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The compiled test; needs libc10 but neither Python nor the extension."""
    binary = tmp_path_factory.mktemp("device_heap") / "test"
    libraries = cpp_extension.library_paths()
    subprocess.run(
        [
            os.environ.get("CXX", "g++"),
            "-std=c++20",
            "-O0",
            f"-I{CSRC}",
            *(flag for path in cpp_extension.include_paths() for flag in ("-isystem", path)),
            str(TEST),
            *(str(CSRC / "core" / f"{unit}.cpp") for unit in UNITS),
            *(f"-L{path}" for path in libraries),
            *(f"-Wl,-rpath,{path}" for path in libraries),
            "-lc10",
            "-o",
            str(binary),
        ],
        check=True,
    )
    return binary


def test_all_cases_are_listed(program):
    names = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert names.split() == CASES


@pytest.mark.parametrize("case", CASES)
def test_device_heap(program, case):
    done = subprocess.run([program, case], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
