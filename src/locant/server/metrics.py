"""Numbers about the server for Prometheus."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"


class Metrics:
    """The numbers of a process; where several processes serve, each can tell those of all.

    The processes share numbers by files in the folder that the environment variable ``PROMETHEUS_MULTIPROC_DIR`` names;
    it must be set before this module is imported.
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter("locant_requests", "Requests answered.", ["route", "status"], registry=registry)
        self._seconds = Histogram(
            "locant_request_seconds", "Time from a request to the end of its answer.", ["route"],
            registry=registry, buckets=_SECONDS,
        )  # fmt: skip
        self._answers: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self.refused = Counter("locant_refused", "Requests refused, by the reason.", ["reason"], registry=registry)
        self.characters = Counter("locant_characters", "Characters of texts that were taken.", registry=registry)
        self._sentences = Counter("locant_sentences", "Sentences translated.", ["model"], registry=registry)
        self._source = Counter(
            "locant_source_tokens", "Source tokens of translated sentences.", ["model"], registry=registry
        )
        self._target = Counter("locant_target_tokens", "Target tokens of translations.", ["model"], registry=registry)
        self._batch = Histogram(
            "locant_batch_sentences", "Sentences in the search at each step.", ["model"],
            registry=registry, buckets=_SENTENCES,
        )  # fmt: skip
        self._requests_waiting = Gauge(
            "locant_waiting_requests", "Requests with sentences that wait.", ["model"],
            registry=registry, multiprocess_mode="livesum",
        )  # fmt: skip
        self._sentences_waiting = Gauge(
            "locant_waiting_sentences", "Sentences that wait.", ["model"],
            registry=registry, multiprocess_mode="livesum",
        )  # fmt: skip

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        known = self._answers.get((route, status))
        if known is None:  # what labels name is looked up once
            known = self._requests.labels(route, str(status)), self._seconds.labels(route)
            self._answers[route, status] = known
        count, times = known
        count.inc()
        times.observe(seconds)

    def of_model(self, name: str) -> ModelMetrics:
        """Return what is told of a model's work."""
        return ModelMetrics(
            self._sentences.labels(name),
            self._source.labels(name),
            self._target.labels(name),
            self._batch.labels(name),
            self._requests_waiting.labels(name),
            self._sentences_waiting.labels(name),
        )

    def page(self) -> bytes:
        """Return the numbers in Prometheus' text format."""
        registry = self._registry
        if os.environ.get(_DIRECTORY):
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


class ModelMetrics:
    """The numbers of a model; an observer of its scheduler."""

    def __init__(
        self, sentences: Counter, source: Counter, target: Counter, batch: Histogram, requests: Gauge, queue: Gauge
    ) -> None:
        self._sentences, self._source, self._target, self._batch = sentences, source, target, batch
        self._requests, self._queue = requests, queue

    def stepped(self, sentences: int) -> None:
        """So many sentences were in the search while it made a step."""
        self._batch.observe(sentences)

    def finished(self, sentences: int, source_tokens: int, target_tokens: int) -> None:
        """So many sentences were translated."""
        self._sentences.inc(sentences)
        self._source.inc(source_tokens)
        self._target.inc(target_tokens)

    def waiting(self, requests: int, sentences: int) -> None:
        """So many wait now."""
        self._requests.set(requests)
        self._queue.set(sentences)
