"""Number of heads: the translator of a recipe with one attention head or several, at equal parameters.

Vaswani et al. 2017, Table 3, row (A): the width of the model stays, and is divided among the heads.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from locant.errors import ConfigError
from locant.lab.task import Published
from locant.lab.translation import TranslationTask
from locant.lab.translation_measures import TABLE
from locant.models.config import TransformerConfig
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.transformer import Transformer
from locant.training import Budget

_PAPER = {1: 24.9, 4: 25.5, 8: 25.8, 16: 25.8, 32: 25.4}


class HeadsTask(TranslationTask):
    """A recipe of ``locant train`` with different numbers of heads; weights and their number are the same for all."""

    name: ClassVar[str] = "heads"
    title: ClassVar[str] = "Translation with different numbers of attention heads, at equal parameters"

    @classmethod
    def default_variants(cls) -> tuple[str, ...]:
        """Return the numbers of heads."""
        return ("1", "2", "4", "8")

    def check_variant(self, variant: str) -> None:
        """Variants are numbers of heads that share the width of the recipe's model evenly."""
        base = self._recipe(1, Budget(steps=1)).sized_model(100, 100)
        if isinstance(base, TransformerConfig):
            _with_heads(base, variant)

    def published(self, text: str) -> tuple[Published, ...]:
        """Return the comparison of the paper, on another corpus and with a far larger model."""
        return tuple(
            Published(f"2017 paper, {heads} heads" if heads > 1 else "2017 paper, 1 head", "bleu", bleu, where)
            for heads, bleu in _PAPER.items()
            for where in [f"{TABLE}, {'base model' if heads == 8 else 'row (A)'}"]
        )

    def build(self, variant: str, base: TransformerConfig, seed: int, *, longest: int) -> EncoderDecoder[Any]:
        """Return an untrained model with so many heads, its weights those of every other variant."""
        torch.manual_seed(seed)
        return Transformer(_with_heads(base, variant))


def _with_heads(base: TransformerConfig, variant: str) -> TransformerConfig:
    if not variant.isdecimal() or int(variant) < 1:
        raise ConfigError(f"'{variant}' is no number of heads. Write them with commas between, as in 1,2,4,8.")
    return TransformerConfig.parse({**base.to_dict(), "heads": int(variant)}, f"{variant} heads")
