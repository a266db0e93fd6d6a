"""Logits of saved models in plain transformers against Locant's own rotation of the same weights.

For scalings that follow the length of the text (dynamic, LongRoPE) the equality is that of one pass over the whole text
without cached keys, by a model that has read nothing before: then transformers turns all tokens by the frequencies of
that text's length, and Locant is told that length.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from extend_models import FAMILIES, config_of, save_model

from locant.errors import ConfigError
from locant.extension.extend.extend import extend_model
from locant.extension.extend.methods import apply_method, extension_methods
from locant.positions.huggingface import install
from locant.rotary_configs import read_huggingface

transformers = pytest.importorskip("transformers")

TRAINED, TARGET = 64, 160
ONLY_LONGROPE = {"phi3-longrope", "llama-3.1"}
TOLERANCE = 1e-4


def methods_of(family: str) -> list[str]:
    return [method for method in extension_methods() if can_say(family, method)]


def can_say(family: str, method: str) -> bool:
    try:
        apply_method(config_of(family), method, TARGET)
    except ConfigError:
        return False
    return True


CASES = [(family, method) for family in FAMILIES for method in methods_of(family)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {family: save_model(tmp_path_factory.mktemp(family) / "model", family) for family in FAMILIES}


def logits(folder: Path, length: int, *, ours: bool = False) -> torch.Tensor:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokens = torch.randint(3, 64, (1, length), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        if not ours:
            return model(tokens, use_cache=False).logits
        configs = read_huggingface(json.loads((folder / "config.json").read_text())).configs
        fixed = {
            layer: replace(config, scaling=config.scaling.fixed_for(length), max_length=None)
            for layer, config in configs.items()
        }
        with install(model, fixed) as installed:
            assert not installed.caches_unrotated_keys
            return model(tokens, use_cache=False).logits


def test_what_is_covered() -> None:
    covered = {family: methods_of(family) for family in FAMILIES}
    for family, methods in covered.items():
        expected = {"phi3": ["ntk", "longrope"], "qwen2-yarn": ["yarn", "longrope"]}
        assert methods == expected.get(family, ["longrope"] if family in ONLY_LONGROPE else list(extension_methods()))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("length", [TRAINED - 20, TARGET])
def test_models_as_they_are(folders: dict[str, Path], family: str, length: int) -> None:
    torch.testing.assert_close(
        logits(folders[family], length), logits(folders[family], length, ours=True), rtol=0, atol=TOLERANCE
    )


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("family", "method"), CASES)
def test_extended_models(folders: dict[str, Path], tmp_path: Path, family: str, method: str) -> None:
    folder = extend_model(folders[family], tmp_path / "out", TARGET, method=method).path
    for length in (TRAINED - 20, TARGET):
        theirs = logits(folder, length)
        torch.testing.assert_close(theirs, logits(folder, length, ours=True), rtol=0, atol=TOLERANCE)
        # The scaling matters: without it the logits are others, except where short texts are left alone.
        changed = (theirs - logits(folders[family], length)).abs().max()
        assert changed > 100 * TOLERANCE or (length < TRAINED and method in ("dynamic", "longrope"))


def test_the_rotation_is_put_back(folders: dict[str, Path]) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(folders["llama"]).eval()
    tokens = torch.arange(3, 40)[None]
    with torch.no_grad():
        before = model(tokens).logits
        other = read_huggingface(config_of("llama") | {"rope_theta": 10.0}).configs
        with install(model, other):
            assert not torch.allclose(model(tokens).logits, before, atol=0.01)
        assert torch.equal(model(tokens).logits, before)
