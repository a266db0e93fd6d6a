"""Evaluation by length: perplexity and retrieval, each measured once and kept."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import metadata
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

import torch
from pydantic import Field, PositiveInt, model_validator

from locant.errors import CheckpointError, UsageError
from locant.extension.evaluate.documents import Document, LongText, cut_documents, read_texts
from locant.extension.evaluate.perplexity import METRICS, PerplexitySettings, Window, perplexity, windows_of
from locant.extension.evaluate.retrieval import (
    ANSWER_RULES,
    ANSWER_TOKENS,
    TASKS,
    THRESHOLD,
    Needle,
    Question,
    longest_prompt,
    needle_question,
    passkey_question,
    sentences_of,
)
from locant.extension.extend.methods import extend_config, read_by_class
from locant.extension.load import load_config, load_model, load_tokenizer
from locant.extension.source import resolve_model
from locant.files import read_json, write_json
from locant.rotary_configs.config_json import read_huggingface, text_config
from locant.rotary_configs.reading import UNREADABLE
from locant.runtime import choose_device, environment
from locant.settings import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from locant.extension.evaluate.prefill import Reader

AS_IS = "none"
"""Name of the model as it is, among methods that extend it."""

_SAMPLES, _SAMPLE_BYTES = 256, 4096


class EvaluationSettings(Settings):
    """Lengths, tests and methods of an evaluation.

    Attributes:
        lengths: In tokens, each at least 64; without any, up to four that double up to the one that the model is made
            for or extended to.
        tests: ``perplexity``, ``passkey``, ``needle``, ``ruler``.
        perplexity: Metrics and their settings.
        documents: Documents that perplexity is measured on, at most.
        depths: Number of depths of passkey and needle, at even distances from 0 (beginning) to 1 (end).
        tries: Pass keys for every length and depth, and examples of each RULER task at every length.
        needle: What the needle test hides.
        methods: ``none`` for the model as it is, and names of extension methods.
        target_length: Length in tokens that the methods extend to.
        chunk: Tokens read at once.
        exact: Whether Locant's rotation takes the place of the model's own.
    """

    lengths: tuple[Annotated[int, Field(ge=64)], ...] = ()
    tests: tuple[Literal["perplexity", "passkey", "needle", "ruler"], ...] = ("perplexity",)
    perplexity: PerplexitySettings = PerplexitySettings()
    documents: PositiveInt = 4
    depths: PositiveInt = 6
    tries: PositiveInt = 10
    needle: Needle = Needle()
    methods: tuple[str, ...] = (AS_IS,)
    target_length: int | None = None
    chunk: PositiveInt = 512
    exact: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Raise UsageError for settings that contradict each other, as far as that is known without the model."""
        chosen, shortest = self.perplexity, min(self.lengths, default=math.inf)
        for metric, name, value in (("sliding", "stride", chosen.stride), ("last", "last", chosen.last)):
            if "perplexity" in self.tests and metric in chosen.metrics and value >= shortest:
                raise UsageError(f"{name} of the metric '{metric}' must be below the shortest length, {shortest}.")
        if (self.target_length is None) != (set(self.methods) == {AS_IS}):
            raise UsageError("Methods that extend the model need the length to extend to: --method NAME --to LENGTH.")
        return self


class EvaluationCallback:
    """Called as an evaluation goes on; a subclass overrides what it wants to know."""

    def on_plan(self, measurements: int, kept: int) -> None:
        """Called before the first measurement with the number of all, and of those that are kept."""

    def on_progress(self, done: float, what: str) -> None:
        """Called with the share of all tokens that is read, 0 to 1, and what is being measured."""


def evaluate_context(
    model: Path | str,
    output: Path | str,
    settings: EvaluationSettings | None = None,
    *,
    texts: Sequence[LongText | Path | str] = (),
    name: str = "",
    device: torch.device | str = "auto",
    callback: EvaluationCallback | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Measure how far a language model reads: perplexity and retrieval by length.

    Every measurement is kept in ``output/records`` as soon as it is taken, under a name that says what was measured;
    what is there already is not measured again, whatever else is asked for.

    Args:
        model: A folder of transformers, a GGUF file, ``smollm2``, or the id of a model on Hugging Face's Hub.
        output: Folder where records and ``results.json`` are written.
        settings: What to measure; by default perplexity at up to four lengths.
        texts: Texts or files of text to read; the first is the haystack. By default the World English Bible.
        name: What the results call the model; by default the name of its file or folder.
        device: ``auto``, ``cpu`` or ``cuda``; float32 on CPU, bfloat16 elsewhere.
        callback: Called as it goes on.
        changes: Settings that differ, ``lengths=[2048, 4096]`` for instance.

    Returns:
        What ``results.json`` holds.

    Raises:
        LocantError: The model or a text cannot be used, a setting is wrong, or the disk is full; what was measured
            before is kept.

    Example:
        >>> results = evaluate_context(
        ...     "models/llama", "context-llama", texts=["book.txt"], lengths=[64, 128], documents=1,
        ...     perplexity={"metrics": ["prefix"]}, device="cpu")
        >>> [(row["metric"], row["length"], row["documents"]) for row in results["perplexity"]]
        [('prefix', 64, 1), ('prefix', 128, 1)]
    """
    path, output, device = resolve_model(model), Path(output), choose_device(str(device))
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file; give a folder.")
    content, given = load_config(path), (settings.to_dict() if settings else {}) | changes
    settings = EvaluationSettings.parse(given, "evaluation")
    to = settings.target_length
    if not settings.lengths:
        longest = to or text_config(content).get("max_position_embeddings")
        if not isinstance(longest, int) or longest < 1:
            raise UsageError("The model's configuration does not say for which length it is made. Give --lengths.")
        doubling = [longest >> shift for shift in (3, 2, 1, 0)]
        given["lengths"] = [length for length in doubling if length >= min(1024, longest)]
        settings = EvaluationSettings.parse(given, "evaluation")
    configs = {
        method: content if method == AS_IS or to is None else extend_config(content, method, to, read_by_class).content
        for method in settings.methods
    }
    files = [Path(text) for text in texts if not isinstance(text, LongText)]
    read = [text for text in texts if isinstance(text, LongText)]
    read += read_texts(files) if files or not read else []
    plan = _Plan(settings, read, load_tokenizer(path))
    weights, how = _weights(path), [device.type, "exact"] if settings.exact else [device.type]
    folders = {method: output / "records" / fingerprint([weights, config, *how]) for method, config in configs.items()}
    from locant.extension.evaluate.prefill import Reader

    jobs = {method: plan.jobs(config) for method, config in configs.items()}
    missing = {
        method: [(job, names) for job in each if (names := [n for n in job.names if not _kept(folders[method], n)])]
        for method, each in jobs.items()
    }
    total = sum(len({name for job in each for name in job.names}) for each in jobs.values())
    reporting = callback or EvaluationCallback()
    reporting.on_plan(total, total - sum(len(names) for each in missing.values() for _, names in each))
    tokens, done = sum(job.tokens for each in missing.values() for job, _ in each), 0
    for method, config in configs.items():
        if not missing[method]:
            continue
        reader = Reader(load_model(path, config, device=device), chunk=settings.chunk, exact=settings.exact)
        for job, names in missing[method]:

            def heard(read: int, before: int = done, what: str = f"{method}: {job.what}") -> None:
                reporting.on_progress((before + read) / tokens, what)

            heard(0)
            for record_name, record in job.measure(reader, names, heard):  # kept as soon as it is taken
                write_json(folders[method] / f"{record_name}.json", record)
            done += job.tokens
    rows = [plan.rows(method, folder) for method, folder in folders.items()]
    trained, about = None, ("rope_parameters", "rope_scaling", "rope_theta", "max_position_embeddings")
    with suppress(*UNREADABLE):
        trained = next(iter(read_huggingface(content).configs.values())).explain().trained_length
    results = {
        "model": name or path.name,
        "device": str(device),
        "environment": environment() | {"transformers": metadata.version("transformers")},
        "settings": settings.to_dict(),
        "texts": [text.name for text in read],
        "documents": [document.name for document in plan.documents],
        "trained_length": trained,
        "rotary": {
            method: {key: value for key, value in text_config(config).items() if key in about and value is not None}
            for method, config in configs.items()
        },
        "definitions": {"perplexity": dict(METRICS), "answers": ANSWER_RULES, "ruler_threshold": THRESHOLD},
        **{table: [row for of_method in rows for row in of_method[table]] for table in rows[0]},
    }
    write_json(output / "results.json", results)
    return results


_Record = dict[str, Any]
_Heard = Callable[[int], None]


class _Job(NamedTuple):
    """A pass over a document, or a question: what it is in words, the names of its records, how many tokens it reads.

    ``measure`` yields the records wanted, by name.
    """

    what: str
    names: tuple[str, ...]
    tokens: int
    measure: Callable[[Reader, Sequence[str], _Heard], Iterator[tuple[str, _Record]]]


class _Plan:
    """What is measured of every method."""

    def __init__(
        self, settings: EvaluationSettings, texts: Sequence[LongText], tokenizer: PreTrainedTokenizerBase
    ) -> None:
        self.settings, self.tokenizer = settings, tokenizer
        chosen, longest = settings.perplexity, max(settings.lengths)
        self.windows = {
            (metric, length): windows_of(metric, length, longest, chosen)
            for metric in (chosen.metrics if "perplexity" in settings.tests else ())
            for length in settings.lengths
        }
        self.all_windows = sorted({window for windows in self.windows.values() for window in windows})
        needed = max((window.start + window.length for window in self.all_windows), default=0)
        count = settings.documents if needed else 0
        self.documents = cut_documents(texts, tokenizer, length=needed, count=count)
        self.questions = self._questions(sentences_of(texts[0].text) if {"needle", "ruler"} & {*settings.tests} else [])

    def _questions(
        self, haystack: Sequence[str]
    ) -> dict[tuple[str, int, float | None], dict[str, Callable[[int], Question]]]:
        """Return what builds the questions of each test, length and depth, by the names of their records.

        They are so ordered that neighbours share much of their prompts.
        """
        settings, needle, content = self.settings, self.settings.needle, fingerprint(haystack)
        tries, depths = range(settings.tries), range(settings.depths)
        named = fingerprint([content, needle.text, needle.question, needle.expected])
        cells: dict[tuple[str, int, float | None], dict[str, Callable[[int], Question]]] = {}
        for length, test in product(settings.lengths, ("passkey", "needle", "ruler")):
            if test not in settings.tests:
                continue
            if test == "ruler":
                for task, ask in TASKS.items():
                    cells[task, length, None] = {
                        f"{task}-{length}-{attempt}-{content}": partial(ask, haystack=haystack, attempt=attempt)
                        for attempt in tries
                    }
                continue
            for depth in (index / max(settings.depths - 1, 1) for index in depths):
                place = f"{test}-{length}-{depth:.4f}"
                build = partial(needle_question, haystack=haystack, depth=depth, needle=needle)
                cells[test, length, depth] = {f"{place}-0-{named}": build}
                if test == "passkey":
                    cells[test, length, depth] = {
                        f"{place}-{each}": partial(passkey_question, depth=depth, attempt=each) for each in tries
                    }
        return cells

    def jobs(self, config: Mapping[str, Any]) -> list[_Job]:
        """Return passes and questions for a configuration.

        Windows that begin alike are one pass, unless the frequencies depend on the length of the text.
        """
        follows = True  # perhaps
        with suppress(*UNREADABLE):
            follows = any(each.scaling.depends_on_length for each in read_huggingface(config).configs.values())
        groups = groupby(self.all_windows, lambda window: (window.start, window.length if follows else 0))
        shared = [tuple(windows) for _, windows in groups]
        return [
            *(self._pass(document, windows) for document in self.documents for windows in shared),
            *(self._question(*cell, *each) for cell, tries in self.questions.items() for each in tries.items()),
        ]

    def _pass(self, document: Document, windows: Sequence[Window]) -> _Job:
        named = {_name(document, window): window for window in windows}

        def measure(reader: Reader, names: Sequence[str], heard: _Heard) -> Iterator[tuple[str, _Record]]:
            wanted = [named[name] for name in names]
            longest, first = max(wanted, key=lambda each: each.length), min(each.scored_from for each in wanted)
            begin, times = time.perf_counter(), []

            def on_chunk(done: int) -> None:
                times.append((done, time.perf_counter() - begin))
                heard(done)

            losses = reader.losses(document.window(longest.start, longest.length), first, on_chunk).double()
            for name, window in zip(names, wanted, strict=True):
                scored = losses[window.scored_from - first : window.length - first]
                seconds = next(seconds for done, seconds in times if done >= window.length - 1)
                yield name, {"nll": scored.sum().item(), "tokens": len(scored), "seconds": seconds}

        length = max(window.length for window in windows)
        return _Job(f"perplexity, {length} tokens", tuple(named), length, measure)

    def _question(
        self, test: str, length: int, depth: float | None, name: str, build: Callable[[int], Question]
    ) -> _Job:
        def measure(reader: Reader, names: Sequence[str], heard: _Heard) -> Iterator[tuple[str, _Record]]:
            begin, count, end = time.perf_counter(), ANSWER_TOKENS[test], self.tokenizer.eos_token_id
            question, prompt = longest_prompt(build, self.tokenizer, length - count)
            ids = reader.answer(prompt, count, length=length, stop=(end,), on_chunk=heard)
            answer = str(self.tokenizer.decode(ids, skip_special_tokens=True))
            record = {"expected": list(question.expected), "answer": answer, "score": question.score(answer)}
            yield names[0], record | {"tokens": len(prompt), "seconds": time.perf_counter() - begin}

        where = "" if depth is None else f", depth {depth:.0%}"
        return _Job(f"{test}, {length} tokens{where}", (name,), length, measure)

    def rows(self, method: str, folder: Path) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of all tables for a method whose records are complete."""
        tables: dict[str, list[dict[str, Any]]] = {"perplexity": [], "retrieval": [], "ruler": []}
        for (metric, length), windows in self.windows.items():
            of_documents = [[_kept(folder, _name(each, window)) or {} for window in windows] for each in self.documents]
            records = [record for each in of_documents for record in each]
            value = perplexity(
                metric, [[(record["nll"], record["tokens"]) for record in each] for each in of_documents]
            )
            row = {"method": method, "metric": metric, "length": length}
            row["perplexity"] = value if math.isfinite(value) else None  # JSON knows no infinity
            row |= {"documents": len(self.documents), "tokens": sum(record["tokens"] for record in records)}
            tables["perplexity"].append(row | {"seconds": sum(record["seconds"] for record in records)})
        for (test, length, depth), tries in self.questions.items():
            records = [_kept(folder, name) or {} for name in tries]
            row = {"method": method, "test": test, "length": length, "depth": depth}
            row |= {"score": sum(record["score"] for record in records) / len(records), "tries": len(records)}
            tables["retrieval"].append(row | {"seconds": sum(record["seconds"] for record in records)})
        if "ruler" in self.settings.tests:
            scores = {(row["test"], row["length"]): row["score"] for row in tables["retrieval"]}
            means = {
                length: sum(scores[task, length] for task in TASKS) / len(TASKS) for length in self.settings.lengths
            }
            reached = max((length for length, mean in means.items() if mean >= THRESHOLD), default=None)
            tables["ruler"].append({"method": method, "scores": means, "effective_length": reached})
        return tables


def _kept(folder: Path, name: str) -> _Record | None:
    """Return a record, ``None`` where it has not been taken."""
    path = folder / f"{name}.json"
    if not path.is_file():
        return None
    if not isinstance(record := read_json(path), dict):
        raise CheckpointError(f"The file {path} holds no measurement. Remove it; it will be measured again.")
    return record


def _name(document: Document, window: Window) -> str:
    """Return the name of a window's record, which says what is read and scored."""
    return f"perplexity-{fingerprint(document.window(window.start, window.length).tolist())}-from{window.scored_from}"


def fingerprint(data: object) -> str:
    """Return a short name for anything that JSON can say."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:12]


def _weights(path: Path) -> dict[str, str]:
    """Return a fingerprint of the size and of samples of every file that holds a model's weights."""
    folder, found = path if path.is_dir() else path.parent, {}
    for file in [path] if path.suffix == ".gguf" else sorted(folder.glob("*.safetensors")):
        size = file.stat().st_size
        digest = hashlib.sha256(str(size).encode())
        with file.open("rb") as opened:
            for index in range(_SAMPLES):
                opened.seek(max(size - _SAMPLE_BYTES, 0) * index // (_SAMPLES - 1))
                digest.update(opened.read(_SAMPLE_BYTES))
        found[file.name] = digest.hexdigest()[:12]
    return found
