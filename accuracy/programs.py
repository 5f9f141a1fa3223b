"""Models run on meta tensors and recorded; one recording per configuration, kept in memory."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor, nn

from accuracy.models.configs import DecoderConfig
from accuracy.models.decoder import Decoder, Forward
from accuracy.models.serving import ServedDecoder, Step
from accuracy.models.training import AdaptedDecoder, adamw, language_loss, trained
from accuracy.models.vision import DATASETS, classifier
from accuracy.repeat import repeated
from accuracy.trace import Recording, record

DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "fp8": torch.float8_e4m3fn,
}


def dtype_named(text: str) -> torch.dtype | None:
    """The dtype that a text such as "bf16", "fp32?" or "bf16 autocast" begins with."""
    found = (dtype for name, dtype in DTYPES.items() if text.lower().startswith(name))
    return next(found, None)


def built(make: Callable[[], nn.Module], dtype: torch.dtype) -> nn.Module:
    """A module on the meta device whose parameters have `dtype` where it does not say."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):
            return make()
    finally:
        torch.set_default_dtype(before)


def _token_numbers(batch: int, tokens: int) -> Tensor:
    return torch.empty(batch, tokens, dtype=torch.int64, device="meta")


@cache
def forward(
    config: DecoderConfig, how: Forward, batch: int, tokens: int, dtype: torch.dtype
) -> Recording:
    """One forward pass over prompts, as Hugging Face runs it."""
    return _all_layers(config, lambda c: Decoder(c, how), _token_numbers(batch, tokens), dtype)


@cache
def read_first_logit(batch: int, tokens: int, outputs: int, dtype: torch.dtype) -> Recording:
    """What `logits.float().flatten()[:1]` asks for before the host reads it."""
    logits = torch.empty(batch, tokens, outputs, dtype=dtype, device="meta")
    return record(lambda: logits.float().flatten()[:1])


@cache
def serving_step(config: DecoderConfig, step: Step, dtype: torch.dtype) -> Recording:
    """One graph of a serving library."""
    given = _token_numbers(step.batch, step.tokens)
    return _all_layers(config, lambda c: ServedDecoder(c, step), given, dtype)


def _all_layers(
    config: DecoderConfig,
    make: Callable[[DecoderConfig], nn.Module],
    given: Tensor,
    dtype: torch.dtype,
) -> Recording:
    """Record two groups of layers and repeat the second, or all where their kinds do not repeat."""
    groups, rest = divmod(config.layers, config.period)
    is_short = groups < 3 or rest > 0
    built_config = config if is_short else replace(config, layers=2 * config.period)
    model = built(lambda: make(built_config), dtype)
    with torch.no_grad():
        recording = record(lambda: model(given), list(model.parameters()))
    return recording if is_short else repeated(recording, groups)


@cache
def adapter_micro_batch(
    config: DecoderConfig, ranks: int, rank: int, batch: int, tokens: int, recompute: bool
) -> Recording:
    """Forward and backward of one micro-batch of LoRA training in bf16."""
    model = built(lambda: AdaptedDecoder(config, ranks, rank, recompute=recompute), torch.bfloat16)
    given = _token_numbers(batch, tokens)

    def run() -> list[Tensor | None]:
        torch.autograd.backward(language_loss(model(given), given))
        return [p.grad for p in trained(model)]

    return record(run, list(model.parameters()))


@cache
def adapter_update(config: DecoderConfig, ranks: int, rank: int) -> Recording:
    """The optimizer step of LoRA training."""
    model = built(lambda: AdaptedDecoder(config, ranks, rank, recompute=False), torch.bfloat16)
    parameters = trained(model)
    with torch.no_grad():
        return record(lambda: adamw(parameters), parameters)


@cache
def classifier_step(dataset: str, kind: str, batch: int) -> Recording:
    """Forward, backward and AdamW of an image classifier in fp32."""
    model = built(lambda: classifier(dataset, kind), torch.float32)
    shape = DATASETS[dataset]
    images = torch.empty(batch, shape.channels, shape.side, shape.side, device="meta")
    labels = torch.empty(batch, dtype=torch.int64, device="meta")

    def run() -> Tensor:
        loss = nn.functional.cross_entropy(model(images), labels)
        torch.autograd.backward(loss)
        with torch.no_grad():
            adamw(list(model.parameters()))
        return loss

    return record(run, list(model.parameters()))
