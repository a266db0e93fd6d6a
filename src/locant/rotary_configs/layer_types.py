"""Types of layers: those by which configurations are grouped, and the names that files have for them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from locant.errors import nearest

LOCAL, GLOBAL, LINEAR = "sliding_attention", "full_attention", "linear_attention"
SCALED, UNSCALED = "scaled", "unscaled"  # of Molmo 2, by rope_scaling_layers

RENAMED = {
    "attention": GLOBAL,
    "mamba": LINEAR,
    "deepseek_sparse_attention": "indexed_attention",
    "qwen_sparse_attention": "indexed_attention",
}
"""Layer types of older files that transformers itself renames (``remap_legacy_layer_types``)."""

PRESENT_NAMES = {
    **RENAMED,
    "full": GLOBAL,
    "global": GLOBAL,
    "local": LOCAL,
    "sliding": LOCAL,
    "mamba2": LINEAR,
    "recurrent": LINEAR,
}
WITHOUT_ATTENTION = frozenset([LINEAR, "conv", "moe", "mlp", "dense", "mamba"])
KNOWN_TYPES = frozenset(
    [
        *(LOCAL, GLOBAL, LINEAR, "chunked_attention", "window_attention", "indexed_attention", "conv", "hybrid"),
        *("hybrid_sliding", "compressed_sparse_attention", "heavily_compressed_attention", "minimax_m3_sparse"),
        *("reference_sliding_attention", "main", "compress", "moe"),
    ]
)
"""Layer types by which configurations are grouped."""


def type_meant(name: str, known: Collection[str]) -> str:
    """Return `` Did you mean 'x'?`` for a layer type that is not known, or an empty string.

    A word that is an older name of a type tells it, whatever the letters around are like: ``local_attention``.

    Args:
        name: The type of the file.
        known: Those that are known.
    """
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word not in RENAMED]
    meant = [PRESENT_NAMES[word] for word in words if PRESENT_NAMES.get(word) in known]
    return f" Did you mean '{meant[0]}'?" if meant else nearest(name, known)


def entries_by_layer(given: Any) -> dict[int, Mapping[str, Any]]:
    """Return the entries of ``per_layer_config`` by the index of the layer, which transformers writes as ``05``.

    Args:
        given: The content of that entry; nothing comes of what is no group of groups.
    """
    groups = given.items() if isinstance(given, Mapping) else ()
    return {int(key): each for key, each in groups if str(key).isdecimal() and isinstance(each, Mapping)}
