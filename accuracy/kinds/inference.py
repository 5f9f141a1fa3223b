"""Language models: a forward pass as Hugging Face runs it, and graphs of serving libraries."""

import re
from dataclasses import replace

from accuracy import programs
from accuracy.kinds.stacks import NATIVE, cores_per_chip, target
from accuracy.measure import Measure
from accuracy.models.configs import DecoderConfig, find_decoder
from accuracy.models.decoder import Forward
from accuracy.models.serving import Step
from accuracy.prediction import Prediction, Target
from accuracy.programs import DTYPES
from accuracy.rows import Row
from accuracy.workload import (
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

_PROMPT = re.compile(r"ttft|prefill|cte_latency|context encode")
_TOKEN = re.compile(r"tpot|itl|tkg|decode|device_total|tokens_per_s|throughput")
_WHOLE = re.compile(r"e2e")


def predict(row: Row) -> Prediction | None:
    """The workload of a row about a language model; None if the model is not known."""
    config = find_decoder(row.workload) or find_decoder(row.word("model"))
    if config is None:
        return None
    if row.word("mode") in ("eager", "torch.compile"):
        return _forward(row, config)
    if not config.lm_head:
        return _embedding(row, config)
    return _serving(row, config)


def _forward(row: Row, config: DecoderConfig) -> Prediction:
    batch, ranks = row.count("batch", default=1), row.count("tp", default=1)
    tokens = row.count("input_len", "seq", "isl", default=USUAL_PROMPT)
    dtype = DTYPES[row.word("dtype", "bf16")]
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


def _embedding(row: Row, config: DecoderConfig) -> Prediction:
    tokens = row.count("seq", "isl", default=SHORTEST_BUCKET)
    batch = row.count("batch", default=1)
    dtype = DTYPES[row.word("dtype", "bf16").rstrip("?")]
    run = programs.forward(config, Forward(), batch, tokens, dtype)
    return Prediction(
        row=row,
        target=target(row),
        family="compiled prefill",
        workload=Launched(graph(run)),
        measure=Measure(row.unit, batch * tokens),
        configuration=(config.name, batch, tokens, dtype, row.chip, row.metric),
    )


def _serving(row: Row, config: DecoderConfig) -> Prediction | None:
    phase = _phase(row)
    if phase is None:
        return None
    prompt, token = (_step(row, config, step) for step in (_prompt_step(row), _token_step(row)))
    active = row.count("batch", "concurrency", default=1)
    family, amount = "decode", float(active)
    workload: Workload = token
    if phase == "prompt":
        family, workload, amount = "serving prefill", prompt, float(_prompt_step(row).tokens)
    elif phase == "whole":
        made = _made_tokens(row)
        workload = Sequential(((1, prompt), (made - 1, token)))
        amount = made * active
        if "e2e" in row.metric:
            amount = row.count("total_len", "seq", default=made) * active
    return Prediction(
        row=row,
        target=_serving_target(row),
        family=family,
        workload=workload,
        measure=Measure(row.unit, amount),
        configuration=(
            config.name,
            phase,
            _prompt_step(row),
            _token_step(row),
            active,
            row.word("dtype", "bf16"),
            row.chip,
            row.logical_core_size,
            "device" if _is_device_time(row) else "host",
            row.unit,
        ),
    )


def _serving_target(row: Row) -> Target:
    found = target(row)
    return replace(found, profile=target(row).profile)


def _phase(row: Row) -> str | None:
    """Which part of a request the metric times: "prompt", "token" or "whole"."""
    metric, text = row.metric.lower(), row.text
    if _WHOLE.search(metric) or "generate to" in text:
        return "whole"
    if _PROMPT.search(metric):
        return "prompt"
    if metric == "output_tokens_per_s" and row.number("osl"):
        return "whole"
    if _TOKEN.search(metric):
        return "token"
    if _PROMPT.search(text):
        return "prompt"
    return "token" if _TOKEN.search(text) else None


def _is_device_time(row: Row) -> bool:
    """Whether the source times the graph on the device, without the host."""
    return "device" in row.metric or row.kind == "kernel" or "neff total" in row.text


def _step(row: Row, config: DecoderConfig, step: Step) -> Workload:
    dtype = DTYPES[row.word("dtype", "bf16")]
    run = graph(programs.serving_step(config, step, dtype), cores_per_chip(row))
    return run if _is_device_time(row) else Launched(run)


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
