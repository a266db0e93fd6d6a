"""Tokenised training data from a corpus: cleaning, tokenizers, caches, in a folder that later runs reuse."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from locant.errors import DataError
from locant.files import read_json, write_json
from locant.text.cache import SampledEpochs, TokenCache, write_cache
from locant.text.cleaning import TOO_MANY_TOKENS, CleaningReport, CleaningSettings, clean
from locant.text.corpus import Corpus
from locant.text.pairs import Pair
from locant.text.tokenizer import TokenizerPair, TokenizerSettings, train_tokenizers

_FORMAT = 1  # Raise it when what is on disk, or how text is cleaned and tokenised, changes.


@dataclass(frozen=True)
class PreparedData:
    """Everything a training run needs of a corpus.

    Attributes:
        tokenizers: Saved in the folder.
        train: Tokens of the cleaned training text.
        valid: Tokens of the validation text; pairs with too many tokens are left out.
        valid_pairs: The text of validation, complete.
        test_pairs: The text of the test, or None when the corpus has none.
        report: What cleaning removed.
        fingerprint: Identifies the text and the settings from which all this was made.
        sampling: The subword sampling of the tokenizer settings.
    """

    tokenizers: TokenizerPair
    train: TokenCache
    valid: TokenCache
    valid_pairs: list[Pair]
    test_pairs: list[Pair] | None
    report: CleaningReport
    fingerprint: str
    sampling: float

    def epochs(self, seed: int) -> Callable[[int], TokenCache]:
        """Return a function that gives the training tokens of each epoch, sampled anew if the settings say so."""
        if self.sampling:
            return SampledEpochs(self.train, self.tokenizers, alpha=self.sampling, seed=seed)
        return lambda epoch: self.train


def prepare(
    corpus: Corpus,
    cleaning: CleaningSettings,
    tokenizer: TokenizerSettings,
    *,
    max_tokens: int,
    folder: Path,
    resume: bool = False,
) -> PreparedData:
    """Clean and tokenise a corpus, or reuse what the folder holds when it was made from the same text and settings.

    Args:
        corpus: The text.
        cleaning: What to remove from the training text.
        tokenizer: How to learn the vocabulary.
        max_tokens: The most tokens of a sentence, EOS and language tokens included; longer training pairs are dropped.
        folder: Receives the tokenizers, and ``cache/`` with the tokens.
        resume: Never replace tokenizers that a model may already have been trained with.

    Raises:
        DataError: Nothing is left of the training text; or, with ``resume``, the folder was prepared from another text
            or other settings.
        ConfigError: The vocabulary size does not suit the text.
        CheckpointError: The disk is full or not writable.
    """
    fingerprint = _fingerprint(corpus, cleaning, tokenizer, max_tokens)
    cache = folder / "cache"
    record = cache / "prepared.json"
    known = read_json(record) if record.exists() else None
    if known is not None and known["fingerprint"] == fingerprint:
        tokenizers = TokenizerPair.load(folder)
        train, valid = TokenCache(cache / "train"), TokenCache(cache / "valid")
        report = CleaningReport(known["cleaning"]["total"], known["cleaning"]["removed"])
    else:
        if known is not None and resume:
            raise DataError(
                f"The folder {folder} was prepared from another text or with other settings of the corpus, the "
                "cleaning or the tokenizer, so training cannot go on with this one. Restore them, or start a new run."
            )
        record.unlink(missing_ok=True)
        text = clean(corpus.train, chain(corpus.valid, corpus.test or ()), cleaning)
        tokenizers = train_tokenizers(text, tokenizer)
        tokenizers.save(folder)
        prefixes = tokenizers.prefixes(corpus.source_language, corpus.target_language)
        write = partial(write_cache, tokenizers=tokenizers, max_tokens=max_tokens, prefixes=prefixes)
        train = write(text, folder=cache / "train", keep_text=tokenizer.sampling > 0)
        valid = write(corpus.valid, folder=cache / "valid")
        report = text.report.with_removed(TOO_MANY_TOKENS, train.dropped)
        write_json(record, {"fingerprint": fingerprint, "cleaning": report.to_dict()})
    return PreparedData(
        tokenizers=tokenizers,
        train=train,
        valid=valid,
        valid_pairs=list(corpus.valid),
        test_pairs=None if corpus.test is None else list(corpus.test),
        report=report,
        fingerprint=fingerprint,
        sampling=tokenizer.sampling,
    )


def _fingerprint(corpus: Corpus, cleaning: CleaningSettings, tokenizer: TokenizerSettings, max_tokens: int) -> str:
    made_from: dict[str, Any] = {
        "format": _FORMAT,
        "text": corpus.digest,
        "cleaning": cleaning.to_dict(),
        "tokenizer": tokenizer.to_dict(),
        "max_tokens": max_tokens,
    }
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()
