"""What is said to a client whose request is not answered."""

from __future__ import annotations

from locant.errors import LocantError


class RequestError(LocantError):
    """A request that cannot be answered as it is asked.

    Attributes:
        status: Of HTTP.
        retry_after: Seconds after which it may be tried again, where that helps.
        reason: A word for the metrics.
    """

    def __init__(self, status: int, sentence: str, *, reason: str = "invalid", retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.reason, self.retry_after = status, reason, retry_after


def busy() -> RequestError:
    """Return what is said where too much waits already."""
    sentence = "The server has more to translate than it can take. Try again later."
    return RequestError(503, sentence, reason="queue", retry_after=2)


def closed() -> RequestError:
    """Return what is said by a server that takes no more requests."""
    sentence = "The server is being shut down. Try again in a moment."
    return RequestError(503, sentence, reason="draining", retry_after=1)
