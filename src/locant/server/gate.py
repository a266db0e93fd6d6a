"""The gate of the server: who asks, whether they may, and whether they ask too often."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from starlette.requests import Request
from starlette.types import Scope

from locant.server.keys import KeyRing
from locant.server.rates import Rates
from locant.server.reading import RequestError
from locant.server.settings import ServerSettings

_IPV6_PREFIX = 64  # whoever has one address of such a network has all of them


class Gate:
    """Lets clients in.

    A client is known by its key, or where no keys are asked for, by its address.

    Args:
        settings: Keys and limits.
        rates: Counts; common to all processes of a server.
    """

    def __init__(self, settings: ServerSettings, rates: Rates) -> None:
        self._keys, self._rates = KeyRing(settings.keys), rates
        self._most, self._most_failures = settings.limits.requests_per_minute, settings.limits.failures_per_minute

    @property
    def asks_for_keys(self) -> bool:
        """Whether one must have a key."""
        return self._keys.required

    def knock(self, request: Request) -> None:
        """Let an address in that has not asked too often; before anything of the body is read.

        Raises:
            RequestError: It has tried too many wrong keys, or asked too often where no keys are asked for (429).
        """
        address = address_of(request.scope)
        if self._keys.required:
            if wait := self._rates.is_over(f"failures of {address}", self._most_failures):
                raise _slow_down("too many wrong API keys from this address", wait, "key_failures")
        else:
            self._count(address)

    def enter(self, request: Request, key: str | None) -> str:
        """Let in whoever has a key, or everybody where none is needed.

        Args:
            request: The request.
            key: What came with it; by default the bearer of the header ``Authorization``.

        Returns:
            A name for the client.

        Raises:
            RequestError: The key is missing (400) or wrong (403), or has been used too often (429).
        """
        address = address_of(request.scope)
        if not self._keys.required:
            return address
        key = key or _bearer(request)
        if not key:
            raise RequestError(400, "An API key is needed. Ask the operator of this server for one.", reason="no_key")
        name = self._keys.name_of(key)
        if name is None:
            if wait := self._rates.count(f"failures of {address}", self._most_failures):
                raise _slow_down("too many wrong API keys from this address", wait, "key_failures")
            raise RequestError(403, "Invalid API key", reason="wrong_key")
        self._count(f"key {name}")
        return f"key {name}"

    def _count(self, client: str) -> None:
        if self._most is not None and (wait := self._rates.count(client, self._most)):
            raise _slow_down(f"at most {self._most:,} requests a minute", wait, "rate")


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


def _bearer(request: Request) -> str | None:
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() == "bearer" else None


def _slow_down(what: str, wait: int, reason: str) -> RequestError:
    return RequestError(429, f"Slowdown: {what}. Try again in {wait} seconds.", reason=reason, retry_after=wait)
