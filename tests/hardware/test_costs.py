"""The cost model: what it must say of any operator, and of the ones with a known time."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from torch_trainium.hardware import _costs, costs
from torch_trainium.hardware.costs import (
    Collective,
    OperatorCall,
    Program,
    ProgramNode,
    TensorShape,
)

CORES = list(product(("trn2", "trn3"), (1, 2)))
DTYPES = ("float32", "bfloat16", "float8_e5m2", "int64", "int32", "bool", "float64", "complex64")
# Operands of the smallest sensible call of each class, as sizes by named dimensions.
OPERANDS = {
    "matmul": (("m", "k"), ("k", "n")),
    "attention": (("b", "m", "k"), ("b", "n", "k"), ("b", "n", "k")),
    "attention_backward": (("b", "m", "k"), ("b", "m", "k"), ("b", "n", "k"), ("b", "n", "k")),
    "convolution": (("b", "k", "m", "m"), ("n", "k", "w", "w")),
    "convolution_backward": (("b", "n", "m", "m"), ("b", "k", "m", "m"), ("n", "k", "w", "w")),
    "recurrent": (("b", "m", "k"), ("n", "k")),
}
ELEMENTWISE = (("b", "m", "n"), ("b", "m", "n"))
RESULTS = {
    "matmul": ("m", "n"),
    "attention": ("b", "m", "k"),
    "attention_backward": ("b", "m", "k"),
    "convolution": ("b", "n", "m", "m"),
    "convolution_backward": ("b", "k", "m", "m"),
    "recurrent": ("b", "m", "n"),
}
INDEXED = {"embedding", "embedding_backward", "row_gather", "element_gather", "scatter"}
FREE = {"free"}
# Their size alone does not say what they move; the model of the group does.
WITHOUT_DEVICE_WORK = FREE | {"transfer", "host_read", "cpu_fallback"}


def call_of(cost_class, sizes, dtype, *, dense=True):
    """A call of `cost_class` whose named dimensions have `sizes`."""

    def shape(names, of=dtype):
        return TensorShape(tuple(sizes[name] for name in names), of, dense=dense)

    if cost_class in INDEXED:
        indices = TensorShape((sizes["b"], sizes["m"]), "int64")
        return OperatorCall(
            "test", (shape(("n", "k")), indices), (shape(("b", "m", "k")),), cost_class=cost_class
        )
    inputs = tuple(shape(names) for names in OPERANDS.get(cost_class, ELEMENTWISE))
    result = shape(RESULTS.get(cost_class, ("b", "m", "n")))
    return OperatorCall("test", inputs, (result,), cost_class=cost_class)


def chain(length, call):
    """A graph of `length` calls, each on the result of the one before."""
    nodes = [
        ProgramNode(call, (i, *range(10_000, 10_000 + len(call.inputs) - 1)), (i + 1,))
        for i in range(length)
    ]
    return Program(tuple(nodes), frozenset({length}))


sizes_strategy = st.fixed_dictionaries(
    {name: st.integers(1, 700) for name in ("b", "m", "n", "k")} | {"w": st.integers(1, 7)}
)


@pytest.mark.parametrize("cost_class", _costs.COST_CLASSES)
@settings(max_examples=30, deadline=None)
@example(
    core=("trn2", 1),
    sizes={"w": 3, "b": 174, "m": 431, "n": 531, "k": 698},
    grown="w",
    by=252,
    dtype="complex64",
    dense=False,
)
@given(
    core=st.sampled_from(CORES),
    sizes=sizes_strategy,
    grown=st.sampled_from(("b", "m", "n", "k", "w")),
    by=st.integers(1, 300),
    dtype=st.sampled_from(DTYPES),
    dense=st.booleans(),
)
def test_a_larger_call_never_costs_less(cost_class, core, sizes, grown, by, dtype, dense):
    model = costs.cost_model(*core)
    larger = {**sizes, grown: sizes[grown] + by}
    small = call_of(cost_class, sizes, dtype, dense=dense)
    large = call_of(cost_class, larger, dtype, dense=dense)
    for price in (model.eager, lambda call: model.program(chain(3, call))):
        before, after = price(small), price(large)
        assert before.device_us <= after.device_us
        assert before.flops <= after.flops
        assert before.hbm_bytes <= after.hbm_bytes


@pytest.mark.parametrize("cost_class", sorted(set(_costs.COST_CLASSES) - WITHOUT_DEVICE_WORK))
def test_every_class_grows_with_its_bytes(cost_class):
    model = costs.cost_model()
    sizes = {"b": 4, "m": 256, "n": 512, "k": 512, "w": 3}
    larger = {**sizes, "b": 16, "m": 1024, "n": 2048, "k": 2048}
    small, large = (model.eager(call_of(cost_class, s, "float32")) for s in (sizes, larger))
    assert small.device_us < large.device_us
    assert small.hbm_bytes < large.hbm_bytes


@given(core=st.sampled_from(CORES), sizes=sizes_strategy, dtype=st.sampled_from(DTYPES))
@pytest.mark.parametrize("cost_class", sorted(set(_costs.COST_CLASSES) - WITHOUT_DEVICE_WORK))
@settings(max_examples=20, deadline=None)
def test_no_engine_is_busy_for_longer_than_the_device(cost_class, core, sizes, dtype):
    cost = costs.cost_model(*core).eager(call_of(cost_class, sizes, dtype))
    assert all(0 <= busy <= cost.device_us + 1e-5 for busy in cost.engine_us.values())


@given(sizes=sizes_strategy)
def test_a_wider_type_never_costs_less(sizes):
    model = costs.cost_model()
    for cost_class in ("matmul", "pointwise", "softmax", "attention"):
        halves, words = (
            model.eager(call_of(cost_class, sizes, dtype)) for dtype in ("bfloat16", "float32")
        )
        assert halves.device_us <= words.device_us


@settings(deadline=None)
@given(
    core=st.sampled_from(CORES),
    kind=st.sampled_from(_costs.COLLECTIVES),
    shift=st.integers(0, 30),
    by=st.integers(1, 1 << 20),
    chips=st.sampled_from((1, 4, 16)),
    nodes=st.sampled_from((1, 2, 4)),
)
def test_a_collective_never_costs_less_for_more_bytes_or_nodes(core, kind, shift, by, chips, nodes):
    model = costs.cost_model(*core)

    def device_us(bytes, nodes):
        group = Collective(kind, 4 * chips * nodes, chips * nodes, nodes)
        return model.collective(group, bytes).device_us

    assert device_us(1 << shift, nodes) <= device_us((1 << shift) + by, nodes)
    assert device_us(1 << shift, nodes) <= device_us(1 << shift, 2 * nodes)


def test_a_collective_of_one_rank_is_free():
    assert costs.cost_model().collective(Collective("all_reduce", 1), 1 << 20).device_us == 0


def test_a_view_costs_nothing():
    cost = costs.cost_model().eager(OperatorCall("aten::view", (TensorShape((4, 4)),)))
    assert (cost.device_us, cost.hbm_bytes, cost.flops) == (0, 0, 0)


def test_a_product_counts_two_flops_a_multiply_add():
    call = call_of("matmul", {"m": 128, "k": 256, "n": 512}, "bfloat16")
    assert costs.cost_model().eager(call).flops == 2 * 128 * 256 * 512


@pytest.mark.parametrize(
    ("operator", "shapes"),
    [
        ("aten::mm", ((64, 32), (32, 16))),
        ("aten::addmm", ((16,), (64, 32), (32, 16))),
        ("aten::linear", ((64, 32), (16, 32))),
        ("aten::linear", ((64, 32), (16, 32), (16,))),
        ("aten::bmm", ((4, 16, 32), (4, 32, 16))),
        ("aten::baddbmm", ((4, 16, 16), (4, 16, 32), (4, 32, 16))),
    ],
)
def test_every_spelling_of_a_product_has_its_flops(operator, shapes):
    call = OperatorCall(operator, tuple(TensorShape(s) for s in shapes), cost_class="matmul")
    assert costs.cost_model().eager(call).flops == 2 * 64 * 32 * 16


def tensor_us(model, sizes, dtype):
    """What a product in a graph, whose factors lie as the array wants them, takes of the array."""
    return model.program(chain(1, call_of("matmul", sizes, dtype))).engine_us["tensor"]


def test_fp32_takes_four_passes_of_the_array():
    model, sizes = costs.cost_model(), {"m": 4096, "k": 4096, "n": 4096}
    halves, words = (tensor_us(model, sizes, dtype) for dtype in ("bfloat16", "float32"))
    assert words == pytest.approx(4 * halves, rel=1e-6)


@pytest.mark.parametrize(("chip", "speedup"), [("trn2", 1), ("trn3", 4)])
def test_mx_runs_four_times_as_fast_as_bf16_on_trn3_only(chip, speedup):
    model, sizes = costs.cost_model(chip), {"m": 4096, "k": 4096, "n": 4096}
    halves, packed = (tensor_us(model, sizes, dtype) for dtype in ("bfloat16", "mxfp8"))
    assert halves == pytest.approx(speedup * packed, rel=1e-6)


def test_an_eager_product_pays_for_a_transposed_weight():
    def product(permuted):
        weight = TensorShape((4096, 4096), permuted=permuted)
        return OperatorCall("aten::mm", (TensorShape((512, 4096)), weight), cost_class="matmul")

    model = costs.cost_model()
    assert model.eager(product(True)).device_us > model.eager(product(False)).device_us


def test_a_kernel_written_by_hand_beats_the_operators_it_holds():
    call = call_of("pointwise", {"b": 1, "m": 128, "n": 128}, "bfloat16")
    loose = chain(16, call)
    nodes = tuple(replace(node, fused=True) for node in loose.nodes)
    model = costs.cost_model()
    assert model.program(replace(loose, nodes=nodes)).device_us < model.program(loose).device_us


def test_operators_that_alternate_switch_for_half():
    model, overheads = costs.cost_model(), costs.profile()
    calls = [call_of("pointwise", {"b": 1, "m": 8, "n": size}, "bfloat16") for size in (8, 16, 24)]

    def run_us(count):
        return costs.eager_time(model, overheads, calls[:count] * 12) * 1e6 / count

    assert run_us(1) < run_us(2) < run_us(3)


def test_two_physical_cores_halve_a_product():
    sizes = {"m": 4096, "k": 4096, "n": 4096}
    one, two = (
        costs.cost_model("trn2", size).eager(call_of("matmul", sizes, "bfloat16"))
        for size in (1, 2)
    )
    assert one.engine_us["tensor"] == pytest.approx(2 * two.engine_us["tensor"], rel=1e-6)


def test_a_graph_of_small_operators_beats_the_operators():
    model, overheads = costs.cost_model(), costs.profile()
    program = chain(16, call_of("pointwise", {"b": 1, "m": 1024, "n": 1024}, "bfloat16"))
    assert model.program(program).device_us < model.eager_run(program, overheads) * 1e6 / 4


def test_intermediates_of_a_graph_stay_on_chip():
    call = call_of("pointwise", {"b": 1, "m": 1024, "n": 1024}, "bfloat16")
    model = costs.cost_model()
    one, four = (model.program(chain(length, call)).hbm_bytes for length in (1, 4))
    # Each further link reads its second operand and nothing else.
    assert one <= four < 4 * one


def test_a_strided_operand_costs_more():
    sizes = {"b": 8, "m": 512, "n": 64}
    model = costs.cost_model()
    strided = model.eager(call_of("pointwise", sizes, "bfloat16", dense=False))
    assert strided.device_us > model.eager(call_of("pointwise", sizes, "bfloat16")).device_us


def test_a_64_bit_float_runs_on_the_host():
    call = call_of("pointwise", {"b": 1, "m": 8, "n": 8}, "float64")
    assert costs.cost_model().eager(call).bound == "host"


def test_eager_operators_are_issued_one_by_one():
    model, overheads = costs.cost_model(), costs.profile()
    call = call_of("pointwise", {"b": 1, "m": 8, "n": 8}, "bfloat16")
    # By the fiftieth call the host has caught up with the change of programs before the first.
    fifty, sixty = (costs.eager_time(model, overheads, [call] * n) for n in (50, 60))
    a_call_us = max(overheads.eager_issue_us, model.eager(call).device_us)
    assert (sixty - fifty) * 1e6 == pytest.approx(10 * a_call_us)


def test_the_same_call_costs_the_same_picoseconds():
    call = call_of("softmax", {"b": 3, "m": 77, "n": 501}, "bfloat16")
    model = costs.cost_model()
    assert len({model.eager(call).device_us for _ in range(10)}) == 1


def test_unknown_and_missing_constants_are_refused():
    values = costs.constants()
    with pytest.raises(ValueError, match="warp_size is not a known name"):
        costs.CostModel({**values, "warp_size": 32})
    values.pop("lanes")
    with pytest.raises(ValueError, match="lanes is missing"):
        costs.CostModel(values)
    with pytest.raises(ValueError, match="lanes must be finite"):
        costs.CostModel({**values, "lanes": float("nan")})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("trn9", 2), "no chip is called 'trn9'"), (("trn2", 3), "a logical core has 1 or 2")],
)
def test_unknown_cores_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        costs.cost_model(*arguments)


def test_unknown_dtypes_and_classes_are_refused():
    with pytest.raises(ValueError, match="no dtype is called 'float7'"):
        TensorShape((1,), "float7")
    with pytest.raises(ValueError, match="no cost class is called magic"):
        OperatorCall("aten::mm", (), cost_class="magic")


@pytest.mark.parametrize("cost_class", ["pointwise", "activation", "copy", "optimizer"])
@pytest.mark.parametrize("lists", [1, 2])
def test_a_list_of_equal_tensors_costs_as_many_times_one(cost_class, lists):
    def call(count):
        shape = TensorShape((1024, 1024), "float32")
        inputs = (shape,) * (lists * count)
        return OperatorCall("test", inputs, (shape,) * count, cost_class=cost_class)

    model = costs.cost_model()
    four, eight, sixteen = (model.eager(call(count)) for count in (4, 8, 16))
    assert sixteen.flops == 2 * eight.flops == 4 * four.flops
    assert sixteen.device_us - eight.device_us == pytest.approx(
        2 * (eight.device_us - four.device_us), rel=0.02
    )
