"""Layers that carry a state from token to token: gated delta rule and Mamba-2.

Heads are sharded over the ranks. A prompt runs in chunks with matrices inside a chunk and a
loop over chunks; decoding updates the state once.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from accuracy.models.configs import Recurrence
from accuracy.models.layers import Linear, RmsNorm
from accuracy.models.parallel import all_reduce, shard

CHUNK_TOKENS = 64


class GatedDelta(nn.Module):
    """Gated DeltaNet, as in Qwen3-Next and Qwen3.5."""

    def __init__(
        self, hidden: int, shape: Recurrence, ranks: int, *, batch: int, decoding: bool
    ) -> None:
        super().__init__()
        self.shape, self.ranks, self.decoding = shape, ranks, decoding
        self.key_heads = shard(shape.key_heads, ranks)
        self.value_heads = shard(shape.value_heads, ranks)
        self.keys, self.values = self.key_heads * shape.key_dim, self.value_heads * shape.value_dim
        self.qkv = Linear(hidden, 2 * self.keys + self.values)
        self.z = Linear(hidden, self.values)
        self.beta = Linear(hidden, self.value_heads)
        self.decay = Linear(hidden, self.value_heads)
        self.conv = nn.Parameter(torch.empty(2 * self.keys + self.values, 1, shape.conv_kernel))
        self.norm = RmsNorm(shape.value_dim)
        self.out = Linear(self.values, hidden)
        state = (batch, self.value_heads, shape.key_dim, shape.value_dim)
        self.state = nn.Buffer(torch.empty(state, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, tokens, hidden] to the same, summed over the ranks."""
        batch, tokens, _ = x.shape
        mixed = causal_convolution(self.qkv(x).transpose(1, 2), self.conv).transpose(1, 2)
        q, k, v = torch.split(mixed, [self.keys, self.keys, self.values], dim=-1)
        heads = self.value_heads // self.key_heads
        q, k = (
            t.reshape(batch, tokens, self.key_heads, -1).repeat_interleave(heads, dim=2)
            for t in (q, k)
        )
        v = v.reshape(batch, tokens, self.value_heads, -1)
        q, k, v = (t.transpose(1, 2).float() for t in (q, k, v))
        beta = torch.sigmoid(self.beta(x)).transpose(1, 2).float()
        decay = -F.softplus(self.decay(x).float()).transpose(1, 2)
        q, k = F.normalize(q, dim=-1) * q.shape[-1] ** -0.5, F.normalize(k, dim=-1)
        run = self._one_token if self.decoding else self._prompt
        mixed_values = run(q, k, v, beta, decay).transpose(1, 2).to(x.dtype)
        gate = self.z(x).reshape(mixed_values.shape)
        gated = self.norm(mixed_values) * F.silu(gate)
        return all_reduce(self.out(gated.reshape(batch, tokens, -1)), self.ranks)

    def _one_token(self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, decay: Tensor) -> Tensor:
        state = self.state * decay.exp()[..., None]
        known = torch.matmul(k, state)
        change = (v - known) * beta[..., None]
        self.state.copy_(state + torch.matmul(k.transpose(2, 3), change))
        return torch.matmul(q, self.state)

    def _prompt(self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, decay: Tensor) -> Tensor:
        q, k, v = (chunked(t) for t in (q, k, v))
        beta, decay = (chunked(t[..., None]) for t in (beta, decay.cumsum(-1)))
        weighted_k, weighted_v = k * beta, v * beta
        decays = (decay - decay.transpose(-1, -2)).exp()
        triangle = torch.matmul(weighted_k, k.transpose(-1, -2)) * decays
        # The inverse of a unit triangular matrix by repeated squaring: log2(chunk) products.
        inverse = triangle
        for _ in range(CHUNK_TOKENS.bit_length() - 1):
            inverse = inverse + torch.matmul(inverse, triangle)
        values = torch.matmul(inverse, weighted_v)
        keys = torch.matmul(inverse, weighted_k * decay.exp())
        scores = torch.matmul(q, k.transpose(-1, -2)) * decays
        q_decayed = q * decay.exp()
        k_decayed = k * (decay[..., -1:, :] - decay).exp()
        return self._chunks(q_decayed, k_decayed, keys, values, scores, decay)

    def _chunks(
        self, q: Tensor, k: Tensor, keys: Tensor, values: Tensor, scores: Tensor, decay: Tensor
    ) -> Tensor:
        state, outputs = self.state, []
        for chunk in range(q.shape[2]):
            new = values[:, :, chunk] - torch.matmul(keys[:, :, chunk], state)
            carried = torch.matmul(q[:, :, chunk], state)
            outputs.append(carried + torch.matmul(scores[:, :, chunk], new))
            faded = state * decay[:, :, chunk, -1:].exp()
            state = faded + torch.matmul(k[:, :, chunk].transpose(2, 3), new)
        self.state.copy_(state)
        return torch.cat(outputs, dim=2)


class Mamba2(nn.Module):
    """State space layer with scalar decay per head, as in granite-4.0-h."""

    def __init__(
        self, hidden: int, shape: Recurrence, ranks: int, *, batch: int, decoding: bool
    ) -> None:
        super().__init__()
        self.shape, self.ranks, self.decoding = shape, ranks, decoding
        self.heads = shard(shape.value_heads, ranks)
        inner, groups = self.heads * shape.value_dim, 2 * shape.key_heads * shape.key_dim
        self.widths = [inner, inner + groups, self.heads]
        self.project = Linear(hidden, sum(self.widths))
        self.conv = nn.Parameter(torch.empty(inner + groups, 1, shape.conv_kernel))
        self.norm = RmsNorm(inner)
        self.out = Linear(inner, hidden)
        state = (batch, self.heads, shape.key_dim, shape.value_dim)
        self.state = nn.Buffer(torch.empty(state, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, tokens, hidden] to the same, summed over the ranks."""
        batch, tokens, _ = x.shape
        shape = self.shape
        gate, mixed, decay = self.project(x).split(self.widths, dim=-1)
        mixed = causal_convolution(mixed.transpose(1, 2), self.conv).transpose(1, 2)
        keys = shape.key_heads * shape.key_dim
        v, k, q = mixed.split([self.widths[0], keys, keys], dim=-1)
        v = v.reshape(batch, tokens, self.heads, -1).transpose(1, 2).float()
        k, q = (t.reshape(batch, tokens, 1, -1).transpose(1, 2).float() for t in (k, q))
        k, q = (t.expand(-1, self.heads, -1, -1) for t in (k, q))
        step = F.softplus(decay.float()).transpose(1, 2)
        run = self._one_token if self.decoding else self._prompt
        y = run(q, k, v * step[..., None], -step).transpose(1, 2).reshape(batch, tokens, -1)
        gated = self.norm(y.to(x.dtype) * F.silu(gate))
        return all_reduce(self.out(gated), self.ranks)

    def _one_token(self, q: Tensor, k: Tensor, v: Tensor, decay: Tensor) -> Tensor:
        faded = self.state * decay.exp()[..., None]
        self.state.copy_(faded + k.transpose(2, 3) * v)
        return torch.matmul(q, self.state)

    def _prompt(self, q: Tensor, k: Tensor, v: Tensor, decay: Tensor) -> Tensor:
        q, k, v = (chunked(t) for t in (q, k, v))
        decay = chunked(decay.cumsum(-1)[..., None])
        decays = (decay - decay.transpose(-1, -2)).exp()
        inside = torch.matmul(torch.matmul(q, k.transpose(-1, -2)) * decays, v)
        added = torch.matmul((k * (decay[..., -1:, :] - decay).exp()).transpose(-1, -2), v)
        state, carried = self.state, []
        for chunk in range(q.shape[2]):
            carried.append(torch.matmul(q[:, :, chunk] * decay[:, :, chunk].exp(), state))
            state = state * decay[:, :, chunk, -1:].exp() + added[:, :, chunk]
        self.state.copy_(state)
        return inside.flatten(2, 3) + torch.cat(carried, dim=2)


def causal_convolution(x: Tensor, kernel: Tensor) -> Tensor:
    """SiLU of a depthwise convolution over [batch, channels, tokens] that sees no future."""
    width = kernel.shape[-1]
    padded = F.pad(x, (width - 1, 0))
    return F.silu(F.conv1d(padded, kernel, groups=len(kernel)))


def chunked(x: Tensor) -> Tensor:
    """[batch, heads, tokens, size] in chunks, the last one padded."""
    batch, heads, tokens, size = x.shape
    padded = F.pad(x, (0, 0, 0, -tokens % CHUNK_TOKENS))
    return padded.reshape(batch, heads, -1, CHUNK_TOKENS, size)
