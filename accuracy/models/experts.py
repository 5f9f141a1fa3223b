"""Mixtures of experts as a serving library compiles them for one rank.

Three schedules, chosen as neuronx_distributed/modules/moe/expert_mlps_v2.py does: few tokens
load only their experts, a batch of decoded tokens runs all experts, a prompt is cut into
blocks of one expert each.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from accuracy.models.configs import Experts
from accuracy.models.layers import FeedForward, Linear
from accuracy.models.parallel import all_reduce, shard

# Tokens of one block; block_size of BlockwiseMatmulConfig in the same module.
BLOCK_TOKENS = 512


class ExpertLayer(nn.Module):
    """Router, routed experts and, where the model has one, the shared expert."""

    def __init__(self, hidden: int, experts: Experts, ranks: int, *, decoding: bool) -> None:
        super().__init__()
        self.experts, self.ranks, self.decoding = experts, ranks, decoding
        count, inner = experts.count, shard(experts.ffn, ranks)
        self.router = Linear(hidden, count, bias=experts.bias)
        self.gate_up = nn.Parameter(torch.empty(count, hidden, 2 * inner))
        self.down = nn.Parameter(torch.empty(count, inner, hidden))
        self.shared = FeedForward(hidden, experts.shared_ffn, ranks) if experts.shared_ffn else None

    def forward(self, x: Tensor) -> Tensor:
        """[batch, tokens, hidden] to the same, summed over the ranks."""
        tokens = x.reshape(-1, x.shape[-1])
        weights, chosen = self._route(tokens)
        routed = self._schedule(len(tokens))(tokens, weights, chosen).reshape(x.shape)
        total = all_reduce(routed, self.ranks)
        return total if self.shared is None else total + self.shared(x)

    def _route(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        probabilities = F.softmax(self.router(tokens), dim=-1, dtype=torch.float32)
        weights, chosen = torch.topk(probabilities, self.experts.per_token, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return weights.to(tokens.dtype), chosen

    def _schedule(self, tokens: int) -> "Callable[[Tensor, Tensor, Tensor], Tensor]":
        assignments = tokens * self.experts.per_token
        if self.decoding and assignments < self.experts.count:
            return self._chosen_experts
        if self.decoding or assignments <= BLOCK_TOKENS:
            return self._all_experts
        return self._blocks

    def _chosen_experts(self, tokens: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        wanted = chosen.flatten()
        per_token = self.experts.per_token
        rows = tokens[:, None, None, :].expand(-1, per_token, 1, -1).flatten(0, 1)
        inner = self._activate(torch.bmm(rows, _weights_of(self.gate_up, wanted, rows)))
        outer = torch.bmm(inner, _weights_of(self.down, wanted, inner))
        return (outer.reshape(len(tokens), per_token, -1) * weights[..., None]).sum(1)

    def _all_experts(self, tokens: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        affinities = torch.zeros_like(weights, dtype=tokens.dtype).new_zeros(
            len(tokens), self.experts.count
        )
        affinities = affinities.scatter(1, chosen, weights)
        everywhere = tokens.expand(self.experts.count, -1, -1)
        inner = self._activate(torch.bmm(everywhere, self.gate_up))
        return (torch.bmm(inner, self.down) * affinities.t()[..., None]).sum(0)

    def _blocks(self, tokens: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        blocks = block_count(len(tokens), self.experts)
        expert_of_block = chosen.flatten()[:1].expand(blocks)
        token_of_row = chosen.new_empty(blocks * BLOCK_TOKENS)
        rows = tokens.index_select(0, token_of_row).reshape(blocks, BLOCK_TOKENS, -1)
        inner = self._activate(torch.bmm(rows, _weights_of(self.gate_up, expert_of_block, rows)))
        outer = torch.bmm(inner, _weights_of(self.down, expert_of_block, inner))
        scale = weights.flatten()[:1].expand(blocks, BLOCK_TOKENS, 1)
        scaled = (outer * scale).flatten(0, 1)
        return torch.zeros_like(tokens).index_add(0, token_of_row, scaled)

    def _activate(self, both: Tensor) -> Tensor:
        gate, up = both.chunk(2, dim=-1)
        if not self.experts.clamped:
            return F.silu(gate) * up
        gate, up = gate.clamp(max=7.0), up.clamp(min=-7.0, max=7.0)
        return (up + 1) * (gate * torch.sigmoid(gate * 1.702))


def _weights_of(table: Tensor, experts: Tensor, like: Tensor) -> Tensor:
    """The weights of some experts; quantized ones are widened once they are on the chip."""
    return table.index_select(0, experts).to(like.dtype)


def block_count(tokens: int, experts: Experts) -> int:
    """Blocks that hold every assignment however the router spreads them."""
    assignments = tokens * experts.per_token
    full = -(-(assignments - (experts.count - 1)) // BLOCK_TOKENS)
    return max(0, full) + experts.count - 1
