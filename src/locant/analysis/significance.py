"""Paired significance tests of two systems' translations of one text, by sacreBLEU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from locant.analysis.scores import Scores, score_translations

RESAMPLINGS = 1000
"""Random samples of the sentences that are scored, as in Koehn 2004 and by default in sacreBLEU."""

_SMALLEST_SCORE = 0.05
"""What is less is shown as 0.0."""


@dataclass(frozen=True)
class PairedComparison:
    """Two systems' scores of one text, and how likely their difference is chance.

    Attributes:
        before: Scores of the first system.
        after: Scores of the second.
        bleu_p_value: Of the difference in BLEU, 0 to 1; below 0.05 it is usually called significant.
        chrf_p_value: Of the difference in chrF.
        bleu_interval: Mean BLEU of the samples and half the width of its 95% interval, of the first and of the second.
        resamplings: How many samples there were.
    """

    before: Scores
    after: Scores
    bleu_p_value: float
    chrf_p_value: float
    bleu_interval: tuple[tuple[float, float], tuple[float, float]]
    resamplings: int = RESAMPLINGS

    @property
    def bleu_chance(self) -> float | None:
        """The p-value of BLEU; ``None`` where there is nothing to tell apart: equal scores, or both 0.0."""
        return _chance(self.before.bleu, self.after.bleu, self.bleu_p_value)

    @property
    def chrf_chance(self) -> float | None:
        """The p-value of chrF; ``None`` likewise."""
        return _chance(self.before.chrf, self.after.chrf, self.chrf_p_value)

    @property
    def bleu_gain(self) -> float:
        """BLEU of the second system minus that of the first."""
        return self.after.bleu - self.before.bleu

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        return asdict(self)


def _chance(before: float, after: float, p_value: float) -> float | None:
    return None if before == after or max(before, after) < _SMALLEST_SCORE else p_value


def paired_bootstrap(
    before: Sequence[str], after: Sequence[str], references: Sequence[str], *, tokenize: str = "13a"
) -> PairedComparison:
    """Compare two systems by paired bootstrap resampling.

    Source: Koehn 2004, "Statistical Significance Tests for Machine Translation Evaluation", section 3, with the
    two-sided p-value of Riezler and Maxwell 2005, as sacreBLEU computes it.

    Args:
        before: Translations of the first system, as plain text.
        after: Of the second, in the same order.
        references: The right ones, likewise.
        tokenize: sacreBLEU's tokenizer for BLEU; see :func:`~locant.analysis.bleu_tokenizer`.

    Raises:
        DataError: There are no sentences, or not as many of each.
        ConfigError: sacreBLEU has no such tokenizer.
    """
    from sacrebleu.metrics.bleu import BLEU  # takes time that translating does not need
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest

    scores = [score_translations(list(one), references, tokenize=tokenize) for one in (before, after)]
    # With force it says nothing of tokenised text.
    metric = BLEU(tokenize=tokenize, force=True, references=[list(references)])
    test = PairedTest(
        [("before", list(before)), ("after", list(after))],
        {"BLEU": metric, "chrF2": CHRF(references=[list(references)])},
        references=None,
        test_type="bs",
        n_samples=RESAMPLINGS,
    )
    found: dict[str, list[Any]] = test()[1]  # beside the names of the systems
    bleu, chrf = found["BLEU"], found["chrF2"]
    same = list(before) == list(after)
    return PairedComparison(
        before=scores[0],
        after=scores[1],
        # sacreBLEU calls the difference of a text from itself, which is 0 in every sample, no chance either.
        bleu_p_value=1.0 if same else float(bleu[1].p_value),
        chrf_p_value=1.0 if same else float(chrf[1].p_value),
        bleu_interval=((float(bleu[0].mean), float(bleu[0].ci)), (float(bleu[1].mean), float(bleu[1].ci))),
    )
