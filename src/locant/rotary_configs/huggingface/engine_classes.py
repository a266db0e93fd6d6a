"""Models that the classes of vLLM and the converters of CTranslate2 and llama.cpp are for.

``engine_classes.json`` is generated from vLLM's registry and those converters (``tests/support/zoo/engines.py``).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locant.positions.rotary.config import RotaryLayout
from locant.rotary_configs.classes.families import is_in_transformers
from locant.rotary_configs.classes.own_formats import PARAMS_JSON, own_format
from locant.rotary_configs.huggingface.text_parts import text_part, text_type


def vllm_has_class(config: Mapping[str, Any]) -> bool:
    """Whether vLLM runs a model by a class of its own, and not by that of transformers or not at all.

    It goes by the architectures of the whole file: those of its text part say what that part was made of.

    Args:
        config: The content of config.json.
    """
    if own_format(config) == PARAMS_JSON:
        return True  # Mistral's own files, which vLLM loads as they are
    stored, stated = _classes()["vllm"], _names(config.get("architectures"))
    if stated:
        return any(
            other.lower() in _architectures() for name in stated for other in _exchanged(name, stored["suffixes"])
        )
    name = str(config.get("model_type"))
    return name in stored["model_types"] or _letters(name) in _stems()


def vllm_has_no_class(config: Mapping[str, Any]) -> bool:
    """Whether vLLM runs a model of transformers by no class: it runs encoder-decoder models by its own classes alone.

    Args:
        config: The content of config.json.
    """
    is_of_two = config.get("is_encoder_decoder", config.get("model_type") in _classes()["vllm"]["encoder-decoder"])
    return is_of_two is True and not vllm_has_class(config)


def vllm_last_release(config: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the architecture of a file that vLLM had in former releases alone, and the last of these.

    Args:
        config: The content of config.json.
    """
    removed = _classes()["vllm"]["removed"]
    name = next((name for name in _names(config.get("architectures")) if name in removed), None)
    return None if name is None or vllm_has_class(config) else (name, removed[name])


def llamacpp_converts(config: Mapping[str, Any]) -> bool:
    """Whether llama.cpp's converter may make a GGUF file of a model.

    Args:
        config: The content of config.json; without architectures, one of an unknown type may be of any.
    """
    stored = _classes()["llamacpp"]
    stated = {name for part in (config, text_part(config)) for name in _names(part.get("architectures"))}
    types = {str(config.get("model_type")), str(text_type(config))}
    if not stated.isdisjoint(stored["architectures"]) or not types.isdisjoint(stored["model_types"]):
        return True
    return not stated and not is_in_transformers(text_type(config))


def runs_class_of_transformers(config: Mapping[str, Any], model_type: str | None) -> bool:
    """Whether vLLM runs a model by the class of transformers (its Transformers backend), and so by its rotation.

    Args:
        config: The content of config.json.
        model_type: That of the text part.
    """
    return is_in_transformers(model_type) and not vllm_has_class(config)


@dataclass(frozen=True)
class LatentHeads:
    """What vLLM's class of a model with latent attention does with the separate part of a head that rotates.

    Attributes:
        layout: How it pairs features.
        shares: Whether it rotates the ``partial_rotary_factor`` of that part alone.
    """

    layout: RotaryLayout
    shares: bool


def vllm_release() -> str:
    """Return the release of vLLM whose classes are known."""
    release: str = _classes()["vllm"]["release"]
    return release


def vllm_latent_heads(config: Mapping[str, Any]) -> LatentHeads | None:
    """Return what vLLM's own class for a model does with heads of latent attention, ``None`` where it has none.

    Args:
        config: The content of config.json.
    """
    latent = _classes()["vllm"]["latent"]
    name = _architecture_in(config, latent, [str(text_type(config))])
    return None if name is None else LatentHeads(**latent[name])


def vllm_never_scales(config: Mapping[str, Any]) -> bool:
    """Return whether vLLM's own class for a model makes its rotation of a base alone, whatever scaling a file has.

    Args:
        config: The content of config.json.
    """
    types = [str(text_type(config)), str(config.get("model_type")), str(text_type(config)).removesuffix("_text")]
    return _architecture_in(config, _classes()["vllm"]["unscaled"], types) is not None


def _architecture_in(config: Mapping[str, Any], known: Iterable[str], types: Iterable[str]) -> str | None:
    """Return the one of some architectures by which vLLM runs a model: as the file names it, or of its model type."""
    names = {name.lower(): name for name in known}
    stated = _names(config.get("architectures"))
    if stated and not vllm_has_class(config):
        return None
    letters, suffixes = {_letters(each) for each in types}, _classes()["vllm"]["suffixes"]
    by_type = [each for each in names if any(each.removesuffix(end.lower()) in letters for end in suffixes)]
    return next((names[each.lower()] for each in (*stated, *by_type) if each.lower() in names), None)


def ctranslate2_reads_scaling(config: Mapping[str, Any]) -> bool | None:
    """Whether CTranslate2's converter for a model reads its scaling; ``None`` where it has no converter for it.

    Args:
        config: The content of config.json.
    """
    found: bool | None = _classes()["ctranslate2"]["configurations"].get(_converted_config(config))
    return found


def ctranslate2_reads_share(config: Mapping[str, Any], layer: str) -> bool:
    """Whether CTranslate2's converter reads the share of a head in the group of a layer type: those of p-RoPE.

    Args:
        config: The content of config.json.
        layer: The type of the layers.
    """
    return layer in _classes()["ctranslate2"]["shares"].get(_converted_config(config), ())


def ctranslate2_factor_types(config: Mapping[str, Any], layer: str) -> frozenset[str]:
    """Return the types of scalings whose factor CTranslate2's converter reads in the group of a layer type.

    Args:
        config: The content of config.json.
        layer: The type of the layers.
    """
    groups = _classes()["ctranslate2"]["factors"].get(_converted_config(config), {})
    return frozenset(groups.get(layer, ()))


def ctranslate2_sets_corners(config: Mapping[str, Any]) -> bool:
    """Whether CTranslate2's converter for a model sets the corners that its engine needs for Llama 3's scaling.

    Args:
        config: The content of config.json.
    """
    return _converted_config(config) in _classes()["ctranslate2"]["corners"]


def ctranslate2_base(config: Mapping[str, Any], layer: str) -> float | None:
    """Return the base that CTranslate2's converter writes whatever the file has, with the classes of transformers 5.

    Args:
        config: The content of config.json.
        layer: The type of the layers.
    """
    bases = _classes()["ctranslate2"]["bases"].get(_converted_config(config), {})
    found: float | None = bases.get(layer, bases.get("all"))
    return found


def ctranslate2_refuses(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the types of scalings with which CTranslate2's converter for a model makes none.

    Args:
        config: The content of config.json.
    """
    return frozenset(_classes()["ctranslate2"]["refused"].get(_converted_config(config), ()))


def ctranslate2_fails(config: Mapping[str, Any]) -> bool:
    """Return whether CTranslate2's converter looks for what a configuration of transformers 5 does not have.

    Code of people's own beside a file may have it.

    Args:
        config: The content of config.json.
    """
    return "auto_map" not in config and _converted_config(config) in _classes()["ctranslate2"]["fails"]


def ctranslate2_fails_with_two_sizes(config: Mapping[str, Any]) -> bool:
    """Return whether CTranslate2's converter asks for one size of heads where layers have two.

    Args:
        config: The content of config.json.
    """
    return _converted_config(config) in _classes()["ctranslate2"]["fails with two sizes"]


def ctranslate2_fails_with_shared_keys(config: Mapping[str, Any]) -> bool:
    """Return whether CTranslate2's converter refuses models whose last layers have the keys of others.

    Args:
        config: The content of config.json.
    """
    return _converted_config(config) in _classes()["ctranslate2"]["fails with shared keys"]


def ctranslate2_writes_size_of_heads(config: Mapping[str, Any]) -> bool:
    """Return whether CTranslate2's converter writes the size of heads that the class of a model reads.

    Args:
        config: The content of config.json.
    """
    return _converted_config(config) not in _classes()["ctranslate2"]["without size of heads"]


def _converted_config(config: Mapping[str, Any]) -> str | None:
    """Return the name of the configuration by which CTranslate2 chooses the converter."""
    name: str | None = _classes()["ctranslate2"]["model_types"].get(str(config.get("model_type")))
    code = config.get("auto_map")
    if name is None and isinstance(code, Mapping):
        name = str(code.get("AutoConfig")).split(".")[-1]
    return name


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _exchanged(name: str, suffixes: list[str]) -> Iterator[str]:
    """Yield an architecture, and those with other ends for which vLLM looks in its place."""
    yield name
    end = next((suffix for suffix in suffixes if name.endswith(suffix)), None)
    if end is not None:
        yield from (name.removesuffix(end) + other for other in suffixes)


@functools.cache
def _classes() -> Mapping[str, Any]:
    stored: dict[str, Any] = json.loads((Path(__file__).parent / "engine_classes.json").read_text(encoding="utf-8"))
    return stored


@functools.cache
def _architectures() -> frozenset[str]:
    """Return vLLM's architectures in small letters, in which it looks for them."""
    return frozenset(name.lower() for name in _classes()["vllm"]["architectures"])


@functools.cache
def _stems() -> frozenset[str]:
    """Return the names of vLLM's architectures without their ends, as model types of people's own code have them."""
    stored = _classes()["vllm"]
    return frozenset(
        _letters(name.removesuffix(end))
        for name in stored["architectures"]
        for end in stored["suffixes"]
        if name.endswith(end)
    )


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
