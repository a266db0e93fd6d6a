"""Translating through CTranslate2 against Locant's own search."""

import os
import sys
import time

import pytest
import torch
from small_models import build

from locant.errors import CheckpointError, ConfigError, MissingExtraError, UsageError
from locant.interop import CTranslate2Translator, load_translator
from locant.kernels.library import load_library
from locant.models import DecodingSettings
from locant.text import BOS, EOS
from locant.translation import Translator, length_penalty, supports

SENTENCES = ["kalo mir", "", "tenbu shi gra no", "zap", "üm ☃ ka", "ka ka ka ka ka ka ka ka"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "locant" / "ctranslate2"


@pytest.fixture
def run(trained, joint, tmp_path):
    Translator(trained, joint, DecodingSettings(beam=4)).save_pretrained(tmp_path / "run")
    return tmp_path / "run"


def log_probability(translator: Translator, source: str, tokens: list[int]) -> float:
    """Of tokens and end mark, by the model itself, among the tokens that may be written."""
    ids = [*translator.tokenizers.source.encode([source])[0], EOS]
    with torch.no_grad():
        logits = translator.model(torch.tensor([ids]), torch.tensor([len(ids)]), torch.tensor([[BOS, *tokens]]))[0]
    logits[:, [0, BOS]] = -torch.inf
    wanted = [*tokens, EOS]
    return float(logits.log_softmax(-1)[range(len(wanted)), wanted].sum())


def test_greedy_translations_and_scores_are_those_of_pytorch(run, pairs):
    own, other = Translator.from_pretrained(run, device="cpu"), CTranslate2Translator.from_pretrained(run, device="cpu")
    sources = [*SENTENCES, *(source for source, _ in pairs[:40])]
    for alpha in (0.0, 0.6):
        expected = own.translate_n_best(sources, beam=1, length_penalty=alpha)
        found = other.translate_n_best(sources, beam=1, length_penalty=alpha)
        assert [[one.text for one in row] for row in found] == [[one.text for one in row] for row in expected]
        settings = other.settings.model_copy(update={"beam": 1, "length_penalty": alpha})
        for index, (one,) in other._hypotheses(other.tokenizers.source.encode(sources), settings):
            total = log_probability(own, sources[index], one.tokens)
            if len(one.tokens) < settings.max_target_length(len(own.tokenizers.source.encode([sources[index]])[0])):
                assert one.score == pytest.approx(
                    total / length_penalty(len(one.tokens) + 1, alpha), abs=1e-3, rel=1e-4
                )


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_beam_scores_are_the_models_with_locants_length_penalty(run, pairs, alpha):
    own, other = Translator.from_pretrained(run, device="cpu"), CTranslate2Translator.from_pretrained(run, device="cpu")
    sources = [source for source, _ in pairs[:30]]
    settings = other.settings.model_copy(update={"length_penalty": alpha, "n_best": 3})
    found = dict(other._hypotheses(other.tokenizers.source.encode(sources), settings))
    for index, source in enumerate(sources):
        assert len(found[index]) == 3
        scores = [hypothesis.score for hypothesis in found[index]]
        assert scores == sorted(scores, reverse=True)
        for hypothesis in found[index]:
            total = log_probability(own, source, hypothesis.tokens)
            assert hypothesis.log_probability == pytest.approx(total, abs=1e-3, rel=1e-4)
            expected = total / length_penalty(len(hypothesis.tokens) + 1, alpha)
            assert hypothesis.score == pytest.approx(expected, abs=1e-3, rel=1e-4)

    if alpha > 1:  # a strong penalty finds what only one of the two beams kept
        return
    expected_best = own.translate_n_best(sources, length_penalty=alpha)
    best = other.translate_n_best(sources, length_penalty=alpha)
    different = [i for i, row in enumerate(best) if row[0].text != expected_best[i][0].text]
    assert len(different) <= 3  # their beams narrow in different ways


def test_every_sentence_has_its_own_limit(joint, tmp_path):
    model = build(joint)  # random: it never writes an end mark at the right time
    settings = DecodingSettings(beam=1, max_length_ratio=1.5, max_length_extra=2)
    Translator(model, joint, settings).save_pretrained(tmp_path / "run")
    own = Translator.from_pretrained(tmp_path / "run", device="cpu")
    other = CTranslate2Translator.from_pretrained(tmp_path / "run", device="cpu")
    sources = ["ka", "kalo mir", "tenbu shi gra no tenbu shi gra no", "ka ka ka ka ka"]
    found = other.translate(sources)
    assert found == own.translate(sources)
    ids = other.tokenizers.source.encode(sources)
    written = dict(other._hypotheses(ids, settings))
    closed = [len(written[index][0].tokens) == settings.max_target_length(len(ids[index])) for index in range(4)]
    assert any(closed[index] for index in (0, 1, 3))  # not the longest, whose limit is CTranslate2's own


def test_a_conversion_is_made_once_for_the_same_weights_and_anew_for_others(run, trained, joint, cache):
    CTranslate2Translator.from_pretrained(run, device="cpu")
    (first,) = cache.iterdir()
    written = (first / "model.bin").stat().st_mtime_ns
    CTranslate2Translator.from_pretrained(run, device="cpu")
    assert [*cache.iterdir()] == [first]
    assert (first / "model.bin").stat().st_mtime_ns == written

    changed = build(joint)
    Translator(changed, joint, DecodingSettings(beam=1)).save_pretrained(run)
    other = CTranslate2Translator.from_pretrained(run, device="cpu")
    assert len([*cache.iterdir()]) == 2
    assert other.translate(SENTENCES) == Translator(changed, joint, DecodingSettings(beam=1)).translate(SENTENCES)


def test_conversions_nobody_used_for_long_are_removed(run, cache):
    old = cache / ("0" * 32)
    old.mkdir(parents=True)
    before = time.time() - 40 * 86_400
    os.utime(old, (before, before))
    CTranslate2Translator.from_pretrained(run, device="cpu")
    assert not old.exists()
    assert len([*cache.iterdir()]) == 1


def test_a_cache_that_cannot_be_written_is_explained(run, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(CheckpointError, match="cannot be kept in"):
        CTranslate2Translator.from_pretrained(run, device="cpu")


def test_int8_translates_and_says_so(run, pairs):
    translator, engine = load_translator(run, engine="ctranslate2", device="cpu", compute_type="int8")
    assert engine == "CTranslate2, int8_float32"
    sources = [source for source, _ in pairs[:20]]
    own = Translator.from_pretrained(run, device="cpu").translate(sources)
    found = translator.translate(sources)
    assert sum(a == b for a, b in zip(found, own, strict=True)) > 10


def test_it_saves_the_weights_it_was_loaded_from(run, tmp_path):
    CTranslate2Translator.from_pretrained(run, device="cpu").save_pretrained(tmp_path / "copy")
    assert (tmp_path / "copy" / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()


@pytest.mark.parametrize("compute_type", ["bfloat16", "int8"])
def test_auto_takes_the_kernels_for_types_that_the_processor_has(run, pairs, compute_type):
    if not supports(compute_type):
        pytest.skip(f"this processor has no fast {compute_type} arithmetic")
    translator, engine = load_translator(run, engine="auto", device="cpu", compute_type=compute_type)
    assert engine == f"compiled kernels, {compute_type}"
    sources = [source for source, _ in pairs[:20]]
    ours, expected = translator.translate(sources), Translator.from_pretrained(run, device="cpu").translate(sources)
    # Rounded weights change some translations of so small a model, not most.
    assert sum(one == other for one, other in zip(ours, expected, strict=True)) >= 14


def test_auto_takes_the_fastest_that_can_and_says_why_not_elsewhere(run, joint, pairs, tmp_path, monkeypatch):
    translator, engine = load_translator(run, engine="auto", device="cpu")
    assert engine == "compiled kernels, float32"
    sources = [source for source, _ in pairs[:20]]
    assert translator.translate(sources) == Translator.from_pretrained(run, device="cpu").translate(sources)

    Translator(build(joint, position="rotary"), joint).save_pretrained(tmp_path / "rotary")
    translator, engine = load_translator(tmp_path / "rotary", engine="auto", device="cpu")
    assert type(translator) is Translator
    assert engine.startswith("PyTorch, because: Compiled translation knows positions that are added")
    assert "Export to CTranslate2 knows positions that are added" in engine
    for name in ("ctranslate2", "compiled"):
        with pytest.raises(ConfigError, match="positions that are added"):
            load_translator(tmp_path / "rotary", engine=name, device="cpu")
    with pytest.raises(
        ConfigError, match=r"No engine can translate this model in float32\. Compiled translation knows"
    ):
        load_translator(tmp_path / "rotary", engine="auto", device="cpu", compute_type="float32")


def test_auto_without_a_compiler_and_without_ctranslate2(run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    load_library.cache_clear()
    translator, engine = load_translator(run, engine="auto", device="cpu")
    assert isinstance(translator, CTranslate2Translator)
    assert engine.startswith("CTranslate2, float32, because: Compiled kernels need a C++ compiler")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    translator, engine = load_translator(run, engine="auto", device="cpu")
    assert type(translator) is Translator
    assert "need a C++ compiler" in engine
    assert "pip install 'locant[ctranslate2]'" in engine
    with pytest.raises(MissingExtraError, match="engine ctranslate2"):
        load_translator(run, engine="ctranslate2", device="cpu")
    load_library.cache_clear()


def test_wrong_requests_are_plain_messages(run, tmp_path):
    with pytest.raises(UsageError, match="goes with the engine"):
        load_translator(run, engine="pytorch", compute_type="int8")
    for engine in ("auto", "ctranslate2"):
        with pytest.raises(ConfigError, match="Did you mean 'int8'"):
            load_translator(run, engine=engine, device="cpu", compute_type="int9")
        with pytest.raises(CheckpointError, match="no model folder"):
            load_translator(tmp_path / "none", engine=engine, device="cpu")
