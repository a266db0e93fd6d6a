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

_WITH_ENCODERS: dict[str, dict[str, Any]] = {name: {"head_dim": 16, **_LAYERS} for name in ("t5gemma", "t5gemma2")}
"""Model types of an encoder and a decoder, of which each has such entries."""

_VISION = {
    **{"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
    **{"image_size": 16, "patch_size": 8},
}

_SHARED: dict[str, Any] = {"num_hidden_layers": 4, "num_kv_shared_layers": 2, "layer_types": _LAYERS["layer_types"] * 2}

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
    none where heads have two sizes or layers share keys; and those of which the size of heads is not written.
    """
    from ctranslate2.converters import transformers as converters
    from transformers import CONFIG_MAPPING

    bases, refused, fails_always, sizeless = {}, {}, list[str](), list[str]()
    for model_type in (*_MODELS, *_WITH_ENCODERS):
        loader = converters._MODEL_LOADERS[CONFIG_MAPPING[model_type].__name__]
        names = [name for name, other in converters._MODEL_LOADERS.items() if type(other) is type(loader)]
        made = _spec(model_type, loader)
        if made is None:
            fails_always += names
            continue
        if not any(name.endswith("self_attention/head_dim") for name in made.variables()):
            sizeless += [name for name in names if _takes_size_of_heads(model_type)]
        fixed = {layer: base for layer, base in _bases(model_type, loader).items() if base != _BASE}
        bases.update({name: fixed for name in names if fixed})
        if "get_rotary_params" in inspect.getsource(type(loader)):  # otherwise it looks at no scaling
            groups = {kind: {"rope_type": kind, **entries} for kind, entries in _SCALINGS.items()}
            fails = [kind for kind, group in groups.items() if _spec(model_type, loader, rope_scaling=group) is None]
            refused.update({name: fails for name in names if fails})
    two_sizes, shared = list[str](), list[str]()
    for model_type in _OF_TWO_SIZES:
        loader = converters._MODEL_LOADERS[CONFIG_MAPPING[model_type].__name__]
        names = [name for name, other in converters._MODEL_LOADERS.items() if type(other) is type(loader)]
        assert _spec(model_type, loader, global_head_dim=16) is not None
        two_sizes += names if _spec(model_type, loader, global_head_dim=32) is None else []
        assert _model(model_type, **_SHARED) is not None
        shared += names if _spec(model_type, loader, global_head_dim=16, **_SHARED) is None else []
    return {
        "bases": bases,
        "refused": refused,
        "fails": sorted(fails_always),
        "fails with two sizes": sorted(two_sizes),
        "fails with shared keys": sorted(shared),
        "without size of heads": sorted(sizeless),
    }


def _takes_size_of_heads(model_type: str) -> bool:
    """Return whether a class of transformers makes heads of the ``head_dim`` of a file."""
    import torch
    from transformers import CONFIG_MAPPING

    if isinstance(getattr(CONFIG_MAPPING[model_type], "head_dim", None), property):
        return False  # which it derives
    with torch.device("meta"):
        numbers = {_model(model_type, **own).num_parameters() for own in ({}, {"head_dim": 32})}
    return len(numbers) > 1


def _model(model_type: str, **entries: Any) -> Any:
    """Return a small model, with some entries beside its sizes, in both parts where it has an encoder as well."""
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    own = {**_SIZES, **{**_MODELS, **_OF_TWO_SIZES, **_WITH_ENCODERS}[model_type], **copy.deepcopy(entries)}
    if model_type not in _WITH_ENCODERS:
        return AutoModelForCausalLM.from_config(CONFIG_MAPPING[model_type](**own))
    reads_images = "text_config" in CONFIG_MAPPING[model_type].sub_configs["encoder"].sub_configs
    encoder = {"text_config": copy.deepcopy(own), "vision_config": _VISION} if reads_images else copy.deepcopy(own)
    parts = {"encoder": encoder, "decoder": own, "vocab_size": _SIZES["vocab_size"]}
    return AutoModelForSeq2SeqLM.from_config(CONFIG_MAPPING[model_type](**parts))


def _bases(model_type: str, loader: Any) -> dict[str, float]:
    """Return the bases of the layers of each type for a file with another one."""
    config = _model(model_type).config
    made = getattr(config, "decoder", config)
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

    with contextlib.suppress(Exception), torch.no_grad():
        spec = loader.get_model_spec(_model(model_type, **entries))
        vocabulary = ["a"] * _SIZES["vocab_size"]
        if model_type in _WITH_ENCODERS:
            spec.register_source_vocabulary(vocabulary)
            spec.register_target_vocabulary(vocabulary)
        else:
            spec.register_vocabulary(vocabulary)
        spec.validate()
        return spec
    return None
