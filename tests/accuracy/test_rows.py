import pytest

from accuracy.kinds.inference import bucket
from accuracy.measure import Measure
from accuracy.prediction import Excluded, Prediction
from accuracy.predictions import evaluate, map_row, map_rows
from accuracy.rows import MEASURED, Row, read_rows


def row(kind, workload, metric, unit, value=1.0, hardware="trn2.3xlarge", id="X1", **params):
    params = {"family": "trn2", **params}
    return Row(id, kind, workload, params, hardware, metric, value, unit, "nowhere")


def decode(model="Qwen3-14B", **params):
    params = {"isl": 128, "osl": 128, "tp": 4, "lnc": 2, "batch": 1, "dtype": "bf16"} | params
    return row("infer", f"{model} decode", "tpot", "ms", **params)


def predicted(one):
    mapped = map_row(one)
    assert isinstance(mapped, Prediction), mapped
    return evaluate([mapped])[0].predicted


@pytest.mark.parametrize("model", ["Qwen3-4B", "Qwen3-14B", "Llama-3.2-3B", "TinyLlama-1.1B"])
def test_siblings_of_measured_models_are_predicted(model):
    assert 0.5 < predicted(decode(model)) < 100


@pytest.mark.parametrize("tp", [3, 5, 6, 16, 64])
def test_ranks_need_not_divide_the_heads(tp):
    assert predicted(decode("Qwen2.5-7B", tp=tp)) > 0


def test_more_ranks_decode_faster():
    assert predicted(decode(tp=4)) < predicted(decode(tp=2)) < predicted(decode(tp=1))


def test_a_longer_cache_decodes_slower():
    assert predicted(decode(isl=128)) < predicted(decode(isl=8192))


def test_the_compiled_batch_counts_not_the_requests():
    assert predicted(decode(compiled_batch=8)) == predicted(decode(compiled_batch=8, batch=4))


def test_throughput_is_the_inverse_of_time():
    time = predicted(decode())
    rate = row("infer", "Qwen3-14B decode", "tokens_per_s", "tok/s", **decode().params)
    assert predicted(rate) == pytest.approx(1000 / time)


def test_prefill_tokens_and_latency_of_one_run_agree():
    params = {"mode": "torch.compile", "attn": "eager", "dtype": "bf16", "tp": 1}
    params |= {"batch": 8, "input_len": 512, "lnc": 2}
    latency = row("infer", "Qwen3-0.6B", "forward_latency_derived", "ms", **params)
    tokens = row("infer", "Qwen3-0.6B", "prefill_tokens_per_s", "tok/s", **params)
    assert predicted(tokens) == pytest.approx(8 * 512 / predicted(latency) * 1e3)


def test_a_kernel_is_predicted_from_its_shapes():
    small, large = (
        row("kernel", "gemm eager bf16", "latency", "us", M=m, K=4096, N=4096, dtype="bf16", lnc=2)
        for m in (1024, 4096)
    )
    assert 2 < predicted(large) / predicted(small) < 5


def test_shapes_in_words_count_too():
    words = row("kernel", "NEFF wall matmul (128,1024)@(1024,6144) fp32", "latency", "us")
    given = row("kernel", "NEFF wall matmul", "latency", "us", M=128, K=1024, N=6144, dtype="fp32")
    assert predicted(words) == predicted(given)


@pytest.mark.parametrize(("tokens", "padded"), [(1, 128), (128, 128), (129, 256), (2048, 2048)])
def test_prompts_are_padded_to_powers_of_two(tokens, padded):
    assert bucket(tokens) == padded


@pytest.mark.parametrize(
    ("unit", "amount", "value"),
    [("ms", 1, 500), ("us", 1, 5e5), ("tok/s", 100, 200), ("GB/s", 1e9, 2), ("s/step", 1, 0.5)],
)
def test_half_a_second_in_every_unit(unit, amount, value):
    assert Measure(unit, amount).value(0.5) == pytest.approx(value)


@pytest.mark.parametrize(
    ("excluded", "word"),
    [
        (row("infer", "Llama-3.1-8B decode", "tpot", "ms", family="trn1"), "NeuronCore-v2"),
        (row("train", "Qwen3-32B LoRA", "first_step_cold_compile", "s"), "compile time"),
        (row("infer", "GPT-OSS-120B EAGLE3", "tpot", "ms", acceptance_len=1.7), "speculative"),
        (row("infer", "Qwen3-8B", "itl", "ms", mode="throughput", concurrency=8), "load"),
        (row("infer", "Qwen3-8B", "ttft", "ms", concurrency=4), "load"),
        (row("overhead", "NRT init warm (low)", "latency", "s"), "start-up"),
        (row("memory", "Qwen3-8B", "hbm_used", "GB"), "memory"),
        (row("infer", "YOLO26n 640", "throughput", "img/s"), "no definition"),
        (row("infer", "Qwen3-8B", "ttft", "ms"), "not published"),
        (row("infer", "Qwen3-8B", "tpot", "ms", dtype="int4"), "no definition"),
    ],
)
def test_rows_are_excluded_with_a_reason(excluded, word):
    mapped = map_row(excluded)
    assert isinstance(mapped, Excluded)
    assert word in mapped.reason


def test_of_two_versions_the_faster_is_scored():
    versions = [
        row("kernel", f"gemm {name}", "latency", "us", value, id=name, M=128, K=128, N=512)
        for name, value in (("naive", 50.0), ("tuned", 20.0))
    ]
    predictions, excluded = map_rows(versions)
    assert [p.row.id for p in predictions] == ["tuned"]
    assert [x.row.id for x in excluded] == ["naive"]


def test_no_row_is_known_by_its_label():
    rows = [r for r in read_rows(MEASURED) if r.kind in ("micro", "collective")]
    renamed = [
        Row("ROW", r.kind, r.workload, r.params, r.hardware, r.metric, 1.0, r.unit, r.source)
        for r in rows
    ]
    for before, after in zip(rows, renamed, strict=True):
        one, other = map_row(before), map_row(after)
        assert type(one) is type(other)
        if isinstance(one, Prediction) and isinstance(other, Prediction):
            assert evaluate([one])[0].predicted == evaluate([other])[0].predicted
