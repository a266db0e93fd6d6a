from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locant.errors import ConfigError
from locant.text import Encoder, NoiseSettings, TrainingEpochs, add_noise, write_cache
from locant.text.pairs import memory_blocks

TEXT = "Don't look, Mr. Smith-Jones; the Straße is closed!"


def noisy(text: str, count: int = 400, **rates: float) -> Counter[str]:
    return Counter(add_noise([text] * count, NoiseSettings(**rates), [1, 2]))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("lowercase", "don't look, mr. smith-jones; the straße is closed!"),
        ("uppercase", "DON'T LOOK, MR. SMITH-JONES; THE STRASSE IS CLOSED!"),
        ("title_case", "Don't Look, Mr. Smith-Jones; The Straße Is Closed!"),
    ],
)
def test_case(kind, expected):
    assert noisy(TEXT, **{kind: 1}) == {expected: 400}
    some = noisy(TEXT, **{kind: 0.25})
    assert set(some) == {TEXT, expected}
    assert 70 <= some[expected] <= 130


def test_the_kinds_of_case_share_the_sentences():
    found = noisy(TEXT, lowercase=0.3, uppercase=0.3, title_case=0.4)
    assert len(found) == 3
    assert TEXT not in found
    with pytest.raises(ConfigError, match=r"together 1\.1; lower them to 1 at most"):
        NoiseSettings.parse({"lowercase": 0.6, "uppercase": 0.5})


def test_punctuation_is_left_out_or_exchanged_but_not_inside_words():
    found = noisy(TEXT, punctuation=1)
    assert found["Don't look Mr Smith-Jones the Straße is closed"] > 150
    letters = "".join(character for character in TEXT if character not in ".,;:!?")
    for text in found:
        assert "".join(character for character in text if character not in ".,;:!?") == letters
        assert not text.endswith("!")
    assert any(text.endswith("closed?") for text in found)
    assert set(noisy("你好。", punctuation=1)) == {
        "你好",
        *(f"你好{mark}" for mark in "\uff0c\uff1b\uff1a\uff01\uff1f"),
    }
    assert set(noisy("«Yes» (no)", punctuation=1)) == {"Yes no", "«Yes» (no)"}


def test_typos_change_a_letter_in_thirty_and_at_least_one():
    for text, most in (("kalo", 1), (TEXT * 3, 4)):
        for found in noisy(text, typos=1):
            assert sum((Counter(text) - Counter(found)).values()) <= most
            assert abs(len(found) - len(text)) <= most
            assert set(found) <= set(text)
    kinds = noisy("abcd", typos=1)
    assert {"bcd", "aabcd", "bacd", "abdd"} <= set(kinds)
    assert noisy("12 + 3 = 15.", typos=1) == {"12 + 3 = 15.": 400}


@given(st.lists(st.text()), st.floats(0, 1))
def test_any_text_keeps_something_and_depends_on_the_seed_alone(texts, rate):
    settings = NoiseSettings(lowercase=rate, typos=rate, punctuation=rate)
    changed = add_noise(texts, settings, [5])
    assert changed == add_noise(texts, settings, [5])
    assert [bool(text.strip()) for text in changed] == [bool(text.strip()) for text in texts]
    assert add_noise(texts, NoiseSettings(), [5]) == texts


def ids(column):
    return [column[index].tolist() for index in range(len(column.lengths))]


@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_noise_is_in_the_sources_of_its_part_and_anew_in_each_epoch(pairs, tokenizers, tmp_path, alpha):
    parts = [memory_blocks(pairs[:50]), memory_blocks(pairs[50:150])]
    cache = write_cache(parts, Encoder(tokenizers, max_tokens=60), tmp_path / "c")

    def epoch(number, seed=1):
        noise = [None, NoiseSettings(lowercase=0.5, typos=0.2)]
        return TrainingEpochs(cache, tokenizers=tokenizers, alpha=alpha, seed=seed, noise=noise)(number)

    def sources(tokens):
        return tokenizers.source.decode(ids(tokens.source))

    usual = sources(cache)
    first, second = epoch(0), epoch(1)
    count = cache.parts[0].pairs
    assert sources(first)[:count] == usual[:count]
    changed = [text != before for text, before in zip(sources(first), usual, strict=True)][count:]
    assert 0.4 <= sum(changed) / len(changed) <= 0.8
    assert any(text.startswith("the ") for text in sources(first))
    assert sources(first) != sources(second)
    assert sources(epoch(1)) == sources(second), "a resumed run starts with a later epoch"
    assert sources(epoch(1, seed=2)) != sources(second)
    assert tokenizers.target.decode(ids(first.target)) == tokenizers.target.decode(ids(cache.target))
    assert (ids(first.target) == ids(cache.target)) is (alpha == 0)
    assert first.source.lengths.max() < 60
