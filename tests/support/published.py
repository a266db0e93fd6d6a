"""Entries about positions in the files of published models, each with what it means in one line.

A meaning reads ``rotated/head layout base scaling``, by layer type where there are several, then the layers that attend
without RoPE (``still``) and those without attention; ``refused`` stands for a model without rotary positions, or with
what nobody can read. Meanings were written down by the models' publications and code, not by what Locant read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from locant.parsing import parse_json
from locant.positions import RotaryConfig

_ALL: Any = parse_json(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))

CONFIGS: dict[str, dict[str, Any]] = _ALL["config.json"]
"""By model: ``config``, entries of config.json, and ``meant``."""

GGUF: dict[str, dict[str, Any]] = _ALL["gguf"]
"""By model: ``metadata`` of a GGUF file, and ``meant``."""


def meaning(parsed: Any) -> str:
    """Return what was read, in the words of ``meant``."""
    several = len(parsed.configs) > 1
    said = "; ".join(f"{name} " * several + _rotation(config) for name, config in parsed.configs.items())
    still = [index for kind in parsed.layers if kind.attends and kind.config is None for index in kind.layers]
    none = [index for kind in parsed.layers if not kind.attends for index in kind.layers]
    for about, indices in (("still", still), ("no attention", none)):
        said += f", {about} {' '.join(map(str, sorted(indices)))}" if indices else ""
    return said


def is_meant(said: str, meant: str) -> bool:
    """Tell whether two meanings are the same, with layer types in any order."""
    return _parts(said) == _parts(meant)


def _parts(meaning: str) -> tuple[list[str], str]:
    rotations, _, layers = meaning.partition(", ")
    return sorted(rotations.split("; ")), layers


def _rotation(config: RotaryConfig) -> str:
    scaling = config.scaling
    said = f"{config.rotary_dim}/{config.head_dim} {config.layout} {config.base:g}"
    if scaling.name == "none":
        return said
    factor, original = getattr(scaling, "factor", None), getattr(scaling, "original_length", None)
    said += f" {scaling.name}" if factor is None else f" {scaling.name} x{factor:g}"
    return said if original is None or scaling.name == "dynamic" else f"{said} of {original}"
