"""Who asks, whether they may, and whether they ask too often."""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import Scope

from locant.server.errors import RequestError
from locant.server.settings import ServerSettings, is_this_machine

_IPV6_PREFIX = 64  # whoever has one address of such a network has all of them
_MOST_FAILURES = 10  # wrong keys of an address in a minute


def address_of(scope: Scope) -> str:
    """Return the address of the client of a request; of IPv6 the network that is one customer's."""
    client = scope.get("client")
    return _network(client[0] if client else "")


@lru_cache(maxsize=4096)
def _network(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "unknown address"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
    return str(address)


def check_site(scope: Scope, origins: Collection[str]) -> None:
    """Refuse what a page of another site asks of a server of this machine alone.

    Nor does it answer under a name that such a site may have pointed here.

    Args:
        scope: Of the request.
        origins: The sites with pages that may ask; ``*`` for all.

    Raises:
        RequestError: The request comes from another site (403).
    """
    headers = [(name, value.decode("latin-1").strip().lower()) for name, value in scope["headers"]]
    hosts = [value for name, value in headers if name == b"host"]
    if not all(map(_is_local, hosts)):
        raise RequestError(
            403,
            "This server answers this machine alone, under localhost or 127.0.0.1. Give --trusted-proxy where a proxy "
            "passes other names on, or --host.",
            reason="site",
        )
    for origin in (value for name, value in headers if name == b"origin"):
        # Programs and extensions of browsers have schemes of their own; "null" is a page that hides where it is from.
        is_page = origin == "null" or origin.startswith(("http:", "https:"))
        if is_page and not {"*", origin} & {*origins} and urlsplit(origin).netloc not in hosts:
            raise RequestError(403, "Pages of other sites may not ask. Name this one with --cors.", reason="site")


@lru_cache(maxsize=256)
def _is_local(host: str) -> bool:
    try:
        return is_this_machine((urlsplit(f"//{host}").hostname or "").rstrip("."))
    except ValueError:
        return False


class Rates:
    """Counts events of clients minute by minute, in this process."""

    def __init__(self) -> None:
        self._minute, self._counts = 0, Counter[str]()

    def count(self, client: str, limit: int, *, add: bool = True) -> int:
        """Count an event unless that would exceed the limit.

        Args:
            client: Who causes it.
            limit: Most in a minute.
            add: Whether to count, or else only to ask.

        Returns:
            0 where it was counted, otherwise the seconds after which one more is allowed.
        """
        minute, second = divmod(int(time.time()), 60)
        if minute != self._minute:
            self._minute, self._counts = minute, Counter()
        if self._counts[client] >= limit:
            return 60 - second
        self._counts[client] += add
        return 0


class Gate:
    """Lets clients in, who are known by their keys, or where no keys are asked for, by their addresses.

    Args:
        settings: Keys and limits.
    """

    def __init__(self, settings: ServerSettings) -> None:
        # Keys are found by their digests: the time that this takes says nothing about how much of a key is right.
        self._names, self._rates = {_digest(key): name for name, key in settings.keys.items()}, Rates()
        self._most = settings.limits.requests_per_minute
        self._let_in: set[tuple[str, str]] = set()  # addresses, and names of keys
        self.asks_for_keys = bool(settings.keys)

    def client_of(self, request: Request, key: str | None = None) -> str:
        """Let in whoever has a key, or everybody where none is needed, and return a name for the client.

        While an address tries too many wrong keys, keys are let in from there that were let in before: whoever shares
        it goes on, and what is guessed then opens nothing.

        Args:
            request: The request.
            key: What came with it; by default the bearer of the header ``Authorization``.

        Raises:
            RequestError: The key is missing (400) or wrong (403), or the client asks too often, or the key is one too
                many that was tried from the address (429).
        """
        client = address_of(request.scope)
        if self.asks_for_keys:
            kind, _, bearer = request.headers.get("authorization", "").partition(" ")
            key = key or (bearer.strip() if kind.lower() == "bearer" else "")
            if not key:
                sentence = "An API key is needed. Ask the operator of this server for one."
                raise RequestError(400, sentence, reason="no_key")
            client = self._open(key, client)
        if self._most is not None and (wait := self._rates.count(client, self._most)):
            raise _slow_down(f"at most {self._most:,} requests a minute", wait, "rate")
        request.scope["state"]["client"] = client
        return client

    def _open(self, key: str, address: str) -> str:
        name = self._names.get(_digest(key))
        if name is None or (address, name) not in self._let_in:
            if wait := self._rates.count(f"failures of {address}", _MOST_FAILURES, add=name is None):
                raise _slow_down("too many wrong API keys from this address", wait, "key_failures")
            if name is None:
                raise RequestError(403, "Invalid API key", reason="wrong_key")
            self._let_in.add((address, name))
        return f"key {name}"


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _slow_down(what: str, wait: int, reason: str) -> RequestError:
    return RequestError(429, f"Slowdown: {what}. Try again in {wait} seconds.", reason=reason, retry_after=wait)
