"""A text as characters: split, batches of windows, and likelihood against length."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from locant.errors import DataError
from locant.models.language_model import LanguageModel
from locant.parsing import read_bounded
from locant.text.readers import open_bytes
from locant.training import LanguageModelBatch

_TEST_TOKENS = 16384  # read at once
_LARGEST = 1 << 30
"""Bytes of the largest text; each character takes eight in memory."""


@dataclass(frozen=True)
class Characters:
    """A text in numbers; 0 represents nothing, so that it may serve as padding.

    Attributes:
        train: The first nine tenths, integer ``[N]``.
        test: The last tenth, integer ``[M]``.
        alphabet: The distinct characters in order of code point; the first has number 1.
        digest: SHA-256 of the text as UTF-8.
    """

    train: Tensor
    test: Tensor
    alphabet: str
    digest: str

    @property
    def vocabulary_size(self) -> int:
        """Number of ids, padding included."""
        return len(self.alphabet) + 1


def read_characters(path: Path) -> Characters:
    """Read a UTF-8 text, ``.gz`` too.

    Raises:
        DataError: The file is missing, damaged, empty, too large or no UTF-8 text.
    """
    with open_bytes(path) as file:
        try:
            raw = read_bounded(file, _LARGEST)
        except ValueError as error:
            raise DataError(f"The text {path} cannot be read: {error}. Give a part of it.") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"The text {path} is not UTF-8: byte {error.start} cannot be read.") from None
    if not text:
        raise DataError(f"The text {path} is empty.")
    alphabet = "".join(sorted(set(text)))
    numbers = {character: number for number, character in enumerate(alphabet, start=1)}
    ids = torch.tensor([numbers[character] for character in text])
    cut = len(ids) * 9 // 10
    return Characters(ids[:cut], ids[cut:], alphabet, hashlib.sha256(text.encode()).hexdigest())


def window_batches(ids: Tensor, length: int, rows: int, seed: int) -> Iterator[LanguageModelBatch]:
    """Yield batches of windows drawn evenly, without end.

    Args:
        ids: Text, integer ``[N]`` with ``N > length``.
        length: Characters read in a window.
        rows: Windows in a batch.
        seed: Of the draw.
    """
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.arange(length + 1)
    while True:
        starts = torch.randint(len(ids) - length, (rows, 1), generator=generator)
        windows = ids[starts + offsets]
        yield LanguageModelBatch(windows[:, :-1], windows[:, 1:], rows * length)


@torch.no_grad()
def nats_per_character(model: LanguageModel, ids: Tensor, length: int, stride: int) -> float:
    """Return the mean negative log-likelihood of all characters of a text but the first.

    The text is read in windows of ``length`` characters whose starts are ``stride`` apart. The first window scores all
    its characters, each later one its last ``stride``, so that every character is scored once. With ``stride`` equal to
    ``length`` windows do not overlap, and a character has half a window before it on average.

    Args:
        model: In evaluation mode.
        ids: Text, integer ``[N]``, where ``N - 1 - length`` is a multiple of ``stride``.
        length: Characters read in a window.
        stride: From 1 to ``length``.
    """
    device = next(model.parameters()).device
    starts = torch.arange(0, len(ids) - length, stride)[:, None]
    total, rows = 0.0, max(1, _TEST_TOKENS // length)
    for part in torch.split(starts, rows):
        windows = ids[part + torch.arange(length + 1)].to(device)
        logits = model(windows[:, :-1]).float()
        losses = nn.functional.cross_entropy(logits.transpose(1, 2), windows[:, 1:], reduction="none")
        total += losses[:, length - stride :].double().sum().item()
        if part[0, 0] == 0:
            total += losses[0, : length - stride].double().sum().item()
    return total / (len(ids) - 1)


def scored_text(ids: Tensor, lengths: tuple[int, ...], strides: tuple[int, ...], most: int, path: Path) -> Tensor:
    """Return the start of a test text that windows of all lengths cover exactly, so that all score the same characters.

    Args:
        ids: Text, integer ``[M]``.
        lengths: Of windows.
        strides: Of windows, one for each length.
        most: Characters to score at most.
        path: Of the text, for messages.

    Raises:
        DataError: The text is too short for the longest window, or no number of characters suits all.
    """
    for count in range(min(most, len(ids) - 1), max(lengths) - 1, -1):
        if all((count - length) % stride == 0 for length, stride in zip(lengths, strides, strict=True)):
            return ids[: count + 1]
    raise DataError(
        f"The last tenth of {path} has {len(ids):,} characters, of which at most {most:,} are scored: no number of "
        f"them is covered exactly by windows of {', '.join(f'{length:,}' for length in lengths)} characters. Give a "
        "longer text, shorter test lengths or ones that are multiples of each other."
    )
