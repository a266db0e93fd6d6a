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
        kind: ``text`` where its model reads token ids, ``composite`` where a part of its configuration does, ``other``
            for vision, audio and the rest, ``none`` where there is no model class.
    """

    model_type: str
    config_class: Any
    kind: Literal["text", "composite", "other", "none"]


def architectures() -> list[Architecture]:
    """Return all of them, in alphabetical order."""
    from transformers import CONFIG_MAPPING

    with quiet():
        return [architecture(name) for name in sorted(CONFIG_MAPPING.keys())]


def architecture(model_type: str) -> Architecture:
    """Return one of them."""
    from transformers import CONFIG_MAPPING

    config_class = CONFIG_MAPPING[model_type]
    if any(part in config_class.sub_configs for part in TEXT_PARTS):
        return Architecture(model_type, config_class, "composite")
    try:
        found = model_class(config_class)
        reads_text = found is not None and "input_ids" in inspect.signature(found.forward).parameters
    except ImportError:  # a class that needs a package that is not installed
        found = None
    if found is None:
        return Architecture(model_type, config_class, "none")
    return Architecture(model_type, config_class, "text" if reads_text else "other")
