"""Programs on disk."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from torch_trainium.engines.disk_cache import MAGIC, SUFFIX, DiskCache

KEY = "0123abcd" * 8


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "programs", max_bytes=1 << 20)


def test_what_was_written_is_read(cache):
    cache.write(KEY, b"program")
    assert cache.read(KEY) == b"program"


def test_an_unknown_key_is_a_miss(cache):
    assert cache.read(KEY) is None


def test_the_folder_is_its_owners_alone(cache):
    cache.folder.mkdir(mode=0o755)
    cache.write(KEY, b"program")
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[:-1] + b"X"])
def test_a_damaged_entry_is_a_miss_and_goes(cache, damage):
    cache.write(KEY, b"program")
    path = cache.folder / f"{KEY}{SUFFIX}"
    path.write_bytes(damage(path.read_bytes()))
    assert cache.read(KEY) is None
    assert not path.exists()
    assert cache.corrupt_entries == 1


def test_an_entry_of_another_format_is_a_miss(cache):
    cache.write(KEY, b"program")
    path = cache.folder / f"{KEY}{SUFFIX}"
    path.write_bytes(path.read_bytes().replace(MAGIC, MAGIC.replace(b"1", b"2")))
    assert cache.read(KEY) is None


def test_entries_used_longest_ago_make_room(cache):
    cache.max_bytes = 1100
    for i in range(4):
        cache.write(f"{i:064x}", bytes(200))
        os.utime(cache.folder / f"{i:064x}{SUFFIX}", (i, i))
    cache.read(f"{0:064x}")  # now the one used last
    cache.write(f"{4:064x}", bytes(200))
    assert cache.size_bytes() <= 1100
    assert cache.read(f"{0:064x}") is not None
    assert cache.read(f"{1:064x}") is None


def test_a_folder_that_cannot_be_written_is_reported_once(cache, caplog, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    cache.write(KEY, b"program")
    cache.write(KEY, b"program")
    assert [r.getMessage() for r in caplog.records if "No space" in r.getMessage()] != []
    assert len(caplog.records) == 1
    assert cache.read(KEY) is None


def test_a_lock_ends_with_the_process_that_holds_it(cache):
    script = f"""
import os, signal
from pathlib import Path
from torch_trainium.engines.disk_cache import DiskCache
with DiskCache(Path({str(cache.folder)!r}), 1 << 20).locked({KEY!r}):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    killed = subprocess.run(
        [sys.executable, "-c", script], cwd=Path(__file__).parents[2], env=environment, check=False
    )
    assert killed.returncode == -9
    with cache.locked(KEY):
        cache.write(KEY, b"program")
    assert cache.read(KEY) == b"program"
