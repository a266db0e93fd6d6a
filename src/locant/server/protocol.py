"""HTTP/1.1 by httptools, with a limit on what comes of a request besides its body."""

from __future__ import annotations

import time

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class BoundedProtocol(HttpToolsProtocol):
    """A connection that is refused when the head of a request, or what stands between parts of its body, is too long.

    The parser keeps a header until it is complete, so nobody may send one without an end.
    """

    most_bytes = 32_768
    """That may come without a body, or more of one, being reached; :func:`bounded_protocol` chooses."""

    full_since: float | None = None
    """When what is sent began to wait because nobody reads, by the monotonic clock; ``None`` where it does not wait."""

    _since = 0

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
