"""Small image classifiers trained on MNIST and CIFAR-10.

Layer sizes: alpharomercoma/torchneuronx, academic/models.py.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CLASSES = 10


@dataclass(frozen=True)
class Images:
    """A data set: images of `side` squared pixels, and how many there are to train on."""

    side: int
    channels: int
    train_count: int
    test_count: int = 10_000

    @property
    def values(self) -> int:
        """Numbers in one image."""
        return self.side * self.side * self.channels


DATASETS = {"mnist": Images(28, 1, 60_000), "cifar": Images(32, 3, 50_000)}


class ConvolutionalNet(nn.Module):
    """3x3 convolutions, each halved by pooling, then two linear layers."""

    def __init__(self, images: Images, widths: tuple[int, ...], inner: int, norm: bool) -> None:
        super().__init__()
        channels = (images.channels, *widths)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, 3, padding=1)
            for before, after in zip(channels, widths, strict=False)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(w) if norm else nn.Identity() for w in widths)
        side = images.side // 2 ** len(widths)
        self.hidden = nn.Linear(widths[-1] * side * side, inner)
        self.out = nn.Linear(inner, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels, side, side] to logits."""
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = F.max_pool2d(torch.relu(norm(convolution(x))), 2)
        return self.out(torch.relu(self.hidden(x.flatten(1))))


class EncoderBlock(nn.Module):
    """Self-attention and a GELU feed-forward layer, norms first."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, tokens, width] to the same."""
        batch, tokens, width = x.shape
        split = self.qkv(self.norms[0](x)).reshape(batch, tokens, 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, tokens, width)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class VisionTransformer(nn.Module):
    """Patches and a class token through encoder blocks."""

    def __init__(
        self, images: Images, patch: int, width: int, depth: int, heads: int, inner: int
    ) -> None:
        super().__init__()
        self.embed = nn.Conv2d(images.channels, width, patch, stride=patch)
        self.token = nn.Parameter(torch.empty(1, 1, width))
        patches = (images.side // patch) ** 2
        self.positions = nn.Parameter(torch.empty(1, patches + 1, width))
        self.blocks = nn.ModuleList(EncoderBlock(width, heads, inner) for _ in range(depth))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels, side, side] to logits."""
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x)[:, 0])


class Perceptron(nn.Module):
    """Three linear layers over flattened images."""

    def __init__(self, images: Images, inner: int) -> None:
        super().__init__()
        self.first = nn.Linear(images.values, inner)
        self.second, self.out = nn.Linear(inner, inner), nn.Linear(inner, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels, side, side] to logits."""
        x = torch.relu(self.first(x.flatten(1)))
        return self.out(torch.relu(self.second(x)))


def classifier(dataset: str, kind: str) -> nn.Module:
    """The network that `kind` ("mlp", "cnn", "vit") means on "mnist" or "cifar"."""
    images = DATASETS[dataset]
    if kind == "vit":
        sizes = {"mnist": (7, 64, 4, 4, 128), "cifar": (4, 128, 6, 8, 256)}[dataset]
        return VisionTransformer(images, *sizes)
    if kind == "mlp":
        return Perceptron(images, {"mnist": 256, "cifar": 512}[dataset])
    if dataset == "mnist":
        return ConvolutionalNet(images, (32, 64), 128, norm=False)
    return ConvolutionalNet(images, (32, 64, 128), 256, norm=True)
