"""Programs on disk."""

import errno
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from torch_trainium.engines.disk_cache import MAGIC, DiskCache

KEY = "0123abcd" * 8


def run(script: str, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
        check=False,
    )


def raising(error: OSError) -> Callable[..., None]:
    def refuse(*args: object, **kwargs: object) -> None:
        raise error

    return refuse


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "programs", max_bytes=1 << 20)


def test_what_was_written_is_read(cache):
    cache.write(KEY, b"program")
    assert cache.read(KEY) == b"program"


def test_an_unknown_key_is_a_miss(cache):
    assert cache.read(KEY) is None


def test_the_folder_is_its_owners_alone(cache):
    cache.write(KEY, b"program")
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700


def test_a_folder_that_others_can_write_to_is_refused(cache, caplog):
    cache.folder.mkdir()
    cache.folder.chmod(0o777)
    (cache.folder / KEY).write_bytes(MAGIC + hashlib.sha256(b"planted").digest() + b"planted")
    assert cache.read(KEY) is None
    cache.write(KEY, b"program")
    assert [path.name for path in cache.folder.iterdir()] == [KEY]
    assert "chmod 700" in caplog.text


def test_a_folder_of_another_user_is_refused(cache, caplog, monkeypatch):
    cache.write(KEY, b"program")
    monkeypatch.setattr(os, "getuid", lambda: cache.folder.stat().st_uid + 1)
    assert DiskCache(cache.folder, 1 << 20).read(KEY) is None
    assert "belongs to another user" in caplog.text


def test_a_folder_that_cannot_be_made_costs_nothing_but_a_warning(tmp_path, caplog):
    (tmp_path / "file").write_bytes(b"")
    cache = DiskCache(tmp_path / "file" / "programs", 1 << 20)
    with cache.locked(KEY):
        cache.write(KEY, b"program")
    assert cache.read(KEY) is None
    assert len(caplog.records) == 1


def test_a_read_only_folder_is_read(cache, caplog, monkeypatch):
    cache.write(KEY, b"program")
    refuse = OSError(errno.EROFS, "Read-only file system")
    monkeypatch.setattr("tempfile.NamedTemporaryFile", raising(refuse))
    monkeypatch.setattr(os, "utime", raising(refuse))
    cache.write("b" * 64, b"other")
    assert cache.read(KEY) == b"program"
    assert cache.read("b" * 64) is None
    assert len(caplog.records) == 1


def test_a_folder_without_permission_to_write_is_read(cache):
    cache.write(KEY, b"program")
    # The superuser may write anywhere, unless it gives that right up.
    give_up = ("setpriv", "--bounding-set=-dac_override") if os.getuid() == 0 else ()
    if give_up and shutil.which("setpriv") is None:
        pytest.skip("needs setpriv to write as the superuser does not")
    cache.folder.chmod(0o500)
    try:
        done = run(
            f"""
import logging
from pathlib import Path
from torch_trainium.engines.disk_cache import DiskCache
logging.basicConfig()
cache = DiskCache(Path({str(cache.folder)!r}), 1 << 20)
with cache.locked("b" * 64):
    cache.write("b" * 64, b"other")
print(cache.read({KEY!r}), cache.read("b" * 64))
""",
            give_up,
        )
    finally:
        cache.folder.chmod(0o700)
    assert done.stdout.strip() == "b'program' None", done.stderr
    assert done.stderr.count("are not kept in") == 1
    assert [path.name for path in cache.folder.iterdir()] == [KEY]


def test_a_write_killed_in_the_middle_leaves_no_entry(cache):
    cache.write("b" * 64, b"older")
    script = f"""
import os, signal
from pathlib import Path
from torch_trainium.engines.disk_cache import DiskCache
Path.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
DiskCache(Path({str(cache.folder)!r}), 1 << 20).write({KEY!r}, bytes(1 << 16))
"""
    assert run(script).returncode == -signal.SIGKILL
    assert cache.read(KEY) is None
    assert cache.read("b" * 64) == b"older"
    cache.max_bytes = 1000  # what the killed process left counts, and goes
    cache.write(KEY, b"program")
    assert cache.size_bytes() <= 1000
    assert cache.read(KEY) == b"program"


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[:-1] + b"X"])
def test_a_damaged_entry_is_a_miss_and_goes(cache, damage):
    cache.write(KEY, b"program")
    path = cache.folder / KEY
    path.write_bytes(damage(path.read_bytes()))
    assert cache.read(KEY) is None
    assert not path.exists()
    assert cache.corrupt_entries == 1


def test_an_entry_of_another_format_is_a_miss(cache):
    cache.write(KEY, b"program")
    path = cache.folder / KEY
    path.write_bytes(path.read_bytes().replace(MAGIC, MAGIC.replace(b"1", b"2")))
    assert cache.read(KEY) is None


def test_entries_used_longest_ago_make_room(cache):
    cache.max_bytes = 1100
    for i in range(4):
        cache.write(f"{i:064x}", bytes(200))
        os.utime(cache.folder / f"{i:064x}", (i, i))
    cache.read(f"{0:064x}")  # now the one used last
    cache.write(f"{4:064x}", bytes(200))
    assert cache.size_bytes() <= 1100
    assert cache.read(f"{0:064x}") is not None
    assert cache.read(f"{1:064x}") is None


def test_a_folder_that_cannot_be_written_is_reported_once(cache, caplog, monkeypatch):
    refuse = raising(OSError("No space left on device"))
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
    assert run(script).returncode == -signal.SIGKILL
    with cache.locked(KEY):
        cache.write(KEY, b"program")
    assert cache.read(KEY) == b"program"
