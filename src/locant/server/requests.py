"""What may be asked: the fields of requests, read from bodies within limits of size and time.

What comes in is anybody's. Every mistake ends in an error of status 400, 408, 413 or 415.
"""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError, WithJsonSchema
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect, Request

from locant.server.errors import RequestError

_SMALL = 20_000  # bytes of the largest body that is taken apart in the event loop


def _encodable(text: str) -> str:
    text.encode("utf-8")  # half of a surrogate pair is no character
    return text


Characters = Annotated[str, AfterValidator(_encodable)]
"""A text that can be written as UTF-8."""

_Code = Annotated[Characters, Field(description="Language code of the text, or `auto`.", examples=["de"])]
_Target = Annotated[Characters, Field(description="Language code of the translation.", examples=["en"])]
_BINARY = {"type": "string", "format": "binary", "description": "The file."}
_File = Annotated[tuple[str, bytes], Strict(), WithJsonSchema(_BINARY)]


class Asked(BaseModel):
    """What every request may hold; other fields are left alone, as LibreTranslate does."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    api_key: Characters | None = Field(None, description="API key, where the server asks for one.")


class TranslationAsked(Asked):
    """Texts to translate."""

    q: Characters | list[Characters] = Field(description="A text, or a list of texts.", examples=["Guten Morgen!"])
    source: _Code
    target: _Target
    format: Literal["text", "html"] = Field("text", description="`text` or `html`.")
    alternatives: int = Field(0, ge=0, description="How many other translations are wanted.")


class DetectionAsked(Asked):
    """A text whose language is asked for."""

    q: Characters = Field(description="A text.", examples=["Guten Morgen!"])


class StreamAsked(DetectionAsked):
    """A text to translate as a stream."""

    source: _Code
    target: _Target


class FileAsked(Asked):
    """A file to translate: its name and its content."""

    source: _Code
    target: _Target
    file: _File


_WRONG = {
    "q": "q must be a text, or a list of texts where several are translated",
    "format": "format must be text or html",
    "alternatives": "alternatives must be a whole number from 0 on",
    "file": "file must be one part of a form, with a name",
}

Parsed = TypeVar("Parsed", bound=Asked)


async def read_request(kind: type[Parsed], request: Request, most_bytes: int, seconds: float) -> Parsed:
    """Return the checked fields of a request.

    Fields are those of a body in JSON or of a form; those of the address count besides where it is no JSON. What is
    empty counts as missing.

    Args:
        kind: What is asked for.
        request: The request.
        most_bytes: Largest body.
        seconds: Longest time in which it may arrive.

    Raises:
        RequestError: The body is too large (413), takes too long (408), is broken (400) or of another type (415), the
            client has gone, or a field is missing or wrong (400).
        HTTPException: A form is broken (400).
    """
    body = await _read_body(request, most_bytes, seconds)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == "application/json" or (media_type.startswith("application/") and media_type.endswith("+json")):
        if len(body) <= _SMALL:
            return _parsed_json(kind, body)
        return await asyncio.to_thread(_parsed_json, kind, body)  # which may take a second
    if media_type not in ("multipart/form-data", "application/x-www-form-urlencoded", ""):
        sentence = "The body must be application/json, application/x-www-form-urlencoded or multipart/form-data."
        raise RequestError(415, sentence, reason="media_type")

    async def whole() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    fields: dict[str, Any] = dict(request.query_params)
    try:
        async with Request(request.scope, whole).form(max_files=1, max_part_size=most_bytes) as form:
            for name, value in form.items():
                fields[name] = (value.filename, await value.read()) if isinstance(value, UploadFile) else value
    except ValueError:
        raise RequestError(400, "Invalid request: the form is broken.") from None
    if isinstance(fields.get("q"), str):
        # Forms have CR LF for a line break, whatever was typed; so a text has the same length however it is sent.
        fields["q"] = fields["q"].replace("\r\n", "\n")
    return _parsed(kind, fields)


async def _read_body(request: Request, most_bytes: int, seconds: float) -> bytes:
    sentence = f"The body of the request is too large; at most {most_bytes:,} bytes are read."
    too_large = RequestError(413, sentence, reason="body_size")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > most_bytes:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                body += part
                if len(body) > most_bytes:
                    raise too_large
    except ClientDisconnect:
        sentence = "The connection was closed before the request was complete."
        raise RequestError(400, sentence, reason="gone") from None
    except TimeoutError:
        sentence = f"The body of the request did not arrive within {seconds:g} seconds."
        raise RequestError(408, sentence, reason="body_time") from None
    return bytes(body)


def _parsed_json(kind: type[Parsed], body: bytes) -> Parsed:
    try:
        fields = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise RequestError(400, "Invalid JSON format")
    return _parsed(kind, fields)


def _parsed(kind: type[Parsed], fields: dict[str, Any]) -> Parsed:
    try:
        return kind.model_validate({name: value for name, value in fields.items() if value not in (None, "", [])})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        name = str(first["loc"][0])
        wrong = _WRONG.get(name, f"{name} must be a text")
        if first["type"] == "missing":
            wrong = f"missing {name} parameter"
        elif first["type"] == "value_error":
            wrong = f"{name} holds half of a surrogate pair, which is no character"
        raise RequestError(400, f"Invalid request: {wrong}") from None
