"""What may be asked: the fields of requests, read from bodies within limits of size and time.

What comes in is anybody's. Every mistake ends in a :class:`~locant.server.clients.RequestError`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from locant.server.clients import RequestError

_MOST_FIELDS = 1_000  # of a form
_LET_PASS = 32_000_000  # bytes of the largest body that is read although it is too large
_PASSING = 3.0  # seconds for which it is

Parsed = TypeVar("Parsed", bound=BaseModel)


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


class DetectionAsked(Asked):
    """A text whose language is asked for."""

    q: str = Field(description="A text.", examples=["Guten Morgen!"])


class FileAsked(Asked):
    """The fields beside a file to translate."""

    source: str = Field(description="Language code of the text, or `auto`.", examples=["de"])
    target: str = Field(description="Language code of the translation.", examples=["en"])


class StreamAsked(DetectionAsked, FileAsked):
    """A text to translate as a stream."""


_WRONG = {
    "q": "q must be a text, or a list of texts where several are translated",
    "format": "format must be text or html",
    "alternatives": "alternatives must be a whole number from 0 on",
}


class _FormParser(MultiPartParser):
    """Keeps files in memory, whose size is limited already: nothing is written to disk."""

    spool_max_size = 1 << 40


async def read_body(request: Request, most_bytes: int, seconds: float) -> bytes:
    """Return the body of a request.

    Raises:
        RequestError: It is too large (413) or takes too long (408), or the client has gone.
    """
    too_large = RequestError(
        413, f"The body of the request is too large; at most {most_bytes:,} bytes are read.", reason="body_size"
    )
    announced = request.headers.get("content-length", "0")
    excess = announced.isascii() and announced.isdigit() and int(announced[:20]) > most_bytes
    if excess and (int(announced[:20]) > _LET_PASS or "expect" in request.headers):
        raise too_large
    parts, size, more = [], 0, True
    try:
        # Most clients send all of a body before they read that it is of no use.
        async with asyncio.timeout(_PASSING if excess else seconds):
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise RequestError(400, "The connection was closed before the request was complete.", reason="gone")
                if not excess:
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most_bytes:
                        raise too_large
                more = message.get("more_body", False)
    except TimeoutError:
        if not excess:
            raise RequestError(
                408, f"The body of the request did not arrive within {seconds:g} seconds.", reason="body_time"
            ) from None
    if excess:
        raise too_large
    request.scope["state"]["body_read"] = True  # the connection can have another request
    return b"".join(parts)


def read_request(kind: type[Parsed], request: Request, body: bytes) -> tuple[Parsed, tuple[str, bytes] | None]:
    """Return the checked fields of a request, and name and content of the file with it, if there is one.

    Fields are those of a body in JSON or of a form; those of the address count besides where it is no JSON.

    Args:
        kind: What is asked for.
        request: The request, of which nothing more is read.
        body: Its body.

    Raises:
        RequestError: The body is broken (400) or of another type (415), or a field is missing or wrong (400).
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    file = None
    given: Mapping[str, Any]
    if media_type == "application/json" or (media_type.startswith("application/") and media_type.endswith("+json")):
        given = _read_json(_text_of(body))
    else:
        form: Mapping[str, Any]
        if media_type == "multipart/form-data":
            form, file = _read_multipart(request, body)
        elif media_type in ("application/x-www-form-urlencoded", ""):
            try:
                form = dict(
                    parse_qsl(_text_of(body), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
                )
            except UnicodeDecodeError:
                raise RequestError(400, "Invalid request: the body is not UTF-8.") from None
            except ValueError:
                raise RequestError(400, f"Invalid request: the form has more than {_MOST_FIELDS} fields.") from None
        else:
            raise RequestError(
                415,
                "The body must be application/json, application/x-www-form-urlencoded or multipart/form-data.",
                reason="media_type",
            )
        given = {**request.query_params, **form}
        if isinstance(given.get("q"), str):
            # Forms have CR LF for a line break, whatever was typed; so a text has the same length however it is sent.
            given["q"] = given["q"].replace("\r\n", "\n")
    return _parse(kind, given), file


def _text_of(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError(400, "Invalid request: the body is not UTF-8.") from None


def _read_multipart(request: Request, body: bytes) -> tuple[dict[str, Any], tuple[str, bytes] | None]:
    async def read() -> tuple[dict[str, Any], tuple[str, bytes] | None]:
        async def whole() -> AsyncGenerator[bytes, None]:
            yield body

        parser = _FormParser(
            request.headers, whole(), max_files=1, max_fields=_MOST_FIELDS, max_part_size=len(body) + 1
        )
        form = await parser.parse()
        fields: dict[str, Any] = {}
        file = None
        for name, value in form.multi_items():
            if isinstance(value, str):
                fields[name] = value
            elif name == "file":
                file = value.filename or "", await value.read()
        await form.close()
        return fields, file

    reading = read()
    try:
        reading.send(None)  # all of it is there, so it never waits
    except StopIteration as end:
        found: tuple[dict[str, Any], tuple[str, bytes] | None] = end.value
        return found
    except (MultiPartException, ValueError, KeyError):
        pass
    finally:
        with suppress(RuntimeError):
            reading.close()
    raise RequestError(400, "Invalid request: the form is broken, or has more than one file.")


def _read_json(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise RequestError(400, "Invalid JSON format") from None
    if not isinstance(found, dict):
        raise RequestError(400, "Invalid JSON format")
    return found


def _parse(kind: type[Parsed], fields: Mapping[str, Any]) -> Parsed:
    # What is empty counts as missing, as in forms.
    given = {name: value for name, value in fields.items() if value is not None and value != ""}
    for name in _names(kind):
        value = given.get(name)
        for one in [value] if isinstance(value, str) else value if isinstance(value, list) else ():
            if isinstance(one, str) and not one.isascii():
                try:
                    one.encode("utf-8")
                except UnicodeEncodeError:
                    raise RequestError(
                        400, f"Invalid request: {name} holds half of a surrogate pair, which is no character"
                    ) from None
    if given.get("q") == []:
        del given["q"]
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = str(first["loc"][0])
        if first["type"] == "missing":
            raise RequestError(400, f"Invalid request: missing {name} parameter") from None
        raise RequestError(400, f"Invalid request: {_WRONG.get(name, f'{name} must be a text')}") from None


@lru_cache
def _names(kind: type[BaseModel]) -> Sequence[str]:
    return list(kind.model_fields)
