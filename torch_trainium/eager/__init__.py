"""Operators one by one as compiled programs.

mode         host or compiled, and how to change it
calls        one operator call: its key, its program, its run
"""

from torch_trainium.eager.mode import EagerMode, eager_mode, eager_mode_is, set_eager_mode

__all__ = ["EagerMode", "eager_mode", "eager_mode_is", "set_eager_mode"]
