"""Serving models: everything from a list of folders to processes that answer.

The processes are those of uvicorn: one that watches, and workers, each of which loads the models for itself.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import logging.config
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors.multiprocess import Multiprocess

from locant.errors import LocantError, UsageError
from locant.runtime import keep_freed_memory, listen
from locant.server.settings import ServerSettings

if TYPE_CHECKING:
    from locant.server.app import Application

_LOG = logging.getLogger("locant.server")

_METRICS = "PROMETHEUS_MULTIPROC_DIR"
_MEMORY = "/dev/shm"  # where Linux keeps files in memory
_KEEP_ALIVE = 5  # seconds for which a connection without a request stays open
_HEAD_SECONDS = 15  # in which the head of a request must arrive
_HEAD_BYTES = 65_536  # of a request besides its body, beyond what one packet brings
_GRACE = 10  # seconds that a worker has to end, beyond the longest request
_HANGS = 120  # seconds without a sign of life after which a worker is replaced, and in which a new one must answer
_OWN_FILES = 100  # that a worker has open besides connections
_COLLECTED = 100_000  # objects more than before, at which it is looked for those that nobody needs
_SWITCH = 0.0005  # seconds for which one Python thread may keep another waiting
_ENCODE = json.JSONEncoder(ensure_ascii=True, default=str).encode
_WRITTEN = ("locant", "uvicorn")  # loggers whose messages hold nothing of what is sent
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}
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
        # Metrics are in memory where the system has a folder for that: files that are mapped, on a disk that is full,
        # end whoever writes to them.
        memory = _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else None
        counts, files = (
            stack.enter_context(tempfile.TemporaryDirectory("", "locant-serve-", place, True))
            for place in (memory, None)
        )
        os.environ[_METRICS] = counts
        sys.stdin = None  # of which workers read nothing, and it may be closed
        loading = {"engine": engine, "device": device, "compute_type": compute_type}
        config = uvicorn.Config(
            partial(_application, list(places), settings, files, loading),
            factory=True,
            http=Connection,
            ws="none",
            lifespan="on",
            log_config=LOG,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            workers=chosen.workers,
            limit_concurrency=chosen.limits.connections,
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

        supervisor = _Supervisor(config, listener, announce)
        supervisor.run()
        if not supervisor.has_begun or any(each.exitcode == STARTUP_FAILURE for each in supervisor.processes):
            raise LocantError("A worker of the server could not begin. The reason is above.")
        _LOG.info("ended")


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: time, level, event and whatever was given besides.

    Of what other packages log, their name alone is written, and of an error its kind and where it came from: messages
    may hold a part of a text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage() if record.name.startswith(_WRITTEN) else f"a message of {record.name}",
            "process": record.process,
        }
        entry |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info and record.exc_info[1]:
            frames = traceback.extract_tb(record.exc_info[2])[-12:]
            entry["error"] = type(record.exc_info[1]).__name__
            entry["trace"] = [f"{frame.filename}:{frame.lineno}" for frame in frames]
        return _ENCODE(entry)


LOG = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "locant.server.serving.JsonFormatter"}},
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
    places: Sequence[str], read_settings: Callable[[], ServerSettings], files: str, loading: dict[str, Any]
) -> Application:
    """Make the application in the event loop of a worker.

    The workers keep translated files in the folder ``files``; the other arguments are those of :func:`serve`, and of
    :func:`~locant.server.models.load_models`.
    """
    from resource import RLIMIT_NOFILE, getrlimit, setrlimit

    import torch

    from locant.languages import language_identifier
    from locant.runtime import choose_device
    from locant.server.app import build_app
    from locant.server.files import FileStore
    from locant.server.models import ModelPlace, load_models

    keep_freed_memory()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if parent := multiprocessing.parent_process():  # without it nobody would end this process
        asyncio.get_running_loop().add_reader(parent.sentinel, _end_without_parent, parent.sentinel)
    try:
        settings = read_settings()
        with suppress(OSError, ValueError):  # each connection is an open file
            allowed, most = getrlimit(RLIMIT_NOFILE)
            setrlimit(RLIMIT_NOFILE, (max(allowed, settings.limits.connections + _OWN_FILES), most))
        if choose_device(loading["device"]).type == "cpu":
            torch.set_num_threads(max(1, torch.get_num_threads() // settings.workers))
        elif settings.workers > 1:
            raise UsageError("Several workers share the CPU alone; on a GPU give --workers 1.")
        found = [ModelPlace.parse(place) for place in places]
        models, engines = load_models(found, **loading)
        language_identifier()
        # Behind a proxy that is trusted, names are the proxy's matter.
        local = settings.is_local and not settings.trusted_proxies
        app = build_app(models, settings, files=FileStore(Path(files)), local=local)
    except LocantError as error:
        _LOG.error("a worker cannot begin", extra={"reason": str(error)})
        sys.exit(STARTUP_FAILURE)
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


class Connection(HttpToolsProtocol):
    """A connection with limits on the heads of requests, and with an end that loses no request."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._outside = 0  # bytes since the last part of a body, or the last end of a head
        self._late: asyncio.TimerHandle | None = None  # closes it when a head does not come
        self._ending = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin with a connection."""
        super().connection_made(transport)
        self._late = self.loop.call_later(_HEAD_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """End with it."""
        if self._late:
            self._late.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what has come."""
        self._outside += len(data)
        super().data_received(data)
        if self._outside > _HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """Begin with a head."""
        super().on_message_begin()
        self._late = self._late or self.loop.call_later(_HEAD_SECONDS, self.transport.abort)

    def on_headers_complete(self) -> None:
        """Begin a request."""
        self._outside = 0
        if self._late:
            self._late.cancel()
            self._late = None
        super().on_headers_complete()
        if self._ending:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._outside = 0
        super().on_body(body)

    def shutdown(self) -> None:
        """Answer what is here, and what its client may be sending just now; then close."""
        if self._ending or not (self.cycle is None or self.cycle.response_complete):
            super().shutdown()
        else:
            self.loop.call_later(1.0, self.shutdown)
        self._ending = True


class _Supervisor(Multiprocess):
    """uvicorn's watch over workers, with a beginning and an end that lose no request.

    Args:
        config: Of uvicorn.
        listener: The socket at which the workers answer.
        announce: Called once, when the first request can come.

    Attributes:
        has_begun: Whether the first request can come.
    """

    def __init__(self, config: uvicorn.Config, listener: socket.socket, announce: Callable[[], None]) -> None:
        super().__init__(config, [listener])
        self._announce, self.has_begun = announce, False

    def init_processes(self) -> None:
        """Begin with the workers."""
        super().init_processes()
        self.has_begun = all(process.wait_until_ready(_HANGS) for process in self.processes)
        if self.has_begun:
            self._announce()
        else:
            self.should_exit.set()

    def keep_subprocess_alive(self) -> None:
        """Replace workers that have ended or hang; what waited for them is forgotten."""
        before = {process.pid for process in self.processes}
        super().keep_subprocess_alive()
        for pid in before - {process.pid for process in self.processes}:
            from prometheus_client import multiprocess

            _LOG.info("a worker ended", extra={"worker": pid})
            multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]

    def join_all(self) -> None:
        """Wait until the workers have finished what they have, and refuse what comes meanwhile; a signal ends it."""
        _LOG.info("draining")
        asyncio.run(self._refuse())
        super().join_all()

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
        while any(process.process.is_alive() for process in self.processes):
            if self.signal_queue:
                for process in self.processes:
                    process.kill()
            await asyncio.sleep(0.05)
        listener.listen(0)  # no more come
        await asyncio.sleep(0.1)
        server.close()
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others, timeout=1)
