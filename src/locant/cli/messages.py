"""Log messages of Locant on standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _StandardError(logging.Handler):
    """Writes to what standard error is at the time, which a progress display may have put itself in front of."""

    def emit(self, record: logging.LogRecord) -> None:
        print(printable(f"locant: {self.format(record)}"), file=sys.stderr)


@contextmanager
def messages_on_stderr() -> Iterator[None]:
    """Within the block, show what Locant logs: that kernels are being built, for instance."""
    logger, handler = logging.getLogger("locant"), _StandardError()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def printable(text: str) -> str:
    r"""Return text with nothing in it that a terminal would obey, and no half of a character.

    Example:
        >>> printable("a\x1b[2Jb")
        'a\\x1b[2Jb'
    """
    return "".join(sign if sign.isprintable() or sign in "\n\t" else repr(sign)[1:-1] for sign in text)
