"""Operators one by one as compiled programs.

mode         host or compiled, and how to change it
calls        one operator call: its key, its program, its run
"""

from torch_trainium.eager.mode import EagerMode, eager_mode, eager_mode_is, set_eager_mode
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
    "eager_mode",
    "eager_mode_is",
    "fallback_calls",
    "fallback_is",
    "set_eager_mode",
    "set_fallback",
]
