"""The programs of this process: compiled once for each content."""

from __future__ import annotations

from torch_trainium.engines import xla_cpu
from torch_trainium.engines.engine import Program, Signature


def load_or_compile(module: bytes, signature: Signature) -> Program:
    """The program of a module."""
    return xla_cpu.engine().compile(module, signature)
