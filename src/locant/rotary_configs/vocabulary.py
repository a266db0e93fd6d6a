"""The names that config.json files have for sizes, base and layers, and what model types assume beside them."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from locant.positions.scaling.checks import is_number
from locant.rotary_configs.fields import Fields
from locant.rotary_configs.reading import NoRotaryPositionsError

WIDTHS = ("hidden_size", "n_embd", "d_model", "dim")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HEAD_SIZES = ("head_dim", "kv_channels", "attention_head_dim", "hidden_size_per_head")
LENGTHS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "max_seq_len", "n_ctx")
BASES = ("rope_theta", "rotary_emb_base", "global_rope_theta", "rope_base")
LOCAL_BASES = ("rope_local_base_freq", "swa_rope_theta", "local_rope_theta")
PARTIAL_FACTORS = ("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_percent")
ROTATED_SIZES = ("rotary_dim", "rope_dim")
WINDOWS = ("sliding_window", "sliding_window_size", "attention_window_size", "window_size", "local_attention")
GROUPS = ("rope_parameters", "rope_scaling")

_TEXT_CONFIGS = (
    *("thinker_config", "text_config", "language_config", "llm_config", "lm_config", "vlm_config"),
    *("decoder", "decoder_config", "language", "model_config"),
)
_ABOUT_TEXT = {*WIDTHS, *HEADS, *LAYERS, *BASES, *GROUPS, *_TEXT_CONFIGS, "model_type"}

_LIKE = MappingProxyType(
    {"kimi_k2": "deepseek_v3", "kimi_k25": "deepseek_v3", "kimi_vl": "deepseek_v3", "codegeex": "chatglm"}
)
"""Model types of code beside checkpoints that rotates as another model type does."""

_AS_LLAMA = (
    *("aquila", "baichuan", "codeshell", "deci", "deepseek", "internlm", "internlm2", "internlm3", "minicpm", "orion"),
    *("plamo2", "qwen", "refinedweb", "refinedwebmodel", "skywork", "telechat", "xverse", "yi"),
)
_OWN: Mapping[str, Mapping[str, Any]] = {
    "chatglm": {"interleaved": True, "partial_rotary_factor": 0.5},
    **{name: {"interleaved": False} for name in _AS_LLAMA},
}
"""What model types of code beside checkpoints assume."""

_ABOUT_ROTATION = re.compile("rope|rotary|roformer", re.IGNORECASE)
_SWITCHES = ("rope", "use_rope", "use_rotary_pos_emb", "rotary")
_OTHER_POSITIONS = ("alibi", "position_encoding_2d")


def text_config_path(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the groups that lead to the text config, none where the whole file is it.

    Args:
        content: The content of config.json.

    Example:
        >>> text_config_path({"model_type": "gemma3", "text_config": {"hidden_size": 2560}})
        ('text_config',)
    """
    path: list[str] = []
    part = content
    for _ in range(3):
        groups = (name for name in _TEXT_CONFIGS if isinstance(part.get(name), Mapping))
        name = next((name for name in groups if _ABOUT_TEXT & part[name].keys()), None)
        if name is None:
            break
        path.append(name)
        part = part[name]
    return tuple(path)


def text_config(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the group of entries about the language model: the file itself, or its ``text_config``.

    Args:
        content: The content of config.json.
    """
    for name in text_config_path(content):
        content = content[name]
    return content


def with_entry(content: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """Return an object with another value of an entry, which the names of a path lead to; without it for ``None``."""
    if not path:
        return dict(value)
    name, *rest = path
    kept = {each: other for each, other in content.items() if each != name or rest}
    found = with_entry(content[name], rest, value) if rest else value
    return kept if found is None else {**kept, name: found}


def is_by_layer(group: Mapping[str, Any]) -> bool:
    """Whether a group of rotary parameters holds one for each layer type, ``None`` for types without RoPE."""
    return any(isinstance(each, Mapping) for each in group.values()) and all(
        each is None or isinstance(each, Mapping) for each in group.values()
    )


@functools.cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = json.loads(
        Path(__file__).with_name("defaults.json").read_text(encoding="utf-8")
    )
    return {**_OWN, **found}


def defaults_of(model_type: str | None, around: str | None = None) -> Mapping[str, Any] | None:
    """Return what a model type assumes where its file says nothing, ``None`` for a model type that is not known.

    Args:
        model_type: ``model_type`` of the text config.
        around: That of the file around it.

    Raises:
        NoRotaryPositionsError: Models of that type have no rotary positions.
    """
    for stated in (model_type, around):
        name = _LIKE.get(str(stated).lower(), str(stated).lower())
        for each in (name, f"{name}_text", _table().get(name, {}).get("text")):
            found = _table().get(str(each))
            if found == {}:
                raise NoRotaryPositionsError(f"Models of the type '{stated}' have no rotary positions.")
            if found is not None and "text" not in found:
                return found
    return None


def usual_names(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a text config without those that are ``null``, and with own words in the usual names.

    Args:
        part: The text config.

    Raises:
        ConfigError: An entry that is needed is of the wrong type.
    """
    entries = {key: value for key, value in part.items() if value is not None}
    fields = Fields(entries, "config.json")
    ratio = entries.get("rope_ratio")
    if is_number(ratio) and ratio > 0:  # ChatGLM 3, GLM-4, CodeGeeX 4: it multiplies the base
        entries["rope_theta"] = (fields.number(*BASES) or 10000.0) * ratio
    group: Mapping[str, Any] = next((entries[name] for name in GROUPS if isinstance(entries.get(name), Mapping)), {})
    alpha = group.get("alpha")
    if is_number(alpha) and alpha > 0 and group.get("rope_type", group.get("type")) in ("dynamic", "default"):
        # Hunyuan's "dynamic" is the base of NTK-aware interpolation, fixed.
        size = head_size(fields)
        base = Fields(group, "rope_scaling").number("rope_theta") or fields.number(*BASES) or 10000.0
        entries |= {"rope_scaling": None, "rope_parameters": None, "rope_theta": base * alpha ** (size / (size - 2))}
    return {key: value for key, value in entries.items() if value is not None}


def head_size(fields: Fields) -> int:
    """Return the features of a head, those of the width divided by the heads where none is stated.

    Raises:
        ConfigError: Nothing tells it.
    """
    if (size := fields.whole(*HEAD_SIZES)) is not None:
        return size
    width, heads = fields.whole(*WIDTHS), fields.whole(*HEADS)
    fields.need(width, "hidden_size", "the size of a head follows from it")
    return int(width or 0) // int(fields.need(heads, "num_attention_heads", "the size of a head follows from it"))


def refuse_other_positions(part: Mapping[str, Any], *, is_known: bool) -> None:
    """Raise NoRotaryPositionsError for a model of other positions than rotary ones.

    Args:
        part: The text config.
        is_known: Whether its model type is known to have rotary positions.
    """
    inner = part.get("attn_config")
    entries = {**(inner if isinstance(inner, Mapping) else {}), **part}
    for name in _OTHER_POSITIONS:
        if entries.get(name) is True:
            raise NoRotaryPositionsError(f"The model has other positions than rotary ones: '{name}' is true.")
    if any(entries.get(name) is False for name in _SWITCHES):
        raise NoRotaryPositionsError("The model has no rotary positions: an entry of config.json switches them off.")
    kind = entries.get(name := "position_embedding_type")
    if isinstance(kind, str) and (kind == "nope" or not is_known) and not _ABOUT_ROTATION.search(kind):
        raise NoRotaryPositionsError(f"The model has other positions than rotary ones: '{name}' is '{kind:.60}'.")
    if not is_known and not any(
        _ABOUT_ROTATION.search(name) or name in (*BASES, *ROTATED_SIZES) for name in list(part)[:10000]
    ):
        named = (
            f"the model type '{part['model_type']!s:.60}' is not known" if part.get("model_type") else "no model_type"
        )
        raise NoRotaryPositionsError(f"Nothing in config.json is about rotary positions, and {named}.")
