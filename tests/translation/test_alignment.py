"""Word alignments: links within bounds, from the attention of the layer, whatever the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_models import WORDS, tiny_model

from locant.analysis import introspect, token_pair
from locant.errors import ConfigError, DataError
from locant.models import RNN, RNNConfig
from locant.text import TokenizerPair, encode_with_spans
from locant.translation import Translator

SOURCES = ["alpha beta", "mu nu xi omicron kappa", "", "gamma", "zeta eta theta iota", "  ", "beta alpha", "delta mu"]
TEXT = st.lists(st.sampled_from([*WORDS, "alphabeta", " ", "\t"]), max_size=7).map(" ".join)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TEXT, TEXT), max_size=6))
def test_links_are_within_bounds_and_every_word_of_the_translation_has_one(translator: Translator, texts) -> None:
    sources, targets = [source for source, _ in texts], [target for _, target in texts]
    for source, target, alignment in zip(sources, targets, translator.align(sources, targets), strict=True):
        words = source.split(), target.split()
        assert (alignment.source_words, alignment.target_words) == tuple(map(tuple, words))
        assert list(alignment.links) == sorted(set(alignment.links))
        assert {number for _, number in alignment.links} == (set(range(len(words[1]))) if words[0] else set())
        assert all(number in range(len(words[0])) for number, _ in alignment.links)
        for (begin, end), (first, last) in alignment.subword_links:
            assert source[begin:end] == source[begin:end].strip()
            assert target[first:last] == target[first:last].strip()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "alibi", "shaw", "learned", "none"])
def test_links_are_where_the_attention_of_the_layer_is_largest(tokenizers: TokenizerPair, position: str) -> None:
    model = tiny_model(tokenizers.source.vocab_size, seed=5, position=position, decoder_layers=3)
    translator = Translator(model, tokenizers)
    targets = ["beta", "kappa omicron xi", "alpha", "gamma gamma", "iota", "mu", "", "mu delta"]
    for layer in range(3):
        read = translator.align(SOURCES, targets, layer=layer, step="reads")
        predicted = translator.align(SOURCES, targets, layer=layer, step="predicts")
        aligned = [(one.subword_links, other.subword_links) for one, other in zip(read, predicted, strict=True)]
        for source, target, alignment in zip(SOURCES, targets, aligned, strict=True):
            if not (source.split() and target.split()):
                assert alignment == ((), ())
                continue
            seen = token_pair(tokenizers, source, target)
            weights = introspect(model, seen.source, seen.target).cross_attention[layer].mean(0)
            ((_, spans),) = encode_with_spans(tokenizers.source, [source])
            ((_, of_target),) = encode_with_spans(tokenizers.target, [target])
            # Without EOS of the source; BOS is read before the first subword is predicted.
            for found, rows in zip(alignment, (weights[1:, :-1], weights[:-1, :-1]), strict=True):
                assert tuple(span for _, span in found) == tuple(of_target)
                places = torch.tensor([spans.index(span) for span, _ in found])
                # Without positions a subword that stands twice in a sentence is attended to alike, but for rounding.
                assert torch.allclose(rows.gather(1, places[:, None]).squeeze(1), rows.amax(1), rtol=1e-4)


def test_batches_change_nothing(translator: Translator) -> None:
    targets = translator.translate(SOURCES)
    together = translator.align(SOURCES, targets)
    assert together == [translator.align([a], [b])[0] for a, b in zip(SOURCES, targets, strict=True)]
    assert together == translator.align(SOURCES, targets, batch_tokens=1)
    assert together == translator.align(SOURCES[::-1], targets[::-1])[::-1]


def test_a_recurrent_model_links_with_the_step_that_predicts(tokenizers: TokenizerPair) -> None:
    torch.manual_seed(0)
    size = tokenizers.source.vocab_size
    model = RNN(RNNConfig(source_vocab_size=size, target_vocab_size=size, d_model=16, hidden_size=24)).eval()
    source, lengths = torch.tensor([[5, 6, 7, 3]]), torch.tensor([4])
    target = torch.tensor([[2, 9, 8, 10]])
    weights = model.alignment_weights(source, lengths, target)
    assert weights.shape == (1, 4, 4)
    assert torch.allclose(weights.sum(2), torch.tensor([[0.0, 1.0, 1.0, 1.0]]))
    # A token's weights do not depend on the token itself, but on those before it.
    changed = model.alignment_weights(source, lengths, torch.tensor([[2, 9, 8, 11]]))
    assert torch.equal(weights, changed)
    (alignment,) = Translator(model, tokenizers).align(["alpha beta"], ["mu nu"])
    assert {number for _, number in alignment.links} == {0, 1}


def test_a_model_without_its_weights_is_read_from_its_folder(translator: Translator, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    translator.save_pretrained(tmp_path / "model")
    targets = translator.translate(SOURCES)
    elsewhere = Translator.from_pretrained(tmp_path / "model", engine="ctranslate2", device="cpu")
    assert elsewhere.model.output.weight.is_meta
    assert elsewhere.align(SOURCES, targets) == translator.align(SOURCES, targets)


@pytest.mark.parametrize(
    ("source", "translation", "options", "message"),
    [
        ("mu", "nu", {}, "lists of sentences"),
        (["mu"], "n", {}, "lists of sentences"),
        (["mu", "nu\ud800"], ["mu", "nu"], {}, "Pair 2 has half of a character"),
        (["mu"], ["\udfff"], {}, "Pair 1 has half of a character"),
        (["mu"], ["nu"], {"step": "predict"}, "'predicts' or 'reads', not 'predict'"),
    ],
)
def test_what_cannot_be_aligned(
    translator: Translator, source: Any, translation: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        translator.align(source, translation, **options)
