"""Serving models: everything from a list of folders to processes that answer.

The processes are those of uvicorn: one that watches, and workers, each of which loads the models for itself.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import logging.config
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors.multiprocess import SIGNALS, Multiprocess, Process

from locant import errors
from locant.errors import LocantError, UsageError
from locant.runtime import keep_freed_memory, listen
from locant.server.settings import ServerSettings

if TYPE_CHECKING:
    from locant.server.app import Application

_LOG = logging.getLogger("locant.server")

_METRICS = "PROMETHEUS_MULTIPROC_DIR"
_MEMORY = Path("/dev/shm")  # where Linux keeps files in memory
_KEEP_ALIVE = 5  # seconds for which a connection without a request stays open
_GRACE = 10  # seconds that a worker has to end, beyond the longest request
_HANGS = 30  # seconds without a sign of life after which a worker is replaced
_OWN_FILES = 100  # that a worker has open besides connections
_COLLECTED = 100_000  # objects more than before, at which it is looked for those that nobody needs
_SWITCH = 0.0005  # seconds for which one Python thread may keep another waiting
_SENTENCE = b'{"error": "The server is being shut down. Try again in a moment."}'
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_SENTENCE), _SENTENCE)
)


def serve(
    places: Sequence[str],
    settings: Callable[[], ServerSettings],
    *,
    engine: str = "auto",
    device: str = "auto",
    compute_type: str | None = None,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve models until a signal ends it.

    SIGTERM or SIGINT drains, a second one ends at once; SIGHUP reads settings, glossaries and models again.

    Args:
        places: Model folders, runs or models on the Hub, each with its languages before it where they must be named
            (``de-en=FOLDER``).
        settings: Returns the settings; it is called in each worker as well, so it must be one that can be pickled.
        engine: As for :func:`~locant.translation.load_translator`, like the others.
        device: Likewise.
        compute_type: Likewise.
        ready: Called with the address when the first request can come.

    Raises:
        MissingExtraError: A package of the extra ``serve`` is not installed.
        UsageError: The port is taken, two models translate in the same direction, or several processes are to share a
            GPU.
        LocantError: A model cannot be loaded.
    """
    if os.name != "posix":
        raise UsageError("`locant serve` runs on Linux and macOS. Elsewhere give locant.server.build_app to a server.")
    chosen = settings()
    with ExitStack() as stack:
        listener = stack.enter_context(listen(chosen.host, chosen.port))
        # Counts are in memory where the system has a folder for that: files that are mapped, on a disk that is full,
        # end whoever writes to them.
        shared = str(_MEMORY) if os.access(_MEMORY, os.W_OK | os.X_OK) else None
        counts, files = (
            Path(stack.enter_context(tempfile.TemporaryDirectory("", "locant-serve-", place, True)))
            for place in (shared, None)
        )
        for number in SIGNALS:
            stack.callback(signal.signal, number, signal.getsignal(number))
        stack.callback(setattr, sys, "stdin", sys.stdin)
        sys.stdin = None  # of which workers read nothing, and it may be closed
        (counts / "metrics").mkdir()
        os.environ[_METRICS] = str(counts / "metrics")
        stack.callback(os.environ.pop, _METRICS)
        config = uvicorn.Config(
            partial(_application, list(places), settings, counts, files, engine, device, compute_type),
            factory=True,
            http=Connection,
            ws="none",
            lifespan="on",
            log_config=LOG,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            workers=chosen.workers,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=int(chosen.limits.request_seconds) + _GRACE,
            timeout_worker_healthcheck=_HANGS,
        )
        shown = f"[{chosen.host}]" if ":" in chosen.host else chosen.host
        address = f"http://{shown}:{listener.getsockname()[1]}/"

        def announce() -> None:
            open_to, level = "this machine alone", logging.INFO
            if not chosen.is_local:
                open_to, level = "every machine that reaches this address, unencrypted without a proxy", logging.WARNING
                if not chosen.keys:
                    open_to += "; there are no API keys: translation, files and metrics are open"
            shown = chosen.model_dump(include={"workers", "cors_origins", "trusted_proxies"})
            _LOG.log(level, "serving to %s", open_to, extra={"address": address, "keys": len(chosen.keys), **shown})
            ready(address)

        supervisor = _Supervisor(config, listener, chosen.limits.begin_seconds, counts / "failure", announce)
        try:
            supervisor.run()
        finally:
            supervisor.end()
        _LOG.info("ended")


LOG = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "locant.server.logs.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "loggers": {
        "locant": {"level": "INFO"},
        "uvicorn.error": {"level": "WARNING"},
        "python_multipart": {"level": "CRITICAL"},  # of broken forms, which are refused
    },
    "root": {"level": "WARNING", "handlers": ["stderr"]},
}
"""The configuration of :mod:`logging`: a line of JSON on standard error for each event."""


def _application(
    places: Sequence[str],
    read_settings: Callable[[], ServerSettings],
    counts: Path,
    files: Path,
    engine: str,
    device: str,
    compute_type: str | None,
) -> Application:
    """Make the application in the event loop of a worker.

    It counts requests, and says why it cannot begin, in the folder ``counts``; the other arguments are those of
    :func:`serve`, and the folder of translated files.
    """
    import torch

    from locant.languages import language_identifier
    from locant.runtime import choose_device
    from locant.server.app import build_app
    from locant.server.clients import Rates
    from locant.server.files import FileStore
    from locant.server.models import ModelPlace, load_models

    keep_freed_memory()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if parent := multiprocessing.parent_process():  # without it nobody would end this process
        asyncio.get_running_loop().add_reader(parent.sentinel, _end_without_parent, parent.sentinel)
    try:
        settings = _with_open_files(read_settings())
        if choose_device(device).type == "cpu":
            torch.set_num_threads(max(1, torch.get_num_threads() // settings.workers))
        elif settings.workers > 1:
            raise UsageError("Several workers share the CPU alone; on a GPU give --workers 1.")
        found = [ModelPlace.parse(place) for place in places]
        models, engines = load_models(found, engine=engine, device=device, compute_type=compute_type)
        if settings.identify:
            language_identifier()
        limits = settings.limits
        store = FileStore(60 * limits.file_minutes, limits.files, limits.files_bytes, files)
        # Behind a proxy that is trusted, names are the proxy's matter.
        local = settings.is_local and not settings.trusted_proxies
        app = build_app(models, settings, rates=Rates(counts / "rates"), files=store, local=local)
    except LocantError as error:
        _LOG.error("a worker cannot begin", extra={"reason": str(error)})
        (counts / "failure").write_text(f"{type(error).__name__}\n{error}", encoding="utf-8")
        sys.exit(1)
    _LOG.info("worker begins", extra={"models": dict(zip(models.names, engines, strict=True))})
    # Nobody reads of these, and each would be looked up for every entry of the log.
    logging._srcfile, logging.logThreads, logging.logMultiprocessing = None, False, False
    # The thread of a model comes back from the kernels several times a step. Were it to wait for the interpreter as
    # long as Python lets it by default, 5 ms, requests that are refused would hold up those that are translated.
    sys.setswitchinterval(_SWITCH)
    # What hundreds of requests at a time have must not count as garbage, nor be looked through what stays.
    gc.set_threshold(_COLLECTED)
    gc.freeze()
    return app


def _end_without_parent(sentinel: int) -> None:
    asyncio.get_running_loop().remove_reader(sentinel)
    signal.raise_signal(signal.SIGTERM)


def _with_open_files(settings: ServerSettings) -> ServerSettings:
    """Let this process open as many files as it may have connections, or lower the limit of these."""
    from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit

    needed, (soft, hard) = settings.limits.connections + _OWN_FILES, getrlimit(RLIMIT_NOFILE)
    if soft == RLIM_INFINITY or soft >= needed:
        return settings
    with suppress(OSError, ValueError):
        setrlimit(RLIMIT_NOFILE, (needed if hard == RLIM_INFINITY else min(needed, hard), hard))
    allowed = getrlimit(RLIMIT_NOFILE)[0]
    if allowed >= needed:
        return settings
    most = max(1, allowed - _OWN_FILES)
    _LOG.warning("the system allows %d open files, so a worker has %d connections at most", allowed, most)
    return settings.model_copy(update={"limits": settings.limits.model_copy(update={"connections": most})})


class Connection(HttpToolsProtocol):
    """A connection with limits: on what comes of a request besides its body, and on its silence.

    Where there are more connections than allowed, the one that has been silent for longest makes room.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = self.app.settings.limits
        self._outside = 0  # bytes since the last part of a body, or the last end of a head
        self._late: asyncio.TimerHandle | None = None  # closes it when no head comes, or when nobody reads
        self._ending = False
        self.since = self.loop.time()

    @property
    def is_silent(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _expect(self) -> None:
        """Close the connection unless its client does something in time."""
        self._late = self._late or self.loop.call_later(self._limits.head_seconds, self.transport.abort)

    def _go_on(self) -> None:
        if self._late:
            self._late.cancel()
            self._late = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin with a connection."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            silent: list[Any] = [each for each in self.connections if each is not self and each.is_silent]  # type: ignore[union-attr]
            if silent:
                min(silent, key=lambda each: each.since).transport.abort()
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """End with it."""
        self._go_on()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Note that more is to be sent than is read."""
        self._expect()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that it is read."""
        self._go_on()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Read what has come, no more at once than is allowed outside of a body."""
        most = self._limits.head_bytes
        while data and not self.transport.is_closing():
            size = min(4_096, most - self._outside)
            piece, data = data[:size], data[size:]
            self._outside += len(piece)
            super().data_received(piece)
            if self._outside >= most and not self.transport.is_closing():
                self.send_400_response(f"At most {most:,} bytes are read that are no part of a body.")

    def on_message_begin(self) -> None:
        """Begin with a head."""
        super().on_message_begin()
        self._expect()

    def on_headers_complete(self) -> None:
        """Begin a request."""
        self._outside, self.since = 0, self.loop.time()
        if not self.flow.write_paused:
            self._go_on()
        super().on_headers_complete()
        if self._ending:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._outside = 0
        super().on_body(body)

    def shutdown(self) -> None:
        """Answer what is here, and what its client may be sending just now; then close."""
        if self._ending or not self.is_silent:
            super().shutdown()
        else:
            self.loop.call_later(1.0, self.shutdown)
        self._ending = True


class _Supervisor(Multiprocess):
    """uvicorn's watch over workers, with a beginning and an end that lose no request.

    Args:
        config: Of uvicorn.
        listener: The socket at which the workers answer.
        begin_seconds: Longest time until a worker answers.
        failure: A file in which a worker says why it cannot begin.
        announce: Called once, when the first request can come.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        begin_seconds: float,
        failure: Path,
        announce: Callable[[], None],
    ) -> None:
        super().__init__(config, [listener])
        self._begin_seconds, self._failure, self._announce = begin_seconds, failure, announce
        self._retired: list[Process] = []

    def init_processes(self) -> None:
        """Begin with the workers.

        Raises:
            LocantError: One of them cannot begin.
        """
        super().init_processes()
        if self._become_ready(self.processes):
            self._announce()
        elif not self._is_ending:
            kind, _, sentence = "LocantError", "", "The server cannot begin: a worker ended, or did not answer in time."
            with suppress(OSError):
                kind, _, sentence = self._failure.read_text(encoding="utf-8").partition("\n")
            raise getattr(errors, kind, LocantError)(sentence)

    @property
    def _is_ending(self) -> bool:
        return not {signal.SIGTERM, signal.SIGINT}.isdisjoint(self.signal_queue)

    def _become_ready(self, processes: Sequence[Process]) -> bool:
        """Wait until workers answer; returns whether all of them do before the server is to end."""
        latest, waiting = time.monotonic() + self._begin_seconds, list(processes)
        while waiting:
            alive = all(process.process.is_alive() for process in waiting)
            if self._is_ending or not alive or time.monotonic() > latest:
                return False
            waiting = [process for process in waiting if not process.is_ready(timeout=0.5)]
            time.sleep(0.05)
        return True

    def restart_all(self) -> None:
        """Replace all workers: the old ones retire when the new ones answer, and stay where those do not."""
        _LOG.info("reloading")
        fresh = [Process(self.config, self.sockets) for _ in self.processes]
        for process in fresh:
            process.start()
        if self._become_ready(fresh):
            self.terminate_all()
            self._retired += self.processes
            self.processes = fresh
            _LOG.info("reloaded")
        else:
            _kill(fresh)
            _LOG.error("not reloaded", extra={"reason": "a worker cannot begin, or the server is to end"})

    def keep_subprocess_alive(self) -> None:
        """Replace workers that have ended or hang, and forget those that have retired."""
        before = {*self.processes, *self._retired}
        super().keep_subprocess_alive()
        self._retired = [process for process in self._retired if process.process.is_alive()]
        for process in before - {*self.processes, *self._retired}:
            from prometheus_client import multiprocess as numbers

            _LOG.info("a worker ended", extra={"worker": process.pid})
            numbers.mark_process_dead(process.pid)  # type: ignore[no-untyped-call]

    def join_all(self) -> None:
        """Wait until the workers have finished what they have, and refuse what comes meanwhile; a signal ends it."""
        _LOG.info("draining")
        asyncio.run(self._refuse())

    async def _refuse(self) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    writer.write(_REFUSAL)
                    writer.write_eof()
                    while await reader.read(65_536):  # what is not read would take the answer with it
                        pass
            writer.close()

        (listener,) = self.sockets
        self.signal_queue.clear()
        server = await asyncio.start_server(answer, sock=listener)
        while any(process.process.is_alive() for process in [*self.processes, *self._retired]):
            if self.signal_queue:
                self.end()
            await asyncio.sleep(0.05)
        listener.listen(0)  # no more come
        await asyncio.sleep(0.1)
        server.close()
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others, timeout=1)

    def end(self) -> None:
        """Kill workers that are still there."""
        _kill([*self.processes, *self._retired])


def _kill(processes: Sequence[Process]) -> None:
    for process in processes:
        process.kill()
        process.join()
