"""Nested tensors of both layouts on the device."""

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.conformance.compare import Comparison

DEVICE = "neuron:0"


def parts(device: str = "cpu") -> list[torch.Tensor]:
    return [torch.linspace(-1, 1, 3 * n).view(n, 3).to(device) for n in (2, 4)]


def nested(device: str, layout: torch.layout = torch.strided) -> torch.Tensor:
    return torch.nested.nested_tensor(parts(device), layout=layout, device=device)


def assert_same(actual: Any, expected: Any) -> None:
    problems = Comparison(DEVICE).compare(actual, expected).problems
    assert not problems, problems


STRIDED: dict[str, Callable[[str], Any]] = {
    "as made": nested,
    "from CPU parts": lambda d: torch.nested.nested_tensor(parts(), device=d),
    "as_nested_tensor": lambda d: torch.nested.as_nested_tensor(parts(d)),
    "to": lambda d: nested("cpu").to(d),
    "double": lambda d: nested(d).double(),
    "clone": lambda d: nested(d).clone(),
    "zeros_like": lambda d: torch.zeros_like(nested(d)),
    "ones_like": lambda d: torch.ones_like(nested(d)),
    "add": lambda d: nested(d) + nested(d),
    "mul scalar": lambda d: nested(d) * 3,
    "relu": lambda d: nested(d).relu(),
    "gelu": lambda d: functional.gelu(nested(d)),
    "linear": lambda d: functional.linear(
        nested(d), torch.ones(5, 3, device=d), torch.ones(5, device=d)
    ),
    "matmul": lambda d: nested(d) @ nested(d).transpose(1, 2),
    "bmm": lambda d: torch.bmm(nested(d), nested(d).transpose(1, 2)),
    "softmax": lambda d: nested(d).softmax(-1),
    "layer_norm": lambda d: functional.layer_norm(
        nested(d), (3,), torch.ones(3, device=d), torch.ones(3, device=d)
    ),
    "to_padded_tensor": lambda d: torch.nested.to_padded_tensor(nested(d), 7.0),
    "from_padded": lambda d: torch._nested_from_padded(
        torch.ones(2, 4, 3, device=d), torch.tensor([[2, 3], [4, 3]])
    ),
    "sum": lambda d: nested(d).sum(-1, keepdim=True),
    "select": lambda d: nested(d)[1],
    "unbind": lambda d: nested(d).unbind(),
    "transpose": lambda d: nested(d).transpose(1, 2),
    "contiguous": lambda d: nested(d).transpose(1, 2).contiguous(),
    "chunk": lambda d: nested(d).chunk(3, -1),
    "reshape": lambda d: nested(d).reshape(2, -1, 3, 1),
    "unsqueeze": lambda d: nested(d).unsqueeze(1),
    "squeeze": lambda d: nested(d).unsqueeze(1).squeeze(1),
    "cat": lambda d: torch.cat([nested(d), nested(d)]),
    "values": lambda d: nested(d).values(),
    "eq": lambda d: nested(d) == 1.0,
    "masked_fill": lambda d: nested(d).masked_fill(nested(d) > 0, 9.0),
    "embedding": lambda d: functional.embedding(
        torch.nested.nested_tensor([torch.tensor([0, 2]), torch.tensor([1])], device=d),
        torch.linspace(0, 1, 9, device=d).view(3, 3),
    ),
    "sizes stay on the CPU": lambda d: nested(d)._nested_tensor_size().device.type == "cpu",
}


@pytest.mark.parametrize("name", STRIDED)
def test_strided(name: str) -> None:
    assert_same(STRIDED[name](DEVICE), STRIDED[name]("cpu"))


def test_views_and_writes_reach_the_tensor() -> None:
    def run(device: str) -> torch.Tensor:
        target = nested(device)
        target.mul_(2).neg_()
        target.unbind()[0].fill_(5)
        target[1][0].zero_()
        target.add_(nested(device))
        target.relu_()
        return target

    assert_same(run(DEVICE), run("cpu"))


def test_copies_across_devices_in_place() -> None:
    there = torch.zeros_like(nested(DEVICE))
    there.copy_(nested("cpu"))
    assert_same(there, nested("cpu"))
    back = torch.zeros_like(nested("cpu"))
    back.copy_(there)
    assert back.device.type == "cpu"
    assert torch.equal(back.values(), nested("cpu").values())


def test_gradients_of_strided() -> None:
    def run(device: str) -> list[Any]:
        leaves = [part.requires_grad_() for part in parts(device)]
        weight = torch.ones(3, 3, device=device, requires_grad=True)
        there = torch.nested.as_nested_tensor(leaves)
        output = functional.linear(there, weight).softmax(-1) * 2
        torch.nested.to_padded_tensor(output, 0.0).pow(2).sum().backward()
        return [leaf.grad for leaf in leaves] + [weight.grad]

    assert_same(run(DEVICE), run("cpu"))


def test_attention_on_strided() -> None:
    def run(device: str) -> torch.Tensor:
        heads = (
            torch.nested.nested_tensor(
                [torch.linspace(-1, 1, n * 8).view(n, 2, 4).to(device) for n in (2, 4)]
            )
            .transpose(1, 2)
            .contiguous()
        )
        return functional.scaled_dot_product_attention(heads, heads, heads)

    assert_same(run(DEVICE), run("cpu"))


def test_encoder_layer_takes_its_nested_fast_path() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=True).eval()
    data = torch.randn(2, 5, 8)
    padding = torch.tensor([[False] * 5, [False, False, True, True, True]])
    with torch.inference_mode():
        expected = encoder(data, src_key_padding_mask=padding)
        encoder.to(DEVICE)
        actual = encoder(data.to(DEVICE), src_key_padding_mask=padding.to(DEVICE))
    assert torch.allclose(actual.cpu(), expected, atol=1e-5)


def test_random_numbers_come_from_the_device_generator() -> None:
    torch.neuron.manual_seed(3)
    first = functional.dropout(torch.ones_like(nested(DEVICE)), 0.5)
    drawn = torch.randn_like(nested(DEVICE))
    torch.neuron.manual_seed(3)
    second = functional.dropout(torch.ones_like(nested(DEVICE)), 0.5)
    assert torch.equal(first.values(), second.values())
    assert torch.equal(drawn.values(), torch.randn_like(nested(DEVICE)).values())


def test_lives_on_the_device_of_its_buffer() -> None:
    there = nested("neuron:1")
    assert (there * 2).device == torch.device("neuron:1")
    assert there.clone().device == torch.device("neuron:1")
    assert there.values().device == torch.device("neuron:1")


def test_results_leave_no_metadata_in_device_memory() -> None:
    there = nested(DEVICE)
    before = torch.neuron.memory_allocated(0)
    doubled = there * 2
    assert torch.neuron.memory_allocated(0) - before == 512
    del doubled
    assert torch.neuron.memory_allocated(0) == before


def test_saves_loads_and_prints() -> None:
    file = io.BytesIO()
    torch.save(nested(DEVICE), file)
    file.seek(0)
    assert_same(torch.load(file), nested("cpu"))
    assert "neuron:0" in repr(nested(DEVICE))


JAGGED: dict[str, Callable[[torch.Tensor], Any]] = {
    "mul": lambda t: t * 2,
    "linear": lambda t: functional.linear(t, torch.ones(5, 3, device=t.device)),
    "softmax": lambda t: t.softmax(-1),
    "layer_norm": lambda t: functional.layer_norm(t, (3,)),
    "padded": lambda t: t.to_padded_tensor(0.0),
    "sum": lambda t: t.sum(dim=-1),
    "mean ragged": lambda t: t.mean(dim=1),
    "unbind": lambda t: t.unbind(),
    "offsets": lambda t: t.offsets(),
    "double": lambda t: t.double().values(),
    "attention": lambda t: functional.scaled_dot_product_attention(
        *[t.unflatten(-1, (1, 3)).transpose(1, 2)] * 3
    ),
}


@pytest.mark.parametrize("name", JAGGED)
def test_jagged(name: str) -> None:
    assert_same(
        JAGGED[name](nested(DEVICE, torch.jagged)), JAGGED[name](nested("cpu", torch.jagged))
    )


def test_jagged_moves_trains_and_saves() -> None:
    def run(device: str) -> list[Any]:
        there = nested("cpu", torch.jagged).to(device)
        there.requires_grad_()
        weight = torch.ones(3, 3, device=device, requires_grad=True)
        (there @ weight).values().pow(2).sum().backward()
        return [there.grad.values(), weight.grad]

    assert_same(run(DEVICE), run("cpu"))
    file = io.BytesIO()
    torch.save(nested(DEVICE, torch.jagged), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert_same(loaded.values(), nested("cpu", torch.jagged).values())
