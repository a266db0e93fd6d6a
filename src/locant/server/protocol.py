"""HTTP/1.1 by httptools, with a limit on what comes of a request besides its body, and answers in one piece."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_GATHERED = 65_536  # bytes that wait for others at most


class GatheringTransport:
    """A connection that writes what comes in one turn of the loop at once: the head of an answer and its body.

    Each by itself would be a packet that both sides have to do work for.

    Args:
        transport: The connection; what is not written is its own matter.
        loop: The event loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._waiting: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write something, in this turn of the loop."""
        if not self._waiting:
            self._loop.call_soon(self._write)
        self._waiting.append(data)
        self._size += len(data)
        if self._size > _GATHERED:
            self._write()

    def close(self) -> None:
        """Close the connection when everything is written."""
        self._write()
        self._transport.close()

    def _write(self) -> None:
        if self._waiting:
            gathered = b"".join(self._waiting)
            self._waiting.clear()
            self._size = 0
            self._transport.write(gathered)


class BoundedProtocol(HttpToolsProtocol):
    """A connection that is refused when the head of a request, or what stands between parts of its body, is too long.

    The parser keeps a header until it is complete, so nobody may send one without an end.
    """

    most_bytes = 32_768
    """That may come without a body, or more of one, being reached; :func:`bounded_protocol` chooses."""

    full_since: float | None = None
    """When what is sent began to wait because nobody reads, by the monotonic clock; ``None`` where it does not wait."""

    _since = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin with a connection."""
        super().connection_made(transport)
        self.transport = GatheringTransport(transport, self.loop)  # type: ignore[assignment]

    def pause_writing(self) -> None:
        """Note that more is to be sent than is read."""
        self.full_since = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that it is read."""
        self.full_since = None
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Read what has come."""
        self._since += len(data)
        super().data_received(data)
        if self._since > self.most_bytes and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_headers_complete(self) -> None:
        """Begin a request."""
        self._since = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._since = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note the end of a request."""
        self._since = 0
        super().on_message_complete()


def bounded_protocol(most_bytes: int) -> type[BoundedProtocol]:
    """Return the protocol with a limit.

    Args:
        most_bytes: See :attr:`BoundedProtocol.most_bytes`.
    """
    return type("BoundedProtocol", (BoundedProtocol,), {"most_bytes": most_bytes})
