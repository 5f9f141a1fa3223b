"""What the virtual timeline costs the host per operator: always, and inside a scope.

Adds two tensors of one element with the charging of device work on and off, and inside a
`torch.neuron.timeline()` scope, which finds the module and the line of Python of each operator.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import repeat
from typing import Any

import torch
from timing import compare

BAR_US = 0.25
_BATCH = 1000


def _adds(left: torch.Tensor, charging: bool, scope: AbstractContextManager[Any]) -> None:
    from torch_trainium import _C

    _C.timeline.set_charging(charging)
    with scope:
        for _ in repeat(None, _BATCH):
            left + left
    _C.timeline.set_charging(True)


def timeline_cost(runs: int) -> list[dict[str, Any]]:
    """For each mode its microseconds per operator above those with charging off."""
    one = torch.ones(1, device="neuron")
    modes: dict[str, tuple[AbstractContextManager[Any], float | None]] = {
        "always": (nullcontext(), BAR_US),
        "inside a scope": (torch.neuron.timeline(), None),
    }
    off = partial(_adds, one, False, nullcontext())
    rows = []
    for name, (scope, bar) in modes.items():
        result = compare(partial(_adds, one, True, scope), off, runs, 0.0)
        cost_us = (result.device_us - result.cpu_us) / _BATCH
        rows.append({"mode": name, "us": round(cost_us, 4), "bar": bar})
    return rows
