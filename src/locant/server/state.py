"""The state of an application, which its routes share."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from starlette.requests import Request

from locant.server.files import FileStore
from locant.server.gate import Gate
from locant.server.identification import Identifier
from locant.server.metrics import Metrics
from locant.server.settings import ServerSettings
from locant.server.translating import TranslationService


@dataclass
class State:
    """What the routes of an application share.

    Attributes:
        settings: Of the server.
        service: Translates.
        gate: Lets clients in.
        files: Translated files.
        metrics: Numbers for Prometheus.
        identifier: Of languages; ``None`` where they are not identified.
        draining: Whether no more work is taken, because the process is about to end.
        retiring: Whether connections are closed after their next answer, because another process takes over.
        requests: Number of requests that are being answered.
    """

    settings: ServerSettings
    service: TranslationService
    gate: Gate
    files: FileStore
    metrics: Metrics
    identifier: Identifier | None
    draining: bool = False
    retiring: bool = False
    requests: int = 0
    started: float = field(default_factory=time.monotonic)


def state_of(request: Request) -> State:
    """Return what the routes share."""
    found: State = request.scope["state"]["locant"]
    return found
