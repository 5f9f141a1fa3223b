"""Rewrites in eager mode: what they may change, and what not."""

import torch

from torch_trainium import eager
from torch_trainium.eager import calls
from torch_trainium.eager.engine_rewrites import engine_rewrites_are


def kernels_of_mm() -> int:
    entries = calls.operator(torch.ops.aten.mm.default).entries.values()
    return sum(sum(entry.program.kernels().values()) for entry in entries)


def test_a_block_without_them_uses_other_programs():
    a = torch.randn(256, 256, device="neuron")
    with eager.eager_mode_is("compiled"), engine_rewrites_are(True), torch.no_grad():
        with_them = a @ a
        assert kernels_of_mm() == 1
        with engine_rewrites_are(False):
            without = a @ a
            assert kernels_of_mm() == 0
        a @ a
        assert kernels_of_mm() == 1
    torch.testing.assert_close(with_them, without)


def predicted_us(enabled: bool) -> float:
    a = torch.randn(256, 256, device="neuron")
    start, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    with eager.eager_mode_is("compiled"), engine_rewrites_are(enabled), torch.no_grad():
        a @ a
        start.record()
        (a @ a).cumsum(0).sort()
        end.record()
        torch.neuron.synchronize()
    elapsed: float = start.elapsed_time(end)
    return elapsed * 1e3


def test_predicted_time_does_not_depend_on_them():
    assert predicted_us(True) == predicted_us(False) > 0
