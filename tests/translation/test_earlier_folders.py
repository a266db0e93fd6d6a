"""Model folders written before the first release: they load, and translate as they did."""

import json
from pathlib import Path

import pytest

from locant.translation import Translator

FOLDER = Path(__file__).with_name("folder_before_release")


def test_a_model_folder_of_before_translates_as_it_did() -> None:
    recorded = json.loads((FOLDER / "translations.json").read_text(encoding="utf-8"))
    translator = Translator.from_pretrained(FOLDER, device="cpu")
    assert (translator.source_language, translator.target_language) == ("el", "en")
    assert translator.model.config.d_model == 16
    found = translator.translate_n_best(recorded["sources"], n_best=2)
    for ours, expected in zip(found, recorded["found"], strict=True):
        assert [one.text for one in ours] == [text for text, _ in expected]
        assert [one.score for one in ours] == pytest.approx([score for _, score in expected], rel=1e-4)


def test_saving_it_again_writes_the_same_configuration(tmp_path: Path) -> None:
    Translator.from_pretrained(FOLDER, device="cpu").save_pretrained(tmp_path)
    before, after = (json.loads((folder / "config.json").read_text()) for folder in (FOLDER, tmp_path))
    for section in ("model", "decoding"):  # which have had new keys since
        assert {key: after[section][key] for key in before[section]} == before[section]
        before[section] = after[section]
    assert {**after, "version": before["version"]} == before
    assert (tmp_path / "model.safetensors").read_bytes() == (FOLDER / "model.safetensors").read_bytes()
