"""The architectures of the installed transformers, found by walking the package."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Literal

from locant.extension.inspect.model_class.small_model import model_class, quiet

TEXT_PARTS = ("text_config", "thinker_config", "language_config", "llm_config", "decoder", "vlm_config")


@dataclass(frozen=True)
class Architecture:
    """One model type of transformers.

    Attributes:
        model_type: Its name.
        config_class: Its configuration.
        kind: ``text`` where its model reads token ids, ``composite`` where a part of its configuration does, ``part``
            where it is the text part of a whole and has no model class but that of the whole, ``other`` for vision,
            audio and the rest, ``none`` where there is no model class.
    """

    model_type: str
    config_class: Any
    kind: Literal["text", "composite", "part", "other", "none"]


def architectures() -> list[Architecture]:
    """Return all of them, in alphabetical order."""
    from transformers import CONFIG_MAPPING

    with quiet():
        return [architecture(name) for name in sorted(CONFIG_MAPPING.keys())]


def architecture(model_type: str) -> Architecture:
    """Return one of them."""
    from transformers import CONFIG_MAPPING

    config_class = CONFIG_MAPPING[model_type]
    if text_part_of(config_class) is not None:
        return Architecture(model_type, config_class, "composite")
    try:
        found = model_class(config_class)
        reads_text = found is not None and "input_ids" in inspect.signature(found.forward).parameters
    except ImportError:  # a class that needs a package that is not installed
        found = None
    if found is None:
        return Architecture(model_type, config_class, "none" if whole_around(config_class) is None else "part")
    return Architecture(model_type, config_class, "text" if reads_text else "other")


def text_part_of(config_class: Any) -> str | None:
    """Return the name of the group that is the text part of a class, ``None`` for one that has none.

    A ``decoder_config`` is that where the class is of the same module, and not any class of a decoder, of masks say.

    Args:
        config_class: The configuration's class.
    """
    parts = getattr(config_class, "sub_configs", {})
    usual = next((name for name in TEXT_PARTS if name in parts), None)
    own = parts.get("decoder_config")
    is_own = own is not None and own.__module__ == config_class.__module__
    return usual or ("decoder_config" if is_own else None)


def whole_around(config_class: Any) -> Any:
    """Return the configuration's class of which another one is the text part, of the same module; ``None`` without."""
    for each in vars(inspect.getmodule(config_class)).values():
        own = getattr(each, "sub_configs", {})
        part = text_part_of(each)
        if part and own[part] is config_class and each.__module__ == config_class.__module__:
            return each
    return None


def given_by_whole(found: Architecture) -> dict[str, Any]:
    """Return the entries that the whole around a class gives it as its part, as far as they are no null.

    Args:
        found: The class.
    """
    whole = whole_around(found.config_class)
    try:
        with quiet():
            parts = () if whole is None else [getattr(whole(), name) for name in whole.sub_configs]
    except Exception:  # a whole that refuses its own defaults
        return {}
    own = next((part.to_dict() for part in parts if isinstance(part, found.config_class)), {})
    return {name: value for name, value in own.items() if value is not None}


def config_with_model(found: Architecture, entries: dict[str, Any]) -> Any:
    """Return a configuration of entries of which transformers makes a model: that of the whole around a part.

    All parts of the whole that have the part's class are alike.

    Args:
        found: The class.
        entries: Entries of its configuration.
    """
    if found.kind != "part":
        return found.config_class(**entries)
    whole = whole_around(found.config_class)
    alike = {name: dict(entries) for name, each in whole.sub_configs.items() if each is found.config_class}
    sizes = {name: entries[name] for name in ("vocab_size",) if name in entries}
    return whole(**alike, **sizes)


def is_of_decoder(name: str) -> bool:
    """Whether a module of a whole attends to the text that is written, by its name."""
    return "decoder" in name.split(".") and "cross_attn" not in name
