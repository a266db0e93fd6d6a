"""Files of published models, read by their entries alone, mean what their publications and code say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from published import CONFIGS, is_meant, meaning

from locant.errors import ConfigError
from locant.rotary_configs import read_huggingface

_MISSED = Path(__file__).with_name("misread_without_class.txt")
"""Models whose files are not read as meant without their class: a list that may only become shorter."""


def _meaning(model: str) -> str:
    try:
        return meaning(read_huggingface(CONFIGS[model]["config"]))
    except ConfigError:
        return "refused"


def test_all_but_the_listed_are_read_as_meant() -> None:
    missed = {model for model, entry in CONFIGS.items() if not is_meant(_meaning(model), entry["meant"])}
    listed = set(_MISSED.read_text(encoding="utf-8").splitlines())
    assert missed == listed, f"now right: {listed - missed}; now wrong: {missed - listed}"


def test_most_files_of_known_model_types_are_read_as_meant() -> None:
    transformers = pytest.importorskip("transformers")
    listed = set(_MISSED.read_text(encoding="utf-8").splitlines())
    known = [name for name, each in CONFIGS.items() if each["config"].get("model_type") in transformers.CONFIG_MAPPING]
    assert len(known) > 300
    assert sum(name in listed for name in known) <= 0.15 * len(known)
    assert len(listed) <= 0.15 * len(CONFIGS)


def test_every_reading_says_what_it_assumed() -> None:
    said: Counter[str] = Counter()
    for entry in CONFIGS.values():
        try:
            parsed = read_huggingface(entry["config"])
        except ConfigError:
            continue
        assert parsed.source == "entries"
        assert parsed.assumed or "rope_interleave" in str(entry["config"])
        said.update(parsed.assumed)
    assert said["pairing of halves"] > 200
