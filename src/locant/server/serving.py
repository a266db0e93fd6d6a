"""Serving models: everything from a list of folders to processes that answer."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from locant.errors import UsageError
from locant.runtime import listen
from locant.server.glossaries import with_glossaries
from locant.server.logs import json_log
from locant.server.models import ModelPlace, load_models
from locant.server.settings import ServerSettings
from locant.server.supervisor import RunFolder, Supervisor, require_fork, require_packages

_LOG = logging.getLogger("locant.server")


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

    SIGTERM or SIGINT drains, a second one ends at once; SIGHUP reads settings, glossaries and models anew.

    Args:
        places: Model folders, runs or models on the Hub, each with its languages before it where they must be named
            (``de-en=FOLDER``).
        settings: Returns the settings.
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
    require_fork()
    require_packages()
    chosen = settings()
    from locant.runtime import choose_device

    # Asking for the devices must not begin to use one: processes are forked afterwards.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import torch

    on_cpu = device == "cpu" or (device == "auto" and not torch.cuda.is_available())
    if on_cpu:
        choose_device("cpu")
    elif chosen.workers > 1:
        raise UsageError("Several workers share models on the CPU alone; on a GPU give --workers 1.")
    threads = torch.get_num_threads()
    load = partial(load_models, engine=engine, device=device, compute_type=compute_type)
    found = [ModelPlace.parse(place) for place in places]
    with json_log(), listen(chosen.host, chosen.port) as listener, RunFolder() as folder:
        from locant.server.rates import Rates

        rates = Rates()

        def load_all(settings: ServerSettings) -> Any:
            if not on_cpu:
                return None  # the worker loads: a process that has begun to use a GPU cannot be forked
            # One thread: others would not be there in forked processes.
            torch.set_num_threads(1)
            if settings.identify:
                from locant.languages import language_identifier

                language_identifier()
            models, engines = load(found)
            with_glossaries(models, settings.glossaries)  # what is wrong with them is told before a worker begins
            return models, engines

        def work(loaded: Any, settings: ServerSettings, lifeline: int, ready_end: int) -> None:
            from locant.server.app import build_app
            from locant.server.files import FileStore
            from locant.server.worker import Worker

            torch.set_num_threads(max(1, threads // settings.workers))
            models, engines = loaded or load(found)
            limits = settings.limits
            store = FileStore(60 * limits.file_minutes, limits.files, folder.files)
            app = build_app(models, settings, rates=rates, files=store)
            _LOG.info("worker begins", extra={"models": dict(zip(models.names, engines, strict=True))})
            Worker(app, app.state.locant, lifeline=lifeline, ready=ready_end).run(sockets=[listener])

        address = address_of(listener, chosen.host)

        def announce() -> None:
            _say_what_is_open(chosen, address)
            ready(address)

        Supervisor(listener, settings, load_all, work, announce).run()
        _LOG.info("ended")


def address_of(listener: socket.socket, host: str) -> str:
    """Return the address of a server as one types it."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}/"


def _say_what_is_open(settings: ServerSettings, address: str) -> None:
    extra = {
        "address": address,
        "workers": settings.workers,
        "keys": len(settings.keys),
        "cors": list(settings.cors_origins),
        "trusted_proxies": list(settings.trusted_proxies),
    }
    if settings.is_local:
        _LOG.info("serving to this machine alone", extra=extra)
    elif settings.keys:
        _LOG.warning(
            "serving to every machine that reaches this address and has an API key; keys and texts travel unencrypted "
            "unless a proxy in front speaks TLS",
            extra=extra,
        )
    else:
        _LOG.warning(
            "serving to every machine that reaches this address, without API keys: translation, files and metrics are "
            "open, and texts travel unencrypted unless a proxy in front speaks TLS",
            extra=extra,
        )
