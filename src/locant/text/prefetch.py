"""Preparing the next items while the current one is in use."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
_PATIENCE = 0.1  # seconds between looks at whether the consumer is still there


def prefetch(items: Iterable[T], depth: int = 4) -> Generator[T, None, None]:
    """Yield the items of an iterable that a background thread reads ahead.

    An exception in the iterable is raised here, after the items before it. When the consumer stops early (``close``,
    ``break`` followed by garbage collection, an exception), the thread ends.

    Args:
        items: Read in the background thread only.
        depth: How many items may wait.
    """
    ready: queue.Queue[T | _End] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def put(item: T | _End) -> None:
        while not stop.is_set():
            try:
                ready.put(item, timeout=_PATIENCE)
                return
            except queue.Full:
                continue

    def read() -> None:
        try:
            for item in items:
                put(item)
                if stop.is_set():
                    return
        except BaseException as error:
            put(_End(error))
        else:
            put(_End(None))

    thread = threading.Thread(target=read, name="locant-prefetch", daemon=True)
    thread.start()
    try:
        while not isinstance(item := ready.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stop.set()
        thread.join()


@dataclass(frozen=True)
class _End:
    """The iterable has ended, by itself or with an exception."""

    error: BaseException | None
