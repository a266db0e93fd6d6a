"""Numbers about the server for Prometheus.

Where several processes serve, they share them by files in the folder that the environment variable
``PROMETHEUS_MULTIPROC_DIR`` names, which must be set before this module is imported.
"""

from __future__ import annotations

import os

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

_TIMES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
REQUESTS = Counter("locant_requests", "Requests answered.", ["route", "status"])
REQUEST_SECONDS = Histogram(
    "locant_request_seconds", "Time from a request to the end of its answer.", ["route"], buckets=_TIMES
)
REFUSED = Counter("locant_refused", "Requests refused, by the reason.", ["reason"])
CHARACTERS = Counter("locant_characters", "Characters of texts that were taken.")
SENTENCES = Counter("locant_sentences", "Sentences translated.", ["model"])
SOURCE_TOKENS = Counter("locant_source_tokens", "Source tokens of translated sentences.", ["model"])
TARGET_TOKENS = Counter("locant_target_tokens", "Target tokens of translations.", ["model"])
BATCH = Histogram("locant_batch_sentences", "Sentences in the search at each step.", ["model"], buckets=_SIZES)
WAITING_REQUESTS = Gauge(
    "locant_waiting_requests", "Requests with sentences that wait.", ["model"], multiprocess_mode="livesum"
)
WAITING_SENTENCES = Gauge("locant_waiting_sentences", "Sentences that wait.", ["model"], multiprocess_mode="livesum")


def metrics_page() -> bytes:
    """Return the numbers of all processes in Prometheus' text format."""
    if not os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
