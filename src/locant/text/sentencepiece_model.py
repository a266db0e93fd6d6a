"""A SentencePiece model as a protocol buffer, to be read and changed."""

from __future__ import annotations

from typing import Any

from locant.errors import CheckpointError, MissingExtraError


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
    try:
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
        from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]
    except ImportError:
        if extending:
            raise MissingExtraError("Extending a vocabulary", "protobuf", "finetune") from None
        raise MissingExtraError("Converting a tokenizer", "protobuf", "marian") from None
    proto = ModelProto()
    try:
        proto.ParseFromString(model)
    except DecodeError as error:
        raise CheckpointError(f"{what} is damaged: {error}") from None
    return proto
