"""Evaluation by length: perplexity and retrieval, measured once and kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import model_validator

from locant.errors import UsageError, nearest
from locant.extension.evaluate.documents import Document, LongText, cut_documents, read_texts
from locant.extension.evaluate.jobs import (
    AnswerJob,
    Job,
    Session,
    answer_jobs,
    mean_scores,
    perplexity_jobs,
    window_record,
)
from locant.extension.evaluate.meter import EvaluationCallback, Meter
from locant.extension.evaluate.perplexity import (
    METRICS,
    Loss,
    PerplexitySettings,
    needed_length,
    perplexity,
    windows_of,
)
from locant.extension.evaluate.records import Records, fingerprint, weights_fingerprint
from locant.extension.evaluate.retrieval import ANSWER_RULES, TASKS, THRESHOLD, Needle, effective_length
from locant.extension.extend.methods import apply_method
from locant.extension.load import load_config, load_model, load_tokenizer
from locant.extension.source import resolve_model
from locant.files import write_json
from locant.rotary_configs.base import UNREADABLE
from locant.rotary_configs.huggingface.reading import read_huggingface
from locant.runtime import choose_device, environment
from locant.settings import Settings

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

TESTS = ("perplexity", "passkey", "needle", "ruler")
"""The tests by name."""

AS_IS = "none"
"""Name of the model as it is, among methods that extend it."""

_SHORTEST = 64
_MOST_LENGTHS = 4  # by default


class EvaluationSettings(Settings):
    """Lengths, tests and methods of an evaluation.

    Attributes:
        lengths: In tokens, each at least 64.
        tests: Some of :data:`TESTS`.
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

    lengths: tuple[int, ...]
    tests: tuple[str, ...] = ("perplexity",)
    perplexity: PerplexitySettings = PerplexitySettings()
    documents: int = 4
    depths: int = 6
    tries: int = 10
    needle: Needle = Needle()
    methods: tuple[str, ...] = (AS_IS,)
    target_length: int | None = None
    chunk: int = 512
    exact: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Raise UsageError for what is unknown or out of range, as far as that is known without the model."""
        if not self.lengths or min(self.lengths) < _SHORTEST:
            raise UsageError(f"Every length must be at least {_SHORTEST} tokens; got {list(self.lengths)}.")
        for test in self.tests:
            if test not in TESTS:
                raise UsageError(f"Unknown test '{test}'.{nearest(test, TESTS)} Known: {', '.join(TESTS)}.")
        if "perplexity" in self.tests:
            self.perplexity.check(self.lengths)
        for name in ("documents", "depths", "tries", "chunk"):
            if getattr(self, name) < 1:
                raise UsageError(f"The number of {name} must be at least 1; got {getattr(self, name)}.")
        if self.target_length is None and set(self.methods) != {AS_IS}:
            raise UsageError("Say how far the method extends the model: --to LENGTH.")
        if self.target_length is not None and set(self.methods) == {AS_IS}:
            raise UsageError("Say by which method the model is extended: --method NAME.")
        return self


def configurations(path: Path, settings: EvaluationSettings) -> dict[str, dict[str, Any]]:
    """Return the configuration for every method; nothing is saved.

    Args:
        path: Of the model, from :func:`~locant.extension.source.resolve_model`.
        settings: Methods and the length that they extend to.

    Raises:
        ConfigError: A method is unknown or does not fit the model.
    """
    config = load_config(path)
    to = settings.target_length
    return {
        method: config if method == AS_IS or to is None else apply_method(config, method, to)
        for method in settings.methods
    }


def default_lengths(config: Mapping[str, Any], target_length: int | None = None) -> tuple[int, ...]:
    """Return up to four lengths that double up to the one that a model is made for or extended to.

    Args:
        config: Content of config.json.
        target_length: Length in tokens that the model is extended to.

    Raises:
        UsageError: The configuration does not say for which length the model is made.
    """
    parts = [config, *(part for part in config.values() if isinstance(part, Mapping))]
    declared = next((part["max_position_embeddings"] for part in parts if part.get("max_position_embeddings")), None)
    longest = target_length or declared
    if not isinstance(longest, int):
        raise UsageError("The model's configuration does not say for which length it is made. Give --lengths.")
    halved = [longest >> shift for shift in range(_MOST_LENGTHS)]
    return tuple(sorted(length for length in halved if length >= min(1024, longest)))


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
        settings: What to measure; by default perplexity at up to four lengths, the longest of which is the one that the
            model is made for.
        texts: Texts or files of text to read; the first is the haystack. By default the World English Bible.
        name: What the results call the model; by default the name of its file or folder.
        device: ``auto``, ``cpu`` or ``cuda``; float32 on CPU, bfloat16 elsewhere.
        callback: Is told how it goes on.
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
    path, folder, device = resolve_model(model), Path(output), choose_device(str(device))
    given = settings.to_dict() if settings else {}
    if not settings and "lengths" not in changes:
        given["lengths"] = default_lengths(load_config(path), changes.get("target_length"))
    settings = EvaluationSettings.parse(given | changes, "evaluation")
    files = [Path(text) for text in texts if not isinstance(text, LongText)]
    read = [text for text in texts if isinstance(text, LongText)]
    read += read_texts(files) if files or not read else []
    configs = configurations(path, settings)
    tokenizer = load_tokenizer(path)
    documents: list[Document] = []
    if "perplexity" in settings.tests:
        needed = needed_length(settings.lengths, settings.perplexity)
        documents = cut_documents(read, tokenizer, length=needed, count=settings.documents)
    plan = _Plan(path, configs, settings, documents, answer_jobs(read, settings), Records(folder / "records"), device)
    plan.run(tokenizer, callback)
    results = {
        "model": name or path.name,
        "device": str(device),
        "environment": environment() | {"transformers": metadata.version("transformers")},
        "settings": settings.to_dict(),
        "texts": [text.name for text in read],
        "documents": [document.name for document in documents],
        "trained_length": _trained_length(load_config(path)),
        "rotary": {method: _rotary(config) for method, config in configs.items()},
        "definitions": {"perplexity": dict(METRICS), "answers": ANSWER_RULES, "ruler_threshold": THRESHOLD},
        **plan.results(),
    }
    write_json(folder / "results.json", results)
    return results


class _Plan:
    """All measurements, and those that are missing."""

    def __init__(
        self,
        path: Path,
        configs: Mapping[str, dict[str, Any]],
        settings: EvaluationSettings,
        documents: Sequence[Document],
        answers: list[AnswerJob],
        records: Records,
        device: torch.device | str,
    ) -> None:
        self.path, self.configs, self.settings = path, configs, settings
        self.documents, self.answers, self.records, self.device = documents, answers, records, device
        weights, kind = weights_fingerprint(path), str(device).partition(":")[0]
        way = ["exact"] if settings.exact else []
        self.keys = {method: fingerprint([weights, config, kind, *way]) for method, config in configs.items()}
        self.jobs: dict[str, list[Job]] = {
            method: [*perplexity_jobs(documents, settings, depends_on_length=_depends_on_length(config)), *answers]
            for method, config in configs.items()
        }

    def run(self, tokenizer: PreTrainedTokenizerBase, callback: EvaluationCallback | None) -> None:
        """Take the measurements that are missing."""
        missing = {
            method: [(job, names) for job in jobs if (names := [n for n in job.records if not self._get(method, n)])]
            for method, jobs in self.jobs.items()
        }
        planned = {method: {name for job in jobs for name in job.records} for method, jobs in self.jobs.items()}
        total = sum(map(len, planned.values()))
        lacking = sum(len(wanted) for jobs in missing.values() for _, wanted in jobs)
        meter = Meter(callback, total, total - lacking)
        for method, jobs in missing.items():
            if not jobs:
                continue
            model = load_model(self.path, self.configs[method], device=self.device)
            session = Session(model, tokenizer, self.settings.chunk, self.settings.exact)
            meter.plan(session, [job.tokens(wanted) for job, wanted in chain.from_iterable(missing.values())])
            for job, wanted in jobs:
                size, cached = job.tokens(wanted)
                meter.begin(f"{method}: {_describe(job)}", size, cached)
                for name, record in job.measure(session, wanted, meter.on_chunk):
                    self.records.put(self.keys[method], name, record)
                meter.end()
        if not lacking and callback is not None:
            callback.on_plan(total, total, 0.0)

    def results(self) -> dict[str, Any]:
        """Return tables of all measurements."""
        return {
            "perplexity": [row for method in self.configs for row in self._perplexity(method)],
            "retrieval": [row for method in self.configs for row in self._retrieval(method)],
            "ruler": [self._ruler(method) for method in self.configs if "ruler" in self.settings.tests],
        }

    def _get(self, method: str, name: str) -> dict[str, Any] | None:
        return self.records.get(self.keys[method], name)

    def _known(self, method: str, name: str) -> dict[str, Any]:
        record = self._get(method, name)
        assert record is not None
        return record

    def _perplexity(self, method: str) -> list[dict[str, Any]]:
        settings, rows = self.settings.perplexity, []
        for metric in settings.metrics if self.documents else ():
            for length in self.settings.lengths:
                windows = windows_of(metric, length, max(self.settings.lengths), settings)
                found = [
                    [self._known(method, window_record(document, window)) for window in windows]
                    for document in self.documents
                ]
                losses = [[Loss(record["nll"], record["tokens"]) for record in records] for records in found]
                rows.append(
                    {
                        "method": method,
                        "metric": metric,
                        "length": length,
                        "perplexity": _finite(perplexity(metric, losses)),
                        "documents": len(losses),
                        "tokens": sum(loss.tokens for document in losses for loss in document),
                        "seconds": sum(record["seconds"] for records in found for record in records),
                    }
                )
        return rows

    def _retrieval(self, method: str) -> list[dict[str, Any]]:
        groups: dict[tuple[str, int, float | None], list[AnswerJob]] = {}
        for job in self.answers:
            groups.setdefault((job.test, job.length, job.depth), []).append(job)
        return [
            {
                "method": method,
                "test": test,
                "length": length,
                "depth": depth,
                **mean_scores(jobs, {job.record: self._known(method, job.record) for job in jobs}),
            }
            for (test, length, depth), jobs in groups.items()
        ]

    def _ruler(self, method: str) -> dict[str, Any]:
        rows = [row for row in self._retrieval(method) if row["test"] in TASKS]
        means = {
            length: sum(row["score"] for row in rows if row["length"] == length) / len(TASKS)
            for length in self.settings.lengths
        }
        return {"method": method, "scores": means, "effective_length": effective_length(means)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None  # JSON knows no infinity


def _describe(job: Job) -> str:
    if isinstance(job, AnswerJob):
        where = "" if job.depth is None else f", depth {job.depth:.0%}"
        return f"{job.test}, {job.length} tokens{where}, try {job.attempt + 1}"
    return f"perplexity, {max(window.length for window in job.windows)} tokens"


def _depends_on_length(config: Mapping[str, Any]) -> bool:
    """Whether the rotary frequencies of a configuration depend, or may depend, on the length of the text."""
    try:
        configs = read_huggingface(config).configs
    except UNREADABLE:
        return True
    return any(each.scaling.depends_on_length for each in configs.values())


def _rotary(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a configuration that are about positions."""
    keys = ("rope_parameters", "rope_scaling", "rope_theta", "max_position_embeddings")
    parts = [config, *(part for part in config.values() if isinstance(part, Mapping))]
    return {key: part[key] for part in parts for key in keys if part.get(key) is not None}


def _trained_length(config: Mapping[str, Any]) -> int | None:
    """Return the length in tokens that the model was trained with, where its file says it."""
    try:
        first = next(iter(read_huggingface(config).configs.values()))
    except UNREADABLE:
        return None
    return first.explain().trained_length
