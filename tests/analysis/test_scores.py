from __future__ import annotations

import math

import pytest
import sacrebleu

from locant.analysis import bleu_tokenizer, score_translations
from locant.errors import ConfigError, DataError


def test_bleu_by_hand() -> None:
    """Five of six words, then 3 of 5 pairs, 2 of 4 triples, 1 of 3 quadruples match; no brevity penalty."""
    scores = score_translations(["the cat sat on the rug"], ["the cat sat on the mat"])
    assert scores.bleu == pytest.approx(100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** (1 / 4))
    assert scores.n == 1


def test_brevity_penalty_by_hand() -> None:
    scores = score_translations(["a b c d"], ["a b c d e f"])
    assert scores.bleu == pytest.approx(100 * math.exp(1 - 6 / 4))


def test_equals_sacrebleu_and_carries_its_signatures() -> None:
    hypotheses, references = ["Das ist ein Haus.", "Guten Tag, Welt"], ["Das ist mein Haus.", "Guten Tag, Welt!"]
    scores = score_translations(hypotheses, references)
    assert scores.bleu == sacrebleu.corpus_bleu(hypotheses, [references]).score
    assert scores.chrf == sacrebleu.corpus_chrf(hypotheses, [references]).score
    version = f"version:{sacrebleu.__version__}"
    assert scores.bleu_signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|{version}"
    assert scores.chrf_signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|{version}"
    assert scores.to_dict()["bleu"] == scores.bleu


def test_lowercase_and_tokenizer() -> None:
    assert score_translations(["The Big Old House"], ["the big old house"], lowercase=True).bleu == pytest.approx(100)
    chinese = score_translations(["我喜欢红色的苹果"], ["我喜欢红色的苹果"], tokenize="zh")
    assert chinese.bleu == pytest.approx(100)
    assert "tok:zh" in chinese.bleu_signature


def test_tokenizer_of_a_language() -> None:
    assert [bleu_tokenizer(code) for code in ("de", "zh-TW", "zh_cn", "th", None)] == ["13a", "zh", "zh", "char", "13a"]
    assert [bleu_tokenizer(code) for code in ("deu_Latn", "zho_Hans", "khm_Khmr")] == ["13a", "zh", "char"]
    assert bleu_tokenizer(None, ["東京へ行きます。"]) == bleu_tokenizer("jpn_Jpan")
    assert bleu_tokenizer(None, ["我们去北京。"]) == bleu_tokenizer("yue_Hant") == "zh"
    assert bleu_tokenizer(None, ["ไปกรุงเทพ"]) == "char"
    assert bleu_tokenizer("de", ["東京へ行きます。"]) == "13a"
    assert bleu_tokenizer("ja") in ("char", "ja-mecab")
    assert bleu_tokenizer("ko") in ("char", "ko-mecab")


def test_mistakes() -> None:
    with pytest.raises(DataError, match="2 translations and 1 references"):
        score_translations(["a", "b"], ["a"])
    with pytest.raises(DataError, match="at least one"):
        score_translations([], [])
    with pytest.raises(ConfigError, match="no tokenizer 'moses'"):
        score_translations(["a"], ["a"], tokenize="moses")
