import random

import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from locant.analysis import paired_bootstrap
from locant.errors import DataError


def texts(seed: int, wrong: float) -> list[str]:
    """Sentences of which some words are wrong; the right ones do not depend on the seed."""
    words, errors = random.Random(0), random.Random(seed)
    return [
        " ".join("x" if errors.random() < wrong else word for word in words.choices("abcdefgh", k=9)) for _ in range(60)
    ]


def test_scores_and_p_values_are_those_of_sacrebleu():
    references, before, after = texts(0, 0), texts(1, 0.3), texts(2, 0.1)
    found = paired_bootstrap(before, after, references)
    metric = sacrebleu.BLEU()
    _, expected = PairedTest([("a", before), ("b", after)], {"BLEU": metric}, [references], "bs", 1000)()
    assert found.before.bleu == sacrebleu.corpus_bleu(before, [references]).score == expected["BLEU"][0].score
    assert found.after.bleu == expected["BLEU"][1].score
    assert found.bleu_p_value == expected["BLEU"][1].p_value < 0.01
    assert found.bleu_interval[1] == (expected["BLEU"][1].mean, expected["BLEU"][1].ci)
    assert found.bleu_gain == found.after.bleu - found.before.bleu > 5


def test_small_differences_are_not_significant_and_no_difference_is_chance():
    references, before, after = texts(0, 0), texts(1, 0.2), texts(2, 0.2)
    assert paired_bootstrap(before, after, references).bleu_p_value > 0.05
    assert paired_bootstrap(before, before, references).bleu_p_value == 1.0


def test_equal_scores_and_none_leave_nothing_to_tell_apart():
    references, before, after = texts(0, 0), texts(1, 0.2), texts(2, 0.2)
    found = paired_bootstrap(before, after, references)
    assert (found.bleu_chance, found.chrf_chance) == (found.bleu_p_value, found.chrf_p_value)
    same = paired_bootstrap(before, before, references)
    assert (same.bleu_chance, same.chrf_chance) == (None, None)
    nothing = paired_bootstrap(["ü"] * 60, ["ö ö"] * 60, references)
    assert (nothing.bleu_chance, nothing.chrf_chance) == (None, None)


def test_sentences_must_be_as_many():
    with pytest.raises(DataError, match="as many references"):
        paired_bootstrap(["a"], ["a", "b"], ["a"])
