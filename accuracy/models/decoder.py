"""Dense decoders as Hugging Face Transformers runs them: one forward pass over a prompt."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from accuracy.models.configs import DecoderConfig
from accuracy.models.layers import (
    Embedding,
    FeedForward,
    Linear,
    RmsNorm,
    explicit_attention,
    fused_attention,
    repeat_heads,
    rotary_tables,
    rotate,
)
from accuracy.models.parallel import all_gather, all_reduce, heads_of, shard
from accuracy.trace import layer_boundary


@dataclass(frozen=True)
class Forward:
    """How a model runs: `attention` is "eager" or "sdpa"; `ranks` share each layer."""

    attention: str = "eager"
    ranks: int = 1
    shard_lm_head: bool = False


class Attention(nn.Module):
    """Grouped-query attention over a prompt, filling an empty cache."""

    def __init__(self, config: DecoderConfig, how: Forward) -> None:
        super().__init__()
        # Where the ranks do not divide them, the source repeats key and value heads to all heads.
        is_divided = config.kv_heads % how.ranks == 0
        shared = config.kv_heads if is_divided else config.heads
        heads, kv_heads = heads_of(config.heads, shared, how.ranks)
        self.how, self.head_dim, self.groups = how, config.head_dim, heads // kv_heads
        size, kv_size = heads * config.head_dim, kv_heads * config.head_dim
        self.q = Linear(config.hidden, size, bias=config.qkv_bias)
        self.k = Linear(config.hidden, kv_size, bias=config.qkv_bias)
        self.v = Linear(config.hidden, kv_size, bias=config.qkv_bias)
        self.out = Linear(size, config.hidden, bias=config.output_bias)
        self.q_norm = RmsNorm(config.head_dim) if config.qk_norm else nn.Identity()
        self.k_norm = RmsNorm(config.head_dim) if config.qk_norm else nn.Identity()

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        """[batch, tokens, hidden] to the same, summed over the ranks."""
        batch, tokens = x.shape[:2]
        heads = (batch, tokens, -1, self.head_dim)
        q = self.q_norm(self.q(x).view(heads)).transpose(1, 2)
        k = self.k_norm(self.k(x).view(heads)).transpose(1, 2)
        v = self.v(x).view(heads).transpose(1, 2)
        cos, sin = (table.unsqueeze(1) for table in rotary)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (torch.cat([x.new_empty(0), new], dim=-2) for new in (k, v))
        if self.how.attention == "sdpa":
            attended = fused_attention(q, k, v, None, causal=True)
        else:
            k, v = repeat_heads(k, self.groups), repeat_heads(v, self.groups)
            attended = explicit_attention(q, k, v, mask)
        merged = attended.transpose(1, 2).contiguous().reshape(batch, tokens, -1)
        return all_reduce(self.out(merged), self.how.ranks)


class Layer(nn.Module):
    """Attention and feed-forward, each after a norm and added to its input."""

    def __init__(self, config: DecoderConfig, how: Forward) -> None:
        super().__init__()
        self.attention_norm = RmsNorm(config.hidden)
        self.attention = Attention(config, how)
        self.ffn_norm = RmsNorm(config.hidden)
        self.ffn = FeedForward(config.hidden, config.ffn, how.ranks)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        """[batch, tokens, hidden] to the same."""
        x = x + self.attention(self.attention_norm(x), rotary, mask)
        change: Tensor = self.ffn(self.ffn_norm(x))
        return x + change


class Decoder(nn.Module):
    """Token numbers [batch, tokens] to logits [batch, tokens, vocab] of every position."""

    def __init__(self, config: DecoderConfig, how: Forward) -> None:
        super().__init__()
        self.config, self.how = config, how
        self.embedding = Embedding(config.vocab, config.hidden)
        self.layers = nn.ModuleList(Layer(config, how) for _ in range(config.layers))
        self.norm = RmsNorm(config.hidden)
        outputs = shard(config.vocab, how.ranks) if how.shard_lm_head else config.vocab
        self.lm_head = Linear(config.hidden, outputs)
        if config.tied:
            self.lm_head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Run the whole prompt."""
        x = self.embedding(tokens)
        positions = torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0)
        mask = causal_mask(tokens, x.dtype) if self.how.attention == "eager" else None
        rotary = rotary_tables(positions, self.config.head_dim, x.dtype)
        for layer in self.layers:
            layer_boundary(x)
            x = layer(x, rotary, mask)
        layer_boundary(x)
        normed: Tensor = self.norm(x)
        if not self.config.lm_head:
            return normed
        logits: Tensor = self.lm_head(normed)
        if self.how.shard_lm_head:
            parts = all_gather(logits, self.how.ranks).chunk(self.how.ranks)
            logits = torch.cat(parts, dim=-1)
        return logits


def causal_mask(tokens: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a token may attend, the least number elsewhere; [batch, 1, tokens, tokens]."""
    batch, length = tokens.shape
    rows = torch.arange(length, device=tokens.device) + 0
    columns = torch.arange(length, device=tokens.device) + 0
    allowed = columns[None, None, None, :] <= rows[None, None, :, None]
    allowed = allowed.expand(batch, -1, -1, -1)
    zero = torch.zeros((), device=tokens.device, dtype=dtype)
    return torch.where(allowed, zero, torch.finfo(dtype).min)
