"""Train a small CNN on scikit-learn's 1,797 images of handwritten digits.

Ordinary PyTorch: `--device neuron` is all that selects Trainium.
"""

import sys
import time

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
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


def convolution(channels_in: int, channels_out: int) -> nn.Sequential:
    # Smooth, so that the last bit of a sum cannot switch a unit on or off: curves of two devices
    # that round differently stay together for hundreds of steps.
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1),
        nn.BatchNorm2d(channels_out),
        nn.GELU(),
    )


def digit_classifier() -> nn.Sequential:
    """Maps (batch, 1, 8, 8) images to (batch, 10) scores."""
    return nn.Sequential(
        convolution(1, 32),
        convolution(32, 64),
        nn.MaxPool2d(2),
        convolution(64, 64),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 10),
    )


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images, test images, training labels, test labels; 20 % are for the test."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)
    training, test = train_test_split(
        range(len(labels)), test_size=0.2, stratify=data.target, random_state=0
    )
    return images[training], images[test], labels[training], labels[test]


def main() -> None:
    parser = option_parser(__doc__, out="runs/digits")
    add_resume(parser)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--require-accuracy", type=float, help="exit with status 1 below this")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()

    torch.manual_seed(args.seed)
    order = torch.Generator().manual_seed(args.seed)
    training_images, test_images, training_labels, test_labels = digits()
    loader = DataLoader(
        TensorDataset(training_images, training_labels), args.batch, shuffle=True, generator=order
    )
    model = digit_classifier().to(args.device)
    # Left to itself PyTorch picks another implementation, with other rounding, on each device.
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)

    checkpoint = args.out / "checkpoint.pt"
    losses: list[float] = []
    if args.resume:
        losses = load_checkpoint(checkpoint, order, model=model, optimizer=optimizer)

    done = len(losses) // len(loader)
    progress = tqdm(total=args.epochs, initial=done, unit="epoch", desc="digits", mininterval=1)
    for _ in range(done, args.epochs):
        for images, labels in loader:
            with autocast(args):
                scores = model(images.to(args.device))
            loss = F.cross_entropy(scores.float(), labels.to(args.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        save_checkpoint(checkpoint, losses, order, model=model, optimizer=optimizer)
        progress.set_postfix(loss=f"{losses[-1]:.4f}")
        progress.update()
    progress.close()

    model.eval()
    with torch.no_grad(), autocast(args):
        predicted = model(test_images.to(args.device)).argmax(dim=1).cpu()
    accuracy = (predicted == test_labels).double().mean().item()

    write_losses(args.out, losses, f"CNN on handwritten digits ({args.device})")
    write_summary(
        args,
        {
            "steps": len(losses),
            "final_loss": losses[-1],
            "test_accuracy": round(accuracy, 4),
            "seconds": round(time.perf_counter() - started, 1),
        },
    )
    if args.require_accuracy and accuracy < args.require_accuracy:
        sys.exit(f"accuracy {accuracy:.4f} is below --require-accuracy {args.require_accuracy}")


if __name__ == "__main__":
    main()
