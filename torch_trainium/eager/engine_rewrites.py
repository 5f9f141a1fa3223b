"""Whether programs call PyTorch's kernels where those are faster than the compiler's code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch_trainium.eager import calls
from torch_trainium.engines import xla_cpu


@contextmanager
def engine_rewrites_are(enabled: bool) -> Iterator[None]:
    """Run eager operators with or without rewrites within a `with` block, in all threads.

    TORCH_TRAINIUM_ENGINE_REWRITES says what holds outside.
    """
    engine = xla_cpu.engine()
    before = engine.with_rewrites
    _switch(engine, enabled)
    try:
        yield
    finally:
        _switch(engine, before)


def _switch(engine: xla_cpu.XlaCpuEngine, enabled: bool) -> None:
    if engine.with_rewrites is not enabled:
        engine.with_rewrites = enabled
        calls.release_programs()
