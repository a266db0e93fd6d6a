"""Vision towers of transformers: the tables of angles of their rotary modules, next to what is read from config.json.

Run this file after transformers was updated, to write ``vision_types.json``: ``.venv/bin/python
tests/support/zoo/vision.py``.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import locant
from locant.errors import ConfigError
from locant.extension.inspect.model_class.small_model import quiet
from locant.rotary_configs import vision
from locant.rotary_configs.vision import VisionRotary, read_vision

PATH = Path(locant.__file__).parent / "rotary_configs" / "vision_types.json"
_SIZES = ("embed_dim", "hidden_size", "num_heads", "num_attention_heads", "head_dim")
_LAYOUTS = ("half", "interleaved", "halves of each axis")
_EXACT = 1e-6


@dataclass(frozen=True)
class Tower:
    """A vision tower: its model type, the class of its configuration and that of its rotary module."""

    model_type: str
    config_class: Any
    rotary_class: Any


def towers() -> Iterator[Tower]:
    """Yield all whose rotary positions are ``axial``, in alphabetical order."""
    from transformers import CONFIG_MAPPING

    found: dict[str, Any] = {}
    with quiet():
        classes = [CONFIG_MAPPING[name] for name in sorted(CONFIG_MAPPING.keys())]
    while classes:
        each = classes.pop()
        classes += list(getattr(each, "sub_configs", {}).values())
        if getattr(each, "default_rope_type", "") == "axial":
            found[each.model_type] = each
    for name, config_class in sorted(found.items()):
        kind = rotary_class(config_class)
        if kind is not None:
            yield Tower(name, config_class, kind)


def rotary_class(config_class: Any) -> Any:
    """Return the class of rotary embeddings that is made with a configuration, ``None`` where its module has none."""
    try:
        module = importlib.import_module(config_class.__module__.replace(".configuration_", ".modeling_"))
    except ImportError:  # a class that needs a package that is not installed
        return None
    for name, each in vars(module).items():
        if "Rotary" in name and isinstance(each, type) and each.__module__ == module.__name__:
            stated = inspect.signature(each.__init__).parameters.get("config")
            if stated is not None and stated.annotation in (config_class, config_class.__name__):
                return each
    return None


def tables(rotary: Any, axes: int) -> Iterator[torch.Tensor]:
    """Yield the radians by which one step on each axis turns every feature, ``[axes, features]``.

    Args:
        rotary: A rotary module, which takes positions ``[L, axes]`` or ``[B, L, axes]``.
        axes: Number of its axes.
    """
    steps = torch.eye(axes)
    for positions in (steps, steps[None]):
        try:
            cosine, sine = rotary(torch.zeros(1), positions)
        except (RuntimeError, IndexError, ValueError, TypeError):
            continue
        yield torch.atan2(sine.double(), cosine.double()).reshape(axes, -1)


def expected_tables(read: VisionRotary) -> torch.Tensor:
    """Return the same by what was read from config.json."""
    axes = max(read.axis_of_pair) + 1
    found = torch.zeros(axes, len(read.axis_of_pair), dtype=torch.float64)
    for pair, (axis, frequency) in enumerate(zip(read.axis_of_pair, read.frequencies, strict=True)):
        found[axis, pair] = frequency
    if read.layout == "interleaved":
        return found.repeat_interleave(2, dim=-1)
    if read.layout == "half":
        return torch.cat([found, found], dim=-1)
    return torch.cat([block for part in found.chunk(axes, dim=-1) for block in (part, part)], dim=-1)


def agrees(read: VisionRotary, rotary: Any) -> bool:
    """Whether a rotary module computes what was read."""
    expected = expected_tables(read)
    return any(
        seen.shape == expected.shape and bool((seen - expected).abs().max() < _EXACT)
        for seen in tables(rotary, len(expected))
    )


def facts_of(tower: Tower) -> dict[str, Any] | None:
    """Return the facts of a tower, ``None`` where no way of sharing out pairs that is known here is its own."""
    with quiet():
        config = tower.config_class()
        rotary = tower.rotary_class(config)
    content = json.loads(config.to_json_string(use_diff=False))
    defaults = {name: content[name] for name in _SIZES if isinstance(content.get(name), int)}
    base = content["rope_parameters"]["rope_theta"]
    for count, frequencies, layout, alternating in itertools.product((2, 3), ("own", "dealt"), _LAYOUTS, (False, True)):
        for axes in itertools.permutations(range(count)):
            facts = {"axes": list(axes), "frequencies": frequencies, "layout": layout, "alternating": alternating}
            facts |= {"base": base, "defaults": defaults}
            known = {tower.model_type: facts}
            try:
                read = vision.read_with(known, {"vision_config": {"model_type": tower.model_type, **content}})
            except ConfigError:
                continue
            if read is not None and agrees(read, rotary):
                return facts
    return None


def judge(tower: Tower, seed: int) -> str:
    """Return what is wrong with the reading of a tower with options drawn at random, empty where it is right."""
    rng = random.Random(f"{tower.model_type} {seed}")
    with quiet():
        usual = tower.config_class()
        content = json.loads(usual.to_json_string(use_diff=False))
        entries: dict[str, Any] = {"rope_parameters": {"rope_type": "axial", "rope_theta": rng.choice([100.0, 5000.0])}}
        heads = next(
            (name for name in ("num_heads", "num_attention_heads") if isinstance(content.get(name), int)), None
        )
        if heads and not content.get("head_dim") and content[heads] % 2 == 0:
            entries[heads] = content[heads] // rng.choice([1, 2])
        config = tower.config_class(**entries)
        rotary = tower.rotary_class(config)
    saved = json.loads(config.to_json_string(use_diff=rng.random() < 0.5))
    read = read_vision({"model_type": "whole", "vision_config": {**saved, "model_type": tower.model_type}})
    if read is None:
        return "not read"
    return "" if agrees(read, rotary) else f"read as {read.describe()}, but the class does something else"


def main() -> None:
    """Write the facts of all towers."""
    found = {tower.model_type: facts_of(tower) for tower in towers()}
    written = ",\n".join(f"{json.dumps(name)}: {json.dumps(facts)}" for name, facts in found.items() if facts)
    PATH.write_text(f"{{\n{written}\n}}\n", encoding="utf-8")
    sys.stdout.write("".join(f"not expressed: {name}\n" for name, facts in found.items() if not facts))


if __name__ == "__main__":
    main()
