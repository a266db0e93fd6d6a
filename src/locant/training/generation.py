"""Generation of training text by a model: back-translation, self-training and sequence-level distillation.

Sennrich, Haddow and Birch, "Improving Neural Machine Translation Models with Monolingual Data" (2016),
arXiv:1511.06709, section 3; Kim and Rush, "Sequence-Level Knowledge Distillation" (2016), arXiv:1606.07947, section
3.2; Edunov et al., "Understanding Back-Translation at Scale" (2018), arXiv:1808.09381.

The folder of a generated corpus holds::

    train.tsv (or .tsv.gz, .jsonl, .jsonl.gz)   source, target, score
    valid.tsv, test.tsv                          as they are, where the text is that of a corpus
    generation.json                              what it was made from, and what was removed

While it grows the first has the name ``train.tsv.partial``. Whatever is in it beyond what the record speaks of is cut
off when the generation goes on.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, get_args

from locant.errors import CheckpointError, ConfigError, DataError, UsageError, nearest
from locant.files import append_at, explaining_damage, file_digest, publish, read_json, replacing_folder, write_json
from locant.languages import find_language
from locant.locks import holding
from locant.models.decoding_settings import DecodingSettings
from locant.parsing import parse_json
from locant.text import (
    CorpusPart,
    ParallelText,
    TranslationFilters,
    clean,
    load_corpus,
)
from locant.text.prepare import held_out
from locant.text.readers import read_lines
from locant.training.recipe import differences, load_recipe, load_run_recipe, run_text_store
from locant.translation.translator import Translator, load_translator

Direction = Literal["forward", "back"]
"""Which side is generated: ``forward`` the target (distillation, self-training), ``back`` the source
(back-translation)."""

CorpusFormat = Literal["tsv", "tsv.gz", "jsonl", "jsonl.gz"]
"""Columns with a tab between them, or one JSON object a line; both perhaps compressed."""

EMPTY, TOO_LONG = "empty line", "too long"
"""Why a line is not translated."""

RECORD = "generation.json"


@dataclass(frozen=True)
class GenerationReport:
    """How far a generation has come.

    Attributes:
        lines: Lines of the text.
        done: Lines dealt with so far.
        skipped: Lines that were not translated, by reason.
        translations: Translations made.
        removed: Translations that were removed, by reason.
        tokens: Tokens of the translations that were kept, EOS included.
        log_probability: Log-probability (natural) of these tokens.
        seconds: Time spent translating, in all sessions together.
        finished: Whether the corpus is complete.
    """

    lines: int
    done: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    translations: int = 0
    removed: Mapping[str, int] = field(default_factory=dict)
    tokens: int = 0
    log_probability: float = 0.0
    seconds: float = 0.0
    finished: bool = False

    @property
    def kept(self) -> int:
        """Pairs of the corpus."""
        return self.translations - sum(self.removed.values())

    @property
    def score(self) -> float:
        """Mean log-probability (natural) of a token of the translations that were kept."""
        return self.log_probability / max(1, self.tokens)


class _GeneratedCorpus:
    """The folder of a generated corpus, a new one or one whose generation was stopped or is finished.

    ``made_from`` are text, model and settings as plain data; a folder that was begun with others is refused. ``others``
    are further splits by name, which are written when the folder is made.
    """

    def __init__(
        self, folder: Path, form: CorpusFormat, made_from: Mapping[str, Any], lines: int, others: Mapping[str, Any]
    ) -> None:
        self.folder, self.path, self._form = folder, folder / f"train.{form}", form
        self._partial = folder / f"{self.path.name}.partial"
        self._made_from = parse_json(json.dumps(made_from).encode())
        self._bytes, self.report = 0, GenerationReport(lines)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            self.go_on()
            return
        with replacing_folder(folder) as new:
            for name, pairs in others.items():
                rows = ((source, target, None) for source, target in pairs)
                (new / f"{name}.{form}").write_bytes(_encoded(rows, form))
            (new / self._partial.name).touch()
            self._write_record(new)

    def append(self, rows: Iterable[tuple[str, str, float | None]], report: GenerationReport) -> None:
        """Add pairs with their scores, and what is then done; on a full disk, what was there before stays."""
        data = _encoded(rows, self._form)
        append_at(self._partial, self._bytes, data)
        self._bytes, self.report = self._bytes + len(data), report
        self._write_record(self.folder)

    def finish(self) -> None:
        """Give the file its name."""
        if self._partial.exists():
            append_at(self._partial, self._bytes, b"")
            publish(self._partial, self.path)
        self.report = replace(self.report, finished=True)
        self._write_record(self.folder)

    def _write_record(self, folder: Path) -> None:
        record = {"made_from": self._made_from, "bytes": self._bytes, "report": asdict(self.report)}
        write_json(folder / RECORD, record)

    def go_on(self) -> None:
        """Go on where the record says; once more when the folder is held, for what was done until then."""
        if self.folder.exists() and not self.folder.is_dir():
            raise CheckpointError(f"{self.folder} is a file, and a generated corpus is a folder. Name a new folder.")
        if not (self.folder / RECORD).is_file():
            raise CheckpointError(f"{self.folder} is not empty and holds no generated corpus. Name a new folder.")
        record = read_json(self.folder / RECORD)
        with explaining_damage(self.folder / RECORD):
            made_from, self._bytes = dict(record["made_from"]), int(record["bytes"])
            self.report = GenerationReport(**record["report"])
        changes = list(differences(made_from, self._made_from))
        if changes:
            said = [f"another {each.key}" if each.key in ("text", "model") else str(each) for each in changes]
            raise CheckpointError(
                f"{self.folder} holds a corpus that was begun otherwise. Now there is {'; '.join(said)}. Name a new "
                "folder, or repeat what it was begun with."
            )
        # The last thing before a corpus is finished is its renaming.
        complete = self.report.done == self.report.lines and self.path.exists()
        file = self.path if complete else self._partial
        if not file.exists() or file.stat().st_size < self._bytes:
            raise CheckpointError(
                f"{file} is missing or shorter than {RECORD} says, so the corpus is damaged. Begin again."
            )


def _encoded(rows: Iterable[tuple[str, str, float | None]], form: CorpusFormat) -> bytes:
    """Return rows of source, target and, where there is one, score as the bytes of a file."""
    lines = []
    for source, target, score in rows:
        if form.startswith("tsv"):
            columns = [" ".join(text.split()) for text in (source, target)]
            lines.append("\t".join(columns if score is None else [*columns, f"{score:.4f}"]))
        else:
            row = {"source": source, "target": target, **({} if score is None else {"score": round(score, 4)})}
            lines.append(json.dumps(row, ensure_ascii=False))
    data = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
    # One after another, compressed files are a compressed file; without the time they are the same each time.
    return gzip.compress(data, mtime=0) if form.endswith(".gz") and data else data


@dataclass(frozen=True)
class GeneratedText:
    """A finished generation.

    Attributes:
        path: The file of pairs.
        report: What was translated, and what was removed.
    """

    path: Path
    report: GenerationReport


def generate_corpus(
    model: Translator | Path | str,
    files: Path | str | Sequence[Path | str] = (),
    *,
    output: Path | str,
    corpus: Path | str | None = None,
    direction: Direction = "forward",
    filters: TranslationFilters | Mapping[str, Any] | None = None,
    form: CorpusFormat = "tsv",
    chunk: int = 1000,
    callback: Callable[[GenerationReport], None] | None = None,
    **overrides: Any,
) -> GeneratedText:
    """Translate monolingual text into a parallel corpus with scores.

    Called again with the same arguments after a stop of any kind it goes on where it stopped, and the corpus is the
    same as without the stop, to the byte, on the same machine with the same number of threads.

    Args:
        model: A translator of a saved model, or the model folder, run or ``hf://`` name from which one is loaded with
            the fastest engine that can run it.
        files: Text files, one sentence a line (``.gz`` too).
        output: A new folder for the corpus, or the folder of a generation that was stopped.
        corpus: Instead of files a run or a recipe whose cleaned training text is translated: its source side, or its
            target side where the direction is ``back``. Its validation and test text is written beside the corpus.
        direction: ``forward``: translations are targets; ``back``: translations become sources.
        filters: Which translations to remove.
        form: How the pairs are written.
        chunk: Lines that are translated together, in batches of similar length, and then written.
        callback: Called at the beginning and after each chunk with the share that is done.
        overrides: Decoding settings that differ from the model's: ``beam=1``, or ``sampling={"top_k": 10}``.

    Raises:
        UsageError: The request itself cannot be right.
        ConfigError: The model does not fit the corpus, or must be told its languages; a setting is wrong.
        DataError: The text is missing, empty or not UTF-8.
        CheckpointError: The folder holds something else, such as a corpus of another text, model or setting; another
            process is at work in it; the model cannot be read; the disk is full.
    """
    if bool(files) == bool(corpus):
        raise UsageError("Give either text files to translate, or a run or recipe whose training text is translated.")
    for value, known, what in (
        (direction, get_args(Direction), "direction"),
        (form, get_args(CorpusFormat), "form of a corpus"),
    ):
        if value not in known:
            raise UsageError(f"Unknown {what} '{value}'.{nearest(value, known)} Known: {', '.join(known)}.")
    if chunk < 1:
        raise UsageError(f"A chunk must have at least 1 line; got {chunk}.")
    wanted = filters if isinstance(filters, TranslationFilters) else TranslationFilters.parse(filters or {}, "filters")
    translator = model if isinstance(model, Translator) else load_translator(model, engine="auto")[0]
    settings = translator.settings_with(**overrides)
    translator.translate_n_best([], **settings.to_dict())  # what the model or its engine cannot do is refused here
    paths = [Path(each) for each in ([files] if isinstance(files, str | Path) else files)]
    text, others = (
        _corpus_text(Path(corpus), translator, direction)
        if corpus
        else (lambda: chain.from_iterable(map(read_lines, paths)), {})
    )
    count, hashed = 0, hashlib.sha256()
    for line in text():  # all of it, so that mistakes in it surface before long work
        count += 1
        hashed.update(f"{line}\n".encode("utf-8", "surrogatepass"))
    if not count:
        raise DataError(f"There is no text in {', '.join(map(str, paths))}, so there is nothing to translate.")
    if (folder := translator.origin) is None:
        raise CheckpointError("The model is not saved yet. Save it (save_pretrained), load it, and generate.")
    digest = hashlib.sha256()  # of all that decides about its translations
    for path in sorted([folder / "config.json", folder / "model.safetensors", *folder.glob("tokenizer.*")]):
        digest.update(file_digest(path).encode())
    made_from = {
        "text": hashed.hexdigest(),
        "model": digest.hexdigest(),
        "direction": direction,
        "source language": translator.source_language,
        "target language": translator.target_language,
        "engine": translator.engine.name,
        "decoding": settings.to_dict(),
        "filters": wanted.to_dict(),
        "form": form,
        "chunk": chunk,
    }
    result = _GeneratedCorpus(Path(output), form, made_from, count, others)
    with holding(result.folder, "generating text"):
        result.go_on()  # another process may have gone on with it until now
        report, started = result.report, time.perf_counter()
        if callback:
            callback(report)
        lines = islice(text(), report.done, None)
        while part := list(islice(lines, chunk)):
            pairs, report = _translated(part, translator, settings.continued(report.done), wanted, report)
            now = time.perf_counter()
            report, started = replace(report, seconds=report.seconds + now - started), now
            result.append([(b, a, score) if direction == "back" else (a, b, score) for a, b, score in pairs], report)
            if callback:
                callback(report)
        result.finish()
    return GeneratedText(result.path, result.report)


def _corpus_text(
    name: Path, translator: Translator, direction: Direction
) -> tuple[Callable[[], Iterator[str]], dict[str, ParallelText]]:
    """Return what opens the side of a corpus' cleaned training text that is to be translated, and its other splits.

    Of a corpus of several parts those that are in the model's languages.
    """
    is_run = (name / "recipe.yaml").is_file()
    if not is_run and name.suffix not in (".yaml", ".yml") and (name.exists() or len(name.parts) > 1):
        raise UsageError(
            f"{name} is neither a run nor a recipe, whose training text could be translated. Give a file of text "
            "without --corpus (corpus)."
        )
    recipe = load_run_recipe(name) if is_run else load_recipe(name)
    corpus = load_corpus(recipe.corpus, run_text_store(name) if is_run else None)
    side, made = (1, "source") if direction == "back" else (0, "target")
    source, target = translator.source_language, translator.target_language
    ours = (target, source) if direction == "back" else (source, target)

    def fits(part: CorpusPart) -> bool:
        """Whether a part of the corpus may be in these languages, as far as they are known."""
        known = zip(ours, (part.source_language, part.target_language), strict=True)
        return all(one is None or other is None or find_language(one, [other]) is not None for one, other in known)

    parts = [part for part in corpus.parts if fits(part) and not part.zero_shot]
    if not parts:
        pairs = ", ".join(sorted({_shown(part.source_language, part.target_language) for part in corpus.parts}))
        raise ConfigError(
            f"The corpus {corpus.name} goes from {pairs}, and its {made} side is to be generated, but the model "
            f"translates {_shown(source, target)}. Take a model for that, or the other direction."
        )
    chosen = replace(corpus, parts=tuple(parts))
    texts = [clean(part.train, held_out(corpus, part), recipe.cleaning)[0] for part in parts]
    splits = {"valid": chosen.valid, "test": chosen.test}
    others = {split: pairs for split, pairs in splits.items() if pairs is not None and len(pairs)}
    return lambda: (pair[side] for cleaned in texts for pair in cleaned), others


def _shown(source: str | None, target: str | None) -> str:
    return f"{source or 'a language that is not named'} to {target or 'one that is not named'}"


def _translated(
    lines: list[str],
    translator: Translator,
    settings: DecodingSettings,
    filters: TranslationFilters,
    report: GenerationReport,
) -> tuple[list[tuple[str, str, float]], GenerationReport]:
    """Return lines with their translations and scores, and the report that counts them."""
    limit = translator.longest_source(**settings.to_dict())
    lengths = list(map(len, translator.tokenizers.source.encode(lines)))
    sentences = [line for line, length in zip(lines, lengths, strict=True) if 0 < length <= limit]
    skipped = Counter(report.skipped)
    skipped.update({EMPTY: lengths.count(0), TOO_LONG: len(lines) - len(sentences) - lengths.count(0)})
    removed, pairs = Counter(report.removed), list[tuple[str, str, float]]()
    tokens, total = report.tokens, report.log_probability
    found = translator.translate_n_best(sentences, **settings.to_dict())
    for sentence, each in ((sentence, each) for sentence, best in zip(sentences, found, strict=True) for each in best):
        score = each.log_probability_per_token
        if reason := filters.reason_to_remove(sentence, each.text, score):
            removed[reason] += 1
            continue
        pairs.append((sentence, each.text, score))
        tokens += each.tokens
        total += each.log_probability
    return pairs, replace(
        report,
        done=report.done + len(lines),
        skipped=dict(skipped),
        translations=report.translations + sum(map(len, found)),
        removed=dict(removed),
        tokens=tokens,
        log_probability=total,
    )
