"""Numbers about the server for Prometheus."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable that names the folder by which several processes share their numbers."""
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """The numbers of a process; where several processes serve, each can tell those of all.

    The processes share numbers by files in the folder that the environment variable ``PROMETHEUS_MULTIPROC_DIR`` names;
    it must be set before this module is imported.
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()

        # Each returns what has some labels, which is looked up once.
        def counter(name: str, text: str, *labels: str) -> Callable[..., Counter]:
            return cache(Counter(f"locant_{name}", text, labels, registry=registry).labels)

        def histogram(name: str, text: str, label: str, buckets: tuple[float, ...]) -> Callable[..., Histogram]:
            return cache(Histogram(f"locant_{name}", text, [label], registry=registry, buckets=buckets).labels)

        def gauge(name: str, text: str) -> Callable[..., Gauge]:
            found = Gauge(f"locant_{name}", text, ["model"], registry=registry, multiprocess_mode="livesum")
            return cache(found.labels)

        self._requests = counter("requests", "Requests answered.", "route", "status")
        text = "Time from a request to the end of its answer."
        self._seconds = histogram("request_seconds", text, "route", _SECONDS)
        self._refused = counter("refused", "Requests refused, by the reason.", "reason")
        self.characters = Counter("locant_characters", "Characters of texts that were taken.", registry=registry)
        self._sentences = counter("sentences", "Sentences translated.", "model")
        self._source_tokens = counter("source_tokens", "Source tokens of translated sentences.", "model")
        self._target_tokens = counter("target_tokens", "Target tokens of translations.", "model")
        self._batch = histogram("batch_sentences", "Sentences in the search at each step.", "model", _SENTENCES)
        self._waiting_requests = gauge("waiting_requests", "Requests with sentences that wait.")
        self._waiting_sentences = gauge("waiting_sentences", "Sentences that wait.")

    def answered(self, route: str, status: int, seconds: float, refused: str | None = None) -> None:
        """A request was answered, or refused for a reason."""
        self._requests(route, status).inc()
        self._seconds(route).observe(seconds)
        if refused:
            self._refused(refused).inc()

    def stepped(self, model: str, sentences: int) -> None:
        """Count a step of a model's search with this many sentences in it."""
        self._batch(model).observe(sentences)

    def finished(self, model: str, sentences: int, source_tokens: int, target_tokens: int) -> None:
        """Count sentences that a model has translated."""
        self._sentences(model).inc(sentences)
        self._source_tokens(model).inc(source_tokens)
        self._target_tokens(model).inc(target_tokens)

    def waiting(self, model: str, requests: int, sentences: int) -> None:
        """Set how many requests and sentences wait for a model."""
        self._waiting_requests(model).set(requests)
        self._waiting_sentences(model).set(sentences)

    def page(self) -> bytes:
        """Return the numbers in Prometheus' text format."""
        registry = self._registry
        if os.environ.get(SHARED):
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
