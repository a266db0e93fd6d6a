"""Files of published models, read by the class of the installed transformers, mean what their publications say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from published import CONFIGS, is_meant, meaning

from locant.errors import ConfigError
from locant.extension import NoClassError, ask_class
from locant.rotary_configs import ParsedConfig, read_huggingface

transformers = pytest.importorskip("transformers")

_KNOWN = [name for name, each in CONFIGS.items() if each["config"].get("model_type") in transformers.CONFIG_MAPPING]
_OTHERWISE = Path(__file__).with_name("otherwise_by_class.txt").read_text(encoding="utf-8").splitlines()
"""Models whose class refuses the file or reads it otherwise than meant: a list that may only become shorter."""


def _read(content: dict[str, Any]) -> ParsedConfig:
    try:
        return ask_class(content).reading
    except NoClassError:  # it cannot be watched, and its entries are read
        return read_huggingface(content)


@pytest.mark.sampled(25)
@pytest.mark.parametrize("model", _KNOWN)
def test_a_published_file_is_read_by_its_class_as_meant(model: str) -> None:
    entry = CONFIGS[model]
    try:
        said = meaning(_read(entry["config"]))
    except ConfigError:
        said = "refused by the class"
    nothing_rotates = entry["meant"] == "refused" and "half" not in said and "interleaved" not in said
    assert (nothing_rotates or is_meant(said, entry["meant"])) != (model in _OTHERWISE), said


def test_the_list_is_short() -> None:
    assert len(_KNOWN) > 300
    assert len(_OTHERWISE) <= 0.1 * len(_KNOWN)
    assert set(_OTHERWISE) <= set(_KNOWN)
