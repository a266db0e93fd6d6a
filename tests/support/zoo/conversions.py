"""What CTranslate2's converters write for small models of transformers, and with which scalings they refuse one."""

from __future__ import annotations

import contextlib
import copy
import inspect
from typing import Any

_SIZES: dict[str, Any] = {
    "vocab_size": 8,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 4096,
}
_LAYERS = {"layer_types": ["sliding_attention", "full_attention"]}
_MODELS: dict[str, dict[str, Any]] = {
    "falcon": {},
    "gemma": {"head_dim": 16},
    "gemma2": {"head_dim": 16, **_LAYERS},
    "gemma3_text": {"head_dim": 16, **_LAYERS},
    "gpt_neox": {},
    "llama": {},
    "mistral": {},
    "phi": {},
    "phi3": {"pad_token_id": 0},
    "qwen2": {},
    "qwen3": {"head_dim": 16},
}
"""Model types that the converters find by the class of their configuration, and entries beside the sizes."""

_OF_TWO_SIZES: dict[str, dict[str, Any]] = {
    "gemma4_text": {"head_dim": 16, "vocab_size_per_layer_input": 8, "hidden_size_per_layer_input": 0, **_LAYERS},
}
"""Model types of which the heads of full attention have a size of their own, ``global_head_dim``."""

_ORIGINAL = {"factor": 4.0, "original_max_position_embeddings": 1024}
_SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": _ORIGINAL,
    "llama3": {**_ORIGINAL, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "longrope": {**_ORIGINAL, "short_factor": [1.0] * 8, "long_factor": [4.0] * 8},
    "proportional": {"partial_rotary_factor": 0.5},
}
_BASE = 500_000.0


def what_is_written() -> dict[str, Any]:
    """Return, by the names of configurations, bases that do not come from a file, and scalings that are refused.

    And the configurations of which no model is converted, because the converter looks for what they do not have, or
    none where heads have two sizes.
    """
    from ctranslate2.converters import transformers as converters
    from transformers import CONFIG_MAPPING

    bases, refused, fails_always = {}, {}, list[str]()
    for model_type in _MODELS:
        loader = converters._MODEL_LOADERS[CONFIG_MAPPING[model_type].__name__]
        names = [name for name, other in converters._MODEL_LOADERS.items() if type(other) is type(loader)]
        if _spec(model_type, loader) is None:
            fails_always += names
            continue
        fixed = {layer: base for layer, base in _bases(model_type, loader).items() if base != _BASE}
        bases.update({name: fixed for name in names if fixed})
        if "get_rotary_params" in inspect.getsource(type(loader)):  # otherwise it looks at no scaling
            groups = {kind: {"rope_type": kind, **entries} for kind, entries in _SCALINGS.items()}
            fails = [kind for kind, group in groups.items() if _spec(model_type, loader, rope_scaling=group) is None]
            refused.update({name: fails for name in names if fails})
    two_sizes = list[str]()
    for model_type in _OF_TWO_SIZES:
        loader = converters._MODEL_LOADERS[CONFIG_MAPPING[model_type].__name__]
        if _spec(model_type, loader, global_head_dim=32) is None:
            assert _spec(model_type, loader, global_head_dim=16) is not None
            two_sizes += [name for name, other in converters._MODEL_LOADERS.items() if type(other) is type(loader)]
    return {
        "bases": bases,
        "refused": refused,
        "fails": sorted(fails_always),
        "fails with two sizes": sorted(two_sizes),
    }


def _bases(model_type: str, loader: Any) -> dict[str, float]:
    """Return the bases of the layers of each type for a file with another one."""
    from transformers import CONFIG_MAPPING

    made = CONFIG_MAPPING[model_type](**_SIZES, **_MODELS[model_type])
    types = getattr(made, "layer_types", None) or ()
    groups = {name: {"rope_type": "default", "rope_theta": _BASE} for name in types}
    is_by_layer = any(isinstance(each, dict) for each in (getattr(made, "rope_parameters", None) or {}).values())
    stated = {"rope_parameters": groups} if is_by_layer else {"rope_theta": _BASE}
    spec = _spec(model_type, loader, **stated)
    names = list(groups) if is_by_layer else ["all"] * len(spec.decoder.layer)
    return {
        name: float(layer.self_attention.rotary_base.numpy())
        for name, layer in zip(names, spec.decoder.layer, strict=True)
    }


def _spec(model_type: str, loader: Any, **entries: Any) -> Any:
    """Return what a converter makes of a small model, ``None`` where it fails or refuses the model."""
    import torch
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    with contextlib.suppress(Exception), torch.no_grad():
        own = {**_MODELS, **_OF_TWO_SIZES}[model_type]
        config = CONFIG_MAPPING[model_type](**_SIZES, **own, **copy.deepcopy(entries))
        spec = loader.get_model_spec(AutoModelForCausalLM.from_config(config))
        spec.register_vocabulary(["a"] * _SIZES["vocab_size"])
        spec.validate()
        return spec
    return None
