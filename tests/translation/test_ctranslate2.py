"""The CTranslate2 engine against Locant's own search."""

from pathlib import Path

import pytest
import torch
from small_models import build, hypotheses

from locant.models import DecodingSettings
from locant.runtime import vector_instructions
from locant.text import BOS, EOS
from locant.translation import Hypothesis, Translator, length_penalty, load_translator

SENTENCES = ["kalo mir", "", "tenbu shi gra no", "zap", "üm ☃ ka", "ka ka ka ka ka ka ka ka"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("locant.translation.ctranslate2.cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "ctranslate2"


@pytest.fixture
def run(trained, joint, tmp_path):
    Translator(trained, joint, DecodingSettings(beam=4)).save_pretrained(tmp_path / "run")
    return tmp_path / "run"


def load(folder: Path) -> Translator:
    return Translator.from_pretrained(folder, engine="ctranslate2", device="cpu")


def found_by(translator: Translator, sources: list[str], **changes: object) -> dict[int, list[Hypothesis]]:
    ids = translator.tokenizers.source.encode(sources)
    return hypotheses(translator, ids, translator.settings.model_copy(update=changes))


def log_probability(translator: Translator, source: str, tokens: list[int]) -> float:
    """Of tokens and EOS, by the model itself, among the tokens that may be written."""
    ids = [*translator.tokenizers.source.encode([source])[0], EOS]
    with torch.no_grad():
        logits = translator.model(torch.tensor([ids]), torch.tensor([len(ids)]), torch.tensor([[BOS, *tokens]]))[0]
    logits[:, [0, BOS]] = -torch.inf
    wanted = [*tokens, EOS]
    return float(logits.log_softmax(-1)[range(len(wanted)), wanted].sum())


def test_greedy_translations_and_scores_are_those_of_pytorch(run, pairs):
    own, other = Translator.from_pretrained(run, device="cpu"), load(run)
    sources = [*SENTENCES, *(source for source, _ in pairs[:40])]
    for alpha in (0.0, 0.6):
        expected = own.translate_n_best(sources, beam=1, length_penalty=alpha)
        found = other.translate_n_best(sources, beam=1, length_penalty=alpha)
        assert [[one.text for one in row] for row in found] == [[one.text for one in row] for row in expected]
        for index, (one,) in found_by(other, sources, beam=1, length_penalty=alpha).items():
            total = log_probability(own, sources[index], one.tokens)
            length = len(own.tokenizers.source.encode([sources[index]])[0])
            if len(one.tokens) < other.settings.max_target_length(length):
                assert one.score == pytest.approx(
                    total / length_penalty(len(one.tokens) + 1, alpha), abs=1e-3, rel=1e-4
                )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_beam_scores_are_the_models_with_locants_length_penalty(run, pairs, alpha):
    own, other = Translator.from_pretrained(run, device="cpu"), load(run)
    sources = [source for source, _ in pairs[:30]]
    found = found_by(other, sources, length_penalty=alpha, n_best=3)
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
    model = build(joint)  # random: it never writes EOS at the right time
    settings = DecodingSettings(beam=1, max_length_ratio=1.5, max_length_extra=2)
    Translator(model, joint, settings).save_pretrained(tmp_path / "run")
    own = Translator.from_pretrained(tmp_path / "run", device="cpu")
    other = load(tmp_path / "run")
    sources = ["ka", "kalo mir", "tenbu shi gra no tenbu shi gra no", "ka ka ka ka ka"]
    found = other.translate(sources)
    assert found == own.translate(sources)
    ids = other.tokenizers.source.encode(sources)
    written = found_by(other, sources)
    closed = [len(written[index][0].tokens) == settings.max_target_length(len(ids[index])) for index in range(4)]
    assert any(closed[index] for index in (0, 1, 3))  # not the longest, whose limit is CTranslate2's own


def test_a_conversion_is_made_once_for_the_same_weights_and_anew_for_others(run, trained, joint, cache):
    load(run)
    (first,) = cache.iterdir()
    written = (first / "model.bin").stat().st_mtime_ns
    load(run)
    assert [*cache.iterdir()] == [first]
    assert (first / "model.bin").stat().st_mtime_ns == written

    changed = build(joint)
    Translator(changed, joint, DecodingSettings(beam=1)).save_pretrained(run)
    other = load(run)
    assert len([*cache.iterdir()]) == 2
    assert other.translate(SENTENCES) == Translator(changed, joint, DecodingSettings(beam=1)).translate(SENTENCES)


def test_int8_translates_and_says_so(run, pairs):
    translator, engine = load_translator(run, engine="ctranslate2", device="cpu", compute_type="int8")
    assert engine == "CTranslate2, int8_float32"
    sources = [source for source, _ in pairs[:20]]
    own = Translator.from_pretrained(run, device="cpu").translate(sources)
    found = translator.translate(sources)
    assert all(found)
    # Without these instructions oneDNN sums pairs of products in 16 bits, which overflow: int8 translates otherwise.
    if any("vnni" in name or "amx" in name for name in vector_instructions()):
        assert sum(a == b for a, b in zip(found, own, strict=True)) > 10
