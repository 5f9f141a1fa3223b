"""Memory snapshots: every segment and block, and what the allocator did.

The format is that of `torch.cuda.memory._snapshot`, so its tools read them:
`torch.cuda._memory_viz`, and the viewer at pytorch.org/memory_viz.
"""

import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.cuda import _memory_viz

from torch_trainium import _C
from torch_trainium.neuron._utils import Device

Snapshot = dict[str, Any]


def memory_snapshot(
    mempool_id: tuple[int, int] | None = None, include_traces: bool = True
) -> list[dict[str, Any]]:
    """The segments of all devices, or those of one memory pool.

    Each is a dict with `device`, `address`, `total_size`, `allocated_size`, `active_size`,
    `requested_size`, `stream`, `segment_type` ("small" or "large"), `segment_pool_id`, and
    `blocks`: dicts with `address`, `size`, `requested_size` and `state` ("active_allocated",
    "active_awaiting_free" or "inactive"). Sizes are in bytes. `frames` holds the stack that
    allocated, where one was recorded.
    """
    segments: list[dict[str, Any]] = _C.memory.snapshot(mempool_id, include_traces)["segments"]
    return segments


def _record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: Device = None,
    clear_history: bool = False,
    skip_actions: Sequence[str] | None = None,
) -> None:
    """Record what the allocator does from now on, on all devices, for `_snapshot`.

    Args:
        enabled: "all" keeps a history of actions, "state" only what live blocks need; None ends
            the recording and drops what was recorded.
        context: which stacks to record: "state" those of live blocks, "alloc" also those of
            past allocations, "all" also those of frees; None no stacks.
        stacks: "python" frames, or "all", which adds C++ ones.
        max_entries: how many actions to keep, per device; older ones are dropped.
        device: accepted and ignored, as in `torch.cuda`.
        clear_history: drop what was recorded before.
        skip_actions: actions not to record, such as "free_requested".

    Raises:
        ValueError: `enabled`, `context` or `stacks` is none of these.

    """
    _C.memory.record_history(
        enabled, context, stacks, max_entries, clear_history, list(skip_actions or ())
    )


def _snapshot(device: Device = None, augment_with_fx_traces: bool = False) -> Snapshot:
    """The segments (see `memory_snapshot`) and `device_traces`, a list of actions per device.

    Args:
        device: accepted and ignored, as in `torch.cuda`.
        augment_with_fx_traces: add to frames of generated code the model line they come from.

    """
    snapshot: Snapshot = _C.memory.snapshot(None, True)
    if augment_with_fx_traces:
        torch._utils._augment_memory_snapshot_stack_traces(snapshot)  # type: ignore[arg-type]
    return snapshot


def _dump_snapshot(
    filename: str | Path = "dump_snapshot.pickle", augment_with_fx_traces: bool = False
) -> None:
    """Pickle a `_snapshot` to a file, for the viewer at pytorch.org/memory_viz."""
    snapshot = _snapshot(augment_with_fx_traces=augment_with_fx_traces)
    with Path(filename).open("wb") as file:
        pickle.dump(snapshot, file)


def _save_segment_usage(
    filename: str | Path = "output.svg", snapshot: Snapshot | None = None
) -> None:
    """Draw a flame graph of segments; fetches flamegraph.pl on first use."""
    graph: str = _memory_viz.segments(snapshot or _snapshot())  # type: ignore[no-untyped-call]
    Path(filename).write_text(graph)


def _save_memory_usage(
    filename: str | Path = "output.svg", snapshot: Snapshot | None = None
) -> None:
    """Draw a flame graph of memory by the stack that allocated it; fetches flamegraph.pl."""
    graph: str = _memory_viz.memory(snapshot or _snapshot())  # type: ignore[no-untyped-call]
    Path(filename).write_text(graph)


def _allocation_traceback(data_ptr: int) -> list[dict[str, Any]] | None:
    """The recorded stack of the live allocation that starts at `data_ptr`, or None."""
    return _C.memory.allocation_traceback(data_ptr)
