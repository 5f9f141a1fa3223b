"""Models of text: each (batch, length) tokens to (batch, length, vocabulary) scores."""

import torch
import transformers
from torch import Tensor, nn

from .workload import Field, Workload

VOCABULARY = 1024
# Special tokens that a small vocabulary does not have.
NO_TOKENS = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}


def scored_tokens(model: nn.Module, batch: int, length: int) -> Workload:
    tokens, target = torch.randint(VOCABULARY, (2, batch, length))
    return Workload(Field(model, "logits"), {"input_ids": tokens}, target)


def gpt2(width: int, layers: int, batch: int, length: int) -> Workload:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=length,
        n_embd=width,
        n_layer=layers,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        **NO_TOKENS,
    )
    return scored_tokens(transformers.GPT2LMHeadModel(config), batch, length)


def decoder_config(width: int, layers: int, length: int) -> dict[str, int | bool | None]:
    """What Llama and its descendants share, with grouped queries."""
    return {
        "vocab_size": VOCABULARY,
        "max_position_embeddings": length,
        "hidden_size": width,
        "intermediate_size": 3 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": width // 4,
        "use_cache": False,
        **NO_TOKENS,
    }


def llama(width: int, layers: int, batch: int, length: int) -> Workload:
    config = transformers.LlamaConfig(**decoder_config(width, layers, length))
    return scored_tokens(transformers.LlamaForCausalLM(config), batch, length)


def qwen3(width: int, layers: int, batch: int, length: int) -> Workload:
    config = transformers.Qwen3Config(**decoder_config(width, layers, length))
    return scored_tokens(transformers.Qwen3ForCausalLM(config), batch, length)


def mixtral(width: int, layers: int, batch: int, length: int) -> Workload:
    # Of the library's ways to run experts, the one with fixed shapes: its default is a loop over
    # the experts that tokens chose, or under torch.compile an opaque operator that loops.
    config = transformers.MixtralConfig(
        num_local_experts=4,
        num_experts_per_tok=2,
        experts_implementation="batched_mm",
        **decoder_config(width, layers, length),
    )
    return scored_tokens(transformers.MixtralForCausalLM(config), batch, length)


def bert(width: int, layers: int, batch: int, length: int) -> Workload:
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=length,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return scored_tokens(transformers.BertForMaskedLM(config), batch, length)


def mamba(width: int, layers: int, batch: int, length: int) -> Workload:
    config = transformers.MambaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        num_hidden_layers=layers,
        use_cache=False,
        **NO_TOKENS,
    )
    return scored_tokens(transformers.MambaForCausalLM(config), batch, length)


class LSTMLanguageModel(nn.Module):
    """Zaremba et al. 2014, without dropout."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.head(self.lstm(self.tokens(input_ids))[0])


def lstm(width: int, layers: int, batch: int, length: int) -> Workload:
    tokens, target = torch.randint(VOCABULARY, (2, batch, length))
    return Workload(LSTMLanguageModel(width, layers), {"input_ids": tokens}, target)
