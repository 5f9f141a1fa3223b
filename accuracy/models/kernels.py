"""Single kernels as PyTorch functions. Each returns the function and its operands."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from accuracy.models.configs import DecoderConfig, Experts
from accuracy.models.experts import ExpertLayer
from accuracy.models.layers import RmsNorm, fused_attention, rotary_tables, rotate, softmax_fp32


@dataclass(frozen=True)
class Kernel:
    """A function of tensors and the operands that it is timed on."""

    run: Callable[..., object]
    operands: tuple[Tensor, ...]


def _meta(*sizes: int, dtype: torch.dtype) -> Tensor:
    return torch.empty(sizes, dtype=dtype, device="meta")


def gemm(rows: int, depth: int, columns: int, dtype: torch.dtype) -> Kernel:
    """[rows, depth] @ [depth, columns]."""
    return Kernel(torch.mm, (_meta(rows, depth, dtype=dtype), _meta(depth, columns, dtype=dtype)))


def gemm_gelu(rows: int, depth: int, columns: int, dtype: torch.dtype) -> Kernel:
    """gelu([rows, depth] @ [depth, columns] + bias)."""
    operands = (
        _meta(rows, depth, dtype=dtype),
        _meta(columns, depth, dtype=dtype),
        _meta(columns, dtype=dtype),
    )
    return Kernel(lambda x, weight, bias: F.gelu(F.linear(x, weight, bias)), operands)


def query_key_softmax(heads: int, tokens: int, size: int, dtype: torch.dtype) -> Kernel:
    """softmax(q @ k^T) without the product with values."""
    qk = tuple(_meta(heads, tokens, size, dtype=dtype) for _ in range(2))
    return Kernel(lambda q, k: torch.softmax(q @ k.transpose(1, 2) * size**-0.5, -1), qk)


def scaled_dot_product(
    heads: int, queries: int, keys: int, size: int, dtype: torch.dtype, *, causal: bool = False
) -> Kernel:
    """Fused attention of one sequence."""
    q = _meta(1, heads, queries, size, dtype=dtype)
    kv = tuple(_meta(1, heads, keys, size, dtype=dtype) for _ in range(2))
    return Kernel(lambda q, k, v: fused_attention(q, k, v, None, causal), (q, *kv))


def unfused_attention(heads: int, tokens: int, size: int, dtype: torch.dtype) -> Kernel:
    """softmax(q @ k^T) @ v."""
    qkv = tuple(_meta(1, heads, tokens, size, dtype=dtype) for _ in range(3))

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax(q @ k.transpose(2, 3) * size**-0.5, -1) @ v

    return Kernel(run, qkv)


def chain(links: int, sizes: tuple[int, ...], dtype: torch.dtype) -> Kernel:
    """silu(x + b), `links` times."""

    def run(x: Tensor, b: Tensor) -> Tensor:
        for _ in range(links):
            x = F.silu(x + b)
        return x

    return Kernel(run, (_meta(*sizes, dtype=dtype), _meta(*sizes, dtype=dtype)))


def elementwise(name: str, sizes: tuple[int, ...], dtype: torch.dtype) -> Kernel:
    """An operator of ELEMENTWISE on tensors of one shape."""
    run, count = ELEMENTWISE[name]
    return Kernel(run, tuple(_meta(*sizes, dtype=dtype) for _ in range(count)))


# name: the operator and how many tensors it takes
ELEMENTWISE: dict[str, tuple[Callable[..., object], int]] = {
    "add": (torch.add, 2),
    "mul": (torch.mul, 2),
    "relu": (torch.relu, 1),
    "gelu": (F.gelu, 1),
    "silu": (F.silu, 1),
    "exp": (torch.exp, 1),
    "softmax": (lambda x: torch.softmax(x, -1), 1),
    "layernorm": (lambda x: F.layer_norm(x, x.shape[-1:]), 1),
    "device2device": (torch.clone, 1),
    "reduce_sum": (lambda x: x.sum(-1), 1),
    "reduce_max": (lambda x: x.amax(-1), 1),
    "topk": (lambda x: x.topk(8), 1),
}


def rms_norm(rows: int, width: int, dtype: torch.dtype) -> Kernel:
    """x / rms(x) * weight over the last dimension."""
    norm = RmsNorm(width)
    norm.weight = nn.Parameter(_meta(width, dtype=dtype))
    return Kernel(norm, (_meta(rows, width, dtype=dtype),))


def swiglu(rows: int, width: int, dtype: torch.dtype) -> Kernel:
    """silu(gate) * up."""
    operands = tuple(_meta(rows, width, dtype=dtype) for _ in range(2))
    return Kernel(lambda gate, up: F.silu(gate) * up, operands)


def feed_forward(
    rows: int, width: int, inner: int, dtype: torch.dtype, *, gated: bool = True
) -> Kernel:
    """A gated (SiLU) or plain (GELU) feed-forward layer."""
    up_columns = 2 * inner if gated else inner
    operands = (
        _meta(rows, width, dtype=dtype),
        _meta(width, up_columns, dtype=dtype),
        _meta(inner, width, dtype=dtype),
    )

    def run(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
        hidden = x @ up
        if not gated:
            return F.gelu(hidden) @ down
        gate, value = hidden.chunk(2, -1)
        return (F.silu(gate) * value) @ down

    return Kernel(run, operands)


def take_rows(rows: int, width: int, dtype: torch.dtype) -> Kernel:
    """index_select of whole rows in random order."""
    index = torch.empty(rows, dtype=torch.int64, device="meta")
    return Kernel(lambda x, i: x.index_select(0, i), (_meta(rows, width, dtype=dtype), index))


def take_elements(rows: int, width: int, dtype: torch.dtype) -> Kernel:
    """gather of single elements."""
    index = torch.empty(rows, width, dtype=torch.int64, device="meta")
    return Kernel(lambda x, i: x.gather(1, i), (_meta(rows, width, dtype=dtype), index))


@dataclass(frozen=True)
class AttentionBlock:
    """What a fused attention kernel covers, for the heads of one rank."""

    hidden: int
    query_heads: int
    kv_heads: int
    head_dim: int
    qk_norm: bool = True
    out_projection: bool = True


def attention_block(block: AttentionBlock, tokens: int, cached: int, dtype: torch.dtype) -> Kernel:
    """QKV projection, norms, rotary embedding, attention and output projection.

    One new token attends to `cached` earlier ones; a prompt of `tokens` to itself.
    """
    size, heads, kv_heads = block.head_dim, block.query_heads, block.kv_heads
    qkv_width = (heads + 2 * kv_heads) * size
    x = _meta(1, tokens, block.hidden, dtype=dtype)
    weights = (
        _meta(qkv_width, block.hidden, dtype=dtype),
        _meta(block.hidden, heads * size, dtype=dtype),
    )
    cache = tuple(_meta(1, kv_heads, cached, size, dtype=dtype) for _ in range(2))
    norm = RmsNorm(size)
    norm.weight = nn.Parameter(_meta(size, dtype=dtype))
    positions = torch.empty(1, tokens, dtype=torch.int64, device="meta")

    def run(x: Tensor, w: Tensor, out: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        parts = F.linear(x, w).reshape(1, tokens, -1, size).split([heads, kv_heads, kv_heads], 2)
        q, k, v = (part.transpose(1, 2) for part in parts)
        if block.qk_norm:
            q, k = norm(q), norm(k)
        cos, sin = (table.unsqueeze(1) for table in rotary_tables(positions, size, dtype))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if tokens == 1:
            scores = torch.matmul(q.reshape(1, kv_heads, -1, size), keys.transpose(2, 3))
            mixed = torch.matmul(softmax_fp32(scores * size**-0.5), values)
        else:
            mixed = fused_attention(q, k, v, None, True)
        merged = mixed.reshape(1, heads, tokens, size).transpose(1, 2).reshape(1, tokens, -1)
        return F.linear(merged, out) if block.out_projection else merged

    return Kernel(run, (x, *weights, *cache))


def expert_block(hidden: int, experts: Experts, tokens: int, dtype: torch.dtype) -> Kernel:
    """Router and chosen experts of one rank, for decoded tokens."""
    activations = torch.bfloat16 if dtype.itemsize == 1 else dtype
    with torch.device("meta"):
        layer = ExpertLayer(hidden, experts, ranks=1, decoding=True).to(activations)
    for weights in (layer.gate_up, layer.down):
        weights.data = weights.data.to(dtype)
    return Kernel(layer, (_meta(1, tokens, hidden, dtype=activations),))


def expert_ffn(config: DecoderConfig, ranks: int) -> Experts:
    """The experts of one rank, sharded along their inner dimension."""
    experts = config.experts
    if experts is None:
        raise ValueError(f"{config.name} has no experts")
    return Experts(
        experts.count, experts.per_token, -(-experts.ffn // ranks), clamped=experts.clamped
    )
