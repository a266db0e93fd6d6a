"""The process above those that answer: it loads the models, forks workers that share them, and replaces workers.

The weights are in memory once: workers are forked after the models were loaded, and what a process does not write to is
shared with its parent (copy on write). On a reload the new models are loaded beside the old ones, new workers take
over, and the old ones retire when they have answered what they have.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locant.errors import LocantError, MissingExtraError, UsageError
from locant.server.settings import ServerSettings

_LOG = logging.getLogger("locant.server")

_PACKAGES = {
    "starlette": "starlette",
    "uvicorn": "uvicorn",
    "httptools": "httptools",
    "prometheus_client": "prometheus-client",
    "python_multipart": "python-multipart",
    "sentencex": "sentencex",
    "py3langid": "py3langid",
    "babel": "babel",
}
_METRICS = "PROMETHEUS_MULTIPROC_DIR"
_MEMORY = Path("/dev/shm")  # where Linux keeps files in memory
_PAUSE = 0.5  # seconds before a worker that died young is replaced
_GRACE = 15.0  # seconds that a worker has to end, beyond the longest request


@dataclass
class _Child:
    """A worker.

    Attributes:
        generation: Number of the models that it has.
        ready: The end of a pipe on which it says that it answers; ``None`` once it has.
        begun: When it was forked.
        latest: When it is killed, unless it has done by then what is expected of it: to answer, or to end.
        retired: Whether it has been told to end.
    """

    generation: int
    ready: int | None
    begun: float
    latest: float
    retired: bool = False


def require_packages() -> None:
    """Raise MissingExtraError unless the packages of the extra ``serve`` are installed."""
    from importlib.util import find_spec

    for module, package in _PACKAGES.items():
        if find_spec(module) is None:
            raise MissingExtraError("The server", package, "serve")


class Supervisor:
    """Keeps workers.

    Args:
        listener: The socket at which they answer.
        settings: Of the server; read anew before each reload.
        load: Returns what the workers need, called in this process before they are forked.
        work: Is the life of a worker: called in a forked process with what was loaded, the settings, and the file
            descriptors of :class:`~locant.server.worker.Worker`.
        announce: Called once, when the first request can come.
    """

    def __init__(
        self,
        listener: socket.socket,
        settings: Callable[[], ServerSettings],
        load: Callable[[ServerSettings], Any],
        work: Callable[[Any, ServerSettings, int, int], None],
        announce: Callable[[], None],
    ) -> None:
        self._listener, self._read_settings, self._load, self._work = listener, settings, load, work
        self._announce = announce
        self._children: dict[int, _Child] = {}
        self._generation = 0
        self._current: tuple[int, Any, ServerSettings] | None = None
        self._next: tuple[int, Any, ServerSettings] | None = None
        self._stopping = self._reload = False
        self._replace_at = 0.0
        # The workers hold the reading end: it is at its end when this process is gone.
        self._lifeline = os.pipe()
        self._wake = os.pipe()
        for end in self._wake:
            os.set_blocking(end, False)

    def run(self) -> None:
        """Serve until a signal ends it.

        SIGTERM or SIGINT drains the workers, a second one ends them at once; SIGHUP reloads the models.

        Raises:
            LocantError: The first workers cannot begin.
        """
        handlers = {
            signal.SIGTERM: self._stop, signal.SIGINT: self._stop, signal.SIGHUP: self._ask_reload,
            signal.SIGCHLD: lambda number, frame: None,
        }  # fmt: skip
        before: dict[int, Any] = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        wakeup = signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        try:
            self._begin_generation()
            while self._children or not self._stopping:
                self._look()
        finally:
            self._kill(signal.SIGKILL)
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: Any) -> None:
        if self._stopping:
            self._kill(signal.SIGKILL)
            return
        self._stopping = True
        for child in self._children.values():
            child.latest = self._latest_end()
        self._kill(signal.SIGTERM)

    def _ask_reload(self, number: int, frame: Any) -> None:
        self._reload = True

    def _kill(self, number: signal.Signals) -> None:
        for process in list(self._children):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _latest_end(self) -> float:
        """Return when a worker that is now told to end must have done so, whatever hangs in it."""
        known = self._current or self._next
        assert known is not None
        return time.monotonic() + known[2].limits.request_seconds + _GRACE

    def _end_hung(self) -> None:
        """Kill workers that neither begin nor end in their time."""
        for process, child in self._children.items():
            if time.monotonic() >= child.latest:
                _LOG.error("a worker hangs", extra={"worker": process})
                child.latest = math.inf
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def _look(self) -> None:
        """Wait until something happens, and see to it."""
        pipes = {child.ready: process for process, child in self._children.items() if child.ready is not None}
        found, _, _ = select.select([self._wake[0], *pipes], [], [], 1.0)
        with suppress(BlockingIOError):
            os.read(self._wake[0], 4096)
        for pipe in found:
            if pipe in pipes:
                self._hear(self._children[pipes[pipe]])
        self._bury()
        self._end_hung()
        if self._stopping:
            return
        if self._reload and self._next is None:
            self._reload = False
            _LOG.info("reloading")
            try:
                self._begin_generation()
            except LocantError as error:
                _LOG.error("not reloaded", extra={"reason": str(error)})
        self._replace()

    def _begin_generation(self) -> None:
        settings = self._read_settings()
        self._generation += 1
        self._next = (self._generation, self._load(settings), settings)
        # Nothing is collected in what the workers share: that would write to it.
        gc.collect()
        gc.freeze()
        for _ in range(settings.workers):
            self._fork(self._next)

    def _fork(self, generation: tuple[int, Any, ServerSettings]) -> None:
        number, loaded, settings = generation
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        process = os.fork()
        if process == 0:
            code = 1
            try:
                os.close(reading)
                os.close(self._lifeline[1])
                signal.set_wakeup_fd(-1)
                for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
                    signal.signal(one, signal.SIG_DFL)
                self._work(loaded, settings, self._lifeline[0], writing)
                code = 0
            except LocantError as error:
                _LOG.error("a worker cannot begin", extra={"reason": str(error)})
            except BaseException:
                _LOG.exception("a worker failed")
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        os.close(writing)
        now = time.monotonic()
        self._children[process] = child = _Child(number, reading, now, now + settings.limits.begin_seconds)
        if self._stopping:  # the signal came between the fork and now
            child.latest = self._latest_end()
            self._kill(signal.SIGTERM)

    def _hear(self, child: _Child) -> None:
        """Note that a worker answers, or that it will never."""
        assert child.ready is not None
        says = os.read(child.ready, 1)
        os.close(child.ready)
        child.ready = None
        if not says:
            return
        if not (child.retired or self._stopping):
            child.latest = math.inf
        if self._next is None or child.generation != self._next[0]:
            return
        if any(other.ready is not None for other in self._children.values() if other.generation == child.generation):
            return
        first = self._current is None
        self._current, self._next = self._next, None
        gc.unfreeze()
        if first:
            self._announce()
        else:
            _LOG.info("reloaded")
        for process, other in self._children.items():
            if other.generation != self._current[0] and not other.retired:
                other.retired, other.latest = True, self._latest_end()
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGUSR1)

    def _bury(self) -> None:
        """Take note of workers that have ended."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not process:
                return
            child = self._children.pop(process, None)
            if child is None:
                continue
            self._forget_metrics(process)
            if child.ready is not None:
                os.close(child.ready)
            if child.retired or self._stopping:
                continue
            _LOG.error("a worker ended", extra={"worker": process, "code": os.waitstatus_to_exitcode(status)})
            if self._next is not None and child.generation == self._next[0]:
                self._give_up_next()
            elif time.monotonic() - child.begun < 5:
                self._replace_at = time.monotonic() + _PAUSE

    def _give_up_next(self) -> None:
        """Stay with the present models, because a worker could not begin with the new ones."""
        assert self._next is not None
        number, self._next = self._next[0], None
        for process, child in self._children.items():
            if child.generation == number:
                child.retired = True
                os.kill(process, signal.SIGKILL)
        if self._current is None:
            raise LocantError("The server cannot begin: a worker ended before it could answer. The log says why.")
        _LOG.error("not reloaded", extra={"reason": "a worker could not begin"})

    def _replace(self) -> None:
        if self._current is None or time.monotonic() < self._replace_at:
            return
        number, _, settings = self._current
        alive = sum(child.generation == number for child in self._children.values())
        for _ in range(settings.workers - alive):
            self._fork(self._current)

    @staticmethod
    def _forget_metrics(process: int) -> None:
        if os.environ.get(_METRICS):
            from prometheus_client import multiprocess

            multiprocess.mark_process_dead(process)  # type: ignore[no-untyped-call]


class RunFolder:
    """The folder of a running server: numbers of its workers, and translated files; gone when it ends.

    The numbers are in memory where the system has a folder for that: files that are mapped, on a disk that is full, end
    whoever writes to them.

    Attributes:
        files: The folder of translated files.
    """

    def __enter__(self) -> RunFolder:
        """Make the folder, and name it to the packages that use it."""
        shared = str(_MEMORY) if os.access(_MEMORY, os.W_OK | os.X_OK) else None
        self._paths = [Path(tempfile.mkdtemp(prefix="locant-serve-", dir=place)) for place in (None, shared)]
        self.files, numbers = (path / name for path, name in zip(self._paths, ("files", "metrics"), strict=True))
        for folder in (self.files, numbers):
            folder.mkdir()
        self._before = os.environ.get(_METRICS)
        os.environ[_METRICS] = str(numbers)
        return self

    def __exit__(self, *error: object) -> None:
        """Delete the folder."""
        if self._before is None:
            del os.environ[_METRICS]
        else:
            os.environ[_METRICS] = self._before
        for path in self._paths:
            shutil.rmtree(path, ignore_errors=True)


def require_fork() -> None:
    """Raise UsageError where processes cannot be forked."""
    if not hasattr(os, "fork"):
        raise UsageError("`locant serve` runs on Linux and macOS. Elsewhere give locant.server.build_app to a server.")
