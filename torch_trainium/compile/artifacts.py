"""Programs among the artifacts of `torch.compiler.save_cache_artifacts`."""

from __future__ import annotations

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from torch_trainium.engines.programs import PROGRAM_SUFFIX, Found, program_cache


@CacheArtifactFactory.register
class ProgramArtifact(CacheArtifact):
    """A compiled program by its key, which goes into the folder of compiled programs."""

    def populate_cache(self) -> None:
        """Keep the program on disk, where compiling looks first."""
        disk = program_cache().disk
        if disk is not None:
            disk.write(self.key + PROGRAM_SUFFIX, self.content)

    @staticmethod
    def type() -> str:
        """What artifacts of this kind are called."""
        return "neuron_program"


def record(found: Found) -> None:
    """Let `save_cache_artifacts` save a program of a graph."""
    disk = program_cache().disk
    stored = None if disk is None else disk.read(found.key + PROGRAM_SUFFIX)
    content = found.program.serialize() if stored is None else stored
    CacheArtifactManager.record_artifact(ProgramArtifact.type(), found.key, content)
