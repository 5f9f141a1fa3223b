"""How each of the hottest overloads is called at a size: one row per overload."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isqrt
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

HOT_OVERLOADS = Path(__file__).parent / "hot_overloads.toml"
SIDES = {1: 1, 4096: 64, 1 << 20: 1024}
IMAGES = {1: (1, 1, 1, 1), 4096: (4, 16, 8, 8), 1 << 20: (16, 64, 32, 32)}

Call = Callable[[], Any]


@dataclass(frozen=True)
class Operands:
    """Makes float32 operands of `elements` elements; strided ones skip every second element."""

    device: str
    elements: int
    strided: bool

    def tensor(self, shape: tuple[int, ...], grad: bool) -> Tensor:
        if not self.strided:
            return torch.rand(shape).add_(0.5).to(self.device).requires_grad_(grad)
        wide = torch.rand((*shape[:-1], 2 * shape[-1])).add_(0.5).to(self.device)
        return wide[..., ::2].requires_grad_(grad)

    @property
    def side(self) -> int:
        return isqrt(self.elements)

    def x(self) -> Tensor:
        """A square matrix that requires a gradient."""
        return self.tensor((self.side, self.side), grad=True)

    def plain(self) -> Tensor:
        """A square matrix without gradient, for operators that write to an operand."""
        return self.tensor((self.side, self.side), grad=False)

    def ones(self) -> Tensor:
        return self.plain().fill_(1.0)

    def row(self) -> Tensor:
        return self.tensor((self.side,), grad=True)

    def image(self) -> Tensor:
        return self.tensor(IMAGES[self.elements], grad=True)

    def channels(self, grad: bool = True) -> Tensor:
        channels = torch.ones(IMAGES[self.elements][1])
        return channels.to(self.device).requires_grad_(grad)

    def filters(self) -> Tensor:
        channels = IMAGES[self.elements][1]
        return torch.rand(channels, channels, 3, 3).to(self.device).requires_grad_()

    def labels(self) -> Tensor:
        return torch.arange(self.side).to(self.device)


aten = torch.ops.aten
CONVOLUTION = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)


def _batch_norm(o: Operands) -> Call:
    statistics = (o.channels(grad=False), o.channels(grad=False))
    return partial(
        torch.native_batch_norm,
        *(o.image(), o.channels(), o.channels(), *statistics, True, 0.1, 1e-5),
    )


def _batch_norm_backward(o: Operands) -> Call:
    statistics = [o.channels(grad=False) for _ in range(4)]
    return partial(
        aten.native_batch_norm_backward.default,
        *(o.image(), o.image(), o.channels(), *statistics, True, 1e-5, [True] * 3),
    )


def _nll_loss_backward(o: Operands) -> Call:
    scalars = [torch.tensor(value).to(o.device) for value in (1.0, float(o.side))]
    arguments = (scalars[0], o.x(), o.labels(), None, 1, -100, scalars[1])
    return partial(aten.nll_loss_backward.default, *arguments)


# The public binding where there is one: it is faster than torch.ops, so a slow device shows.
CALLS: dict[str, Callable[[Operands], Call]] = {
    "_local_scalar_dense.default": lambda o: o.x()[0, 0].item,
    "_log_softmax.default": lambda o: partial(torch._log_softmax, o.x(), 1, False),
    "_log_softmax_backward_data.default": lambda o: partial(
        torch._log_softmax_backward_data, o.x(), o.x(), 1, torch.float32
    ),
    "_unsafe_view.default": lambda o: partial(
        aten._unsafe_view.default, o.x(), [o.side, 1, o.side]
    ),
    "add.Tensor": lambda o: partial(torch.add, o.x(), o.x()),
    "add_.Tensor": lambda o: partial(o.plain().add_, o.plain()),
    "addcdiv_.default": lambda o: partial(o.plain().addcdiv_, o.plain(), o.plain(), value=0.5),
    "addcmul_.default": lambda o: partial(o.plain().addcmul_, o.plain(), o.plain(), value=0.5),
    "addmm.default": lambda o: partial(torch.addmm, o.row(), o.x(), o.x()),
    "clone.default": lambda o: o.x().clone,
    "convolution.default": lambda o: partial(
        torch.convolution, o.image(), o.filters(), None, *CONVOLUTION
    ),
    "convolution_backward.default": lambda o: partial(
        aten.convolution_backward.default,
        *(o.image(), o.image(), o.filters(), None, *CONVOLUTION, [True, True, False]),
    ),
    "detach.default": lambda o: o.x().detach,
    "div.Tensor": lambda o: partial(torch.div, o.x(), o.x()),
    "empty.memory_format": lambda o: partial(torch.empty, [o.side, o.side], device=o.device),
    "expand.default": lambda o: partial(o.x().expand, 2, o.side, o.side),
    "lerp_.Scalar": lambda o: partial(o.plain().lerp_, o.plain(), 0.1),
    "mm.default": lambda o: partial(torch.mm, o.x(), o.x()),
    "mul.Tensor": lambda o: partial(torch.mul, o.x(), o.x()),
    "mul_.Tensor": lambda o: partial(o.plain().mul_, o.ones()),
    "native_batch_norm.default": _batch_norm,
    "native_batch_norm_backward.default": _batch_norm_backward,
    "nll_loss_backward.default": _nll_loss_backward,
    "nll_loss_forward.default": lambda o: partial(
        aten.nll_loss_forward.default, o.x(), o.labels(), None, 1, -100
    ),
    "ones_like.default": lambda o: partial(torch.ones_like, o.x()),
    "relu.default": lambda o: partial(torch.relu, o.x()),
    "relu_.default": lambda o: o.plain().relu_,
    "select.int": lambda o: partial(torch.select, o.x(), 0, 0),
    "select_backward.default": lambda o: partial(
        aten.select_backward.default, o.row(), [o.side, o.side], 0, 0
    ),
    "sqrt.default": lambda o: partial(torch.sqrt, o.x()),
    "squeeze.dim": lambda o: partial(torch.squeeze, o.x().unsqueeze(0), 0),
    "stack.default": lambda o: partial(torch.stack, [o.x(), o.x()]),
    "sum.default": lambda o: partial(torch.sum, o.x()),
    "sum.dim_IntList": lambda o: partial(torch.sum, o.x(), [0]),
    "t.default": lambda o: o.x().t,
    "threshold_backward.default": lambda o: partial(
        aten.threshold_backward.default, o.x(), o.x(), 0
    ),
    "transpose.int": lambda o: partial(torch.transpose, o.x(), 0, 1),
    "unsqueeze.default": lambda o: partial(torch.unsqueeze, o.x(), 0),
    "view.default": lambda o: partial(o.x().view, o.side, 1, o.side),
    "zeros.default": lambda o: partial(torch.zeros, [o.side, o.side], device=o.device),
}


def hot_overloads() -> list[str]:
    """The committed list, the hottest first; each has a row in CALLS."""
    names = list(tomllib.loads(HOT_OVERLOADS.read_text())["share"])
    if missing := [name for name in names if name not in CALLS]:
        raise KeyError(f"write a row in {__file__} for {', '.join(missing)}")
    return names
