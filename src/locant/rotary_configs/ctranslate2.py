"""Rotary positions in the attention layers of CTranslate2 models.

Source: ``MultiHeadAttentionSpec`` and ``src/layers/attention_layer.cc`` of release 4.8. Its ``Su`` (LongRoPE) is left
out: it chooses the list by the number of positions tabulated so far, not by the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Unscaled
from locant.rotary_configs.reading import cannot_express, only_config, with_equivalent_base
from locant.rotary_configs.scaling import form_of

_ENGINE = "CTranslate2"


def write_ctranslate2(configs: RotaryConfig | Mapping[str, RotaryConfig]) -> dict[str, Any]:
    """Return the attributes that every attention layer of a CTranslate2 model needs for these rotary positions.

    Static NTK scalings are written as the larger base that they are.

    Args:
        configs: The configuration of the layer.

    Raises:
        ConfigError: The engine computes no such scaling: all but linear and Llama 3's.

    Example:
        >>> write_ctranslate2(RotaryConfig(head_dim=64, layout="interleaved"))
        {'head_dim': 64, 'rotary_dim': 64, 'rotary_interleave': True, 'rotary_base': 10000.0}
    """
    config = with_equivalent_base(only_config(configs, _ENGINE))
    scaling, form = config.scaling, form_of("ctranslate2", config.scaling.name)
    written = {
        "head_dim": config.head_dim,
        "rotary_dim": config.rotary_dim,
        "rotary_interleave": config.layout == "interleaved",
        "rotary_base": config.base,
    }
    if isinstance(scaling, Unscaled):
        return written
    if form is None:
        raise cannot_express(_ENGINE, scaling, "it has Linear and Llama3 only")
    written["rotary_scaling_type"] = int(form.types[0])
    return written | {entry: getattr(scaling, name) for name, entry in form.fields.items()}
