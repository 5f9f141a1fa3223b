"""Subclasses, dispatch and function modes, custom operators, parametrizations."""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


def test_dispatch_modes_see_the_user_s_operators_only(device: str) -> None:
    class Log(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    logs = []
    for target in ("cpu", device):
        x = torch.ones(3, 3, device=target, requires_grad=True)
        with Log() as log:
            torch.nn.functional.softmax((x @ x).relu() + 1, 0).sum().backward()
        logs.append(log.names)
    assert logs[0] == logs[1]


def test_function_modes(device: str) -> None:
    class Log(TorchFunctionMode):
        count = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            Log.count += 1
            return func(*args, **(kwargs or {}))

    with Log():
        torch.ones(3, device=device).sum()
    assert Log.count == 2


def test_function_subclasses(device: str) -> None:
    class Named(torch.Tensor):
        pass

    x = torch.ones(3, device=device).as_subclass(Named)
    assert type(x + 1) is Named
    assert type(x.to("cpu").to(device)) is Named
    assert (x + 1).device.type == device


def test_wrapper_subclasses(device: str) -> None:
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(
                cls, inner.shape, dtype=inner.dtype, device=inner.device
            )

        def __init__(self, inner) -> None:
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            def unwrap(value):
                return value.inner if isinstance(value, Wrapper) else value

            def wrap(value):
                return Wrapper(value) if isinstance(value, torch.Tensor) else value

            tree_map = torch.utils._pytree.tree_map
            result = func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))
            return tree_map(wrap, result)

    x = Wrapper(torch.ones(3, device=device))
    y = (x * 2 + x).sum()
    assert isinstance(y, Wrapper)
    assert y.device.type == device
    assert y.inner.item() == 9


def test_python_custom_operators(device: str) -> None:
    @torch.library.custom_op("conformance::scaled", mutates_args=())
    def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor

    scaled.register_fake(lambda x, factor: torch.empty_like(x))
    scaled.register_autograd(
        lambda ctx, gradient: (gradient * ctx.factor, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
    )
    x = torch.ones(3, device=device, requires_grad=True)
    scaled(x, 3.0).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.full((3,), 3.0))
    torch.library.opcheck(scaled, (x.detach(), 2.0))


def test_kernels_registered_for_the_device(device: str) -> None:
    @torch.library.custom_op("conformance::where_am_i", mutates_args=(), device_types="cpu")
    def where_am_i(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x)

    where_am_i.register_kernel(device)(lambda x: torch.ones_like(x))
    assert where_am_i(torch.ones(2, device=device)).sum().item() == 2
    assert where_am_i(torch.ones(2)).sum().item() == 0


def test_operators_that_mutate(device: str) -> None:
    @torch.library.custom_op("conformance::bump", mutates_args=("x",))
    def bump(x: torch.Tensor) -> None:
        x.add_(1)

    x = torch.zeros(4, device=device)
    version = x._version
    bump(x[1:3])
    assert x.cpu().tolist() == [0, 1, 1, 0]
    assert x._version > version


def test_parametrizations(device: str) -> None:
    layer = torch.nn.Linear(4, 4, device=device)
    torch.nn.utils.parametrizations.weight_norm(layer)
    torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 4, device=device))
    orthogonal = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(4, 4, device=device))
    layer(torch.ones(2, 4, device=device)).sum().backward()
    weight = orthogonal.weight.detach().cpu()
    assert torch.allclose(weight @ weight.t(), torch.eye(4), atol=1e-5)


def test_meta_tensors_materialize(device: str) -> None:
    with torch.device("meta"):
        layer = torch.nn.Linear(3, 3)
    layer.to_empty(device=device)
    layer.reset_parameters()
    assert layer(torch.ones(1, 3, device=device)).device.type == device


def test_kwargs_and_scalars_of_zero_dimensions(device: str) -> None:
    x = torch.ones(3, device=device)
    assert (x * torch.tensor(2.0)).device.type == device
    assert (torch.tensor(2.0) - x).device.type == device
    assert (x + torch.tensor(2, dtype=torch.float64)).dtype == torch.float32
    assert torch.where(x > 0, x, torch.tensor(5.0)).device.type == device
    assert (torch.tensor(2.0, device=device) * 3).item() == 6
