"""Filters of machine-translated text."""

from __future__ import annotations

import pytest

from locant.text import TranslationFilters
from locant.text.cleaning import most_repetitions


@pytest.mark.parametrize(
    ("settings", "sentence", "translation", "score", "reason"),
    [
        ({}, "one two", " ", -0.1, "empty translation"),
        ({}, "one two", "one two", -9.0, None),
        ({"min_score": -1.0}, "one two", "eins zwei", -1.0, None),
        ({"min_score": -1.0}, "one two", "eins zwei", -1.01, "low score"),
        ({"min_score": -1.0}, "one two", "eins zwei", float("nan"), "low score"),
        ({"max_ratio": 2.0}, "one two", "eins zwei drei vier", -0.1, None),
        ({"max_ratio": 2.0}, "one two", "eins zwei drei vier fünf", -0.1, "length ratio"),
        ({"max_ratio": 2.0}, "one two three", "eins", -0.1, "length ratio"),
        ({"max_ratio": 2.0}, "four words are here", "两只狗在跑", -0.1, None),  # each character is a word
        ({"copies": True}, "One  two", "one TWO ", -0.1, "copy"),
        ({"copies": True}, "one two", "one two.", -0.1, None),
        ({"max_repetitions": 2}, "go", "geh geh geh", -0.1, "repetition"),
        ({"max_repetitions": 2}, "go", "geh geh", -0.1, None),
        ({"max_repetitions": 2}, "Holy, holy, holy", "Heilig, heilig, heilig,", -0.1, "repetition"),
        ({"max_repetitions": 2}, "Holy, holy, holy,", "Heilig, heilig, heilig,", -0.1, None),
        ({"max_repetitions": 2}, "he went", "er ging und ging und ging und ging", -0.1, "repetition"),
        ({"max_repetitions": 2, "max_ratio": 1.5}, "go", "geh geh geh", -0.1, "length ratio"),  # the first that applies
    ],
)
def test_the_first_reason_that_applies(settings, sentence, translation, score, reason):
    assert TranslationFilters.parse(settings).reason_to_remove(sentence, translation, score) == reason


@pytest.mark.parametrize(
    ("text", "times"),
    [("", 0), ("a", 1), ("a b a b", 2), ("a b c a b c a b c x", 3), ("a b c d a b c d", 2), ("a b c d e a b c d e", 1)],
)
def test_repetitions_in_direct_succession(text, times):
    assert most_repetitions(text.split()) == times
