"""Models of images: (batch, 3, pixels, pixels) to classes, or a latent image to its noise."""

import torch
import torch.nn.functional as F
import transformers
from torch import nn

from .workload import Field, Workload

CLASSES = 100


def classified_images(model: nn.Module, batch: int, pixels: int) -> Workload:
    images = torch.randn(batch, 3, pixels, pixels)
    return Workload(
        Field(model, "logits"), {"pixel_values": images}, torch.randint(CLASSES, (batch,))
    )


def vit(width: int, layers: int, batch: int, pixels: int) -> Workload:
    config = transformers.ViTConfig(
        image_size=pixels,
        patch_size=8,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_labels=CLASSES,
    )
    return classified_images(transformers.ViTForImageClassification(config), batch, pixels)


def resnet(width: int, depths: list[int], batch: int, pixels: int) -> Workload:
    """He et al. 2015, with bottlenecks."""
    config = transformers.ResNetConfig(
        embedding_size=width,
        hidden_sizes=[4 * width, 8 * width, 16 * width, 32 * width],
        depths=depths,
        num_labels=CLASSES,
    )
    return classified_images(transformers.ResNetForImageClassification(config), batch, pixels)


def convnext(width: int, batch: int, pixels: int) -> Workload:
    config = transformers.ConvNextConfig(
        hidden_sizes=[width, 2 * width, 4 * width, 8 * width],
        depths=[2, 2, 4, 2],
        num_labels=CLASSES,
    )
    return classified_images(transformers.ConvNextForImageClassification(config), batch, pixels)


def unet(width: int, batch: int, pixels: int) -> Workload:
    """The noise in (batch, 4, pixels, pixels) latents at a time, given (batch, 16, width) text."""
    import diffusers

    model = diffusers.UNet2DConditionModel(
        sample_size=pixels,
        block_out_channels=(width, 2 * width),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        layers_per_block=1,
        norm_num_groups=8,
        attention_head_dim=8,
        cross_attention_dim=width,
    )
    inputs = {
        "sample": torch.randn(batch, 4, pixels, pixels),
        "timestep": torch.randint(1000, (batch,)),
        "encoder_hidden_states": torch.randn(batch, 16, width),
    }
    return Workload(Field(model, "sample"), inputs, torch.randn_like(inputs["sample"]), F.mse_loss)
