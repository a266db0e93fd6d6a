"""Tokenised training data from a corpus: cleaning, tokenizers, caches, in a folder that later runs reuse."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from locant.errors import DataError
from locant.files import explaining_damage, read_json, sealed, write_json
from locant.text.cache import Encoder, TokenCache, write_cache
from locant.text.cleaning import REASONS, TOO_MANY_TOKENS, CleaningReport, CleaningSettings, clean
from locant.text.corpus import Corpus, CorpusPart
from locant.text.epochs import RowSampler, TrainingEpochs
from locant.text.pairs import Pair, ParallelText, concatenated
from locant.text.store import FACTS_FILE, Progress, no_progress
from locant.text.tokenizer import TokenizerSettings
from locant.text.tokenizer_pair import TokenizerPair
from locant.text.vocabulary import Pairs, train_tokenizers
from locant.text.workers import SEVERAL_PROCESSES, usable_processes

_logger = logging.getLogger("locant")

_FORMAT = 1  # Raise it when what is on disk, or how text is cleaned and tokenised, changes.


@dataclass(frozen=True)
class PreparedData:
    """Everything a training run needs of a corpus.

    Attributes:
        tokenizers: Saved in the folder.
        train: Tokens of the cleaned training text.
        valid: Tokens of the validation text, of the same parts but for zero-shot directions, whose loss should decide
            nothing; pairs with too many tokens are left out.
        valids: The text of validation, complete, by the name of the part; parts without any are missing.
        tests: The text of the tests, likewise.
        reports: What cleaning removed, by the name of the part.
        fingerprint: Identifies the text and the settings from which all this was made.
        sampling: The subword sampling of the tokenizer settings.
        corpus: What all this was made from.
    """

    tokenizers: TokenizerPair
    train: TokenCache
    valid: TokenCache
    valids: dict[str, list[Pair]]
    tests: dict[str, list[Pair]]
    reports: dict[str, CleaningReport]
    fingerprint: str
    sampling: float
    corpus: Corpus

    @property
    def report(self) -> CleaningReport:
        """What cleaning removed from all parts."""
        removed = Counter[str]()
        for report in self.reports.values():
            removed.update(report.removed)
        return CleaningReport(sum(report.total for report in self.reports.values()), dict(removed))

    @property
    def sizes(self) -> list[int]:
        """The training pairs of each part."""
        return [part.pairs for part in self.train.parts]

    def epochs(self, seed: int, rank: int = 0, processes: int = 1) -> TrainingEpochs:
        """Return what gives the training tokens of each epoch, drawn by weight, with sampling and noise if so set.

        Args:
            seed: Any non-negative integer.
            rank: The number of this process in the training, from 0.
            processes: How many the training has; the first one samples for all.
        """
        corpus = self.corpus
        return TrainingEpochs(
            self.train,
            [RowSampler(self.sizes, weights, corpus.temperature, seed=seed) for weights in corpus.weights],
            tokenizers=self.tokenizers,
            alpha=self.sampling,
            seed=seed,
            noise=[part.noise for part in corpus.parts],
            shared_by=(rank, processes),
        )


def prepare(
    corpus: Corpus,
    cleaning: CleaningSettings,
    tokenizer: TokenizerSettings,
    *,
    max_tokens: int,
    folder: Path,
    resume: bool = False,
    made_before: str | None = None,
    make_tokenizers: Callable[[Pairs], TokenizerPair] | None = None,
    processes: int | None = None,
    progress: Progress = no_progress,
) -> PreparedData:
    """Clean and tokenise a corpus, or reuse what the folder holds when it was made from the same text and settings.

    Args:
        corpus: The text.
        cleaning: What to remove from the training text.
        tokenizer: How to learn the vocabulary.
        max_tokens: The most tokens of a sentence, EOS and language tokens included; longer training pairs are dropped.
        folder: Receives the tokenizers, and ``cache/`` with the tokens.
        resume: Never replace tokenizers that a model may already have been trained with.
        made_before: With ``resume``, the fingerprint of what was prepared then, where the folder holds it no more.
        make_tokenizers: Returns the tokenizers, given the cleaned training text, where they are not learned from it
            alone: those of another model.
        processes: How many tokenise at once; by default one for a small text, and for a large one as many as there are
            cores. What is prepared does not depend on it.
        progress: Called with what is being done, and its share, 0 to 1.

    Raises:
        DataError: Nothing is left of the training text; or, with ``resume``, the folder was prepared from another text
            or other settings.
        ConfigError: The vocabulary has no room for the characters of the text.
        CheckpointError: The disk is full or not writable.
    """
    fingerprint = _fingerprint(corpus, cleaning, tokenizer, max_tokens)
    cache = folder / "cache"
    record = cache / "prepared.json"
    known: str | None = None
    if record.exists():
        about = read_json(record)
        with explaining_damage(record):
            # Earlier versions wrote one report.
            known, of_parts = str(about["fingerprint"]), about.get("parts", [about.get("cleaning")])
            reports = [CleaningReport.from_dict(part) for part in of_parts]
            if known == fingerprint and len(reports) != len(corpus.parts):
                raise ValueError(f"it tells of {len(reports)} parts of the corpus, which has {len(corpus.parts)}")
    # What another model's tokenizers made may be left of another model.
    reusable = (resume or make_tokenizers is None) and all((cache / name).is_dir() for name in ("train", "valid"))
    if reusable and known == fingerprint:
        tokenizers = TokenizerPair.load(folder)
        train, valid = TokenCache(cache / "train"), TokenCache(cache / "valid")
        train.check()
        valid.check()
    else:
        if resume and (known or made_before) not in (None, fingerprint):
            raise DataError(
                f"The folder {folder} was prepared from another text or with other settings of the corpus, the "
                "cleaning or the tokenizer, so training cannot go on with this one. Restore them, or start a new run."
            )
        record.unlink(missing_ok=True)
        texts, reports = list[ParallelText](), list[CleaningReport]()
        for number, part in enumerate(corpus.parts):
            progress("cleaning", number / len(corpus.parts))
            text, report = part.train, CleaningReport(0, dict.fromkeys(REASONS.values(), 0))
            if not part.zero_shot:
                of = part.name if len(corpus.parts) > 1 else ""
                text, report = clean(part.train, held_out(corpus, part), cleaning, of=of)
            texts.append(text)
            reports.append(report)
        if make_tokenizers:
            tokenizers = make_tokenizers(concatenated(texts))
        else:
            tokenizers = _learned(corpus, texts, tokenizer, partial(progress, "learning the vocabulary"))
        tokenizers.save(folder)
        prefixes = [tokenizers.prefixes(part.source_language, part.target_language) for part in corpus.parts]
        tagged = [
            before._replace(source=[*before.source, *([tokenizers.tag(part.tag)] if part.tag else ())])
            for part, before in zip(corpus.parts, prefixes, strict=True)
        ]
        total = sum(map(len, texts))
        train = write_cache(
            [text.open_blocks() for text in texts],
            Encoder(tokenizers, max_tokens, tagged),
            cache / "train",
            processes=processes or (usable_processes() if total >= SEVERAL_PROCESSES else 1),
            made_from=[fingerprint, tokenizers.digest, [size for text in texts for size in text.sizes]],
            tell=lambda seen: progress("tokenising", min(1.0, seen / total)),
        )
        held = [None if part.zero_shot else part.valid for part in corpus.parts]
        valid = write_cache(
            [text.open_blocks() if text else () for text in held],
            Encoder(tokenizers, max_tokens, prefixes),
            cache / "valid",
            what="pairs of the validation text",
        )
        if valid.dropped:
            _logger.warning(
                f"{valid.dropped:,} of {len(valid) + valid.dropped:,} pairs of the validation text have {max_tokens} "
                "tokens or more on a side, so they are left out of the validation loss."
            )
        for part, report, rows in zip(corpus.parts, reports, train.parts, strict=True):
            report.removed[TOO_MANY_TOKENS] = rows.dropped
            if not rows.pairs and not part.zero_shot:
                raise DataError(
                    f"All {rows.dropped} pairs of '{part.name}' have {max_tokens} tokens or more on a side, so "
                    "nothing is left of it. Allow more tokens, use a larger vocabulary, or leave this text out."
                )
        write_json(record, sealed({"fingerprint": fingerprint, "parts": [report.to_dict() for report in reports]}))
    for part in corpus.parts:
        if part.train.folder:
            (part.train.folder / FACTS_FILE).unlink(missing_ok=True)
    return PreparedData(
        tokenizers=tokenizers,
        train=train,
        valid=valid,
        valids={name: list(text) for name, text in corpus.valids.items()},
        tests={name: list(text) for name, text in corpus.tests.items()},
        reports={part.name: report for part, report in zip(corpus.parts, reports, strict=True)},
        fingerprint=fingerprint,
        sampling=tokenizer.sampling,
        corpus=corpus,
    )


def _learned(
    corpus: Corpus, texts: Sequence[ParallelText], settings: TokenizerSettings, tell: Callable[[float], None]
) -> TokenizerPair:
    """Return tokenizers learned from the text."""
    tell(0.0)
    seen: set[tuple[str | None, str | None]] = set()
    used = []
    for part, text in zip(corpus.parts, texts, strict=True):
        # A joint vocabulary learns nothing from the other direction of the same text.
        if not (corpus.layout and settings.joint and (part.target_language, part.source_language) in seen):
            used.append(text)
        if len(text):
            seen.add((part.source_language, part.target_language))
    # It is read twice where it is large, and learning takes about as long as that.
    text = concatenated(used).telling(tell, readings=3 if settings.joint else 5)
    layout = corpus.layout or "fairseq"
    found = train_tokenizers(text, settings, tags=corpus.tags, languages=corpus.languages, layout=layout)
    size = max(found.source.vocab_size, found.target.vocab_size)
    if size < settings.vocab_size:
        _logger.warning(
            f"tokenizer.vocab_size is {settings.vocab_size:,}, but the training text fills {size:,} tokens alone."
        )
    return found


def held_out(corpus: Corpus, part: CorpusPart) -> Iterator[Pair]:
    """Yield what the training pairs of a part may not repeat: validation and test text of all parts.

    Between parts of the same languages sides are compared with sides, between others each text with the side that is
    in its language. A pair may have an empty side.
    """
    mine = (part.source_language, part.target_language)
    for other in corpus.parts:
        theirs = (other.source_language, other.target_language)
        pairs = chain(other.valid or (), other.test or ())
        if theirs == mine:
            yield from pairs
            continue
        for pair in pairs:
            for language, text in zip(theirs, pair, strict=True):
                yield text if language == mine[0] else "", text if language == mine[1] else ""


def _fingerprint(corpus: Corpus, cleaning: CleaningSettings, tokenizer: TokenizerSettings, max_tokens: int) -> str:
    made_from: dict[str, Any] = {
        "format": _FORMAT,
        "text": corpus.digest,
        "cleaning": cleaning.to_dict(),
        "tokenizer": tokenizer.to_dict(),
        "max_tokens": max_tokens,
    }
    if corpus.tags:
        made_from["tags"] = [part.tag for part in corpus.parts]
    if any(part.noise for part in corpus.parts):
        made_from["keep_text"] = True  # as earlier versions called it, so that their runs go on
    if corpus.layout is not None:
        made_from["layout"] = corpus.layout
        made_from["directions"] = [(part.source_language, part.target_language) for part in corpus.parts]
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()
