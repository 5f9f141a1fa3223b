"""One compile for each content, in whichever place the program is found."""

import threading
from dataclasses import dataclass, field

import pytest

from torch_trainium.engines.disk_cache import SUFFIX, DiskCache
from torch_trainium.engines.engine import Buffer, Signature
from torch_trainium.engines.programs import ProgramCache

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
    assert cache.get(b"a", SIGNATURE, "a") is cache.get(b"a", SIGNATURE, "a")
    assert cache.statistics.compiles == 1
    assert cache.statistics.memory_hits == 1
    assert cache.statistics.compiles_of == {"a": 1}


def test_another_process_loads_what_one_compiled(disk):
    ProgramCache(FakeEngine(), disk).get(b"a", SIGNATURE, "a")
    second = ProgramCache(FakeEngine(), disk)
    assert second.get(b"a", SIGNATURE, "a").text == b"a"
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
    disk.write(cache.key(b"a", SIGNATURE), b"of another build")
    assert cache.get(b"a", SIGNATURE, "a").text == b"a"
    assert disk.read(cache.key(b"a", SIGNATURE)) == b"compiled a"


def test_a_failed_compile_is_not_kept(disk):
    class Failing(FakeEngine):
        def compile(self, module, signature):
            raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError):
        ProgramCache(Failing(), disk).get(b"a", SIGNATURE, "a")
    assert not list(disk.folder.glob(f"*{SUFFIX}"))
    assert ProgramCache(FakeEngine(), disk).get(b"a", SIGNATURE, "a").text == b"a"


def test_threads_share_one_compile(disk):
    cache = ProgramCache(FakeEngine(), disk)
    threads = [threading.Thread(target=cache.get, args=(b"a", SIGNATURE, "a")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.statistics.compiles == 1
