"""One compile for each content, in whichever place the program is found."""

import importlib.util
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tests.python_process import output_of
from torch_trainium.engines import programs, rewrites, xla_cpu
from torch_trainium.engines.disk_cache import DiskCache
from torch_trainium.engines.engine import Buffer, Signature
from torch_trainium.engines.programs import PROGRAM_SUFFIX, Origin, ProgramCache

SIGNATURE = Signature((Buffer("f32", (2,)),), (), (Buffer("f32", (2,)),))


@dataclass
class FakeProgram:
    text: bytes
    signature: Signature = SIGNATURE

    def run(self, inputs, scalars, outputs):
        return 0

    def serialize(self):
        return b"compiled " + self.text


@dataclass
class FakeEngine:
    version: str = "1"
    compiled: list[bytes] = field(default_factory=list)

    def fingerprint(self):
        return self.version

    def compile(self, module, signature):
        self.compiled.append(module)
        return FakeProgram(module)

    def load(self, serialized, signature):
        if not serialized.startswith(b"compiled "):
            raise ValueError("not a program")
        return FakeProgram(serialized.removeprefix(b"compiled "))


@pytest.fixture
def disk(tmp_path):
    return DiskCache(tmp_path, max_bytes=1 << 20)


def test_a_module_is_compiled_once(disk):
    cache = ProgramCache(FakeEngine(), disk)
    first = cache.get(b"a", SIGNATURE, "a")
    second = cache.get(b"a", SIGNATURE, "a")
    assert first.program is second.program
    assert (first.origin, second.origin) == (Origin.COMPILER, Origin.MEMORY)
    assert cache.statistics.compiles == 1
    assert cache.statistics.memory_hits == 1
    assert cache.statistics.compiles_of == {"a": 1}


def test_another_process_loads_what_one_compiled(disk):
    ProgramCache(FakeEngine(), disk).get(b"a", SIGNATURE, "a")
    second = ProgramCache(FakeEngine(), disk)
    assert second.get(b"a", SIGNATURE, "a").program.text == b"a"
    assert (second.statistics.compiles, second.statistics.disk_hits) == (0, 1)


@pytest.mark.parametrize(
    "other",
    [
        (FakeEngine(version="2"), b"a", SIGNATURE),
        (FakeEngine(), b"b", SIGNATURE),
        (FakeEngine(), b"a", Signature((Buffer("f32", (3,)),), (), ())),
    ],
)
def test_what_a_program_depends_on_is_in_its_key(disk, other):
    engine, module, signature = other
    first = ProgramCache(FakeEngine(), disk).key(b"a", SIGNATURE)
    assert ProgramCache(engine, disk).key(module, signature) != first


def test_an_entry_that_does_not_load_is_compiled_again(disk):
    cache = ProgramCache(FakeEngine(), disk)
    disk.write(cache.key(b"a", SIGNATURE) + PROGRAM_SUFFIX, b"of another build")
    assert cache.get(b"a", SIGNATURE, "a").program.text == b"a"
    assert disk.read(cache.key(b"a", SIGNATURE) + PROGRAM_SUFFIX) == b"compiled a"


def test_a_failed_compile_is_not_kept(disk):
    class Failing(FakeEngine):
        def compile(self, module, signature):
            raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError):
        ProgramCache(Failing(), disk).get(b"a", SIGNATURE, "a")
    assert not list(disk.folder.glob(f"*{PROGRAM_SUFFIX}"))
    assert ProgramCache(FakeEngine(), disk).get(b"a", SIGNATURE, "a").program.text == b"a"


def test_threads_share_one_compile(disk):
    cache = ProgramCache(FakeEngine(), disk)
    threads = [threading.Thread(target=cache.get, args=(b"a", SIGNATURE, "a")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.statistics.compiles == 1


def test_the_version_of_random_numbers_is_in_the_key(disk, monkeypatch):
    cache = ProgramCache(FakeEngine(), disk)
    first = cache.key(b"a", SIGNATURE)
    monkeypatch.setattr(programs, "RANDOM_VERSION", programs.RANDOM_VERSION + 1)
    assert cache.key(b"a", SIGNATURE) != first


def test_the_rewrites_are_in_the_key(monkeypatch):
    prints = {xla_cpu.XlaCpuEngine(with_rewrites).fingerprint() for with_rewrites in (False, True)}
    monkeypatch.setattr(rewrites, "fingerprint", lambda: "others")
    prints.add(xla_cpu.XlaCpuEngine(with_rewrites=True).fingerprint())
    assert len(prints) == 3


def test_the_engine_says_its_version_and_cpu(monkeypatch):
    fingerprint = xla_cpu.engine().fingerprint()
    assert fingerprint.startswith(f"xla_cpu jaxlib-{xla_cpu.JAXLIB_VERSION} ")
    monkeypatch.setattr(xla_cpu, "_host_isa", lambda: "another CPU")
    assert xla_cpu.engine().fingerprint() != fingerprint


def test_flags_of_the_compiler_are_in_the_key():
    code = "from torch_trainium.engines import xla_cpu; print(xla_cpu.engine().fingerprint())"
    flags = {"XLA_FLAGS": "--xla_cpu_parallel_codegen_split_count=1"}
    plain, again, other = (output_of(code, environ=env) for env in ({}, {}, flags))
    assert plain == again != other


def test_lending_an_array_does_not_look_for_jax(monkeypatch):
    asked = []

    class Finder:
        def find_spec(self, name, path=None, target=None):
            asked.append(name)

    engine = xla_cpu.engine()
    place = sys.meta_path.index(xla_cpu._without_jax) + 1
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    sys.meta_path.insert(place, Finder())
    memory = np.arange(64, dtype=np.float32)
    address = memory.ctypes.data + -memory.ctypes.data % 64
    assert engine.lend(address, Buffer("f32", (4,))).unsafe_buffer_pointer() == address
    assert "jax" not in asked
    importlib.util.find_spec("jax")  # whoever else asks gets an answer
    assert asked[-1] == "jax"


COMPILING = """
import sys, time
from pathlib import Path
from tests.engines.test_programs import SIGNATURE, FakeEngine
from torch_trainium.engines.disk_cache import DiskCache
from torch_trainium.engines.programs import ProgramCache

class Slow(FakeEngine):
    def compile(self, module, signature):
        time.sleep(0.5)
        return super().compile(module, signature)

cache = ProgramCache(Slow(), DiskCache(Path(sys.argv[1]), 1 << 20))
print("ready", flush=True)
input()
assert cache.get(b"a", SIGNATURE, "a").program.text == b"a"
print(cache.statistics.compiles)
"""


def test_processes_share_one_compile(tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", COMPILING, str(tmp_path / "programs")],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:  # all at once
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    compiles = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(compiles) == 1


def test_long_compiling_says_how_far_it_is(disk, caplog, monkeypatch):
    clock = iter(range(0, 1000, 4))
    monkeypatch.setattr(programs.time, "perf_counter", lambda: next(clock))
    cache = ProgramCache(FakeEngine(), disk)
    for module in b"a", b"b":
        cache.get(module, SIGNATURE, "aten::mm")
    assert not caplog.messages
    cache.get(b"c", SIGNATURE, "aten::mm")
    (line,) = caplog.messages
    assert line.startswith("compiled 3 programs in 12 s, the last for aten::mm; they are kept in")
    assert str(disk.folder) in line
