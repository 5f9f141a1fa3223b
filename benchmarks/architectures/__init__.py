"""Architectures of the field, built from library code with random weights: nothing is downloaded.

workload   what each of them is: a model, a batch, a loss, an optimizer
language   GPT-2, Llama, Qwen3, Mixtral, BERT, Mamba, an LSTM
vision     ViT, ResNet-50, ConvNeXt, the U-Net of Stable Diffusion
audio      Whisper, Conv-TasNet
graphs     GraphSAGE
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from . import audio, graphs, language, vision
from .workload import Workload

__all__ = ["ARCHITECTURES", "Size", "Workload", "build"]

Size = Literal["benchmark", "tiny"]


@dataclass(frozen=True)
class Architecture:
    """A workload's function, its arguments for a step of 30 to 200 ms, and for a tiny one."""

    function: Callable[..., Workload]
    benchmark: dict[str, Any]
    tiny: dict[str, Any]


TEXT = {"width": 256, "layers": 4, "batch": 4, "length": 128}
TINY_TEXT = {"width": 32, "layers": 2, "batch": 2, "length": 12}

ARCHITECTURES = {
    "gpt2": Architecture(language.gpt2, TEXT, TINY_TEXT),
    "llama": Architecture(language.llama, TEXT, TINY_TEXT),
    "qwen3": Architecture(language.qwen3, TEXT, TINY_TEXT),
    "mixtral": Architecture(
        language.mixtral, {"width": 128, "layers": 2, "batch": 1, "length": 64}, TINY_TEXT
    ),
    "bert": Architecture(language.bert, TEXT, TINY_TEXT),
    "mamba": Architecture(
        language.mamba, {"width": 128, "layers": 2, "batch": 4, "length": 64}, TINY_TEXT
    ),
    "lstm": Architecture(
        language.lstm, {"width": 256, "layers": 2, "batch": 16, "length": 48}, TINY_TEXT
    ),
    "vit": Architecture(
        vision.vit,
        {"width": 192, "layers": 6, "batch": 8, "pixels": 64},
        {"width": 32, "layers": 2, "batch": 2, "pixels": 32},
    ),
    "resnet50": Architecture(
        vision.resnet,
        {"width": 64, "depths": [3, 4, 6, 3], "batch": 4, "pixels": 64},
        {"width": 8, "depths": [1, 1, 1, 1], "batch": 4, "pixels": 64},
    ),
    "convnext": Architecture(
        vision.convnext,
        {"width": 48, "batch": 4, "pixels": 64},
        {"width": 8, "batch": 2, "pixels": 32},
    ),
    "unet": Architecture(
        vision.unet,
        {"width": 64, "batch": 2, "pixels": 16},
        {"width": 16, "batch": 2, "pixels": 8},
    ),
    "whisper": Architecture(
        audio.whisper,
        {"width": 256, "layers": 2, "batch": 2, "frames": 200, "length": 48},
        {"width": 32, "layers": 1, "batch": 2, "frames": 24, "length": 8},
    ),
    "conv_tasnet": Architecture(
        audio.conv_tasnet,
        {"width": 128, "layers": 6, "batch": 2, "samples": 8000},
        {"width": 16, "layers": 2, "batch": 2, "samples": 400},
    ),
    "graph_sage": Architecture(
        graphs.graph_sage,
        {"width": 128, "layers": 3, "nodes": 8192, "edges": 65536},
        {"width": 16, "layers": 2, "nodes": 32, "edges": 128},
    ),
}


def build(name: str, size: Size) -> Workload:
    """The named architecture on the CPU, the same numbers each time."""
    architecture = ARCHITECTURES[name]
    torch.manual_seed(0)
    return architecture.function(**getattr(architecture, size))
