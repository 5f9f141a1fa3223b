"""Decoders as a serving library compiles them: static shapes, a cache written in place.

One rank's part of a graph: `tokens` new tokens per sequence (1 when decoding) against
`cached` positions of the cache. Only the last token has logits; the sample is drawn on the
device.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from accuracy.models.configs import DecoderConfig
from accuracy.models.experts import ExpertLayer
from accuracy.models.layers import (
    Embedding,
    FeedForward,
    Linear,
    RmsNorm,
    fused_attention,
    rotary_tables,
    rotate,
    softmax_fp32,
)
from accuracy.models.parallel import all_gather, all_reduce, heads_of, shard
from accuracy.models.recurrence import GatedDelta, Mamba2
from accuracy.trace import layer_boundary, region


@dataclass(frozen=True)
class Step:
    """One compiled graph: a prompt of `tokens`, or one token after `cached` ones."""

    batch: int
    tokens: int
    cached: int
    ranks: int

    @property
    def decoding(self) -> bool:
        """Whether each sequence grows by one token."""
        return self.tokens == 1


class CachedAttention(nn.Module):
    """Grouped-query attention over a cache of static size."""

    def __init__(self, config: DecoderConfig, step: Step, layer: int) -> None:
        super().__init__()
        self.config, self.step = config, step
        self.heads, self.kv_heads = heads_of(config.heads, config.kv_heads, step.ranks)
        size, kv_size = self.heads * config.head_dim, self.kv_heads * config.head_dim
        gated = 2 if config.attention_gate else 1
        self.q = Linear(config.hidden, size * gated, bias=config.qkv_bias)
        self.k = Linear(config.hidden, kv_size, bias=config.qkv_bias)
        self.v = Linear(config.hidden, kv_size, bias=config.qkv_bias)
        self.out = Linear(size, config.hidden, bias=config.output_bias)
        self.q_norm = RmsNorm(config.head_dim) if config.qk_norm else nn.Identity()
        self.k_norm = RmsNorm(config.head_dim) if config.qk_norm else nn.Identity()
        cached = min(step.cached, config.window or step.cached) if layer % 2 == 0 else step.cached
        shape = (step.batch, self.kv_heads, cached, config.head_dim)
        self.keys, self.values = nn.Buffer(torch.empty(shape)), nn.Buffer(torch.empty(shape))
        self.sinks = nn.Parameter(torch.empty(self.heads)) if config.sinks else None

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        """[batch, tokens, hidden] to the same, summed over the ranks."""
        batch, tokens = x.shape[:2]
        split = (batch, tokens, -1, self.config.head_dim)
        q, gate = self._queries(x, split)
        k = self.k_norm(self.k(x).view(split)).transpose(1, 2)
        v = self.v(x).view(split).transpose(1, 2)
        cos, sin = (table.unsqueeze(1) for table in rotary)
        q, k = rotate(q.transpose(1, 2), cos, sin), rotate(k, cos, sin)
        written = min(tokens, self.keys.shape[2])
        self.keys[:, :, :written].copy_(k[:, :, -written:])
        self.values[:, :, :written].copy_(v[:, :, -written:])
        attended = self._one_token(q) if self.step.decoding else self._prompt(q, k, v)
        merged = attended.transpose(1, 2).reshape(batch, tokens, -1)
        if gate is not None:
            merged = merged * torch.sigmoid(gate)
        return all_reduce(self.out(merged), self.step.ranks)

    def _queries(self, x: Tensor, split: tuple[int, int, int, int]) -> tuple[Tensor, Tensor | None]:
        projected = self.q(x)
        if not self.config.attention_gate:
            return self.q_norm(projected.view(split)), None
        q, gate = projected.chunk(2, dim=-1)
        return self.q_norm(q.reshape(split)), gate

    def _prompt(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with region("flash attention"):
            return fused_attention(q, k, v, None, causal=True)

    def _one_token(self, q: Tensor) -> Tensor:
        """All query heads of a key/value head at once, so the cache is read once."""
        batch, _, tokens, size = q.shape
        grouped = q.reshape(batch, self.kv_heads, -1, size)
        scores = torch.matmul(grouped, self.keys.transpose(2, 3)) * size**-0.5
        if self.sinks is not None:
            sinks = self.sinks.reshape(1, self.kv_heads, -1, 1).expand(batch, -1, -1, -1)
            scores = torch.cat([scores, sinks], dim=-1)
        weights = softmax_fp32(scores)
        if self.sinks is not None:
            weights = weights[..., :-1]
        return torch.matmul(weights, self.values).reshape(batch, self.heads, tokens, size)


class ServingLayer(nn.Module):
    """Attention or a recurrence, then a feed-forward layer or experts."""

    def __init__(self, config: DecoderConfig, step: Step, layer: int) -> None:
        super().__init__()
        self.mixer_norm, self.ffn_norm = RmsNorm(config.hidden), RmsNorm(config.hidden)
        self.attends = not config.is_recurrent_layer(layer)
        self.mixer = _mixer(config, step, layer)
        if config.experts is not None and config.is_expert_layer(layer):
            self.ffn: nn.Module = ExpertLayer(
                config.hidden, config.experts, step.ranks, decoding=step.decoding
            )
        else:
            self.ffn = FeedForward(config.hidden, config.ffn, step.ranks)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        """[batch, tokens, hidden] to the same."""
        with region("attention"):
            normed = self.mixer_norm(x)
            x = x + (self.mixer(normed, rotary) if self.attends else self.mixer(normed))
        with region("experts" if isinstance(self.ffn, ExpertLayer) else "ffn"):
            change: Tensor = self.ffn(self.ffn_norm(x))
            return x + change


def _mixer(config: DecoderConfig, step: Step, layer: int) -> nn.Module:
    recurrence = config.recurrence
    if recurrence is None or not config.is_recurrent_layer(layer):
        return CachedAttention(config, step, layer)
    kind = {"delta": GatedDelta, "mamba2": Mamba2}[recurrence.kind]
    return kind(config.hidden, recurrence, step.ranks, batch=step.batch, decoding=step.decoding)


class ServedDecoder(nn.Module):
    """Token numbers [batch, tokens] to the next token of each sequence."""

    def __init__(self, config: DecoderConfig, step: Step) -> None:
        super().__init__()
        self.config, self.step = config, step
        self.embedding = Embedding(config.vocab, shard(config.hidden, step.ranks))
        self.layers = nn.ModuleList(
            ServingLayer(config, step, layer) for layer in range(config.layers)
        )
        self.norm = RmsNorm(config.hidden)
        self.lm_head = Linear(config.hidden, shard(config.vocab, step.ranks))

    def forward(self, tokens: Tensor) -> Tensor:
        """Run the graph once."""
        parts = all_gather(self.embedding(tokens), self.step.ranks).chunk(self.step.ranks)
        x = torch.cat(parts, dim=-1)[..., : self.config.hidden]
        positions = torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0)
        rotary = rotary_tables(positions, self.config.head_dim, x.dtype)
        for layer in self.layers:
            layer_boundary(x)
            x = layer(x, rotary)
        layer_boundary(x)
        last = self.norm(x[:, -1])
        best, token = self.lm_head(last).max(dim=-1)
        candidates = all_gather(torch.stack((best, token.to(best.dtype))), self.step.ranks)
        return candidates.max(dim=0).values
