"""The CPU kernels behind the device show in nothing that the user observes programs with."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import DeviceType
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile
from torch.testing._internal.logging_tensor import LoggingTensorMode, capture_logs
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode


class Calls(TorchDispatchMode):
    """Counts operators, and the device types of their operands."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()
        self.devices: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names[str(func)] += 1
        self.devices |= {a.device.type for a in args if isinstance(a, Tensor)}
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


def program(device: str) -> Tensor:
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 64).view(1, 1, 8, 8).to(device).requires_grad_()
    weight = torch.linspace(-1, 1, 18).view(2, 1, 3, 3).to(device).requires_grad_()
    y = torch.conv2d(x, weight).relu().flatten(1)
    y = torch.nn.functional.layer_norm(y @ y.t() + y.std(), (1,)).softmax(-1)
    y = y.sort().values.cumsum(0).norm() + torch.linalg.det(torch.eye(2, device=device) * y)
    y.sum().backward()
    assert x.grad is not None
    return x.grad


OPS = {
    "a hot kernel": ("aten::add", lambda x: x + x),
    "a boxed kernel": ("aten::erfinv", lambda x: x.erfinv()),
    "a kernel that calls others": ("aten::sort", lambda x: x.sort()),
    "matrix multiplication": ("aten::mm", lambda x: x @ x),
}


@pytest.mark.parametrize("name", OPS)
def test_a_profile_shows_the_operator_once_with_no_cpu_operator_inside(name: str) -> None:
    operator, call = OPS[name]
    x = torch.rand(16, 16, device="neuron")
    call(x)
    activities = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
    with profile(activities=activities) as recorded:
        call(x)
    events = [e for e in recorded.events() if e.name.partition(".")[0] == operator]
    (host,) = [e for e in events if e.device_type == DeviceType.CPU]
    (_device,) = [e for e in events if e.device_type == DeviceType.PrivateUse1]
    assert [child.name for child in host.cpu_children] == ["neuron::submit"]


def test_a_profile_of_a_program_has_no_operator_the_cpu_has_not() -> None:
    def operators(device: str) -> set[str]:
        with profile(activities=[ProfilerActivity.CPU]) as recorded:
            program(device)
        return {event.name for event in recorded.events() if event.name.startswith("aten::")}

    program("neuron")
    # What PyTorch itself calls instead for devices of other makers.
    overrides = {"aten::convolution_overrideable", "aten::convolution_backward_overrideable"}
    copies = {"aten::_copy_from"}
    assert operators("neuron") - operators("cpu") <= overrides | copies


def test_a_dispatch_mode_sees_device_operands_only() -> None:
    x = torch.rand(8, 8, device="neuron", requires_grad=True)
    with Calls() as calls:
        (x @ x).sort().values.sum().backward()
    assert calls.devices == {"neuron"}
    assert calls.names["aten.mm.default"] == 3
    assert calls.names["aten.sort.default"] == 1


def test_a_dispatch_mode_sees_what_it_sees_on_the_cpu() -> None:
    def names(device: str) -> Counter[str]:
        x = torch.ones(4, 4).to(device).requires_grad_()
        with Calls() as calls:
            y = torch.nn.functional.gelu(x @ x).softmax(-1).std()
            y.backward()
        return calls.names

    assert names("neuron") == names("cpu")


def test_a_logging_mode_logs_the_operator_alone() -> None:
    x = torch.ones(3, device="neuron")
    with LoggingTensorMode(), capture_logs() as logs:
        x.erfinv()
    assert len(logs) == 1
    assert "aten.erfinv.default" in logs[0]


def test_a_function_mode_sees_the_call_alone() -> None:
    x = torch.ones(3, device="neuron")
    with Functions() as functions:
        torch.erfinv(x)
    assert functions.names == ["erfinv"]


def test_flops_are_those_of_the_cpu() -> None:
    def flops(device: str) -> int:
        with FlopCounterMode(display=False) as counter:
            program(device)
        return counter.get_total_flops()

    assert flops("neuron") == flops("cpu") > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_of_the_cpu_changes_nothing_on_the_device(dtype: torch.dtype) -> None:
    expected = program("neuron")
    with torch.autocast("cpu", dtype=dtype):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
        x = torch.ones(2, 2, device="neuron")
        assert (x @ x).dtype == torch.float32
        assert torch.equal(program("neuron"), expected)


def test_saved_tensor_hooks_see_device_tensors_only() -> None:
    seen: list[str] = []

    def pack(tensor: Tensor) -> Tensor:
        seen.append(tensor.device.type)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        program("neuron")
    assert set(seen) == {"neuron"}


def test_inference_and_grad_mode_are_the_users_after_an_operator() -> None:
    x = torch.ones(2, device="neuron")
    with torch.inference_mode():
        y = x.erfinv()
        assert y.is_inference()
    with torch.no_grad():
        x.erfinv()
        assert not torch.is_grad_enabled()
    x.erfinv()
    assert torch.is_grad_enabled()


def test_results_record_the_operator_of_the_user_in_the_graph() -> None:
    x = torch.ones(2, 2, device="neuron", requires_grad=True)
    y = (x @ x).sort().values
    assert type(y.grad_fn).__name__ == "SortBackward0"
    assert type(y.grad_fn.next_functions[0][0]).__name__ == "MmBackward0"
