"""flex_attention with score and mask functions, compiled and in eager mode."""

import pytest
import torch
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

from torch_trainium.compile.program_piece import ProgramPiece

SHAPE = (2, 4, 16, 8)


def relative(score, b, h, q, k):
    return score + (q - k) * 0.1


def by_head(score, b, h, q, k):
    return score * (h + 1)


def causal(b, h, q, k):
    return q >= k


def window(b, h, q, k):
    return (q - k).abs() <= 2


CASES = {
    "plain": (None, None, {}),
    "score": (relative, None, {}),
    "score by head": (by_head, None, {}),
    "mask": (None, causal, {}),
    "score and mask": (relative, window, {}),
    "scale": (None, causal, {"scale": 0.5}),
    "grouped heads": (relative, causal, {"enable_gqa": True}),
}


def tensors(kv_heads: int, device: str) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [SHAPE, *[(2, kv_heads, 16, 8)] * 2]
    return [torch.randn(s, generator=generator).to(device).requires_grad_() for s in shapes]


def outcome(device, name, attention):
    score, mask, options = CASES[name]
    given = tensors(2 if "enable_gqa" in options else 4, device)
    if mask is not None:
        options = {**options, "block_mask": create_block_mask(mask, 2, 4, 16, 16, device=device)}
    out = attention(*given, score_mod=score, **options)
    out.square().sum().backward()
    return [out.detach().cpu(), *(t.grad.cpu() for t in given)]


def reference(name):
    """The formula, on the CPU."""
    score, mask, options = CASES[name]
    q, k, v = given = tensors(2 if "enable_gqa" in options else 4, "cpu")
    k, v = (t.repeat_interleave(4 // t.shape[1], 1) for t in (k, v))
    at = torch.meshgrid(*map(torch.arange, (2, 4, 16, 16)), indexing="ij")
    scores = q @ k.transpose(-1, -2) * options.get("scale", 8**-0.5)
    scores = score(scores, *at) if score else scores
    scores = scores.masked_fill(~mask(*at), -torch.inf) if mask else scores
    out = scores.softmax(-1) @ v
    out.square().sum().backward()
    return [out.detach(), *(t.grad for t in given)]


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_the_formula(name, graphs):
    given = outcome("neuron", name, torch.compile(flex_attention, fullgraph=True))
    torch.testing.assert_close(given, reference(name), atol=5e-5, rtol=1e-5)
    for graph in graphs:
        assert [type(piece) for piece in graph.pieces] == [ProgramPiece]


@pytest.mark.parametrize("name", ["score and mask"])
def test_eager_mode_has_it_as_well(name):
    given = outcome("neuron", name, flex_attention)
    torch.testing.assert_close(given, reference(name), atol=5e-5, rtol=1e-5)


def test_a_captured_tensor_is_an_argument_and_has_a_gradient(graphs):
    def function(q, k, v, bias):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, m, n: s + bias[h])

    def gradients(device):
        q, k, v = tensors(4, device)
        bias = torch.linspace(-1, 1, 4).to(device).requires_grad_()
        return q, k, v, bias

    q, k, v, bias = gradients("neuron")
    out = torch.compile(function, fullgraph=True)(q, k, v, bias)
    out.square().sum().backward()
    expected_q, *rest = gradients("cpu")
    scores = expected_q @ rest[0].transpose(-1, -2) * 8**-0.5 + rest[2][:, None, None]
    expected = scores.softmax(-1) @ rest[1]
    expected.square().sum().backward()
    torch.testing.assert_close(out.detach().cpu(), expected.detach())
    torch.testing.assert_close(bias.grad.cpu(), rest[2].grad, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(q.grad.cpu(), expected_q.grad)


def test_the_logarithm_of_the_sums():
    def function(q, k, v):
        return flex_attention(q, k, v, return_aux=AuxRequest(lse=True))[1].lse

    q, k, v = tensors(4, "neuron")
    given = torch.compile(function, fullgraph=True)(q, k, v)
    scores = q.cpu() @ k.cpu().transpose(-1, -2) * 8**-0.5
    torch.testing.assert_close(given.detach().cpu(), scores.logsumexp(-1).detach())


@pytest.mark.parametrize("wrap", [torch.compile, lambda function: function])
def test_autocast_chooses_the_dtype(wrap):
    def function(q, k, v):
        with torch.autocast("neuron", dtype=torch.bfloat16):
            return flex_attention(q, k, v)

    given = tensors(4, "neuron")
    out = wrap(function)(*given)
    assert out.dtype is torch.bfloat16
    expected = flex_attention(*(t.bfloat16() for t in given))
    torch.testing.assert_close(out, expected)


def test_other_devices_keep_pytorchs_checks():
    q, k, v = tensors(4, "cpu")
    with pytest.raises(NotImplementedError, match="does not support backward on CPU"):
        flex_attention(q, k, v)


def test_the_patch_waits_for_the_module():
    from tests.python_process import output_of

    code = """
import sys, torch, torch_trainium
assert "torch.nn.attention.flex_attention" not in sys.modules
from torch.nn.attention import flex_attention
print(flex_attention._validate_device.__module__)
"""
    assert output_of(code) == "torch.nn.attention.flex_attention"
