"""Single kernels: what a row's words and shapes make of accuracy.models.kernels."""

import re
from collections.abc import Callable

import torch

from accuracy.kinds import inference
from accuracy.kinds.stacks import DIRECT, LAZY, NATIVE, target
from accuracy.measure import Measure
from accuracy.models import kernels
from accuracy.models.configs import Experts, find_decoder
from accuracy.models.kernels import AttentionBlock, Kernel
from accuracy.prediction import Prediction
from accuracy.programs import DTYPES, dtype_named
from accuracy.rows import Row
from accuracy.trace import Recording, record
from accuracy.workload import (
    ALL_REGIONS,
    Engine,
    Launched,
    LaunchLoop,
    Repeated,
    Workload,
    eager,
    graph,
)

# Rows of a large matrix, where a source gives its best bandwidth over sizes.
LARGE = (16384, 8192)

Builder = Callable[[Row, torch.dtype], Kernel | None]


def predict(row: Row) -> Prediction | None:
    """The workload of a kernel row; None if its program or its shapes are not known."""
    if re.search(r"decode neff|neff total", row.text):
        return inference.predict(row)
    build = next((build for words, build in _BUILDERS if words.search(row.text)), None)
    if build is None:
        return None
    dtype = _dtype(row)
    kernel = build(row, dtype) if dtype is not None else None
    if kernel is None:
        return None
    recording = _recorded(kernel)
    shapes = tuple((tuple(t.shape), t.dtype) for t in kernel.operands)
    names = tuple(call.name for call in recording.device_calls())
    where = target(row)
    return Prediction(
        row=row,
        target=where,
        family="gemm" if "gemm" in row.text or "matmul" in row.text else "kernels",
        workload=_timed(row, where.profile, recording),
        measure=Measure(row.unit, _moved_bytes(recording)),
        # Versions of a kernel differ in none of these.
        configuration=(
            row.chip,
            _core_size(row),
            where.profile,
            row.metric,
            row.word("mode"),
            () if "attn" in row.text else names,
            _shared_heads(row, shapes),
        ),
    )


def _timed(row: Row, profile: str, recording: Recording) -> Workload:
    if row.metric == "pe_active":
        return Engine(graph(recording), "tensor")
    by_hand = profile not in (NATIVE, LAZY, DIRECT) and "baseline" not in row.text
    compiled = graph(recording, fused=ALL_REGIONS if by_hand else frozenset())
    if profile == NATIVE and row.word("mode") != "torch.compile":
        return Repeated(eager(recording))
    if "host loop" in row.word("timed"):
        return LaunchLoop(compiled)
    return Launched(compiled) if profile in (LAZY, DIRECT) else compiled


def _recorded(kernel: Kernel) -> Recording:
    with torch.no_grad():
        return record(lambda: kernel.run(*kernel.operands))


def _moved_bytes(recording: Recording) -> float:
    """What a bandwidth counts: every operand once and every result once."""
    calls = recording.device_calls()
    sizes = {
        use.buffer: torch.Size(use.sizes).numel() * getattr(torch, use.dtype).itemsize
        for call in calls
        for use in (*call.inputs, *call.outputs)
        if not use.dtype.startswith("int")
    }
    return float(sum(sizes.values()))


def _core_size(row: Row) -> int | None:
    """Sources are not sure of the core size of some versions, so they do not part them."""
    return None if "attn" in row.text or "moe" in row.text else row.logical_core_size


def _shared_heads(row: Row, shapes: tuple[object, ...]) -> object:
    """Key and value heads of fused attention differ between versions of one kernel."""
    if "attn" not in row.text:
        return shapes
    return tuple(row.params.get(key) for key in ("H", "S", "S_prior", "T", "q_heads", "d"))


def _dtype(row: Row) -> torch.dtype | None:
    named = next((name for name in DTYPES if name in row.text), "bf16")
    return dtype_named(row.word("dtype") or named)


def _numbers(text: str, pattern: str) -> tuple[int, ...] | None:
    found = re.search(pattern, text)
    return tuple(map(int, found.groups())) if found else None


def _matrix(row: Row) -> tuple[int, int, int] | None:
    """M, K, N from the parameters or from the words "(M,K)@(K,N)", "MxKxN"."""
    given = tuple(row.number(name) for name in ("M", "K", "N"))
    if all(given):
        rows, depth, columns = (int(size or 0) for size in given)
        return rows, depth, columns
    found = _numbers(row.text, r"\((\d+),(\d+)\)@\(\d+,(\d+)\)")
    found = found or _numbers(row.text, r"(\d+)x(\d+)x(\d+)")
    return (found[0], found[1], found[2]) if found else None


def _shape(row: Row) -> tuple[int, ...] | None:
    given = row.params.get("shape")
    if isinstance(given, list):
        return tuple(map(int, given))
    found = re.search(r"\((\d+(?:,\d+)+)\)", row.text)
    return tuple(map(int, found.group(1).split(","))) if found else None


def _gemm(row: Row, dtype: torch.dtype) -> Kernel | None:
    sizes = _matrix(row)
    return kernels.gemm(*sizes, dtype) if sizes else None


def _gemm_gelu(row: Row, dtype: torch.dtype) -> Kernel | None:
    sizes = _matrix(row)
    return kernels.gemm_gelu(*sizes, dtype) if sizes else None


def _query_key(row: Row, dtype: torch.dtype) -> Kernel:
    heads, size = row.count("heads", default=1), row.count("d", default=128)
    return kernels.query_key_softmax(heads, row.count("seq", default=512), size, dtype)


def _sdpa(row: Row, dtype: torch.dtype) -> Kernel:
    queries = row.count("q", "seq", default=2048)
    keys = row.count("kv", "q", "seq", default=queries)
    heads, size = row.count("heads", default=8), row.count("head_dim", "d", default=128)
    return kernels.scaled_dot_product(heads, queries, keys, size, dtype)


def _chain(row: Row, dtype: torch.dtype) -> Kernel:
    return kernels.chain(row.count("links", default=1), _shape(row) or (1024, 1024), dtype)


def _bandwidth(row: Row, dtype: torch.dtype) -> Kernel | None:
    name = row.word("op")
    if name == "index_select":
        return kernels.take_rows(*LARGE, dtype)
    if name == "gather":
        return kernels.take_elements(*LARGE, dtype)
    return kernels.elementwise(name, LARGE, dtype) if name in kernels.ELEMENTWISE else None


def _elementwise(row: Row, dtype: torch.dtype) -> Kernel | None:
    words = set(re.findall(r"[a-z0-9_]+", row.text))
    name = next((name for name in kernels.ELEMENTWISE if name in words), None)
    shape = _shape(row) or _embedding_shape(row)
    return kernels.elementwise(name, shape, dtype) if name and shape else None


def _embedding_shape(row: Row) -> tuple[int, int] | None:
    """Tokens and width, where the row names the model whose shapes it has."""
    config, tokens = find_decoder(row.workload), _tokens(row)
    return (tokens, config.hidden) if config and tokens else None


def _tokens(row: Row) -> int | None:
    batch, tokens = row.number("batch", default=1), row.number("seq", "tokens")
    if tokens is None:
        found = _numbers(row.text, r"batch\s*(\d+)\s*seq\s*(\d+)")
        return found[0] * found[1] if found else None
    return int((batch or 1) * tokens)


def _width(row: Row) -> int | None:
    config = find_decoder(row.workload)
    given = row.number("d", "hidden", "H")
    return int(given) if given else (config.hidden if config else None)


def _rms_norm(row: Row, dtype: torch.dtype) -> Kernel | None:
    tokens, width = _tokens(row), _width(row)
    return kernels.rms_norm(tokens, width, dtype) if tokens and width else None


def _swiglu(row: Row, dtype: torch.dtype) -> Kernel | None:
    config, tokens = find_decoder(row.workload), _tokens(row)
    return kernels.swiglu(tokens, config.ffn, dtype) if config and tokens else None


def _projection(row: Row, dtype: torch.dtype) -> Kernel | None:
    tokens, width = _tokens(row), _width(row)
    if not tokens or not width:
        return None
    return kernels.gemm(tokens, width, width * (3 if "qkv" in row.text else 1), dtype)


def _feed_forward(row: Row, dtype: torch.dtype) -> Kernel | None:
    tokens, width, config = _tokens(row), _width(row), find_decoder(row.workload)
    if not tokens or not width:
        return None
    inner = config.ffn if config else 4 * width
    return kernels.feed_forward(tokens, width, inner, dtype, gated=config is not None)


def _attention(row: Row, dtype: torch.dtype) -> Kernel | None:
    tokens, width, heads = row.number("seq"), _width(row), row.count("heads", default=16)
    if not tokens or not width:
        return None
    return kernels.unfused_attention(heads, int(tokens), width // heads, dtype)


def _attention_block(row: Row, dtype: torch.dtype) -> Kernel | None:
    hidden = row.number("H")
    if hidden is None:
        return None
    size, heads = row.count("d", default=128), row.count("q_heads", default=8)
    is_prompt = "cte" in row.text
    # A rank of the model has one key/value head; sources that say more count all ranks.
    block = AttentionBlock(int(hidden), heads, row.count("kv_heads", default=1), size)
    tokens = row.count("S", "seq", default=640) if is_prompt else row.count("T", default=1)
    cached = tokens if is_prompt else row.count("S_prior", default=640)
    return kernels.attention_block(block, tokens, cached, dtype)


def _expert_block(row: Row, dtype: torch.dtype) -> Kernel | None:
    sizes = [row.number(name) for name in ("E", "K", "I")]
    if all(sizes):
        count, chosen, inner = (int(size or 0) for size in sizes)
        experts = Experts(count, chosen, inner)
        return kernels.expert_block(
            row.count("H", default=2048), experts, row.count("T", default=1), dtype
        )
    config = find_decoder(row.workload)
    if config is None or config.experts is None:
        return None
    shard = kernels.expert_ffn(config, row.count("tp", default=1))
    return kernels.expert_block(config.hidden, shard, row.count("T", "batch", default=1), dtype)


# The first whose words the row has.
_BUILDERS: tuple[tuple[re.Pattern[str], Builder], ...] = tuple(
    (re.compile(words), build)
    for words, build in (
        (r"gemm\s*\+\s*gelu", _gemm_gelu),
        (r"qk\^t", _query_key),
        (r"silu\(x\+b\)", _chain),
        (r"bandwidth", _bandwidth),
        (r"attn (tkg|cte)", _attention_block),
        (r"moe .*(tkg|layer)|moe fused", _expert_block),
        (r"\bsdpa\b", _sdpa),
        (r"qkv_proj|out_proj", _projection),
        (r"\battention\b", _attention),
        (r"feedforward|\bmlp\b", _feed_forward),
        (r"swiglu", _swiglu),
        (r"rmsnorm", _rms_norm),
        (r"gemm|matmul", _gemm),
        (r".", _elementwise),
    )
)
