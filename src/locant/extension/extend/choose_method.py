"""Choosing the method of an extension by what it does to a text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from locant.errors import ConfigError, DataError
from locant.extension.extend.methods import apply_method, extension_methods
from locant.extension.extend.report import MeasuredMethod
from locant.extension.load import load_config, load_model, load_tokenizer

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PreTrainedModel

_ALIKE = 1.01  # perplexities that differ by less say nothing about which method is better
_BOOK = "web"
_LARGEST_EXPONENT = 700


def choose_method(
    model: Path,
    lengths: tuple[int, int],
    *,
    check: Callable[[str], object],
    texts: Sequence[Path] = (),
    device: torch.device | str = "cpu",
    on_measured: Callable[[MeasuredMethod], None] | None = None,
) -> tuple[str, list[MeasuredMethod], tuple[int, int]]:
    """Measure the methods that a model can have, and choose one.

    Each is measured by the perplexity of one text of the original and one of the target length, the beginning of the
    text given; see the metric ``prefix`` of :data:`~locant.extension.evaluate.perplexity.METRICS`. Of the methods whose
    perplexity at the target length is within a hundredth of the best, the one that is best at the original length is
    taken. ``dynamic`` is no candidate: with cached keys, transformers does not compute what would be measured.

    Args:
        model: A path from :func:`~locant.extension.source.resolve_model`.
        lengths: Original and target length in tokens.
        check: Raises ConfigError for a method that cannot be written.
        texts: Files of UTF-8 text; the World English Bible of the built-in corpus where there are none.
        device: Where to compute.
        on_measured: Called after each candidate.

    Returns:
        The method, what was measured (first of the model as it is), and the lengths of the two texts in tokens.

    Raises:
        ConfigError: No method can be applied.
        DataError: The text is not longer than the original length, or cannot be read.
        LocantError: The model cannot be loaded, or has logits that are no numbers.
    """
    content = load_config(model)
    candidates, reasons = {"none": content}, []
    for method, about in extension_methods().items():
        if not about.comparable:
            continue
        try:
            check(method)
            candidates[method] = apply_method(content, method, lengths[1])
        except ConfigError as error:
            reasons.append(str(error))
    if len(candidates) == 1:
        raise ConfigError(reasons[0])
    tokens = _tokens(model, texts, lengths)
    long = min(lengths[1], len(tokens))
    measured = []
    for method, config in candidates.items():
        loaded = load_model(model, config, device=device)
        found = MeasuredMethod(method, _perplexity(loaded, tokens[: lengths[0]]), _perplexity(loaded, tokens[:long]))
        del loaded  # before the next one needs the memory
        measured.append(found)
        if on_measured is not None:
            on_measured(found)
    best = min(each.long for each in measured[1:])
    if not math.isfinite(best):
        raise DataError("No perplexity is a number; the model's weights are damaged, or the text is no text.")
    alike = [each for each in measured[1:] if each.long <= _ALIKE * best]
    return min(alike, key=lambda each: each.short).method, measured, (lengths[0], long)


def _tokens(model: Path, texts: Sequence[Path], lengths: tuple[int, int]) -> Tensor:
    import torch

    from locant.extension.extend.finetune import read_tokens

    tokenizer = load_tokenizer(model)
    if texts:
        return read_tokens(texts, tokenizer, lengths[0] + 1)[: lengths[1]]
    from locant.text.bible import find_version, read_version

    text, found = "\n".join(read_version(find_version(_BOOK)).values()), torch.tensor([])
    for characters in (8 * lengths[1], len(text)):  # the whole book only if its beginning is too short
        found = torch.tensor(tokenizer(text[:characters], verbose=False)["input_ids"])
        if len(found) >= lengths[1]:
            break
    if len(found) <= lengths[0]:
        raise DataError(f"The built-in text has {len(found):,} tokens for this model. Give a longer one with --text.")
    return found[: lengths[1]]


def _perplexity(model: PreTrainedModel, tokens: Tensor) -> float:
    from locant.extension.evaluate.prefill import token_losses

    mean = token_losses(model, tokens).double().mean().item()
    return math.exp(mean) if mean < _LARGEST_EXPONENT else math.inf
