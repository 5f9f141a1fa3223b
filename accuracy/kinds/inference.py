"""Language models: a forward pass as Hugging Face runs it, and graphs of serving libraries."""

import re

import torch

from accuracy import programs
from accuracy.kinds.stacks import (
    DIRECT,
    NATIVE,
    cores_per_chip,
    fused_regions,
    request_seconds,
    target,
)
from accuracy.measure import Measure
from accuracy.models.configs import DecoderConfig, find_decoder
from accuracy.models.decoder import Forward
from accuracy.models.serving import Step
from accuracy.prediction import Prediction
from accuracy.programs import dtype_named
from accuracy.rows import Row
from accuracy.workload import (
    Fixed,
    HostRead,
    Launched,
    Sequential,
    Workload,
    eager,
    graph,
    then,
)

SHORTEST_BUCKET = 128
# Positions of the cache where a source does not say.
USUAL_CACHE = 1024
USUAL_PROMPT = 512
# Above this many bytes of weights a rank, the source of the forward passes shards the head.
SHARDED_HEAD_BYTES = 10e9

# What whole models run in; the schedules of quantized weights are not recorded.
_MODEL_DTYPES = (torch.bfloat16, torch.float16, torch.float32)

_FAMILIES = {"prompt": "serving prefill", "token": "decode", "whole": "requests"}

_PROMPT = re.compile(r"ttft|prefill|cte_latency|context encode")
_TOKEN = re.compile(r"tpot|itl|tkg|decode|device_total|tokens_per_s|throughput")
_WHOLE = re.compile(r"e2e")


def predict(row: Row) -> Prediction | None:
    """The workload of a row about a language model; None if the model is not known."""
    config = find_decoder(row.workload) or find_decoder(row.word("model"))
    dtype = dtype_named(row.word("dtype", "bf16"))
    if config is None or dtype not in _MODEL_DTYPES:
        return None
    if row.word("mode") in ("eager", "torch.compile"):
        return _forward(row, config, dtype)
    if not config.lm_head:
        return _embedding(row, config, dtype)
    return _serving(row, config, dtype)


def _forward(row: Row, config: DecoderConfig, dtype: torch.dtype) -> Prediction:
    batch, ranks = row.count("batch", default=1), row.count("tp", default=1)
    tokens = row.count("input_len", "seq", "isl", default=USUAL_PROMPT)
    how = Forward(row.word("attn", "eager"), ranks, _shards_head(config, ranks, dtype.itemsize))
    run = programs.forward(config, how, batch, tokens, dtype)
    read = programs.read_first_logit(batch, tokens, config.vocab, dtype)
    cores = cores_per_chip(row)
    is_eager = row.word("mode") == "eager"
    forward: Workload = eager(run, cores) if is_eager else Launched(graph(run, cores))
    return Prediction(
        row=row,
        target=target(row, NATIVE),
        family="eager models" if is_eager else "compiled prefill",
        workload=then(forward, eager(read), HostRead()),
        measure=Measure(row.unit, batch * tokens),
        configuration=(config.name, how, batch, tokens, dtype, is_eager, row.chip, row.metric),
    )


def _shards_head(config: DecoderConfig, ranks: int, element_bytes: int) -> bool:
    """As the source decides: by its estimate of the weights, and never for tied embeddings."""
    layer = 4 * config.hidden**2 + 3 * config.hidden * config.ffn
    estimate = layer * config.layers + 2 * config.vocab * config.hidden
    return ranks > 1 and not config.tied and estimate * element_bytes / ranks > SHARDED_HEAD_BYTES


def _embedding(row: Row, config: DecoderConfig, dtype: torch.dtype) -> Prediction:
    tokens = row.count("seq", "isl", default=SHORTEST_BUCKET)
    batch = row.count("batch", default=1)
    run = programs.forward(config, Forward(), batch, tokens, dtype)
    return Prediction(
        row=row,
        target=target(row),
        family="compiled prefill",
        workload=Launched(graph(run), _pieces(row, config)),
        measure=Measure(row.unit, batch * tokens),
        configuration=(config.name, batch, tokens, dtype, row.chip, row.metric),
    )


def _serving(row: Row, config: DecoderConfig, dtype: torch.dtype) -> Prediction | None:
    phase = _phase(row)
    if phase is None or (phase == "prompt" and not _states_prompt(row)):
        return None
    active = row.count("batch", "concurrency", default=1)
    prompt, token = _prompt_step(row), _token_step(row)
    workload, amount = _workload(row, config, phase, dtype)
    return Prediction(
        row=row,
        target=target(row),
        family=_FAMILIES[phase],
        workload=workload,
        measure=Measure(row.unit, amount * active),
        configuration=(
            config.name,
            phase,
            prompt,
            token,
            active,
            dtype,
            target(row),
            "device" if _is_device_time(row) else "host",
            row.unit,
        ),
    )


def _workload(
    row: Row, config: DecoderConfig, phase: str, dtype: torch.dtype
) -> tuple[Workload, float]:
    """What a metric of the phase times, and the tokens of one sequence in it."""
    if phase == "prompt":
        step = _prompt_step(row)
        return then(Fixed(request_seconds(row)), _step(row, config, step, dtype)), float(
            step.tokens
        )
    token = _step(row, config, _token_step(row), dtype)
    if phase == "token":
        return token, 1.0
    made = _made_tokens(row)
    prompt = _step(row, config, _prompt_step(row), dtype)
    counted = row.count("total_len", default=made) if "e2e" in row.metric else made
    parts = ((1, Fixed(request_seconds(row))), (1, prompt), (made - 1, token))
    return Sequential(parts), float(counted)


def _phase(row: Row) -> str | None:
    """Which part of a request the metric times: "prompt", "token" or "whole"."""
    metric, text = row.metric.lower(), row.text
    if _WHOLE.search(metric) or "generate to" in text:
        return "whole"
    if _PROMPT.search(metric):
        return "prompt"
    if metric == "output_tokens_per_s" and row.number("osl") and _states_prompt(row):
        return "whole"
    if _TOKEN.search(metric):
        return "token"
    if _PROMPT.search(text):
        return "prompt"
    return "token" if _TOKEN.search(text) else None


def _states_prompt(row: Row) -> bool:
    return row.number("isl", "input_len", "seq", "seq_len", "total_len") is not None


def _is_device_time(row: Row) -> bool:
    """Whether the source times the graph on the device, without the host."""
    return "device" in row.metric or row.kind == "kernel" or "neff total" in row.text


def _step(row: Row, config: DecoderConfig, step: Step, dtype: torch.dtype) -> Workload:
    recording = programs.serving_step(config, step, dtype)
    run = graph(recording, cores_per_chip(row), fused_regions(row))
    return run if _is_device_time(row) else Launched(run, _pieces(row, config))


def _pieces(row: Row, config: DecoderConfig) -> int:
    """NKIPy's models launch one program a layer; other libraries one for the whole model."""
    return config.layers if target(row).profile == DIRECT else 1


def _token_step(row: Row) -> Step:
    given = row.count("isl", default=0) + row.count("osl", default=0)
    cached = row.count("seq_len", "total_len", default=0) or (
        bucket(given) if given else row.count("seq", default=USUAL_CACHE)
    )
    return Step(_compiled_batch(row), 1, cached, row.count("tp", default=1))


def _prompt_step(row: Row) -> Step:
    """One prompt at a time, padded to the graph's length."""
    padded = row.count("seq_len", default=0)
    if not padded:
        isl = row.count("isl", "input_len", default=0)
        whole = row.count("seq", "total_len", default=USUAL_PROMPT)
        padded = bucket(isl) if isl else whole
    return Step(1, padded, padded, row.count("tp", default=1))


def _compiled_batch(row: Row) -> int:
    """Decode graphs have one batch size; fewer requests do not make them faster."""
    names = ("max_batch", "compiled_batch", "request_bucket", "batch", "concurrency")
    return max(row.count(name, default=1) for name in names)


def _made_tokens(row: Row) -> int:
    total = row.count("total_len", "seq", default=USUAL_CACHE)
    return row.count("osl", "tokens", default=max(1, total - row.count("isl", default=0)))


def bucket(tokens: int) -> int:
    """The power of two that a serving library pads to, at least 128."""
    return max(SHORTEST_BUCKET, 1 << (tokens - 1).bit_length())
