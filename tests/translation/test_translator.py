from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from small_models import build
from tiny_models import tiny_model

from locant.errors import CheckpointError, ConfigError, DataError
from locant.models import DecodingSettings
from locant.positions import SCHEMES
from locant.text import EOS, LanguageTokens, TokenizerPair
from locant.translation import Translator

SENTENCES = ["alpha beta", "mu nu xi omicron kappa", "", "gamma", "zeta eta theta iota", "  ", "beta alpha", "delta mu"]


def test_input_order_is_kept(translator: Translator) -> None:
    together = translator.translate(SENTENCES)
    assert together == [translator.translate(sentence) for sentence in SENTENCES]
    assert translator.translate(SENTENCES[::-1]) == together[::-1]
    # Sentences differ in their translations, so that a wrong order would show.
    assert len(set(together)) > 4


@pytest.mark.sampled(1)
@pytest.mark.parametrize("beam", [1, 3])
def test_batch_size_changes_nothing(translator: Translator, beam: int) -> None:
    assert translator.translate(SENTENCES, beam=beam, batch_tokens=1) == translator.translate(SENTENCES, beam=beam)


def test_n_best_is_ordered_and_begins_with_the_translation(translator: Translator) -> None:
    for sentence, found in zip(SENTENCES, translator.translate_n_best(SENTENCES, n_best=3), strict=True):
        assert found[0].text == translator.translate(sentence)
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert len(found) == (3 if sentence.strip() else 1)


def test_overrides_are_checked_and_leave_the_translator_alone(translator: Translator) -> None:
    translator.translate("alpha", beam=1)
    assert translator.settings.beam == 3
    with pytest.raises(ConfigError, match="Did you mean 'beam'"):
        translator.translate("alpha", beem=2)
    with pytest.raises(ConfigError, match="n_best is 4, but a beam of 3"):
        translator.translate_n_best(["alpha"], n_best=4)


def test_too_long_a_sentence_is_refused_before_any_work(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator.model, "encode", lambda *_: pytest.fail("translated"))
    length = len(translator.tokenizers.source.encode(["alpha " * 9])[0])
    with pytest.raises(DataError, match=f"Sentence 2 has {length} tokens, but at most 7"):
        translator.translate(["mu", "alpha " * 9], max_source_length=7)


def test_learned_positions_limit_source_and_target(tokenizers: TokenizerPair) -> None:
    size = tokenizers.source.vocab_size
    model = tiny_model(size, position="learned", position_options={"max_positions": 8})
    with torch.no_grad():
        model.output.weight[3] = 0  # Never ends by itself.
    translator = Translator(model, tokenizers)
    room = next(text for n in range(20, 0, -1) if len(tokenizers.source.encode([text := "mu " * n])[0]) <= 7)
    (found,) = translator.translate_n_best([room])
    assert found[0].text
    with pytest.raises(DataError, match="at most 7 can be translated"):
        translator.translate("alpha beta gamma " * 5)


@pytest.mark.parametrize("ends", [(0, 1), (1, 0)])
def test_translations_that_overlap_are_without_dropout_and_leave_the_mode_alone(
    translator: Translator, ends: tuple[int, int]
) -> None:
    """Whichever of them ends first, and whatever the mode becomes meanwhile."""
    expected = list(translator.stream(SENTENCES, chunk=1))
    for part in translator.model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.9
    translator.model.train()
    streams = [translator.stream(SENTENCES, chunk=1) for _ in ends]
    found = [[next(stream)] for stream in streams]
    modes = []
    for mode, which in zip((True, False), ends, strict=True):
        found[which] += streams[which]
        modes.append(translator.model.training)
        translator.model.train(not mode)
    assert found == [expected, expected]
    assert modes == [True, False]


@pytest.mark.parametrize("name", sorted(SCHEMES.keys() - {"fox"}))  # which is for decoders alone
def test_models_of_all_positions_are_searched_without_their_dropout(tokenizers: TokenizerPair, name: str) -> None:
    options = {"max_positions": 64, "evaluation_length": 32} if name == "randomised" else {}
    model = build(tokenizers, position=name, position_options=options, dropout=0.9)
    translator = Translator(model, tokenizers, DecodingSettings(beam=2, max_length_extra=3))
    expected = translator.translate(SENTENCES)
    model.train()
    ids = torch.tensor([[5, 6, 7, EOS]])
    model(ids, torch.tensor([4]), ids).sum().backward()  # what a forward pass keeps must not stand in the way
    assert translator.translate(SENTENCES) == expected


def test_stream_answers_chunk_by_chunk(translator: Translator) -> None:
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for sentence in SENTENCES:
            taken.append(sentence)
            yield sentence + "\n"

    answers = translator.stream(lines(), chunk=3)
    assert taken == []
    first = next(answers)
    assert len(taken) == 3
    assert [first, *answers] == translator.translate(SENTENCES)


@pytest.mark.parametrize("tie", [True, False])
def test_round_trip_through_a_folder(tokenizers: TokenizerPair, tmp_path: Path, tie: bool) -> None:
    model = tiny_model(tokenizers.source.vocab_size, sharpness=1.0 if tie else 3.0, tie_output=tie)
    settings = DecodingSettings(beam=2, max_length_extra=5)
    translator = Translator(model, tokenizers, settings, source_language="el", target_language="en")
    translator.save_pretrained(tmp_path / "model")
    loaded = Translator.from_pretrained(tmp_path / "model", device="cpu")
    assert loaded.translate_n_best(SENTENCES, n_best=2) == translator.translate_n_best(SENTENCES, n_best=2)
    assert (loaded.settings, loaded.source_language, loaded.target_language) == (settings, "el", "en")
    assert not loaded.model.training
    state, expected = loaded.model.state_dict(), model.state_dict()
    assert state.keys() == expected.keys()
    assert all(torch.equal(state[name], expected[name]) for name in state)
    assert (loaded.model.output.weight is loaded.model.target_embedding.weight) == tie


@pytest.mark.parametrize("index", [36, 2**40, -1])
@pytest.mark.parametrize("layout", ["fairseq", "marian"])
def test_language_tokens_outside_the_vocabulary(tokenizers: TokenizerPair, index: int, layout: str) -> None:
    several = TokenizerPair(tokenizers.source, tokenizers.target, LanguageTokens(layout=layout, ids={"en": index}))
    with pytest.raises(CheckpointError, match=f"language 'en' has the token {index}, but the model's source vocab"):
        Translator(tiny_model(36), several)
