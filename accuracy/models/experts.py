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
        affinities, chosen = self._route(tokens)
        routed = self._schedule(len(tokens))(tokens, affinities, chosen).reshape(x.shape)
        total = all_reduce(routed, self.ranks)
        return total if self.shared is None else total + self.shared(x)

    def _route(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Affinities of all experts [tokens, experts], and the chosen ones."""
        affinities = F.softmax(self.router(tokens), dim=-1, dtype=torch.float32)
        _, chosen = torch.topk(affinities, self.experts.per_token, dim=-1)
        return affinities.to(tokens.dtype), chosen

    def _schedule(self, tokens: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        assignments = tokens * self.experts.per_token
        if self.decoding and assignments < self.experts.count:
            return self._chosen_experts
        if self.decoding or assignments < BLOCK_TOKENS:
            return self._all_experts
        return self._blocks

    def _chosen_experts(self, tokens: Tensor, affinities: Tensor, chosen: Tensor) -> Tensor:
        """The experts of one token after the other."""
        weights = F.normalize(affinities.gather(1, chosen), p=1.0, dim=1)
        outputs = []
        for token, wanted, weight in zip(tokens, chosen, weights, strict=True):
            rows = token.expand(self.experts.per_token, 1, -1)
            inner = self._activate(torch.bmm(rows, _weights_of(self.gate_up, wanted, rows)))
            outer = torch.bmm(inner, _weights_of(self.down, wanted, inner))
            outputs.append((outer.squeeze(1) * weight.unsqueeze(1)).sum(0))
        return torch.stack(outputs)

    def _all_experts(self, tokens: Tensor, affinities: Tensor, chosen: Tensor) -> Tensor:
        """Every token through every expert, added up expert by expert."""
        masked = self._masked(affinities, chosen)
        everywhere = tokens.expand(self.experts.count, -1, -1)
        outer = torch.bmm(self._activate(torch.bmm(everywhere, self.gate_up)), self.down)
        total = torch.zeros_like(tokens)
        for expert in range(self.experts.count):
            total += outer[expert] * masked[:, expert].unsqueeze(1)
        return total

    def _blocks(self, tokens: Tensor, affinities: Tensor, chosen: Tensor) -> Tensor:
        """Blocks of tokens of one expert, one after the other."""
        masked = self._masked(affinities, chosen)
        blocks = block_count(len(tokens), self.experts)
        places = self._places(masked, chosen, blocks)
        experts = chosen.flatten()[:1].expand(blocks)
        total = torch.zeros_like(tokens)
        for rows, expert in zip(places, experts.unsqueeze(1), strict=True):
            given = tokens.index_select(0, rows)
            inner = self._activate(given @ _weights_of(self.gate_up, expert, given)[0])
            outer = inner @ _weights_of(self.down, expert, inner)[0]
            scale = masked.gather(1, expert.expand(BLOCK_TOKENS, 1))
            total.index_copy_(0, rows, total.index_select(0, rows) + outer * scale)
        return total

    def _masked(self, affinities: Tensor, chosen: Tensor) -> Tensor:
        """Affinities of the chosen experts, zero elsewhere, that add up to one."""
        mask = torch.zeros_like(affinities).scatter(1, chosen, 1.0)
        return F.normalize(affinities * mask, p=1.0, dim=1)

    def _places(self, masked: Tensor, chosen: Tensor, blocks: int) -> Tensor:
        """Which token each row of each block holds: a running count over the tokens."""
        position = (masked > 0).to(torch.int32).cumsum(0, dtype=torch.int32)
        position = position.gather(1, chosen)
        places = chosen.new_full((blocks * BLOCK_TOKENS,), -1)
        return places.index_copy(0, position.flatten(), chosen.flatten()).view(blocks, -1)

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
    return min(full + experts.count - 1, assignments)
