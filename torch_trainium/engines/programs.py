"""The programs of this process: each compiled once, whoever asks, and kept on disk."""

from __future__ import annotations

import enum
import hashlib
import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from torch_trainium import config
from torch_trainium.engines import memory_maps, xla_cpu
from torch_trainium.engines.disk_cache import DiskCache
from torch_trainium.engines.engine import Engine, Program, Signature

logger = logging.getLogger("torch_trainium.programs")

# Which numbers random operators draw.
RANDOM_VERSION = 1

PROGRAM_SUFFIX = ".program"
PLAN_SUFFIX = ".plan"


@dataclass
class Statistics:
    """How programs were come by.

    Attributes:
        memory_hits: programs this process had already.
        disk_hits: programs loaded from disk.
        compiles: programs compiled.
        compile_seconds: how long that took.
        compiles_of: how many of each name, such as "aten::add.Tensor".

    """

    memory_hits: int = 0
    disk_hits: int = 0
    compiles: int = 0
    compile_seconds: float = 0.0
    compiles_of: Counter[str] = field(default_factory=Counter)


class Origin(enum.StrEnum):
    """Where a program that a process had not used came from.

    MEMORY: another operator's program is the same. DISK: the folder. COMPILER: compiled just now.
    """

    MEMORY = "memory"
    DISK = "disk"
    COMPILER = "compiler"


class Found(NamedTuple):
    """A program, the key it is kept under, and where it was."""

    program: Program
    key: str
    origin: Origin


# After how much compiling a line is logged that says so, and how much is done.
SECONDS_PER_LINE = 10.0

# A loaded program maps from three to a hundred pieces of memory. Where a process has this share of
# those that Linux allows it, programs are let go; they are counted after so many loads.
SHARE_OF_MAPS = 0.7
LOADS_PER_COUNT = 64


class ProgramCache:
    """Programs by content: in memory, else on disk, else compiled.

    Safe for threads; processes with one folder compile a program once between them.

    Args:
        engine: compiles and loads them.
        disk: where they are kept; None keeps them in memory only.

    Attributes:
        max_maps: how many pieces of memory the process may have mapped before it `is_full`; who
            uses the programs then calls `release`.

    """

    def __init__(self, engine: Engine, disk: DiskCache | None) -> None:
        self.max_maps = int(SHARE_OF_MAPS * memory_maps.most())
        self._loads = 0
        self.statistics = Statistics()
        self.disk = disk
        self._engine = engine
        self._programs: dict[str, Program] = {}
        self._lock = threading.Lock()

    def get(self, module: bytes, signature: Signature, name: str) -> Found:
        """The program of a StableHLO module; `name` says whose it is, in statistics and logs."""
        key = self.key(module, signature)
        with self._lock:
            found = self._find(key, signature) or self._compile(key, module, signature, name)
            self._programs[key] = found.program
            return found

    def find(self, key: str, signature: Signature) -> Found | None:
        """A program by its key, from memory or disk."""
        with self._lock:
            found = self._find(key, signature)
            if found is not None:
                self._programs[key] = found.program
            return found

    @property
    def is_full(self) -> bool:
        """Whether there may be no more programs in memory, as far as was counted."""
        if self._loads < LOADS_PER_COUNT:
            return False
        self._loads = 0
        return memory_maps.count() > self.max_maps

    def release(self) -> None:
        """Let go of the programs in memory: those that nobody else holds are unloaded."""
        with self._lock:
            self._programs.clear()

    def read_plan(self, key: str) -> bytes | None:
        """What `write_plan` stored on disk under a key, in this process or another."""
        return None if self.disk is None else self.disk.read(key + PLAN_SUFFIX)

    def write_plan(self, key: str, plan: bytes) -> None:
        """Keep how a program is run on disk, beside the programs."""
        if self.disk is not None:
            self.disk.write(key + PLAN_SUFFIX, plan)

    def key(self, module: bytes, signature: Signature) -> str:
        """Everything that a compiled program depends on, as a hexadecimal number."""
        parts = f"{self.fingerprint()} {signature!r}".encode()
        return hashlib.sha256(parts + b"\0" + module).hexdigest()

    def fingerprint(self) -> str:
        """What every program depends on: compiler, flags, rewrites, target, random numbers."""
        return f"{self._engine.fingerprint()} {RANDOM_VERSION}"

    def _find(self, key: str, signature: Signature) -> Found | None:
        known = self._programs.get(key)
        if known is not None:
            self.statistics.memory_hits += 1
            return Found(known, key, Origin.MEMORY)
        loaded = self._load(key, signature)
        return None if loaded is None else Found(loaded, key, Origin.DISK)

    def _load(self, key: str, signature: Signature) -> Program | None:
        stored = None if self.disk is None else self.disk.read(key + PROGRAM_SUFFIX)
        if stored is None:
            return None
        try:
            program = self._engine.load(stored, signature)
        except ValueError as error:
            logger.warning("a stored program cannot be loaded and is compiled again: %s", error)
            return None
        self.statistics.disk_hits += 1
        self._loads += 1
        return program

    def _compile(self, key: str, module: bytes, signature: Signature, name: str) -> Found:
        if self.disk is None:
            return Found(self._compile_now(module, signature, name), key, Origin.COMPILER)
        with self.disk.locked(key):
            # Another process may have compiled it while this one waited.
            loaded = self._load(key, signature)
            if loaded is not None:
                return Found(loaded, key, Origin.DISK)
            program = self._compile_now(module, signature, name)
            self.disk.write(key + PROGRAM_SUFFIX, program.serialize())
            return Found(program, key, Origin.COMPILER)

    def _compile_now(self, module: bytes, signature: Signature, name: str) -> Program:
        start = time.perf_counter()
        program = self._engine.compile(module, signature)
        seconds = time.perf_counter() - start
        logger.debug("compiled %s %s in %.0f ms", name, signature.inputs, seconds * 1e3)
        self._count(name, seconds)
        return program

    def _count(self, name: str, seconds: float) -> None:
        done = self.statistics
        lines = done.compile_seconds // SECONDS_PER_LINE
        done.compiles += 1
        self._loads += 1
        done.compile_seconds += seconds
        done.compiles_of[name] += 1
        if done.compile_seconds // SECONDS_PER_LINE > lines:
            kept = "for this process" if self.disk is None else f"in {self.disk.folder}"
            logger.warning(
                "compiled %d programs in %.0f s, the last for %s; they are kept %s",
                done.compiles,
                done.compile_seconds,
                name,
                kept,
            )


@cache
def program_cache() -> ProgramCache:
    """The programs of this process, with the folder that TORCH_TRAINIUM_CACHE names."""
    settings = config.current()
    folder = settings["TORCH_TRAINIUM_CACHE"]
    disk = None if folder == "" else DiskCache(Path(folder), settings["TORCH_TRAINIUM_CACHE_BYTES"])
    return ProgramCache(xla_cpu.engine(), disk)
