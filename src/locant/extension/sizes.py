"""Sizes that no model has, refused before anything is computed for each of that many pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locant.errors import ConfigError

_WIDEST_HEAD = 16_384
_MOST_ENTRIES = 64
_STATED = {
    "huggingface": ("head_dim", "global_head_dim", "qk_rope_head_dim", "rotary_dim"),
    "gguf": (
        *("attention.key_length", "attention.key_length_swa", "rope.dimension_count", "rope.dimension_count_swa"),
    ),
}
_WIDTHS = {"huggingface": ("hidden_size", "n_embd"), "gguf": ("embedding_length",)}
_HEADS = {"huggingface": ("num_attention_heads", "n_head"), "gguf": ("attention.head_count",)}


def check_sizes(kind: str, content: Mapping[str, Any]) -> None:
    """Check the width of heads and the number of layer types.

    Args:
        kind: ``huggingface`` or ``gguf``.
        content: The text part of config.json, or the metadata.

    Raises:
        ConfigError: One is beyond what any model has.
    """
    prefix = f"{content.get('general.architecture')}." if kind == "gguf" else ""

    def numbers(names: tuple[str, ...]) -> list[float]:
        found = (content.get(prefix + name) for name in names)
        return [number for number in found if isinstance(number, int | float)]

    stated = numbers(_STATED[kind])
    width, heads = max(numbers(_WIDTHS[kind]), default=0), max(numbers(_HEADS[kind]), default=1)
    for size in stated or [width / max(heads, 1)]:
        if size > _WIDEST_HEAD:
            raise ConfigError(f"The file makes heads of {size:g} features; {_WIDEST_HEAD} is the most here.")
    for name in ("rope_parameters", "rope_scaling"):
        group = content.get(name)
        if isinstance(group, Mapping) and len(group) > _MOST_ENTRIES:
            raise ConfigError(f"{name} of the file has {len(group)} entries; {_MOST_ENTRIES} is the most here.")
