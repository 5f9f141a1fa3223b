from collections import Counter

import pytest
import torch
from torch.nn import functional as F

from accuracy import programs
from accuracy.models.configs import DecoderConfig
from accuracy.models.decoder import Decoder, Forward
from accuracy.models.parallel import all_reduce
from accuracy.models.serving import ServedDecoder, Step
from accuracy.trace import record
from accuracy.workload import graph
from torch_trainium.hardware import costs

TINY = DecoderConfig("tiny", 256, 6, 4, 2, 64, 512, 1000, qk_norm=True)


def meta(*sizes, dtype=torch.bfloat16):
    return torch.empty(sizes, dtype=dtype, device="meta")


def names(recording):
    return [call.name for call in recording.device_calls()]


def test_composite_operators_are_recorded_as_what_they_are_composed_of():
    x, weight = meta(2, 8, 16), meta(32, 16)
    recording = record(lambda: F.softmax(F.linear(x, weight), -1, dtype=torch.float32))
    assert names(recording) == ["aten::mm", "aten::_to_copy", "aten::_softmax"]
    assert {call.name for call in recording.calls if call.is_view} >= {"aten::t", "aten::view"}


def test_views_share_the_buffer_of_their_base():
    x = meta(4, 6)
    recording = record(lambda: x.t()[1:].neg())
    (negation,) = recording.device_calls()
    assert recording.given == {negation.inputs[0].buffer}
    assert not negation.inputs[0].dense or negation.inputs[0].sizes == (5, 4)


def test_operators_in_place_write_what_they_read():
    x, y = meta(3), meta(3)
    recording = record(lambda: x.add_(y))
    (addition,) = recording.device_calls()
    assert addition.written == (0,)
    assert addition.outputs == ()
    assert recording.results == {addition.inputs[0].buffer}


def test_parameters_are_among_the_given_buffers():
    weight = torch.nn.Parameter(meta(4, 4))
    recording = record(lambda: meta(2, 4) @ weight, [weight])
    assert recording.parameters <= recording.given


def test_a_collective_knows_its_ranks():
    recording = record(lambda: all_reduce(meta(4), 8))
    assert [(c.name, c.ranks) for c in recording.device_calls() if c.ranks > 1] == [
        ("_c10d_functional::all_reduce", 8)
    ]


@pytest.mark.parametrize("step", [Step(1, 1, 256, 2), Step(1, 256, 256, 2)])
def test_repeated_layers_cost_what_recorded_layers_cost(step):
    short = programs.serving_step(TINY, step, torch.bfloat16)
    model = programs.built(lambda: ServedDecoder(TINY, step), torch.bfloat16)
    tokens = meta(step.batch, step.tokens, dtype=torch.int64)
    with torch.no_grad():
        whole = record(lambda: model(tokens), list(model.parameters()))
    assert names(short) == names(whole)
    assert (len(short.given), len(short.parameters)) == (len(whole.given), len(whole.parameters))
    core = costs.cost_model()
    assert core.program(graph(short).program) == core.program(graph(whole).program)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", ["Qwen3", "Qwen2", "Llama", "Mistral"])
def test_a_layer_dispatches_what_the_layer_of_transformers_does(family, attention):
    transformers = pytest.importorskip("transformers")

    def theirs(layers):
        config = getattr(transformers, f"{family}Config")(
            vocab_size=1000,
            hidden_size=256,
            intermediate_size=512,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=64,
            sliding_window=None,
        )
        config._attn_implementation = attention
        with torch.device("meta"):
            model = getattr(transformers, f"{family}ForCausalLM")(config)
        model = model.to(torch.bfloat16).eval()
        return traced(lambda tokens: model(tokens).logits)

    def ours(layers):
        config = DecoderConfig(
            "",
            256,
            layers,
            4,
            2,
            64,
            512,
            1000,
            qk_norm=family == "Qwen3",
            qkv_bias=family == "Qwen2",
        )
        return traced(programs.built(lambda: Decoder(config, Forward(attention)), torch.bfloat16))

    def traced(model):
        tokens = meta(1, 128, dtype=torch.int64)
        with torch.no_grad():
            return Counter(names(record(lambda: model(tokens))))

    def layer(of):
        counts = of(2)
        counts.subtract(of(1))
        # An empty tensor to begin a cache with; theirs is made on the host.
        counts.pop("aten::new_empty", None)
        return without_attention(+counts)

    def without_attention(counts):
        # Meta tensors have no fused attention: theirs decomposes, ours stays whole.
        if attention == "eager":
            return counts
        kept = ("aten::mm", "aten::pow.Tensor_Scalar", "aten::silu", "aten::cat", "aten::neg")
        return {name: counts[name] for name in kept}

    assert layer(ours) == layer(theirs)
