"""A SentencePiece model as a protocol buffer, to be read and changed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from locant.errors import CheckpointError
from locant.lazy import optional_package, require_package

sentencepiece = optional_package("sentencepiece", "Cutting text into subwords")


def model_type(model: bytes) -> str:
    """Return how a serialised SentencePiece model cuts text: ``unigram``, ``bpe``, or ``word or char``.

    Args:
        model: A model that SentencePiece has loaded.
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    with suppress(RuntimeError, ValueError):  # of these kinds a unigram model alone knows the best few, ...
        processor.nbest_encode("a", nbest_size=2)
        return "unigram"
    with suppress(RuntimeError, ValueError):  # ... and a BPE model can draw at random too
        processor.encode("a", enable_sampling=True, nbest_size=-1, alpha=0.0)
        return "bpe"
    return "word or char"


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
