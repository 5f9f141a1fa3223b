"""Operators one by one as compiled programs.

mode         host or compiled, and how to change it
fallbacks    what happens where there is no program
calls        one operator call: its key, its program, its run
plans        how programs are run, on disk
statistics   what programs cost, and who asked for them
"""

from torch_trainium.eager.fallbacks import (
    FallbackWarning,
    Policy,
    fallback_calls,
    fallback_is,
    set_fallback,
)
from torch_trainium.eager.mode import EagerMode, eager_mode, eager_mode_is, set_eager_mode
from torch_trainium.eager.statistics import ProgramRecord, ProgramStatistics, program_statistics

__all__ = [
    "EagerMode",
    "FallbackWarning",
    "Policy",
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
