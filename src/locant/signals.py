"""Signals: SIGTERM as the first process of a container, and Ctrl-C while PyTorch and NumPy are imported."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

INTERRUPTED = 130
"""Exit code of a program that Ctrl-C has ended, as shells have it."""

_SLOW_IMPORTS = ("numpy", "torch")


@contextmanager
def ending_imports() -> Iterator[None]:
    """Within the block, Ctrl-C ends this process at once while NumPy or PyTorch is being imported.

    Both import modules from C, where a KeyboardInterrupt is taken for a module that is not there: the import fails with
    another error, or goes on with half of a module. Nothing is lost, for these are imported before any work begins.
    Does nothing outside the main thread, where Python hears no signals, and where the program has its own handler.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if not any(_is_being_imported(name) for name in _SLOW_IMPORTS):
        signal.default_int_handler(number, frame)
    with suppress(OSError):
        os.write(2, b"\nlocant: interrupted.\n")  # what is buffered for sys.stderr may be half-written just now
    os._exit(INTERRUPTED)


def _is_being_imported(name: str) -> bool:
    return bool(getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False))


def end_by_sigterm() -> None:
    """Let SIGTERM end this process also where it is the first one of a container; in the main thread.

    The system spares the first process from signals that it does not handle, so that ``docker stop`` would wait in
    vain and then kill.
    """
    if os.getpid() == 1 and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end_by_signal)


def end_by_signal(number: int, frame: FrameType | None = None) -> None:
    """End this process at once by a signal, or with its exit code where the system spares it."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)
