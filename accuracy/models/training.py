"""Training steps: forward, loss, backward and optimizer of decoders and classifiers."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from accuracy.models.configs import DecoderConfig
from accuracy.models.decoder import Decoder, Forward
from accuracy.models.layers import Linear


class LowRankLinear(nn.Module):
    """A frozen linear layer plus a trained product of rank `rank` (LoRA)."""

    def __init__(self, frozen: Linear, rank: int) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.down = Linear(frozen.in_features, rank)
        self.up = Linear(rank, frozen.out_features)

    def forward(self, x: Tensor) -> Tensor:
        """The frozen product plus the scaled adapter."""
        adapted: Tensor = self.up(self.down(F.dropout(x, 0.05))) * 2.0
        return self.frozen(x) + adapted


class AdaptedDecoder(nn.Module):
    """A decoder with LoRA adapters on every projection of every layer, the rest frozen."""

    def __init__(self, config: DecoderConfig, ranks: int, rank: int, *, recompute: bool) -> None:
        super().__init__()
        self.recompute = recompute
        self.decoder = Decoder(config, Forward(attention="sdpa", ranks=ranks, shard_lm_head=True))
        self.decoder.requires_grad_(False)
        for layer in self.decoder.layers:
            for part in (layer.attention, layer.ffn):
                for name, child in list(part.named_children()):
                    if isinstance(child, Linear):
                        setattr(part, name, LowRankLinear(child, rank))

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of every position."""
        if self.recompute:
            for layer in self.decoder.layers:
                layer.forward = _recomputed(layer.forward)
        logits: Tensor = self.decoder(tokens)
        return logits


def _recomputed(forward: object) -> object:
    def run(*args: Tensor) -> object:
        return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False)

    return run


def language_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Cross entropy of every next token, in fp32."""
    return F.cross_entropy(logits.float().flatten(0, 1), tokens.flatten())


def trained(module: nn.Module) -> list[nn.Parameter]:
    """The parameters that training changes."""
    return [p for p in module.parameters() if p.requires_grad]


def adamw(parameters: Sequence[Tensor]) -> None:
    """One step of AdamW as an optimizer without fused kernels issues it."""
    for p in parameters:
        gradient, first, second = (torch.empty_like(p, dtype=torch.float32) for _ in range(3))
        master = torch.empty_like(p, dtype=torch.float32)
        master.mul_(0.99)
        first.lerp_(gradient, 0.1)
        second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        master.addcdiv_(first, second.sqrt().div_(1.0).add_(1e-8), value=-0.001)
