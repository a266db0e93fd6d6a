"""Rotary positions of vision towers in config.json: patches of an image, by rows and columns.

``vision_types.json`` holds what the classes of transformers do there; it is generated
(``tests/support/zoo/vision.py``), and the tests compare it with the version that is installed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from locant.errors import ConfigError
from locant.positions.exact import geometric_frequencies
from locant.positions.scaling.fields import Fields
from locant.rotary_configs.usual_values import refuse_impossible

_PARTS = ("vision_config", "thinker_config")
_WIDTHS = ("embed_dim", "hidden_size")
_HEADS = ("num_heads", "num_attention_heads")

_MOST_PAIRS = 4096

PairsOfPatches = Literal["half", "interleaved", "halves of each axis"]


@dataclass(frozen=True)
class VisionRotary:
    """How a vision tower rotates queries and keys of patches.

    Attributes:
        model_type: Model type of the tower.
        head_dim: Features of a head.
        base: Base of the wavelengths.
        layout: Which features form a pair: ``half`` and ``interleaved`` as in text; ``halves of each axis`` where every
            axis has a block of features of its own, split into halves.
        axis_of_pair: The coordinate that turns each pair: 0 for rows and 1 for columns, or 0 for time, 1 for rows and 2
            for columns of video.
        frequencies: Radians a patch of each pair.
    """

    model_type: str
    head_dim: int
    base: float
    layout: PairsOfPatches
    axis_of_pair: tuple[int, ...]
    frequencies: tuple[float, ...]

    def describe(self) -> str:
        """Return it in words."""
        names = ("rows", "columns") if max(self.axis_of_pair) < 2 else ("time", "rows", "columns")
        shares = ", ".join(f"{self.axis_of_pair.count(axis)} pairs by {name}" for axis, name in enumerate(names))
        return f"head of {self.head_dim} features, base {self.base:g}, layout {self.layout}, {shares}"


def read_vision(config: Mapping[str, Any]) -> VisionRotary | None:
    """Read the rotary positions of a model's vision tower.

    Args:
        config: The content of config.json, of the whole model or of its vision tower.

    Returns:
        They, or ``None`` where there is no vision tower, or its model type is not known to have any.

    Raises:
        ConfigError: A value is missing or wrong.

    Example:
        >>> part = {"model_type": "qwen2_vl_vision", "embed_dim": 1280, "num_heads": 16}
        >>> read_vision({"vision_config": part}).describe()
        'head of 80 features, base 10000, layout half, 20 pairs by rows, 20 pairs by columns'
    """
    return read_with(vision_types(), config)


def read_with(known: Mapping[str, Mapping[str, Any]], config: Mapping[str, Any]) -> VisionRotary | None:
    """Read the rotary positions of a vision tower by the facts of model types.

    Args:
        known: The facts, by model type.
        config: The content of config.json.
    """
    content, name = _tower(known, config)
    kind = known.get(name)
    if kind is None:
        return None
    part = Fields(content, "vision_config of config.json")
    given = part.mapping("rope_parameters") or part.mapping("rope_scaling") or {}
    refuse_impossible(given, "rope_parameters of vision_config")
    rope = Fields(given, "rope_parameters of vision_config")
    stated = rope.text("rope_type") or "axial"
    if stated not in ("axial", "default"):
        raise ConfigError(f"rope_type '{stated}' in {rope.where}: the classes of vision towers have 'axial' alone.")
    base = rope.number("rope_theta") or part.number("rope_theta") or kind["base"]
    head_dim = part.whole("head_dim") or _head_dim(part, kind)
    axes: list[int] = kind["axes"]
    share = head_dim // len(axes) // 2
    if not 0 < share <= _MOST_PAIRS:
        raise ConfigError(
            f"{part.where} has heads of {head_dim} features, which {len(axes)} axes cannot share in pairs."
        )
    own = geometric_frequencies(share, base)
    if kind["frequencies"] == "dealt":  # those of a whole head, to the axes in turn
        whole = geometric_frequencies(len(axes) * share, base)
        by_axis = [whole[index :: len(axes)] for index in range(len(axes))]
    else:
        by_axis = [own] * len(axes)
    pairs = [(axis, float(each)) for axis, found in zip(axes, by_axis, strict=True) for each in found]
    if kind["alternating"]:
        pairs = [pairs[index * share + step] for step in range(share) for index in range(len(axes))]
    return VisionRotary(
        name, head_dim, base, kind["layout"], tuple(axis for axis, _ in pairs), tuple(each for _, each in pairs)
    )


def _tower(known: Mapping[str, Mapping[str, Any]], config: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return the part of a config.json that is about its vision tower, and its model type."""
    name = str(config.get("model_type"))
    if name in known:
        return config, name
    part = next((config[each] for each in _PARTS if isinstance(config.get(each), Mapping)), None)
    if part is None:
        return {}, name
    if isinstance(part.get("vision_config"), Mapping):
        part = part["vision_config"]
    # Files of older releases have the model type of the whole, or none, in that part.
    own = str(part.get("model_type", name))
    candidates = (own, f"{own}_vision", f"{name}_vision", f"{name}_vision_model")
    return part, next((each for each in candidates if each in known), own)


def _head_dim(part: Fields, kind: Mapping[str, Any]) -> int:
    defaults = kind["defaults"]
    if not any(part.values.get(name) for name in (*_WIDTHS, *_HEADS)) and defaults.get("head_dim"):
        return int(defaults["head_dim"])
    width = next((size for name in _WIDTHS if (size := part.whole(name) or defaults.get(name))), None)
    heads = next((size for name in _HEADS if (size := part.whole(name) or defaults.get(name))), None)
    if not width or not heads or width % heads:
        raise ConfigError(f"{part.where} has no width ({width}) that its number of heads ({heads}) divides.")
    return int(width // heads)


@functools.cache
def vision_types() -> Mapping[str, Mapping[str, Any]]:
    """Return the facts of all vision towers that are known here, by model type."""
    stored: dict[str, dict[str, Any]] = json.loads(
        (Path(__file__).parent / "vision_types.json").read_text(encoding="utf-8")
    )
    return stored
