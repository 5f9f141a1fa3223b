"""Models small enough to compile in a second."""

import torch
from torch import nn
from torch.nn import functional as F


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def conv_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 4),
    )


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norm_2(x))


class Gpt(nn.Module):
    def __init__(self, vocabulary: int = 17, width: int = 8, length: int = 8) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.block = Block(width, 2)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        return self.head(self.norm(self.block(x)))


class Llama(nn.Module):
    """Grouped heads, rotary positions, RMSNorm and SwiGLU, with a cache of fixed length."""

    def __init__(
        self, vocabulary: int = 61, width: int = 16, layers: int = 2, length: int = 264
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_width = 4, 2, width // 4
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm": nn.RMSNorm(width),
                    "q": nn.Linear(width, width, bias=False),
                    "kv": nn.Linear(width, 2 * self.kv_heads * self.head_width, bias=False),
                    "out": nn.Linear(width, width, bias=False),
                    "mlp_norm": nn.RMSNorm(width),
                    "gate_up": nn.Linear(width, 4 * width, bias=False),
                    "down": nn.Linear(2 * width, width, bias=False),
                }
            )
            for _ in range(layers)
        )
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        angles = torch.outer(
            torch.arange(length), 100 ** -torch.linspace(0, 1, self.head_width // 2)
        )
        self.register_buffer("rotations", torch.stack([angles.cos(), angles.sin()]))
        shape = (layers, 2, 1, self.kv_heads, length, self.head_width)
        self.register_buffer("cache", torch.zeros(shape))

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """The logits of the last of `tokens`, [length], which are at `positions`, [length]."""
        x = self.tokens(tokens)[None]
        seen = torch.arange(self.cache.shape[-2], device=x.device) <= positions[:, None]
        for layer, cache in zip(self.layers, self.cache, strict=True):
            normed = layer["norm"](x)
            q = self._rotated(self._split(layer["q"](normed)), positions)
            k, v = self._split(layer["kv"](normed)).chunk(2, dim=1)
            cache[0].index_copy_(2, positions, self._rotated(k, positions))
            cache[1].index_copy_(2, positions, v)
            mixed = F.scaled_dot_product_attention(
                q, cache[0], cache[1], attn_mask=seen, enable_gqa=True
            )
            x = x + layer["out"](mixed.transpose(1, 2).flatten(2))
            gate, up = layer["gate_up"](layer["mlp_norm"](x)).chunk(2, dim=-1)
            x = x + layer["down"](F.silu(gate) * up)
        return self.head(self.norm(x[0, -1]))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (-1, self.head_width)).transpose(1, 2)

    def _rotated(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        cos, sin = self.rotations[:, positions]
        left, right = x.chunk(2, dim=-1)
        return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)
