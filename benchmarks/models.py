"""The programs the benchmarks train: ordinary PyTorch, placed by `device` alone."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = Callable[[], Tensor]


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions added to their input: (batch, channels, height, width)."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x), inplace=True)


def resnet18(classes: int = 10) -> nn.Module:
    """He et al. 2015, table 1, with the stem it has there."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [ResidualBlock(channels, width, stride), ResidualBlock(width, width, 1)]
        channels = width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes)]
    return nn.Sequential(*layers)


class Block(nn.Module):
    """Causal self-attention and an MLP, each added to its input: (batch, length, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        qkv = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.widen(self.norm2(x))))


class GPT(nn.Module):
    """Scores of the next token: (batch, length) to (batch, length, vocabulary)."""

    def __init__(self, layers: int, width: int, length: int, vocabulary: int = 256) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads=width // 64) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.places(places))))


class LastOfLSTM(nn.Module):
    """Classifies a sequence by the last output of an LSTM: (batch, length, width)."""

    def __init__(self, width: int, classes: int = 10) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(width, width, batch_first=True), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def mlp(width: int = 64, classes: int = 10) -> nn.Module:
    return nn.Sequential(
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, classes),
    )


def encoder(width: int = 64, classes: int = 10) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Linear(width, classes))


@dataclass(frozen=True)
class Program:
    """A model, an optimizer, and the shape of a batch; integer batches are tokens below 256."""

    model: Callable[[], nn.Module]
    batch: tuple[int, ...]
    target: tuple[int, ...]
    optimizer: Callable[..., torch.optim.Optimizer]
    tokens: bool = False

    def step_on(self, device: str) -> Step:
        """A function that trains one step and returns the loss; the same numbers everywhere."""
        torch.manual_seed(0)
        model = self.model().to(device)
        data = torch.randint(256, self.batch) if self.tokens else torch.randn(self.batch)
        target = torch.randint(10, self.target).to(device)
        data = data.to(device)
        optimizer = self.optimizer(model.parameters(), lr=1e-3)

        def step() -> Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data).flatten(0, -2), target.flatten())
            loss.backward()
            optimizer.step()
            return loss

        return step


SGD, AdamW = torch.optim.SGD, torch.optim.AdamW
PROGRAMS = {
    "mlp": Program(mlp, (64, 64), (64,), SGD),
    "gpt": Program(lambda: GPT(4, 256, 128), (8, 128), (8, 128), AdamW, tokens=True),
    "resnet18": Program(resnet18, (32, 3, 32, 32), (32,), SGD),
    "encoder": Program(encoder, (4, 16, 64), (4, 16), AdamW),
    "lstm": Program(lambda: LastOfLSTM(32), (4, 16, 32), (4,), AdamW),
}
