"""The longest source sentence that a model has seen often enough to translate it whole."""

from __future__ import annotations

import numpy as np

from locant.text import TokenCache
from locant.training.plan import Choice
from locant.training.recipe import Recipe

_OFTEN, _OFTEN_SHARE = 1000, 0.05
"""Training sentences, and share of all of them where that is fewer, that make a length one which was seen often."""
_ROWS = 1 << 20
"""Rows that are looked at at once, so that a large text needs no memory."""
_LEAST_USUAL = 24
"""Tokens that a sentence of a document may have in any case: parts would be too short to be understood."""


def choose_usual_length(recipe: Recipe, train: TokenCache) -> tuple[Recipe, tuple[Choice, ...]]:
    """Choose ``decoding.usual_source_length``: as many tokens as many training sentences have, or more of them.

    Args:
        recipe: Complete but for that.
        train: The tokenised training text.

    Returns:
        The complete recipe, and what was chosen; nothing where the recipe says it, ``null`` included.
    """
    if "usual_source_length" in recipe.decoding.model_fields_set:
        return recipe, ()
    counts, end = np.zeros(train.max_tokens, np.int64), 0
    for part in train.parts:
        begin, end = end, end + part.pairs
        for first in range(begin, end, _ROWS):
            # Rows hold what says the languages, which no sentence of a document has.
            lengths = train.source.lengths[first : min(end, first + _ROWS)] - len(part.prefixes.source)
            counts += np.bincount(lengths, minlength=len(counts))
    often = max(1, min(_OFTEN, round(_OFTEN_SHARE * end)))
    as_long = counts[::-1].cumsum()[::-1]
    seen = int(np.flatnonzero(as_long >= often)[-1])
    if seen >= _LEAST_USUAL:
        reason = f"{often:,} training sentences are as long or longer"
    else:
        reason = f"the least; {often:,} training sentences have {seen} tokens or more"
    chosen = Choice("decoding.usual_source_length", max(seen, _LEAST_USUAL), reason)
    decoding = recipe.decoding.model_copy(update={"usual_source_length": chosen.value})
    return recipe.model_copy(update={"decoding": decoding}), (chosen,)
