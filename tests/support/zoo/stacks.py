"""Stacks of layers that a model has beside its text part and that rotate: decoders of depth, encoders and codecs.

They are written to ``stacks.json``. Run this file after transformers was updated:
``.venv/bin/python tests/support/zoo/stacks.py``.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import locant
from locant.extension.inspect.model_class.small_model import HEADS, build, model_class, quiet, reduced_entries
from locant.rotary_configs.classes.families import is_in_transformers, model_type
from locant.rotary_configs.spellings import HEAD_SIZES, LAYERS, WIDTHS
from locant.rotary_configs.spellings import HEADS as HEAD_COUNTS
from locant.rotary_configs.vision import vision_types
from zoo.architectures import Architecture, architectures, text_part_of
from zoo.facts import has_no_windows
from zoo.left_out import made

PATH = Path(locant.__file__).parent / "rotary_configs" / "classes" / "stacks.json"

_SIZES = (*LAYERS, *HEAD_COUNTS, *WIDTHS, *HEAD_SIZES, "max_position_embeddings", "sliding_window")
_GIVEN = re.compile(r"^rope_|hidden_size$|head_dim$|num_attention_heads$|num_hidden_layers$|max_position_embeddings$")
_OF_IMAGES = re.compile(r"^(?!.*audio).*(vision|video|image|visual|tracker|detector|backbone)")


def stacks_of(found: Architecture) -> dict[str, dict[str, Any]]:
    """Return the groups of a class that are stacks which rotate, by their path in the file, beside its text part.

    Each has its model ``type``; ``alone``, where the class gives entries otherwise than the stack's own class to a
    group that the file leaves out; and ``facts``, where the model type is not among those of ``model_types.json``.

    Args:
        found: The class.
    """
    config = None if _OF_IMAGES.match(found.model_type) else made(found)
    return {} if config is None else {".".join(way): facts for way, facts in _stacks(config, (), is_text=True)}


def _stacks(config: Any, way: tuple[str, ...], *, is_text: bool) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield the stacks within a part.

    Args:
        config: The part.
        way: The names that lead to it.
        is_text: Whether it is on the way to the text part.
    """
    from transformers import PreTrainedConfig

    text = text_part_of(type(config)) if is_text else None
    for name in type(config).sub_configs:
        part = getattr(config, name, None)
        if not isinstance(part, PreTrainedConfig) or _OF_IMAGES.match(name) or part.model_type in vision_types():
            continue
        if name != text and (facts := _facts(part)):
            yield (*way, name), facts
        yield from _stacks(part, (*way, name), is_text=name == text)


def _facts(part: Any) -> dict[str, Any]:
    known = model_type(part.model_type)
    if known is not None and is_in_transformers(known.name) and (known.text_part or known.reads_images):
        return {}  # a whole, whose own parts are told
    if known is not None:
        return {"type": known.name, "alone": _unlike_its_class(part)} if known.rotates else {}
    if not _rotates(part):
        return {}
    own = part.to_dict()
    defaults = {name: own[name] for name in _SIZES if isinstance(own.get(name), int | float)}
    if isinstance(theta := getattr(type(part), "default_theta", None), int | float):
        defaults["default_theta"] = theta
    rope = _group(part)
    facts = {"defaults": defaults, "rope": rope, "partly": "partial_rotary_factor" in rope}
    facts |= {"windowless": has_no_windows(type(part)), "layout": _layout(type(part))}
    return {
        "type": part.model_type or type(part).__name__,
        "facts": {name: each for name, each in facts.items() if each},
    }


def _layout(config_class: Any) -> str | None:
    """Return how a class pairs features, ``None`` where its module has other functions than the usual two for it."""
    name = config_class.__module__.replace(".configuration_", ".modeling_")
    try:
        source = inspect.getsource(importlib.import_module(name))
    except ImportError:  # a class that needs a package that is not installed
        return None
    functions = dict(re.findall(r"^def (\w*(?:rotary|rotate)\w*)\((.*?)(?=^\S)", source, re.DOTALL | re.MULTILINE))
    if {*functions} != {"rotate_half", "apply_rotary_pos_emb"}:
        return None
    return "interleaved" if "::2]" in functions["rotate_half"] else "half"


def _unlike_its_class(part: Any) -> dict[str, Any]:
    """Return the entries that a whole gives a part which a file leaves out, otherwise than the class of the part."""
    with quiet():
        usual = type(part)().to_dict()
    return {name: value for name, value in part.to_dict().items() if _GIVEN.search(name) and value != usual.get(name)}


def _group(part: Any) -> dict[str, Any]:
    """Return the group of rotary parameters of a part, which may have a base alone."""
    base = getattr(part, "rope_theta", None)
    return getattr(part, "rope_parameters", None) or ({"rope_type": "default", "rope_theta": base} if base else {})


def _rotates(part: Any) -> bool:
    """Whether the class of a part has a table of frequencies, which those with an entry for a base alone have not."""
    if not _group(part) or getattr(part, "position_embedding_type", "rotary") != "rotary":
        return False
    found = model_class(type(part))
    if found is None:
        return True  # a part whose class the whole builds itself
    entries = part.to_dict()
    for heads in HEADS:
        try:
            with quiet():
                model = build(type(part)(**copy.deepcopy(reduced_entries(entries, 1, heads))))
        except Exception:  # a class that refuses such sizes
            continue
        return any(name.endswith("inv_freq") for name, _ in model.named_buffers())
    return True


def stored_stacks(found: Architecture) -> dict[str, dict[str, Any]]:
    """Return the stacks of a class as ``stacks.json`` holds them.

    Args:
        found: The class.
    """
    stacks = stacks_of(found).items()
    return {way: {name: value for name, value in facts.items() if value} for way, facts in stacks}


def main(names: list[str]) -> None:
    """Write the stacks of all architectures, or show those of some."""
    every = {each.model_type: stored_stacks(each) for each in architectures() if not names or each.model_type in names}
    written = ",\n".join(f"{json.dumps(name)}: {json.dumps(stacks)}" for name, stacks in every.items() if stacks)
    if names:
        sys.stdout.write(f"{written}\n")
        return
    PATH.write_text(f"{{\n{written}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
