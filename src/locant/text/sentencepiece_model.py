"""A SentencePiece model as a protocol buffer, to be read and changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from locant.errors import CheckpointError
from locant.lazy import require_package

_TYPES = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


def model_type(model: bytes) -> str:
    """Return how a serialised SentencePiece model cuts text: ``unigram``, ``bpe``, ``word`` or ``char``.

    It is read without the package ``protobuf``: field 3 (``model_type``) of field 2 (``trainer_spec``).

    Args:
        model: A model that SentencePiece has loaded.
    """
    found = 1
    for field, settings in _fields(model):
        if field == 2 and isinstance(settings, bytes):
            found = next((kind for key, kind in _fields(settings) if key == 3 and isinstance(kind, int)), 1)
    return _TYPES.get(found, f"number {found}")


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of the fields of a protocol buffer: integers, and the bytes of everything else."""
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(message):
        field, kind = divmod(number(), 8)
        if kind == 0:
            yield field, number()
        else:
            size = number() if kind == 2 else {1: 8, 5: 4}[kind]
            yield field, message[place : place + size]
            place += size


def model_proto(model: bytes, what: str = "The tokenizer model", *, extending: bool = False) -> Any:
    """Return a serialised SentencePiece model as its protocol buffer.

    Args:
        model: The content of the file.
        what: What it is, for messages.
        extending: Whether it is for more subwords, which decides what a message says.

    Raises:
        CheckpointError: It is damaged.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    require_package("google.protobuf", "Extending a vocabulary" if extending else "Converting a tokenizer")
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

    proto = ModelProto()
    try:
        proto.ParseFromString(model)
    except DecodeError as error:
        raise CheckpointError(f"{what} is damaged: {error}") from None
    return proto
