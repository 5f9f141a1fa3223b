import pytest
import torch

from accuracy import programs
from accuracy.models.configs import decoders, find_decoder, published_parameters
from accuracy.models.serving import ServedDecoder, Step


def counted(config):
    model = programs.built(lambda: ServedDecoder(config, Step(1, 1, 128, 1)), torch.bfloat16)
    count = sum(parameter.numel() for parameter in model.parameters())
    has_head = config.lm_head and not config.tied
    return count if has_head else count - model.lm_head.weight.numel()


@pytest.mark.parametrize("name", decoders())
def test_shapes_give_the_published_number_of_parameters(name):
    published = published_parameters()[name]
    digits = len(str(published).partition(".")[2]) if isinstance(published, float) else 0
    # Cards round, and some truncate.
    assert counted(decoders()[name]) / 1e9 == pytest.approx(published, abs=10**-digits)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Mistral-7B prefill forward 512 tok", "Mistral-7B"),
        ("Mistral-7B-v0.3 decode TKG kernel", "Mistral-7B"),
        ("Mistral-7B-Instruct-v0.2 transformers-neuronx", "Mistral-7B-v0.2"),
        ("Ministral-3-14B baseline QKV kernel", "Ministral-3-14B"),
        ("Qwen3-Embedding-0.6B input (1,128)", "Qwen3-Embedding-0.6B"),
        ("GPT-OSS-120B vLLM-neuron", "gpt-oss-120b"),
        ("Llama-4-Scout-17B-16E vLLM serving", "Llama-4-Scout"),
        ("Llama 3.3 70B decode", "Llama-3.1-70B"),
        ("Qwen3.6-27B long context", "Qwen3.5-27B"),
    ],
)
def test_models_are_found_by_the_names_people_write(text, name):
    assert find_decoder(text).name == name


@pytest.mark.parametrize("text", ["Evo2-7B prefill", "YOLO26n 640", "Qwen3-8B2 decode", ""])
def test_unknown_models_are_not_guessed(text):
    assert find_decoder(text) is None
