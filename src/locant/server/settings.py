"""The settings of the server: where it listens, what it accepts, how much, and for how long."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Self

from pydantic import Field, IPvAnyNetwork, model_validator

from locant.errors import ConfigError
from locant.settings import Settings

_SHORTEST_KEY = 16
_LOCAL = ("localhost", "localhost.localdomain", "ip6-localhost")


class LimitSettings(Settings):
    """How much one client, and all of them together, may ask for.

    Attributes:
        characters: Most characters of a request, all its texts together.
        texts: Most texts of a request.
        alternatives: Most alternatives to each translation.
        file_bytes: Largest file, and most characters of the text in it.
        body_bytes: Largest body of a request.
        connections: Most connections of a process at a time.
        requests_per_minute: Most requests of a key or address in a minute; ``None`` for any number.
        waiting_requests: Most requests that wait for a model, three quarters of them of one client.
        waiting_sentences: Most sentences that wait for a model, likewise.
        waiting_seconds: Longest time that a request waits until its translation begins.
        request_seconds: Longest time from a request to its translation.
        sentence_tokens: Longest sentence that is translated whole; longer ones are cut.
    """

    characters: int = Field(100_000, ge=1)
    texts: int = Field(1_000, ge=1)
    alternatives: int = Field(3, ge=0, le=32)
    file_bytes: int = Field(1_000_000, ge=1)
    body_bytes: int = Field(2_000_000, ge=1_000)
    connections: int = Field(1_000, ge=1)
    requests_per_minute: int | None = Field(None, ge=1)
    waiting_requests: int = Field(512, ge=1)
    waiting_sentences: int = Field(20_000, ge=1)
    waiting_seconds: float = Field(15.0, gt=0)
    request_seconds: float = Field(120.0, gt=0)
    sentence_tokens: int = Field(256, ge=4)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.file_bytes > self.body_bytes:
            raise ConfigError(
                f"file_bytes is {self.file_bytes}, but a body has at most {self.body_bytes} bytes; raise body_bytes"
            )
        return self


class ServerSettings(Settings):
    """Where the server listens, who may ask, and the limits.

    Attributes:
        host: Address of this machine to listen at.
        port: Port; 0 for any that is free.
        workers: Processes that answer.
        beam: Hypotheses kept for each sentence; ``None`` for what each model was saved with.
        rows: Most hypotheses that a model extends at once; the compiled engine extends fewer where that is faster.
        pivot: The language by way of which texts are translated where no model does so directly; ``None`` for none.
        glossaries: Terms with their translations (none for what stays as it is) by direction: ``de-en``; ``de-*`` for
            all from a language, ``*`` for all.
        keys: API keys with their names, by name; without any, everybody may ask.
        cors_origins: Origins whose pages may ask from a browser; ``*`` for all.
        trusted_proxies: Addresses or networks whose ``X-Forwarded-For`` is believed.
        page: Whether there is a page to translate in.
        limits: How much may be asked for.
    """

    host: str = "127.0.0.1"
    port: int = Field(5000, ge=0, le=65535)
    workers: int = Field(1, ge=1, le=256)
    beam: int | None = Field(None, ge=1)
    rows: int = Field(320, ge=1)
    pivot: str | None = "en"
    glossaries: dict[str, dict[str, str | None]] = Field(default_factory=dict, repr=False)
    keys: dict[str, str] = Field(default_factory=dict, repr=False)
    cors_origins: tuple[str, ...] = ()
    trusted_proxies: tuple[IPvAnyNetwork, ...] = ()
    page: bool = True
    limits: LimitSettings = LimitSettings()

    @property
    def is_local(self) -> bool:
        """Whether nobody but this machine can reach the server."""
        return is_this_machine(self.host)


def is_this_machine(host: str) -> bool:
    """Return whether a name or an address of a host is this machine, whichever machine that is."""
    try:
        return host in _LOCAL or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_keys(path: Path | None, environment: str | None) -> dict[str, str]:
    """Return the API keys of a file and of an environment variable, by name.

    Args:
        path: A key in each line, with a name before it or without; ``#`` begins a comment.
        environment: Keys that white space or commas separate.

    Raises:
        ConfigError: The file cannot be read or holds no key, a key is too short, or a name or key occurs twice.
    """
    given: list[tuple[str, str]] = []
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigError(f"The file of API keys {path} cannot be read: {reason}.") from None
        lines = (line.partition("#")[0] for line in text.splitlines())
        given += [(f"{path}, line {number}", line) for number, line in enumerate(lines, start=1)]
        if not any(line.strip() for _, line in given):
            raise ConfigError(f"The file of API keys {path} holds no key. Write one in each line.")
    more = (environment or "").replace(",", " ").split()
    given += [(f"LOCANT_API_KEYS, key {number}", key) for number, key in enumerate(more, start=1)]
    keys: dict[str, str] = {}
    for where, line in given:
        words = line.split()
        if not words:
            continue
        if len(words) > 2:
            raise ConfigError(f"{where}: a line holds a key, or a name and a key; this one has {len(words)} words.")
        name, key = words if len(words) == 2 else (f"key-{len(keys) + 1}", words[0])
        if len(key) < _SHORTEST_KEY:
            raise ConfigError(
                f"{where}: the key has {len(key)} characters; one that cannot be guessed has {_SHORTEST_KEY} or more."
            )
        if name in keys or key in keys.values():
            raise ConfigError(f"{where}: this name or key is there already.")
        keys[name] = key
    return keys
