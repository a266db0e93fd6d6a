"""Errors that the functions of the kernels return, as exceptions."""

from __future__ import annotations

from locant.errors import ConfigError


def require_done(error: bytes | None, memory: str = "There is not enough memory for this computation.") -> None:
    """Raise what a kernel returned.

    Args:
        error: ``None`` when the work is done, nothing when memory did not suffice, else a sentence on what was wrong
            with the arguments; then nothing has been read or written.
        memory: What to say when memory did not suffice.

    Raises:
        ConfigError: An argument was wrong.
        MemoryError: Memory did not suffice.
    """
    if error:
        raise ConfigError(error.decode())
    if error is not None:
        raise MemoryError(memory)
