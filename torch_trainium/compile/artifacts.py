"""Programs among the artifacts of `torch.compiler.save_cache_artifacts`."""

from __future__ import annotations

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from torch_trainium.engines.programs import PROGRAM_SUFFIX, Found, program_cache


@CacheArtifactFactory.register
class ProgramArtifact(CacheArtifact):
    """A compiled program by its key, which goes into the folder of compiled programs."""

    def populate_cache(self) -> None:
        """Keep the program where compiling looks first."""
        keep(self.key, self.content)

    @staticmethod
    def type() -> str:
        """What artifacts of this kind are called."""
        return "neuron_program"


def record(found: Found) -> None:
    """Let `save_cache_artifacts` save a program of a graph."""
    CacheArtifactManager.record_artifact(ProgramArtifact.type(), found.key, content(found))


def content(found: Found) -> bytes:
    """A program as it is stored."""
    disk = program_cache().disk
    stored = None if disk is None else disk.read(found.key + PROGRAM_SUFFIX)
    return found.program.serialize() if stored is None else stored


def keep(key: str, stored: bytes) -> None:
    """Put a stored program into the folder of compiled programs, if there is one."""
    disk = program_cache().disk
    if disk is not None:
        disk.write(key + PROGRAM_SUFFIX, stored)
