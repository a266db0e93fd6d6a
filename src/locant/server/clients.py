"""Who asks, whether they may, and whether they ask too often."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import sqlite3
import time
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import Scope

from locant.server.errors import RequestError
from locant.server.settings import ServerSettings

_IPV6_PREFIX = 64  # whoever has one address of such a network has all of them
_MINUTE = 60  # seconds
_HOST = re.compile(r"[A-Za-z0-9._-]{1,255}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")
_LOCAL = ("localhost", "localhost.localdomain", "ip6-localhost")


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


def check_envelope(scope: Scope, origins: Collection[str] | None = None) -> None:
    """Check what a request says about itself besides what it asks for.

    Args:
        scope: Of the request.
        origins: Of a server of this machine alone the sites whose pages may ask: it answers those of no others, nor
            under a name that such a site may have pointed here. ``None`` for other servers.

    Raises:
        RequestError: Host is missing, there twice, or no name of a host (400); the request comes from another site
            (403); the body is encoded (415).
    """
    found: dict[bytes, list[str]] = {}
    for name, value in scope["headers"]:
        if name in (b"host", b"origin", b"transfer-encoding", b"content-encoding"):
            found.setdefault(name, []).append(value.decode("latin-1").strip())
    version, hosts = scope["http_version"], found.get(b"host", [])
    if version not in ("1.0", "1.1", "2") or len(hosts) > 1 or (version == "1.1" and not hosts):
        raise RequestError(400, "The request must be HTTP/1.1 with one header Host.", reason="host")
    host = hosts[0] if hosts else "localhost"
    if not _is_host(host):
        raise RequestError(400, "The header Host is not the name of a host.", reason="host")
    if any(value.lower() != "chunked" for value in found.get(b"transfer-encoding", ())):
        raise RequestError(400, "The only Transfer-Encoding that is read is chunked.", reason="encoding")
    if any(value.lower() not in ("", "identity") for value in found.get(b"content-encoding", ())):
        raise RequestError(415, "A body with a Content-Encoding is not read. Send it as it is.", reason="encoding")
    if origins is None:
        return
    if not _is_local(host):
        raise RequestError(
            403,
            "This server answers this machine alone, under localhost or 127.0.0.1. Give --trusted-proxy where a proxy "
            "passes other names on, or --host.",
            reason="site",
        )
    for origin in found.get(b"origin", ()):
        # Programs and extensions of browsers have schemes of their own; "null" is a page that hides where it is from.
        is_page = origin == "null" or origin.lower().startswith(("http:", "https:"))
        if is_page and not {"*", origin} & {*origins} and urlsplit(origin).netloc.lower() != host.lower():
            raise RequestError(403, "Pages of other sites may not ask. Name this one with --cors.", reason="site")


@lru_cache(maxsize=256)
def _is_host(name: str) -> bool:
    return _HOST.fullmatch(name) is not None


@lru_cache(maxsize=256)
def _is_local(host: str) -> bool:
    name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    try:
        return name in _LOCAL or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Rates:
    """Counts events of clients in the last minute, for all processes of a server together.

    Args:
        path: A file that the processes share; by default this process counts alone.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._database = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA synchronous = OFF")
        for columns in ("counts (client, second, count, PRIMARY KEY (client, second))", "known (pair PRIMARY KEY)"):
            self._database.execute(f"CREATE TABLE IF NOT EXISTS {columns}")
        self._cleaned = 0

    def is_known(self, address: str, key: str) -> bool:
        """Return whether a key was let in from an address before."""
        return bool(self._database.execute("SELECT 1 FROM known WHERE pair = ?", (f"{address} {key}",)).fetchone())

    def note_known(self, address: str, key: str) -> None:
        """Note that a key was let in from an address."""
        self._database.execute("INSERT OR IGNORE INTO known VALUES (?)", (f"{address} {key}",))

    def count(self, client: str, limit: int, *, add: int = 1, now: float | None = None) -> int:
        """Count an event unless that would exceed the limit.

        Args:
            client: Who causes it.
            limit: Most in sixty seconds.
            add: How many; 0 to ask alone.
            now: Seconds since the epoch; by default those of the clock.

        Returns:
            0 where it was counted, otherwise the seconds after which one more is allowed.
        """
        second = int(time.time() if now is None else now)
        ask, earliest = self._database.execute, second - _MINUTE
        with self._database:  # which commits
            ask("BEGIN IMMEDIATE")
            if self._cleaned < earliest:
                ask("DELETE FROM counts WHERE second <= ?", (earliest,))
                self._cleaned = second
            asked = "SELECT TOTAL(count), MIN(second) FROM counts WHERE client = ? AND second > ?"
            count, first = ask(asked, (client, earliest)).fetchone()
            if count >= limit:
                return int(first) - earliest
            if add:
                more = "INSERT INTO counts VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count"
                ask(more, (client, second, add))
        return 0

    def close(self) -> None:
        """Close the file."""
        self._database.close()


class Gate:
    """Lets clients in, who are known by their keys, or where no keys are asked for, by their addresses.

    Args:
        settings: Keys and limits.
        rates: Counts; common to all processes of a server.
    """

    def __init__(self, settings: ServerSettings, rates: Rates) -> None:
        # Keys are found by their digests: the time that this takes says nothing about how much of a key is right.
        self._names, self._rates = {_digest(key): name for name, key in settings.keys.items()}, rates
        self._most, self._most_failures = settings.limits.requests_per_minute, settings.limits.failures_per_minute
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
        if name is None or not self._rates.is_known(address, name):
            if wait := self._rates.count(f"failures of {address}", self._most_failures, add=name is None):
                raise _slow_down("too many wrong API keys from this address", wait, "key_failures")
            if name is None:
                raise RequestError(403, "Invalid API key", reason="wrong_key")
            self._rates.note_known(address, name)
        return f"key {name}"


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _slow_down(what: str, wait: int, reason: str) -> RequestError:
    return RequestError(429, f"Slowdown: {what}. Try again in {wait} seconds.", reason=reason, retry_after=wait)
