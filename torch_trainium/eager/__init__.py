"""Operators one by one as compiled programs.

mode         host or compiled, and how to change it
calls        one operator call: its key, its program, its run
plans        how programs are run, on disk
statistics   what programs cost, and who asked for them
"""

from torch_trainium.eager.mode import EagerMode, eager_mode, eager_mode_is, set_eager_mode
from torch_trainium.eager.statistics import ProgramRecord, ProgramStatistics, program_statistics
from torch_trainium.errors import FallbackError, FallbackWarning
from torch_trainium.neuron.cpu_fallbacks import (
    FallbackPolicy,
    fallback_calls,
    fallback_is,
    set_fallback,
)

__all__ = [
    "EagerMode",
    "FallbackError",
    "FallbackPolicy",
    "FallbackWarning",
    "ProgramRecord",
    "ProgramStatistics",
    "eager_mode",
    "eager_mode_is",
    "fallback_calls",
    "fallback_is",
    "program_statistics",
    "set_eager_mode",
    "set_fallback",
]
