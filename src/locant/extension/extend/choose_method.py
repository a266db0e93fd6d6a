"""Choosing the method of an extension by what it does to a text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.errors import DataError
from locant.extension.extend.report import MeasuredMethod
from locant.extension.load import load_model, load_tokenizer

if TYPE_CHECKING:
    import torch

_ALIKE = 1.01  # perplexities that differ by less say nothing about which method is better


def choose_method(
    model: Path,
    candidates: Mapping[str, dict[str, Any]],
    lengths: tuple[int, int],
    texts: Sequence[Path],
    device: torch.device | str,
    on_measured: Callable[[MeasuredMethod], None] | None,
) -> tuple[str, dict[str, Any]]:
    """Measure a model and the methods that it can have, and choose one.

    Each is measured by the perplexity of one text of the original and one of the target length, the beginning of the
    text given; see the metric ``prefix`` of :data:`~locant.extension.evaluate.perplexity.METRICS`. Of the methods whose
    perplexity at the target length is within a hundredth of the best, the one that is best at the original length is
    taken. Without texts, the World English Bible of the built-in corpus is read.

    Args and errors are those of :func:`~locant.extension.extend.extend.extend_model`; ``candidates`` has the content of
    config.json for ``none``, which is the model as it is, and for every method.

    Returns:
        The method, and for the report ``measurements`` (first of the model as it is) and the ``lengths`` of the texts.
    """
    import torch

    from locant.extension.evaluate.documents import read_texts
    from locant.extension.evaluate.perplexity import perplexity_of
    from locant.extension.evaluate.prefill import Reader

    tokenizer, text, ids = load_tokenizer(model), "\n".join(each.text for each in read_texts(texts)), list[int]()
    for characters in (8 * lengths[1], len(text)):  # all of the text only if its beginning is too short
        if len(ids) < lengths[1]:
            ids = tokenizer(text[:characters], verbose=False)["input_ids"]
    if len(ids) <= lengths[0]:
        raise DataError(f"The text has {len(ids):,} tokens for this model; at least {lengths[0] + 1:,} are needed.")
    tokens = torch.tensor(ids[: lengths[1]])
    measured = []
    for method, content in candidates.items():
        reader = Reader(load_model(model, content, device=device))
        short, long = (
            perplexity_of(reader.losses(each).double().mean().item()) for each in (tokens[: lengths[0]], tokens)
        )
        del reader  # before the next one needs the memory
        measured.append(MeasuredMethod(method, short, long))
        if on_measured is not None:
            on_measured(measured[-1])
    best = min(each.long for each in measured[1:])
    if not math.isfinite(best):
        raise DataError("No perplexity is a number; the model's weights are damaged, or the text is no text.")
    alike = [each for each in measured[1:] if each.long <= _ALIKE * best]
    chosen = min(alike, key=lambda each: each.short).method
    return chosen, {"measurements": measured, "lengths": (lengths[0], len(tokens))}
