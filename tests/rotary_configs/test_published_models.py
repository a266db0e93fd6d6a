"""Every published model's file is read as its publication and its code say, and as transformers reads it."""

from __future__ import annotations

import copy
import importlib
import math
from typing import Any

import pytest
from huggingface_peer import assert_same_frequencies
from published_corpus import CORPUS, MEANT

from locant.positions import RotaryConfig
from locant.rotary_configs import read_huggingface


def test_the_corpus_is_large() -> None:
    assert CORPUS.keys() == MEANT.keys()
    assert len(CORPUS) >= 40
    assert len({str(sorted(entries.items(), key=str)) for entries in CORPUS.values()}) == len(CORPUS)


@pytest.mark.parametrize("model", CORPUS)
def test_published_models_are_read_right(model: str) -> None:
    assert read_huggingface(CORPUS[model]).configs == MEANT[model]


@pytest.mark.parametrize("model", CORPUS)
def test_published_models_are_read_as_transformers_reads_them(model: str) -> None:
    transformers = pytest.importorskip("transformers")
    entries = copy.deepcopy(CORPUS[model])
    model_type = entries.pop("model_type")
    if model_type not in transformers.CONFIG_MAPPING:
        pytest.skip("not in this release")
    theirs: Any = transformers.CONFIG_MAPPING[model_type](**entries).get_text_config()
    if model_type in ("gptj", "codegen"):
        _assert_same_sines(model_type, theirs, MEANT[model]["all"])
        return
    for layer, ours in MEANT[model].items():
        assert_same_frequencies(theirs, ours, None if layer == "all" else layer)


def _assert_same_sines(model_type: str, theirs: Any, ours: RotaryConfig) -> None:
    """Compare with the table of a class that knows no other frequencies; its second row is that of position 1."""
    module = importlib.import_module(f"transformers.models.{model_type}.modeling_{model_type}")
    sines = module.create_sinusoidal_positions(2, theirs.rotary_dim)[1].chunk(2)[0]
    assert sines.tolist() == pytest.approx([math.sin(frequency) for frequency in ours.frequencies()], rel=1e-6)
