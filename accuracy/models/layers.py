"""The layers that decoders share, dispatching the operators that Hugging Face's do."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from accuracy.models.parallel import all_reduce, shard


class Linear(nn.Module):
    """nn.Linear without its initialization, which on meta tensors takes longer than a run."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = False) -> None:
        super().__init__()
        self.in_features, self.out_features = inputs, outputs
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] to [..., outputs]."""
        return F.linear(x, self.weight, self.bias)


class Embedding(nn.Module):
    """nn.Embedding without its initialization."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, size))

    def forward(self, numbers: Tensor) -> Tensor:
        """A row of the table for each number."""
        return F.embedding(numbers, self.weight)


class RmsNorm(nn.Module):
    """x / rms(x) * weight, computed in fp32."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the last dimension of `x`."""
        wide = x.to(torch.float32)
        variance = wide.pow(2).mean(-1, keepdim=True)
        wide = wide * torch.rsqrt(variance + 1e-6)
        return self.weight * wide.to(x.dtype)


class FeedForward(nn.Module):
    """SiLU-gated feed-forward layer, its inner dimension sharded over `ranks`."""

    def __init__(self, hidden: int, ffn: int, ranks: int) -> None:
        super().__init__()
        self.ranks = ranks
        self.gate = Linear(hidden, shard(ffn, ranks))
        self.up = Linear(hidden, shard(ffn, ranks))
        self.down = Linear(shard(ffn, ranks), hidden)

    def forward(self, x: Tensor) -> Tensor:
        """[..., hidden] to [..., hidden], summed over the ranks."""
        return all_reduce(self.down(F.silu(self.gate(x)) * self.up(x)), self.ranks)


def rotary_tables(positions: Tensor, head_dim: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin of [batch, tokens, head_dim] for positions [batch, tokens]."""
    inverse = torch.empty(head_dim // 2, device=positions.device)
    angles = positions[..., None].float() * inverse
    both = torch.cat((angles, angles), dim=-1)
    return (both.cos() * 1.0).to(dtype), (both.sin() * 1.0).to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of [batch, heads, tokens, head_dim]."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return (x * cos) + (turned * sin)


def repeat_heads(x: Tensor, times: int) -> Tensor:
    """Each key or value head `times` times, as grouped-query attention without a kernel."""
    if times == 1:
        return x
    batch, heads, tokens, size = x.shape
    spread = x[:, :, None, :, :].expand(batch, heads, times, tokens, size)
    return spread.reshape(batch, heads * times, tokens, size)


def softmax_fp32(scores: Tensor) -> Tensor:
    """Softmax over the last dimension in fp32, in the dtype of `scores`."""
    return F.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype)


def explicit_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Attention as matmul, mask, softmax in fp32, matmul; [batch, heads, tokens, size]."""
    scores = torch.matmul(q, k.transpose(2, 3)) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores + mask
    return torch.matmul(softmax_fp32(scores), v)


def fused_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """F.scaled_dot_product_attention as it reaches a device with a fused kernel of its own."""
    kernel = torch.ops.aten._scaled_dot_product_fused_attention_overrideable
    attended: Tensor = kernel(q, k, v, mask, 0.0, causal)[0]
    return attended
