"""Requests of the explorer's own pages, told from those that other sites make a browser send.

A page of another site can point its own name at this machine (DNS rebinding) and then talk to the explorer as if the
pages were its own. The header Host gives it away: it holds the site's name. The header Origin gives away pages that do
without that.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

_LOCAL = ("localhost", "localhost.localdomain", "ip6-localhost")


def own_names(host: str) -> frozenset[str]:
    """Return the names under which pages may be asked for; addresses, which nobody else can point here, always may.

    Args:
        host: Where the server listens, as the user wrote it.
    """
    named = {*_LOCAL, host.lower().rstrip(".")}
    if host.lower() not in _LOCAL and not _is_loopback(host):
        named |= {socket.gethostname().lower(), socket.getfqdn().lower().rstrip(".")}
    return frozenset(named)


def reason_to_refuse(host: str, origin: str | None, names: Collection[str]) -> str:
    """Return why a request is not one of the explorer's own pages; empty where it is.

    Args:
        host: The header Host.
        origin: The header Origin, which browsers add where a page sends something.
        names: From :func:`own_names`.

    Example:
        >>> reason_to_refuse("127.0.0.1:8050", "http://127.0.0.1:8050", own_names("127.0.0.1"))
        ''
        >>> reason_to_refuse("elsewhere.example:8050", None, own_names("127.0.0.1"))  # doctest: +ELLIPSIS
        'The explorer does not answer under this name. ...'
    """
    name = (_split(f"//{host}").hostname or "").rstrip(".")
    if name not in names and not _is_address(name):
        return (
            "The explorer does not answer under this name. Open it as localhost or by its address in numbers, or name "
            "the host with --host."
        )
    if origin is not None and _split(origin).netloc.lower() != host.lower():
        return "The explorer answers only its own pages, not those of another site."
    return ""


def _split(address: str) -> SplitResult:
    """Return the parts of an address, which are empty where it is none."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return _is_address(host) and ipaddress.ip_address(host).is_loopback
