"""The shapes of public models, read from configs.toml, found by the names people write."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Experts:
    """A mixture of experts in place of a feed-forward layer."""

    count: int
    per_token: int
    ffn: int
    shared_ffn: int = 0
    # Every how many layers; the others are dense.
    every: int = 1
    bias: bool = False
    # Activation of gpt-oss: clamps and a sigmoid with a slope.
    clamped: bool = False


@dataclass(frozen=True)
class Recurrence:
    """Linear attention (gated delta rule) or a state space layer (Mamba-2)."""

    kind: str
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int = 4
    # Every how many layers attention stands instead; 0 with `attention_layers` given.
    attention_every: int = 4
    attention_layers: tuple[int, ...] = ()


@dataclass(frozen=True)
class DecoderConfig:
    """A decoder-only language model. Sizes are counts of elements."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool = False
    qk_norm: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    sinks: bool = False
    # Every second layer attends to this many tokens; 0: all attend to all.
    window: int = 0
    attention_gate: bool = False
    lm_head: bool = True
    experts: Experts | None = None
    recurrence: Recurrence | None = None

    def is_expert_layer(self, layer: int) -> bool:
        """Whether a layer has experts."""
        return self.experts is not None and (layer + 1) % self.experts.every == 0

    def is_recurrent_layer(self, layer: int) -> bool:
        """Whether a layer has a recurrence in place of attention."""
        if self.recurrence is None:
            return False
        if self.recurrence.attention_layers:
            return layer not in self.recurrence.attention_layers
        return (layer + 1) % self.recurrence.attention_every != 0


Table = dict[str, Any]


@cache
def _tables() -> dict[str, Table]:
    tables = tomllib.loads((Path(__file__).parent / "configs.toml").read_text("utf-8"))
    tables.pop("sources")
    return {
        name: tables[table["like"]] | {"aliases": ()} | table if "like" in table else table
        for name, table in tables.items()
    }


@cache
def decoders() -> dict[str, DecoderConfig]:
    """Every model of configs.toml by its name."""
    return {name: _decoder(name, table) for name, table in _tables().items()}


def published_parameters() -> dict[str, float]:
    """Parameters in billions as the model cards count them, by the name of the model."""
    return {name: table["parameters"] for name, table in _tables().items()}


def find_decoder(text: str) -> DecoderConfig | None:
    """The model that a text such as "Qwen3-8B prefill forward" names, None if it is unknown.

    The longest name wins, so "Qwen3-Embedding-0.6B" is not "Qwen3-0.6B".
    """
    wanted = _normal(text)
    found = [alias for alias in _names() if _mentions(wanted, alias)]
    return decoders()[_names()[max(found, key=len)]] if found else None


@cache
def _names() -> dict[str, str]:
    """Names in normal form, aliases among them, and the models they mean."""
    return {
        _normal(alias): name
        for name, table in _tables().items()
        for alias in (name, *table.get("aliases", ()))
    }


def _mentions(text: str, name: str) -> bool:
    """Whether the name stands in the text with no letter or digit glued to it."""
    return re.search(rf"(?<![a-z0-9.]){re.escape(name)}(?![a-z0-9]|\.\d)", text) is not None


def _normal(text: str) -> str:
    return re.sub(r"[\s_-]+", "-", text.lower())


_ABOUT = {"source", "aliases", "parameters", "like"}


def _decoder(name: str, table: Table) -> DecoderConfig:
    shape = {key: value for key, value in table.items() if key not in _ABOUT}
    if "experts" in shape:
        shape["experts"] = Experts(**shape["experts"])
    if "recurrence" in shape:
        layers = tuple(shape["recurrence"].get("attention_layers", ()))
        shape["recurrence"] = Recurrence(**shape["recurrence"] | {"attention_layers": layers})
    return DecoderConfig(name=name, **shape)
