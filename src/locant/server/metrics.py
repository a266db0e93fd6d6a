"""Numbers about the server for Prometheus."""

from __future__ import annotations

import os
from typing import Any

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
        self._requests = Counter("locant_requests", "Requests answered.", ["route", "status"], registry=registry)
        self._seconds = Histogram(
            "locant_request_seconds", "Time from a request to the end of its answer.", ["route"],
            registry=registry, buckets=_SECONDS,
        )  # fmt: skip
        self._answers: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self.refused = Counter("locant_refused", "Requests refused, by the reason.", ["reason"], registry=registry)
        self.characters = Counter("locant_characters", "Characters of texts that were taken.", registry=registry)
        named: dict[str, Any] = {"labelnames": ["model"], "registry": registry}
        alive: dict[str, Any] = {**named, "multiprocess_mode": "livesum"}
        self._counters = (
            Counter("locant_sentences", "Sentences translated.", **named),
            Counter("locant_source_tokens", "Source tokens of translated sentences.", **named),
            Counter("locant_target_tokens", "Target tokens of translations.", **named),
        )
        self._batch = Histogram(
            "locant_batch_sentences", "Sentences in the search at each step.", buckets=_SENTENCES, **named
        )
        self._gauges = (
            Gauge("locant_waiting_requests", "Requests with sentences that wait.", **alive),
            Gauge("locant_waiting_sentences", "Sentences that wait.", **alive),
        )

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
        counters, gauges = [each.labels(name) for each in self._counters], [each.labels(name) for each in self._gauges]
        return ModelMetrics(counters, self._batch.labels(name), gauges)

    def page(self) -> bytes:
        """Return the numbers in Prometheus' text format."""
        registry = self._registry
        if os.environ.get(SHARED):
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


class ModelMetrics:
    """The numbers of a model, which its scheduler tells."""

    def __init__(self, counters: list[Counter], batch: Histogram, gauges: list[Gauge]) -> None:
        self._counters, self._batch, self._gauges = counters, batch, gauges

    def stepped(self, sentences: int) -> None:
        """So many sentences were in the search while it made a step."""
        self._batch.observe(sentences)

    def finished(self, sentences: int, source_tokens: int, target_tokens: int) -> None:
        """So many sentences were translated."""
        for counter, more in zip(self._counters, (sentences, source_tokens, target_tokens), strict=True):
            counter.inc(more)

    def waiting(self, requests: int, sentences: int) -> None:
        """So many wait now."""
        for gauge, number in zip(self._gauges, (requests, sentences), strict=True):
            gauge.set(number)
