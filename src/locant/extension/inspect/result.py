"""The result of an inspection: all that is known about a model's rotary positions, also as plain data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from locant.positions.rotary.config import RotaryConfig
from locant.rotary_configs.fields import Finding
from locant.rotary_configs.reading import ParsedConfig


@dataclass(frozen=True)
class Inspection:
    """All that is known about a model's rotary positions.

    Attributes:
        path: The file that was read.
        kind: ``huggingface`` for a config.json, ``gguf``.
        model_type: ``model_type`` of config.json or of its text config; the architecture of a GGUF file.
        declared_length: Length in tokens that the file declares, or its class where it does not.
        parsed: What the file means, and who says so; ``None`` where it cannot be read or has no rotary positions, which
            is a finding then.
        findings: What is to be said about it, errors first.
        content: The text config of config.json, or the metadata.
        whole: The whole object in config.json, or the metadata.
        text_part: Names of the groups of config.json that lead to the text config; none where it is the whole file.
        checked_against: The class of transformers that was asked, with its release, where one was.
        not_compared: Why the class of transformers, or the model's own, was not asked, in one sentence.
        engine: The engine whose options are in ``parsed`` besides the file: ``vLLM`` or ``llama.cpp``.
    """

    path: Path
    kind: Literal["huggingface", "gguf"]
    model_type: str | None
    declared_length: int | None
    parsed: ParsedConfig | None
    findings: tuple[Finding, ...]
    content: Mapping[str, Any]
    whole: Mapping[str, Any]
    text_part: tuple[str, ...] = ()
    checked_against: str | None = None
    not_compared: str | None = None
    engine: str | None = None

    @property
    def has_errors(self) -> bool:
        """Whether something is wrong."""
        return any(finding.severity == "error" for finding in self.findings)

    def as_data(self) -> dict[str, Any]:
        """Return all of it as plain data for JSON.

        Lengths are in tokens, wavelengths in tokens a turn (``null`` for pairs that do not turn), frequencies in
        radians a token; ``null`` represents what is beyond any float as well.
        """
        parsed = self.parsed or ParsedConfig({})
        return {
            "path": str(self.path),
            "kind": self.kind,
            "model_type": self.model_type,
            "engine": self.engine,
            "source": parsed.source if self.parsed else None,
            "assumed": list(parsed.assumed),
            "checked_against": self.checked_against,
            "not_compared": self.not_compared,
            "declared_length": self.declared_length,
            "layers": {layer: _layer(config) for layer, config in parsed.configs.items()},
            "layer_types": [dataclasses.asdict(kind) for kind in parsed.layers],
            "multimodal": parsed.multimodal,
            "findings": [dataclasses.asdict(finding) for finding in self.findings],
        }


def _layer(config: RotaryConfig) -> dict[str, Any]:
    assert config.rotary_dim is not None
    explanation = config.explain()
    return {
        "head_dim": config.head_dim,
        "rotary_dim": config.rotary_dim,
        "rotary_share": config.rotary_dim / config.head_dim,
        "layout": config.layout,
        "base": config.base,
        "scaling": {"name": config.scaling.name, **config.scaling.as_options()},
        "trained_length": explanation.trained_length,
        "effective_length": explanation.effective_length,
        "attention_scale": explanation.attention_scale,
        "attention_temperature": _finite(explanation.attention_temperature),
        "bands": [
            {
                "first_pair": band[0].index,
                "last_pair": band[-1].index,
                "fate": band[0].fate,
                "wavelengths": [_finite(pair.wavelength) for pair in (band[0], band[-1])],
                "scaled_wavelengths": [_finite(pair.scaled_wavelength) for pair in (band[0], band[-1])],
            }
            for band in explanation.bands
        ],
        "frequencies": [pair.frequency_after for pair in explanation.pairs],
        "incomplete_pairs": list(explanation.incomplete_pairs),
        "notes": list(explanation.notes),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
