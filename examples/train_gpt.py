"""Train a small GPT, byte by byte, on the source of Python's own standard library.

Ordinary PyTorch: `--device neuron` is all that selects Trainium.
"""

import argparse
import math
import sys
import sysconfig
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from common import (
    add_resume,
    autocast,
    load_checkpoint,
    option_parser,
    save_checkpoint,
    write_losses,
    write_summary,
)
from torch import Tensor, nn
from tqdm import tqdm

HELD_OUT_EVERY = 25  # one file in so many is kept from training
HELD_OUT_WINDOWS = 512
WARMUP_STEPS = 40
STEPS_PER_CHECKPOINT = 50


class Block(nn.Module):
    """Causal self-attention and an MLP, each added to its input: (batch, length, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.norm_mlp = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        # A block that begins as the identity lets the learning rate be ten times higher.
        nn.init.zeros_(self.projection.weight)
        nn.init.zeros_(self.narrow.weight)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(
            rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True
        )
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.widen(self.norm_mlp(x)), approximate="tanh"))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding: turn each pair of channels by an angle that grows with time."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class GPT(nn.Module):
    """Maps (batch, length) bytes to (batch, length, 256) scores of the byte that follows."""

    def __init__(self, layers: int, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 256, bias=False)
        pairs = width // heads // 2
        frequency = 100.0 ** (-torch.arange(pairs) / pairs)
        angle = torch.outer(torch.arange(context), frequency)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, text: Tensor) -> Tensor:
        x = self.embedding(text)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(self.norm(x))


def standard_library() -> tuple[Tensor, Tensor]:
    """The top-level modules of this Python: training bytes and held-out bytes, by file."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    held_out = files[::HELD_OUT_EVERY]

    def read(some: list[Path]) -> Tensor:
        text = b"".join(file.read_bytes() for file in some)
        return torch.frombuffer(bytearray(text), dtype=torch.uint8)

    return read([file for file in files if file not in held_out]), read(held_out)


def loss_at(model: nn.Module, text: Tensor, starts: Tensor, args: argparse.Namespace) -> Tensor:
    """Mean loss in nats over the windows of `text` that begin at `starts`."""
    window = text[starts[:, None] + torch.arange(args.context + 1)].long().to(args.device)
    with autocast(args):
        scores = model(window[:, :-1])
    return F.cross_entropy(scores.float().flatten(0, 1), window[:, 1:].flatten())


@torch.no_grad()
def bits_per_byte(model: nn.Module, text: Tensor, args: argparse.Namespace) -> float:
    """Mean over windows spread evenly over `text`."""
    starts = torch.linspace(0, len(text) - args.context - 1, HELD_OUT_WINDOWS).long()
    nats = [loss_at(model, text, some, args).item() for some in starts.split(32)]
    return sum(nats) / len(nats) / math.log(2)


def schedule(step: int) -> float:
    """Linear warm-up, then the inverse square root: no step needs to know which is the last."""
    return min((step + 1) / WARMUP_STEPS, (WARMUP_STEPS / (step + 1)) ** 0.5)


def main() -> None:
    parser = option_parser(__doc__, out="runs/gpt")
    add_resume(parser)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=128, help="bytes the model looks back")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--lr", type=float, default=4e-3, help="highest learning rate")
    parser.add_argument("--require-bits", type=float, help="exit with status 1 above this")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()

    torch.manual_seed(args.seed)
    order = torch.Generator().manual_seed(args.seed)
    training, held_out = standard_library()
    model = GPT(args.layers, args.width, args.heads, args.context).to(args.device)
    # Left to itself PyTorch picks another implementation, with other rounding, on each device.
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), fused=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)

    checkpoint = args.out / "checkpoint.pt"
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    losses: list[float] = []
    if args.resume:
        losses = load_checkpoint(checkpoint, order, **parts)

    progress = tqdm(total=args.steps, initial=len(losses), unit="step", desc="gpt", mininterval=1)
    while len(losses) < args.steps:
        starts = torch.randint(len(training) - args.context, (args.batch,), generator=order)
        loss = loss_at(model, training, starts, args)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        if len(losses) % STEPS_PER_CHECKPOINT == 0 or len(losses) == args.steps:
            save_checkpoint(checkpoint, losses, order, **parts)
        progress.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
        progress.update()
    progress.close()

    bits = bits_per_byte(model, held_out, args)
    write_losses(args.out, losses, f"GPT on the standard library ({args.device})")
    write_summary(
        args,
        {
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "steps": len(losses),
            "final_loss": losses[-1],
            "held_out_bits_per_byte": round(bits, 4),
            "seconds": round(time.perf_counter() - started, 1),
        },
    )
    if args.require_bits and bits > args.require_bits:
        sys.exit(f"{bits:.4f} bits per byte is above --require-bits {args.require_bits}")


if __name__ == "__main__":
    main()
