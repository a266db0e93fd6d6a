"""Clients of a translation server, for locust (https://locust.io); ``run.py`` starts it.

Each client asks for one sentence after another, and waits for a second where it is refused. Environment:
``LOAD_TEXT``, a file with a sentence a line; ``LOAD_SOURCE`` and ``LOAD_TARGET``, the languages; ``LOAD_RATE``,
requests a second of each client whether they are refused or not, as fast as they are answered where it is missing;
``LOAD_OUTPUT``, a file that is written at the end: when the load began, the processor seconds of the clients since,
and of each request when it ended, its milliseconds and what became of it: ``answered``, ``refused`` with a sentence
(429, 503), or ``failed``.

Requests go through the HTTP client that locust's own users have, geventhttpclient, without the layers that locust puts
around it: cookies, redirections and statistics take as long as the request, on the processors that the server shares.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from geventhttpclient import HTTPClient
from geventhttpclient.response import HTTPParseError
from locust import User, constant, constant_throughput, events, task

FIELDS = {"source": os.environ["LOAD_SOURCE"], "target": os.environ["LOAD_TARGET"]}
BODIES = [
    json.dumps({**FIELDS, "q": sentence}).encode()
    for sentence in Path(os.environ["LOAD_TEXT"]).read_text(encoding="utf-8").splitlines()
]
HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}
RATE = os.environ.get("LOAD_RATE")
TIMEOUT = 150.0  # seconds
NUMBERS = itertools.count()
ENDED: list[tuple[float, float, str]] = []
BEGUN: list[float] = []


class Client(User):
    """A client that translates sentences in an order of its own, on a connection of its own."""

    wait_time: Any = constant_throughput(float(RATE)) if RATE else constant(0)

    def on_start(self) -> None:
        """Choose the order."""
        self.draw = random.Random(next(NUMBERS))
        at = urlsplit(self.host)
        self.http = HTTPClient(at.hostname, at.port, concurrency=1, connection_timeout=TIMEOUT, network_timeout=TIMEOUT)

    @task
    def translate(self) -> None:
        """Ask for one sentence."""
        body, begun = self.draw.choice(BODIES), time.perf_counter()
        try:
            answer = self.http.post("/translate", body, HEADERS)
            content = answer.read()
            became = what_became(answer.status_code, content)
        except (OSError, HTTPParseError, ValueError):
            became = "failed"
        ENDED.append((time.time(), 1000 * (time.perf_counter() - begun), became))
        if became == "refused" and not RATE:
            time.sleep(1.0)  # of locust's, in which others go on


def what_became(status: int, content: bytes) -> str:
    """Return what an answer says about its request."""
    if status in (429, 503):
        return "refused"
    return "answered" if status == 200 and json.loads(content).get("translatedText") else "failed"


@events.test_start.add_listener
def begin(**_: Any) -> None:
    """Note when the load begins; what comes before takes nothing from the server."""
    BEGUN.extend((time.time(), time.process_time()))


@events.quitting.add_listener
def write(**_: Any) -> None:
    """Write what was noted."""
    found = {"begun": BEGUN[0], "processor_seconds": time.process_time() - BEGUN[1], "requests": ENDED}
    Path(os.environ["LOAD_OUTPUT"]).write_text(json.dumps(found), encoding="utf-8")
