"""Clients of a translation server, for locust (https://locust.io); ``run.py`` starts it.

Each client asks for one sentence after another, and waits for a second where it is refused. Environment:
``LOAD_TEXT``, a file with a sentence a line; ``LOAD_SOURCE`` and ``LOAD_TARGET``, the languages; ``LOAD_RATE``,
requests a second of each client whether they are refused or not, as fast as they are answered where it is missing;
``LOAD_OUTPUT``, a file that is written at the end: when the load began, the processor seconds of the clients since,
and of each request when it ended, its milliseconds and what became of it: ``answered``, ``refused`` with a sentence
(429, 503), or ``failed``.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from pathlib import Path
from typing import Any

from locust import FastHttpUser, constant, constant_throughput, events, task

SENTENCES = Path(os.environ["LOAD_TEXT"]).read_text(encoding="utf-8").splitlines()
FIELDS = {"source": os.environ["LOAD_SOURCE"], "target": os.environ["LOAD_TARGET"]}
RATE = os.environ.get("LOAD_RATE")
NUMBERS = itertools.count()
ENDED: list[tuple[float, float, str]] = []
BEGUN: list[float] = []


class Client(FastHttpUser):
    """A client that translates sentences in an order of its own."""

    wait_time: Any = constant_throughput(float(RATE)) if RATE else constant(0)
    connection_timeout = network_timeout = 150.0

    def on_start(self) -> None:
        """Choose the order."""
        self.draw = random.Random(next(NUMBERS))

    @task
    def translate(self) -> None:
        """Ask for one sentence."""
        body = {**FIELDS, "q": self.draw.choice(SENTENCES)}
        refused = False
        with self.client.post("/translate", json=body, name="answered", catch_response=True) as answer:
            if answer.status_code in (429, 503):
                answer.request_meta["name"] = "refused"
                answer.success()
                refused = True
            elif answer.status_code == 200 and not answer.json().get("translatedText"):
                answer.failure("an empty translation")
        if refused and not RATE:
            time.sleep(1.0)  # of locust's, in which others go on


@events.test_start.add_listener
def begin(**_: Any) -> None:
    """Note when the load begins; what comes before takes nothing from the server."""
    BEGUN.extend((time.time(), time.process_time()))


@events.request.add_listener
def note(name: str, response_time: float, exception: Exception | None, **_: Any) -> None:
    """Note what became of a request."""
    ENDED.append((time.time(), response_time, name if exception is None else "failed"))


@events.quitting.add_listener
def write(**_: Any) -> None:
    """Write what was noted."""
    found = {"begun": BEGUN[0], "processor_seconds": time.process_time() - BEGUN[1], "requests": ENDED}
    Path(os.environ["LOAD_OUTPUT"]).write_text(json.dumps(found), encoding="utf-8")
