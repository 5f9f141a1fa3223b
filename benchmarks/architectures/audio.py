"""Models of sound: spectra to text, and a mixture to its two speakers."""

import torch
import transformers
from torch import Tensor, nn

from .workload import Field, Workload

VOCABULARY = 1024
WINDOW = 16


def whisper(width: int, layers: int, batch: int, frames: int, length: int) -> Workload:
    """(batch, 80, frames) mel spectra and (batch, length) tokens to the scores of the next."""
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        max_source_positions=frames // 2,
        max_target_positions=length,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    tokens, target = torch.randint(VOCABULARY, (2, batch, length))
    inputs = {"input_features": torch.randn(batch, 80, frames), "decoder_input_ids": tokens}
    model = transformers.WhisperForConditionalGeneration(config)
    return Workload(Field(model, "logits"), inputs, target)


class DilatedBlock(nn.Module):
    """A depthwise dilated convolution between two 1x1 ones: (batch, channels, frames)."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        wide = 4 * channels
        self.body = nn.Sequential(
            nn.Conv1d(channels, wide, 1),
            nn.PReLU(),
            nn.GroupNorm(1, wide),
            nn.Conv1d(wide, wide, 3, padding=dilation, dilation=dilation, groups=wide),
            nn.PReLU(),
            nn.GroupNorm(1, wide),
        )
        self.residual, self.skip = nn.Conv1d(wide, channels, 1), nn.Conv1d(wide, channels, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.body(x)
        return x + self.residual(y), self.skip(y)


class ConvTasNet(nn.Module):
    """Luo and Mesgarani 2019, figure 1: (batch, samples) to (batch, speakers, samples)."""

    def __init__(self, filters: int, channels: int, layers: int, speakers: int = 2) -> None:
        super().__init__()
        self.speakers = speakers
        self.encoder = nn.Conv1d(1, filters, WINDOW, WINDOW // 2, bias=False)
        self.bottleneck = nn.Sequential(nn.GroupNorm(1, filters), nn.Conv1d(filters, channels, 1))
        self.blocks = nn.ModuleList(DilatedBlock(channels, 2**i) for i in range(layers))
        self.mask = nn.Sequential(
            nn.PReLU(), nn.Conv1d(channels, speakers * filters, 1), nn.Sigmoid()
        )
        self.decoder = nn.ConvTranspose1d(filters, 1, WINDOW, WINDOW // 2, bias=False)

    def forward(self, mixture: Tensor) -> Tensor:
        encoded = self.encoder(mixture.unsqueeze(1))
        x, total = self.bottleneck(encoded), 0
        for block in self.blocks:
            x, skip = block(x)
            total = total + skip
        masked = self.mask(total).unflatten(1, (self.speakers, -1)) * encoded.unsqueeze(1)
        return self.decoder(masked.flatten(0, 1)).view(len(mixture), self.speakers, -1)


def scale_invariant_noise(estimate: Tensor, source: Tensor) -> Tensor:
    """The negative of Conv-TasNet's objective, equation 16, in decibels."""
    estimate = estimate - estimate.mean(-1, keepdim=True)
    source = source - source.mean(-1, keepdim=True)
    energy = source.square().sum(-1, keepdim=True)
    part = (estimate * source).sum(-1, keepdim=True) / energy * source
    noise = (estimate - part).square().sum(-1)
    return -10 * (part.square().sum(-1) / noise).log10().mean()


def conv_tasnet(width: int, layers: int, batch: int, samples: int) -> Workload:
    sources = torch.randn(batch, 2, samples)
    model = ConvTasNet(2 * width, width // 2, layers)
    return Workload(model, {"mixture": sources.sum(1)}, sources, scale_invariant_noise)
