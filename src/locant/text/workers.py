"""Work shared by processes, whose results come in the order of the tasks."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any, TypeVar

from locant.errors import LocantError
from locant.runtime import granted_cores

T = TypeVar("T")
R = TypeVar("R")

SEVERAL_PROCESSES = 100_000
"""Pairs from which other processes are started, which takes a second."""
_AHEAD = 2
"""Tasks for each process that wait for it, or whose results wait for those before them."""


def usable_processes() -> int:
    """Return how many processes the cores and the quota of this one can feed."""
    return granted_cores()


def in_order(work: Callable[[T], R], tasks: Iterable[T], processes: int = 1) -> Generator[R, None, None]:
    """Yield the result of each task, in their order, whatever the number of processes.

    With one process all is done here. Otherwise each is a Python of its own that imports what the work needs and
    nothing of the program that calls; tasks are read here, a few ahead.

    Args:
        work: What is done; it and the tasks can be pickled.
        tasks: Read one after the other.
        processes: How many work at once.

    Raises:
        LocantError: A process ended before its work was done.
    """
    if processes == 1:
        collects = gc.isenabled()
        for task in tasks:
            gc.disable()  # it looks at the many small objects of a text in vain
            try:
                found = work(task)
            finally:
                if collects:
                    gc.enable()
            yield found
        return
    pool = ProcessPoolExecutor(processes, _Context(), _begin, (work,))
    try:
        waiting = deque[Future[Any]]()
        for task in tasks:
            waiting.append(pool.submit(_do, task))
            if len(waiting) > _AHEAD * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise LocantError(
            "A process that prepared text was ended. Where memory is short, let fewer of them work at once; what is "
            "finished is kept."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


class _Process(SpawnProcess):
    def start(self) -> None:
        # Its main module would be imported again, and a script that calls may have no guard against that.
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = main


class _Context(SpawnContext):
    Process = _Process


_work: Callable[[Any], Any]


def _begin(work: Callable[[Any], Any]) -> None:
    """Begin as a process that works for another one."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started the process ends it
    gc.disable()  # work on text leaves no cycles, and many small objects
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _do(task: Any) -> Any:
    return _work(task)
