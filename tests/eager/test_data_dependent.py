"""Results whose length depends on the data: as the CPU's, natively, and with few programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from torch_trainium.eager import data_dependent, eager_mode_is
from torch_trainium.engines.programs import program_cache
from torch_trainium.neuron.cpu_fallbacks import fallback_is, native_means_expressible

aten = torch.ops.aten

FLOATS = torch.tensor([[0.5, -1.0, 0.0], [2.0, 0.0, -0.0], [float("nan"), 3.0, -4.0]])
NUMBERS = torch.tensor([3, 1, 1, 0, 7, 3, 3, 1])
ROWS = torch.tensor([[1, 2], [0, 5], [1, 2], [0, 4], [1, 2]])
EMPTY = torch.zeros(0, 3)

CASES: list[tuple[str, Callable[..., Any], torch.Tensor]] = [
    ("nonzero", torch.nonzero, FLOATS),
    ("nonzero_empty", torch.nonzero, EMPTY),
    ("nonzero_number", torch.nonzero, torch.tensor(2.0)),
    ("nonzero_as_tuple", lambda a: torch.nonzero(a, as_tuple=True), FLOATS),
    ("masked_select", lambda a: torch.masked_select(a, a > 0), FLOATS),
    ("masked_select_broadcast", lambda a: torch.masked_select(a, a[:, :1] > 0), FLOATS),
    ("masked_select_none", lambda a: torch.masked_select(a, a > 100), FLOATS),
    ("mask", lambda a: a[a > 0], FLOATS),
    ("mask_of_rows", lambda a: a[a[:, 0] > 0], FLOATS),
    ("mask_of_columns", lambda a: a[:, a[0] == 0], FLOATS),
    ("mask_and_places", lambda a: a[a[:, 0] > 0, torch.tensor([1, 2], device=a.device)], FLOATS),
    ("mask_of_bytes", lambda a: a[(a > 0).to(torch.uint8)], FLOATS),
    ("unique", lambda a: a.unique(return_inverse=True, return_counts=True), NUMBERS),
    ("unique_nan", lambda a: a.unique(return_counts=True), FLOATS),
    ("unique_empty", lambda a: a.unique(return_inverse=True, return_counts=True), EMPTY),
    ("unique_rows", lambda a: a.unique(dim=0, return_inverse=True, return_counts=True), ROWS),
    ("unique_columns", lambda a: a.unique(dim=1, return_inverse=True), ROWS),
    ("runs", lambda a: a.unique_consecutive(return_inverse=True, return_counts=True), NUMBERS),
    ("runs_of_rows", lambda a: a.unique_consecutive(dim=0, return_counts=True), ROWS),
    ("bincount", torch.bincount, NUMBERS),
    ("bincount_minlength", lambda a: torch.bincount(a, minlength=12), NUMBERS),
    ("bincount_weights", lambda a: torch.bincount(a, a.float() / 4), NUMBERS),
    ("bincount_empty", lambda a: torch.bincount(a[:0], minlength=2), NUMBERS),
    ("repeats", torch.repeat_interleave, NUMBERS),
    ("repeats_of", lambda a: torch.repeat_interleave(a * 2, a, output_size=19), NUMBERS),
    ("equal", lambda a: torch.equal(a, a.clone()), NUMBERS),
    ("equal_nan", lambda a: torch.equal(a, a.clone()), FLOATS),
    ("equal_shapes", lambda a: torch.equal(a, a[1:]), NUMBERS),
    ("out", lambda a: torch.nonzero(a, out=a.new_empty(0, dtype=torch.int64)), FLOATS),
]


@pytest.fixture(autouse=True)
def natively() -> Iterator[None]:
    with eager_mode_is("compiled"), native_means_expressible(), fallback_is("error"):
        yield


@pytest.mark.parametrize(("call", "a"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_results_are_the_cpus(call: Callable[..., Any], a: torch.Tensor) -> None:
    actual = tree_map(lambda t: t.cpu() if isinstance(t, torch.Tensor) else t, call(a.to("neuron")))
    torch.testing.assert_close(actual, call(a), rtol=0, atol=0, equal_nan=True)


def test_gradients_pass_through_a_mask() -> None:
    a = FLOATS.to("neuron").requires_grad_()
    a[a > 0].square().sum().backward()
    assert a.grad is not None
    torch.testing.assert_close(a.grad.cpu(), torch.where(FLOATS > 0, 2 * FLOATS, 0.0))


def programs() -> int:
    statistics = program_cache().statistics
    return statistics.compiles + statistics.disk_hits


def test_lengths_up_to_a_power_of_two_share_their_programs() -> None:
    masks = [torch.arange(64, device="neuron") < n for n in (63, 40, 50, 33, 20)]
    a = torch.arange(64.0, device="neuron")
    a.masked_select(masks[0])
    before = programs()
    assert [a.masked_select(mask).numel() for mask in masks[:4]] == [63, 40, 50, 33]
    assert programs() == before
    assert a.masked_select(masks[4]).numel() == 20
    assert programs() > before


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a: torch.bincount(a - 1), RuntimeError, "non-negative"),
        (lambda a: torch.bincount(a.float()), RuntimeError, "integral"),
        (lambda a: torch.bincount(a, minlength=-1), RuntimeError, "minlength"),
        (lambda a: torch.repeat_interleave(a - 1), RuntimeError, "negative"),
        (lambda a: torch.masked_select(a, a), RuntimeError, "BoolTensor"),
        (lambda a: a[torch.ones(3, dtype=torch.bool, device=a.device)], IndexError, "mask"),
        (lambda a: torch.equal(a, a.float()), RuntimeError, "dtype"),
    ],
)
def test_wrong_arguments(call: Callable[..., Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(NUMBERS.to("neuron"))


class Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.called: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        is_on_host = bool(tensors) and all(t.device.type == "cpu" for t in tensors)
        if not func.is_view and not is_on_host:
            self.called.add(func.name())
        return func(*args, **(kwargs or {}))


# Allocation, constants, transfers and the read of the number: what every target has.
WITHOUT_PROGRAM = {
    f"aten::{name}"
    for name in (
        *("new_empty", "zeros", "ones", "zeros_like", "ones_like"),
        *("copy_", "_local_scalar_dense"),
    )
}
KEYWORDS: dict[str, dict[str, Any]] = {"aten::_linalg_check_errors": {"is_matrix": False}}
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "aten::_linalg_check_errors": (torch.zeros(2, dtype=torch.int32), "linalg.inv"),
    "aten::nonzero": (FLOATS,),
    "aten::masked_select": (FLOATS, FLOATS > 0),
    "aten::equal": (NUMBERS, NUMBERS),
    "aten::allclose": (NUMBERS, NUMBERS),
    "aten::bincount": (NUMBERS, NUMBERS.float()),
    "aten::repeat_interleave.Tensor": (NUMBERS,),
    "aten::_unique2": (NUMBERS, True, True, True),
    "aten::_unique": (NUMBERS, True, True),
    "aten::unique_dim": (ROWS, 0, True, True, True),
    "aten::unique_consecutive": (NUMBERS, True, True),
    "aten::_ctc_loss.Tensor": (
        torch.randn(6, 2, 4).log_softmax(2),
        torch.tensor([[1, 2], [3, 0]]),
        torch.tensor([6, 5]),
        torch.tensor([2, 1]),
    ),
    "aten::unique_dim_consecutive": (ROWS, 0, True, True),
}


@pytest.mark.parametrize("name", sorted(data_dependent.COMPOSITES))
def test_what_a_composite_consists_of_is_declared(name: str) -> None:
    composite = data_dependent.COMPOSITES[name]
    arguments = tree_map(lambda t: t.to("neuron") if isinstance(t, torch.Tensor) else t, ARGUMENTS)
    with Recorder() as recorder:
        composite.function(*arguments[name], **KEYWORDS.get(name, {}))
    assert recorder.called - WITHOUT_PROGRAM <= set(composite.operators)


@pytest.mark.parametrize("driver", ["gelsd", "gelss"])
@pytest.mark.parametrize("rank", [1, 2])
def test_least_squares_have_residuals_where_the_rank_is_full(driver: str, rank: int) -> None:
    a = torch.tensor([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0 if rank == 1 else 7.0]])
    b = torch.tensor([[1.0], [0.0], [2.0]])
    expected = torch.linalg.lstsq(a, b, driver=driver)
    actual = torch.linalg.lstsq(a.to("neuron"), b.to("neuron"), driver=driver)
    assert int(actual.rank) == rank
    for given, wanted in zip(actual, expected, strict=True):
        torch.testing.assert_close(given.cpu(), wanted)
