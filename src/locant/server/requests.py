"""What may be asked: the fields of requests, read from bodies within limits of size and time.

What comes in is anybody's. Every mistake ends in a :class:`~locant.server.errors.RequestError`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError, WithJsonSchema
from python_multipart.multipart import create_form_parser
from starlette.requests import ClientDisconnect, Request

from locant.server.errors import RequestError

_MOST_FIELDS = 1_000  # of a form
_LET_PASS = 32_000_000  # bytes of the largest body that is read although it is too large


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


async def read_body(request: Request, most_bytes: int, seconds: float) -> bytes:
    """Return the body of a request.

    Raises:
        RequestError: It is too large (413) or takes too long (408), or the client has gone.
    """
    sentence = f"The body of the request is too large; at most {most_bytes:,} bytes are read."
    too_large = RequestError(413, sentence, reason="body_size")
    announced = request.headers.get("content-length", "0")
    size = int(announced[:20]) if announced.isascii() and announced.isdigit() else 0
    # Most clients send all of a body before they read that it is of no use.
    passing = most_bytes < size <= _LET_PASS and "expect" not in request.headers
    if size > most_bytes and not passing:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                if not passing:
                    parts.append(part)
                    size += len(part)
                    if size > most_bytes:
                        raise too_large
    except ClientDisconnect:
        sentence = "The connection was closed before the request was complete."
        raise RequestError(400, sentence, reason="gone") from None
    except TimeoutError:
        sentence = f"The body of the request did not arrive within {seconds:g} seconds."
        raise RequestError(408, sentence, reason="body_time") from None
    if passing:
        raise too_large
    request.scope["state"]["body_read"] = True  # the connection can have another request
    return b"".join(parts)


def read_request(kind: type[Parsed], request: Request, body: bytes) -> Parsed:
    """Return the checked fields of a request.

    Fields are those of a body in JSON or of a form; those of the address count besides where it is no JSON. What is
    empty counts as missing.

    Args:
        kind: What is asked for.
        request: The request, of which nothing more is read.
        body: Its body.

    Raises:
        RequestError: The body is broken (400) or of another type (415), or a field is missing or wrong (400).
    """
    content_type = request.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    fields: Mapping[str, Any]
    if media_type == "application/json" or (media_type.startswith("application/") and media_type.endswith("+json")):
        try:
            fields = json.loads(body.decode("utf-8"))
        except (ValueError, RecursionError):
            fields = []  # type: ignore[assignment]
        if not isinstance(fields, dict):
            raise RequestError(400, "Invalid JSON format")
    else:
        fields = {**request.query_params, **_read_form(media_type, content_type, body)}
        if isinstance(fields.get("q"), str):
            # Forms have CR LF for a line break, whatever was typed; so a text has the same length however it is sent.
            fields["q"] = fields["q"].replace("\r\n", "\n")
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


def _read_form(media_type: str, content_type: str, body: bytes) -> dict[str, Any]:
    """Return the fields of a form; a file is its name and its content."""
    fields: dict[str, Any] = {}

    def add_file(file: Any) -> None:
        file.file_object.seek(0)
        if file.field_name == b"file":
            found = (file.file_name or b"").decode("utf-8", "replace"), file.file_object.read()
            fields["file"] = None if "file" in fields else found  # one of several would be chosen by chance
        file.close()

    def add_field(field: Any) -> None:
        fields[field.field_name.decode("utf-8")] = (field.value or b"").decode("utf-8")

    try:
        if media_type == "multipart/form-data":
            # Files stay in memory, whose size is limited already: nothing is written to disk.
            config = {"MAX_MEMORY_FILE_SIZE": len(body) + 1}
            parser = create_form_parser({"Content-Type": content_type.encode("latin-1")}, add_field, add_file, config)
            parser.write(body)
            parser.finalize()
        elif media_type in ("application/x-www-form-urlencoded", ""):
            text = body.decode("utf-8")
            fields = dict(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS))
        else:
            sentence = "The body must be application/json, application/x-www-form-urlencoded or multipart/form-data."
            raise RequestError(415, sentence, reason="media_type")
    except ValueError:
        sentence = f"Invalid request: the form is broken, is not UTF-8 or has more than {_MOST_FIELDS} fields."
        raise RequestError(400, sentence) from None
    return fields
