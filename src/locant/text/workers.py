"""Work shared by processes, whose results come in the order of the tasks."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from locant.errors import LocantError
from locant.runtime import cpu_quota, usable_cores

T = TypeVar("T")
R = TypeVar("R")

SEVERAL_PROCESSES = 100_000
"""Pairs from which other processes are started, which takes a second."""
_AHEAD = 2
"""Tasks for each process that wait for it, or whose results wait for those before them."""


def usable_processes() -> int:
    """Return how many processes the cores and the quota of this one can feed."""
    cores, quota = usable_cores() or 1, cpu_quota()
    return cores if quota is None else max(1, min(cores, round(quota)))


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
    mine, workers = threading.local(), list[_Worker]()

    def done_by_one(task: T) -> Any:
        if not hasattr(mine, "worker"):
            mine.worker = _Worker(work)
            workers.append(mine.worker)
        return mine.worker.result_of(task)

    threads = ThreadPoolExecutor(processes)
    try:
        waiting = deque[Future[Any]]()
        for task in tasks:
            waiting.append(threads.submit(done_by_one, task))
            if len(waiting) > _AHEAD * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        threads.shutdown(cancel_futures=True)
        for worker in workers:
            worker.end()


class _Worker:
    """A process that does one task after the other."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        path = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from locant.text.workers import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        )
        self._work: Any = work

    def result_of(self, task: Any) -> Any:
        tasks, results = self._process.stdin, self._process.stdout
        assert tasks is not None
        assert results is not None
        try:
            if self._work is not None:
                pickle.dump(self._work, tasks, protocol=pickle.HIGHEST_PROTOCOL)
                self._work = None
            pickle.dump(task, tasks, protocol=pickle.HIGHEST_PROTOCOL)
            tasks.flush()
            succeeded, found = pickle.load(results)
        except (EOFError, OSError, pickle.UnpicklingError):
            code = self._process.wait()
            how = f"by signal {-code}" if code < 0 else f"with code {code}"
            raise LocantError(
                f"A process that prepared text was ended {how}. Where memory is short, let fewer of them work at "
                "once; what is finished is kept."
            ) from None
        if succeeded:
            return found
        raise found

    def end(self) -> None:
        self._process.kill()
        with suppress(OSError):
            self._process.communicate()


def serve() -> None:
    """Do the tasks that come by standard input until there are no more; what a worker process runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started the process ends it
    gc.disable()  # work on text leaves no cycles, and many small objects
    tasks, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not be between results
    # Whoever was killed while it sent a task has cut it short.
    with suppress(EOFError, BrokenPipeError, pickle.UnpicklingError):
        work = pickle.load(tasks)
        while True:
            task = pickle.load(tasks)
            answer: tuple[bool, Any]
            try:
                answer = True, work(task)
            except LocantError as error:
                answer = False, error
            except Exception:
                answer = False, RuntimeError(f"in a process that prepares text:\n{traceback.format_exc()}")
            pickle.dump(answer, results, protocol=pickle.HIGHEST_PROTOCOL)
            results.flush()
