"""The reading by a model's rotary modules alone, where it cannot be watched."""

from __future__ import annotations

import re

from locant.extension.asked.build import Built
from locant.extension.asked.name import layer_types, named, tables_of
from locant.extension.asked.turn import Turn
from locant.positions.rotary.config import RotaryConfig, RotaryLayout
from locant.rotary_configs.reading import ALL_LAYERS, LayerType, ParsedConfig

_NEIGHBOURS = r"apply_rotary_pos_emb_interleave|rotate_every_two|view_as_complex|\[\.\.\., (0::2|::2)\]"


def static_reading(built: Built) -> ParsedConfig:
    """Return what the rotary modules hold, with the pairing that the code of the class shows.

    Raises:
        LookupError: The model has no rotary module, or its heads have no size.
    """
    config, configs = built.config, dict[str, RotaryConfig]()
    tables = [each for each in tables_of(built.model) if re.search("Rotary|Rope|RoPE", type(each.module).__name__)]
    heads = getattr(config, "num_attention_heads", None) or 0
    head_dim = getattr(config, "head_dim", None) or (heads and config.hidden_size // heads)
    if not tables or not isinstance(head_dim, int) or not head_dim:
        raise LookupError(f"{built.name} has no rotary module that could be read alone")
    head_dim = getattr(config, "qk_rope_head_dim", None) or head_dim
    layout: RotaryLayout = "interleaved" if re.search(_NEIGHBOURS, built.code) else "half"
    for table in tables:
        kind = table.kind or ALL_LAYERS
        _, configs[kind], _ = named(config, kind, Turn(head_dim, 0, 2 * len(table.frequencies), layout), layout, table)
    types, layers = layer_types(config), list[LayerType]()
    for kind in dict.fromkeys(types):
        attends = kind == ALL_LAYERS or ("attention" in kind and "linear" not in kind)
        key = next((name for name in (kind, ALL_LAYERS) if name in configs and attends), None)
        layers.append(LayerType(kind, tuple(n for n, each in enumerate(types) if each == kind), key, None, attends))
    assumed = (f"pairing of {'neighbours' if layout == 'interleaved' else 'halves'}", "no windows", "all layers rotate")
    return ParsedConfig(configs, {}, tuple(layers), "rotary module of ", assumed)
