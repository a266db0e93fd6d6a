"""Comparison of a translator with the same model in transformers."""

from __future__ import annotations

from typing import Any

import torch
from small_models import padded

from locant.text import EOS
from locant.translation import Translator

STEPS = 9


def require_same(
    translator: Translator,
    other: Any,
    theirs: Any,
    rows: torch.Tensor,
    texts: list[str],
    target_rows: torch.Tensor | None = None,
    **search: Any,
) -> None:
    """Compare ids, logits and greedy translations.

    ``rows`` has their row of each of our ids; where the sides have a vocabulary each, ``target_rows`` those of the
    target. ``search`` is what their search needs to know.
    """
    target_rows = rows if target_rows is None else target_rows
    before, prefix = translator.prefixes
    own = [[*before, *ids, EOS] for ids in translator.tokenizers.source.encode(texts)]
    assert [rows[ids].tolist() for ids in own] == theirs(texts)["input_ids"]

    batch = theirs(texts, return_tensors="pt", padding=True)
    written = torch.randint(4, len(target_rows), (len(texts), STEPS), generator=torch.Generator().manual_seed(0))
    written[:, : len(prefix)] = torch.tensor(prefix)
    with torch.no_grad():
        expected = other(**batch, decoder_input_ids=target_rows[written]).logits[..., target_rows]
        found = translator.model(*padded(own), written)
    assert (found - expected).abs().max() < 1e-4
    assert expected.std() > 0.1

    limits = {"max_length": None, "max_new_tokens": STEPS + len(prefix)}
    generated = other.generate(**batch, num_beams=1, **limits, **search)
    translations = [text.strip() for text in theirs.batch_decode(generated[:, 1:], skip_special_tokens=True)]
    ours = translator.translate(texts, beam=1, max_length_ratio=1e-9, max_length_extra=STEPS)
    assert [text.strip() for text in ours] == translations
