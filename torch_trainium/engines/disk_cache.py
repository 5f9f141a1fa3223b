"""Compiled programs on disk: addressed by content, shared by processes, bounded in size.

An entry is one file, its name: a magic line, the SHA-256 of the rest, the rest. It appears
by a rename and is checked on every read, so that a process killed in the middle of a write, a full
disk or a flipped bit costs a compile, never a wrong program. Nothing in it is unpickled.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MAGIC = b"torch-trainium program 1\n"
# How much of the bound is left after old entries were removed.
KEPT_SHARE = 0.8
# The folder is looked through each time this share of the bound was written.
LOOKED_AT_SHARE = 0.01
# Locks are files of their own that are never removed; keys share them by their first digits.
_LOCK_DIGITS = 3

logger = logging.getLogger(__name__)


class DiskCache:
    """A folder of programs that only its owner can read.

    Args:
        folder: where; made with mode 0700. One of another user, or one that others can write to,
            is not used: programs are machine code.
        max_bytes: how large it may grow before the entries used longest ago are removed.

    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.corrupt_entries = 0
        self._broken = ""
        self._is_trusted: bool | None = None  # None: not looked at yet
        self._unseen_bytes = 0

    def read(self, name: str) -> bytes | None:
        """The entry of a name; None where there is none that can be trusted."""
        path = self.folder / name
        if not self._trusted():
            return None
        try:
            content = path.read_bytes()
        except OSError:
            return None
        head = len(MAGIC) + hashlib.sha256().digest_size
        entry = content[head:]
        if content[:head] != MAGIC + hashlib.sha256(entry).digest():
            self.corrupt_entries += 1
            logger.warning("removing %s, which is damaged", path)
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):
            os.utime(path)  # used now
        return entry

    def write(self, name: str, entry: bytes) -> None:
        """Store an entry. A disk that cannot take it is reported once and does no harm."""
        if not self._trusted():
            return
        try:
            with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
                try:
                    file.write(MAGIC + hashlib.sha256(entry).digest() + entry)
                    file.flush()
                    Path(file.name).replace(self.folder / name)
                except BaseException:
                    Path(file.name).unlink(missing_ok=True)
                    raise
            self._make_room(len(entry))
        except OSError as error:
            self._report(error)

    @contextmanager
    def locked(self, key: str) -> Iterator[None]:
        """Keep other processes from compiling the same program meanwhile.

        The lock is the operating system's: it ends with the process that holds it.
        """
        if not self._trusted():
            yield
            return
        try:
            locks = self.folder / "locks"
            locks.mkdir(mode=0o700, exist_ok=True)
            file = (locks / key[:_LOCK_DIGITS]).open("ab")
        except OSError as error:
            self._report(error)
            yield
            return
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def size_bytes(self) -> int:
        """How much the entries take."""
        return sum(size for _, size, _ in self._entries())

    def _trusted(self) -> bool:
        """Whether the folder, made if need be, is one that nobody else can write to."""
        if self._is_trusted is None:
            try:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                status = self.folder.stat()
                if status.st_uid != os.getuid():
                    raise PermissionError("it belongs to another user")
                if status.st_mode & 0o022:
                    raise PermissionError(
                        f"others can write to it; if it holds what it should, chmod 700 "
                        f"{self.folder}"
                    )
                self._is_trusted = True
            except OSError as error:
                self._is_trusted = False
                self._report(error)
        return self._is_trusted

    def _make_room(self, written_bytes: int) -> None:
        self._unseen_bytes += written_bytes
        if self._unseen_bytes < self.max_bytes * LOOKED_AT_SHARE:
            return
        self._unseen_bytes = 0
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        if total <= self.max_bytes:
            return
        for _, size, path in entries:
            with suppress(OSError):
                path.unlink()
            total -= size
            if total <= self.max_bytes * KEPT_SHARE:
                return

    def _entries(self) -> list[tuple[float, int, Path]]:
        """Time of last use, size and path of each entry, and of files that a killed write left."""
        found = []
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            with suppress(OSError):
                status = path.stat()
                if path.is_file():
                    found.append((status.st_mtime, status.st_size, path))
        return found

    def _report(self, error: OSError) -> None:
        if not self._broken:
            self._broken = str(error)
            logger.warning("compiled programs are not kept in %s: %s", self.folder, error)
