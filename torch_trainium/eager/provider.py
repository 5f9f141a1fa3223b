"""Lets the device run its operators as compiled programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_trainium import _C
from torch_trainium.eager import calls


def enable() -> None:
    """From now on operators run as programs of their own, as on hardware."""
    _C.programs.set_provider(_programs_of)


def disable() -> None:
    """Run operators on the host engine again."""
    _C.programs.set_provider(None)


def _programs_of(name: str) -> Callable[[Sequence[Any]], Callable[[], Any] | None]:
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    found = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
    return calls.operator(found).prepare
