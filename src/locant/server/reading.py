"""The bodies of requests: read within limits of size and time, and taken apart.

What comes in is anybody's. Every mistake ends in a :class:`RequestError` with a status and a sentence.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from locant.errors import LocantError
from locant.server.timers import Limit

_MOST_FIELDS = 1_000  # of a form
_LET_PASS = 32_000_000  # bytes of the largest body that is read although it is too large
_PASSING = 3.0  # seconds for which it is

Parsed = TypeVar("Parsed", bound=BaseModel)


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


class Asked(BaseModel):
    """What every request may hold; other fields are left alone, as LibreTranslate does."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    api_key: str | None = Field(None, description="API key, where the server asks for one.")


class TranslationAsked(Asked):
    """Texts to translate."""

    q: str | list[str] = Field(description="A text, or a list of texts.", examples=["Guten Morgen!"])
    source: str = Field(description="Language code of the texts, or `auto`.", examples=["de"])
    target: str = Field(description="Language code of the translation.", examples=["en"])
    format: Literal["text", "html"] = Field("text", description="`text` or `html`.")
    alternatives: int = Field(0, ge=0, description="How many other translations are wanted.")


class StreamAsked(Asked):
    """A text to translate as a stream."""

    q: str = Field(description="A text.", examples=["Guten Morgen!"])
    source: str = Field(description="Language code of the text, or `auto`.", examples=["de"])
    target: str = Field(description="Language code of the translation.", examples=["en"])


class DetectionAsked(Asked):
    """A text whose language is asked for."""

    q: str = Field(description="A text.", examples=["Guten Morgen!"])


class FileAsked(Asked):
    """The fields beside a file to translate."""

    source: str = Field(description="Language code of the file, or `auto`.", examples=["de"])
    target: str = Field(description="Language code of the translation.", examples=["en"])


@dataclass(frozen=True)
class Form:
    """A form.

    Attributes:
        fields: Values by name.
        file: Name and content of the field ``file``, where there is one.
    """

    fields: Mapping[str, Any]
    file: tuple[str, bytes] | None


class _FormParser(MultiPartParser):
    """Keeps files in memory, whose size is limited already: nothing is written to disk."""

    spool_max_size = 1 << 40


async def read_body(request: Request, most_bytes: int, seconds: float) -> bytes:
    """Return the body of a request.

    Raises:
        RequestError: It is too large (413) or takes too long (408), or the client has gone.
    """

    def too_large() -> RequestError:
        return RequestError(
            413, f"The body of the request is too large; at most {most_bytes:,} bytes are read.", reason="body_size"
        )

    announced = request.headers.get("content-length", "0")
    if announced.isascii() and announced.isdigit() and int(announced[:20]) > most_bytes:
        if int(announced[:20]) <= _LET_PASS and "expect" not in request.headers:
            await _let_pass(request.stream())
        raise too_large()
    parts, size, more = [], 0, True
    try:
        with Limit(asyncio.get_running_loop().time() + seconds):
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise RequestError(400, "The connection was closed before the request was complete.", reason="gone")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most_bytes:
                    raise too_large()
                more = message.get("more_body", False)
    except TimeoutError:
        raise RequestError(
            408, f"The body of the request did not arrive within {seconds:g} seconds.", reason="body_time"
        ) from None
    request.scope.setdefault("state", {})["body_read"] = True  # the connection can have another request
    return b"".join(parts)


async def _let_pass(stream: AsyncIterator[bytes]) -> None:
    """Read a body that is of no use: most clients send all of it before they read the answer."""
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(_PASSING):
            async for _ in stream:
                pass


async def read_fields(request: Request, body: bytes) -> Mapping[str, Any]:
    """Return the fields of a body in JSON or of a form; those of the address count besides where it is no JSON.

    Raises:
        RequestError: The body is broken (400) or of another type (415).
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json")):
        return _read_json(body)
    if kind == "multipart/form-data":
        return _with_query(request, (await _read_multipart(request, body)).fields)
    if kind not in ("application/x-www-form-urlencoded", ""):
        raise RequestError(
            415,
            "The body must be application/json, application/x-www-form-urlencoded or multipart/form-data.",
            reason="media_type",
        )
    try:
        pairs = parse_qsl(
            body.decode("utf-8"),
            keep_blank_values=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except UnicodeDecodeError:
        raise RequestError(400, "Invalid request: the body is not UTF-8.") from None
    except ValueError:
        raise RequestError(400, f"Invalid request: the form has more than {_MOST_FIELDS} fields.") from None
    return _with_query(request, dict(pairs))


async def read_form(request: Request, body: bytes) -> Form:
    """Return a form with a file.

    Raises:
        RequestError: The body is broken (400) or of another type (415).
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        raise RequestError(415, "The body must be multipart/form-data.", reason="media_type")
    return await _read_multipart(request, body)


async def _read_multipart(request: Request, body: bytes) -> Form:
    async def whole() -> AsyncGenerator[bytes, None]:
        yield body

    parser = _FormParser(request.headers, whole(), max_files=1, max_fields=_MOST_FIELDS, max_part_size=len(body) + 1)
    try:
        found = await parser.parse()
    except (MultiPartException, ValueError, KeyError):
        raise RequestError(400, "Invalid request: the form is broken, or has more than one file.") from None
    fields: dict[str, Any] = {}
    file = None
    for name, value in found.multi_items():
        if isinstance(value, str):
            fields[name] = value
        elif name == "file":
            file = (value.filename or "", await value.read())
    await found.close()
    return Form(fields, file)


def _with_query(request: Request, given: Mapping[str, Any]) -> Mapping[str, Any]:
    fields: dict[str, Any] = {**request.query_params, **given}
    if isinstance(fields.get("q"), str):
        # Forms have CR LF for a line break, whatever was typed; so a text has the same length however it is sent.
        fields["q"] = fields["q"].replace("\r\n", "\n")
    return fields


def _read_json(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise RequestError(400, "Invalid request: the body is not UTF-8.") from None
    except (ValueError, RecursionError):
        raise RequestError(400, "Invalid JSON format") from None
    if not isinstance(found, dict):
        raise RequestError(400, "Invalid JSON format")
    return found


def parse(kind: type[Parsed], fields: Mapping[str, Any]) -> Parsed:
    """Return checked fields.

    Raises:
        RequestError: One is missing or wrong (400).
    """
    # What is empty counts as missing, as in forms.
    given = {name: value for name, value in fields.items() if value is not None and value != ""}
    for name in _names(kind):
        for value in _strings(given.get(name)):
            if not _is_text(value):
                raise RequestError(
                    400, f"Invalid request: {name} holds half of a surrogate pair, which is no character"
                )
    if given.get("q") == []:
        del given["q"]
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = str(first["loc"][0])
        if first["type"] == "missing":
            raise RequestError(400, f"Invalid request: missing {name} parameter") from None
        raise RequestError(400, f"Invalid request: {_wrong(name, kind)}") from None


@lru_cache
def _names(kind: type[BaseModel]) -> Sequence[str]:
    return list(kind.model_fields)


def _wrong(name: str, kind: type[BaseModel]) -> str:
    if name == "q":
        return "q must be a text or a list of texts" if kind is TranslationAsked else "q must be a text"
    if name == "format":
        return "format must be text or html"
    if name == "alternatives":
        return "alternatives must be a whole number from 0 on"
    return f"{name} must be a text"


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _is_text(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def shown_code(code: str) -> str:
    """Return a language code as it may stand in a message, or a word for what cannot be one."""
    return code if re.fullmatch(r"[A-Za-z0-9_-]{1,40}", code) else "this language"
