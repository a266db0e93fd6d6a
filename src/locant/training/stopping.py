"""Requests to stop: on SIGTERM a training finishes its update, saves all and ends; the next SIGTERM ends it at once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from locant.signals import end_by_signal

_SAME_REQUEST = 1.0
"""Seconds in which a second signal is taken for the first: launchers and process groups may deliver one twice."""


class StopRequest:
    """Whether the process has been asked to stop.

    Attributes:
        asked: Whether it has.
    """

    def __init__(self) -> None:
        self.asked = False
        self._since = 0.0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within the block, note SIGTERM instead of ending at once.

        Does nothing outside the main thread, where Python hears no signals, and where the program has its own handler.
        """
        in_main, before = threading.current_thread() is threading.main_thread(), signal.getsignal(signal.SIGTERM)
        if not in_main or before not in (signal.SIG_DFL, end_by_signal):
            yield
            return
        signal.signal(signal.SIGTERM, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.asked:
            if now - self._since > _SAME_REQUEST:
                end_by_signal(number, frame)
            return
        self.asked, self._since = True, now
