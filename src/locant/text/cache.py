"""Tokenised text on disk: written once, then mapped into memory, so that ten million pairs need little of it.

A cache is a folder with, for each side, the token ids of all sentences one after the other (``*.tokens.bin``, uint16
or uint32) and the places where sentences begin (``*.offsets.bin``, int64, one more than there are sentences). With
subword sampling it holds the text as well (``*.text.bin``, UTF-8, with offsets), from which each epoch is tokenised
anew.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from locant.errors import CheckpointError, DataError
from locant.files import read_json, replacing_folder, write_json
from locant.text.pairs import Pair
from locant.text.tokenizer import PLAIN, Prefixes, TokenizerPair

# Changing it changes what subword sampling draws: a chunk is sampled with one seed.
_CHUNK = 8192

Tokens = npt.NDArray[np.unsignedinteger[Any]]
Chunk = tuple[list[Pair], list[list[int]], list[list[int]]]
"""Some pairs with the ids of their source and target sentences."""


class Column:
    """One side of a cache: sentence ``i`` is ``tokens[offsets[i] : offsets[i + 1]]``.

    Attributes:
        tokens: All ids, [N] uint16 or uint32, mapped from disk.
        offsets: [pairs + 1] int64, mapped from disk.
        lengths: The number of ids of each sentence, without BOS and EOS; [pairs] int32.
    """

    def __init__(self, folder: Path, name: str, dtype: str, count: int) -> None:
        self.offsets = _map(folder / f"{name}.offsets.bin", np.dtype(np.int64), count + 1)
        self.tokens: Tokens = _map(folder / f"{name}.tokens.bin", np.dtype(dtype), int(self.offsets[-1]))
        self.lengths = np.diff(self.offsets).astype(np.int32)

    def __getitem__(self, index: int) -> Tokens:
        return self.tokens[self.offsets[index] : self.offsets[index + 1]]


class TokenCache:
    """A tokenised parallel text, mapped from disk; language tokens stand in their places in its rows.

    Args:
        folder: What :func:`write_cache` wrote.

    Attributes:
        folder: The same.
        source: The source side.
        target: The target side.
        dropped: How many pairs were left out because a side had too many tokens.
        max_tokens: The limit that they exceeded, EOS included.
        prefixes: What stands before the tokens of each sentence. The rows hold it but for the id that the decoder
            reads first.

    Raises:
        CheckpointError: The folder is missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        about = read_json(folder / "cache.json")
        self._count: int = about["pairs"]
        self.dropped: int = about["dropped"]
        self.max_tokens: int = about["max_tokens"]
        self.prefixes = Prefixes(*about["prefixes"]) if "prefixes" in about else PLAIN
        self.source = Column(folder, "source", about["source_dtype"], self._count)
        self.target = Column(folder, "target", about["target_dtype"], self._count)

    def __len__(self) -> int:
        return self._count

    def pairs(self) -> Iterator[Pair]:
        """Yield the text of the pairs; only of a cache written with ``keep_text``."""
        columns = []
        for side in ("source", "target"):
            offsets = _map(self.folder / f"{side}.text.offsets.bin", np.dtype(np.int64), self._count + 1)
            columns.append((offsets, _map(self.folder / f"{side}.text.bin", np.dtype(np.uint8), int(offsets[-1]))))
        for number in range(self._count):
            source, target = (bytes(text[offsets[number] : offsets[number + 1]]) for offsets, text in columns)
            yield source.decode("utf-8"), target.decode("utf-8")


def write_cache(
    pairs: Iterable[Pair],
    tokenizers: TokenizerPair,
    folder: Path,
    *,
    max_tokens: int,
    keep_text: bool = False,
    prefixes: Prefixes = PLAIN,
) -> TokenCache:
    """Tokenise pairs into a new cache; one that is already there is replaced.

    Args:
        pairs: Sentence pairs, streamed.
        tokenizers: For both languages.
        folder: Where the cache goes; it appears only when it is complete.
        max_tokens: The most tokens a side may have, EOS and language tokens included; longer pairs are dropped and
            counted.
        keep_text: Store the text too, for :class:`SampledEpochs`.
        prefixes: What stands before the tokens of a sentence, as :meth:`TokenizerPair.prefixes` says.

    Raises:
        DataError: No pair is left.
        CheckpointError: The disk is full or not writable.
    """

    def encoded() -> Iterator[Chunk]:
        for chunk in _chunks(pairs):
            sources = tokenizers.source.encode([source for source, _ in chunk])
            targets = tokenizers.target.encode([target for _, target in chunk])
            yield chunk, _after(prefixes.source, sources), _after(prefixes.target[1:], targets)

    return _write(encoded(), tokenizers, folder, max_tokens=max_tokens, keep_text=keep_text, prefixes=prefixes)


class SampledEpochs:
    """Tokenises the training text anew for each epoch, with random segmentations (subword regularisation).

    The tokens of an epoch depend on the seed and the epoch alone, so a resumed run sees the same ones. A sentence
    whose sampled segmentation would exceed the cache's ``max_tokens`` keeps its usual segmentation.

    Args:
        cache: The usual segmentations, written with ``keep_text``.
        tokenizers: The tokenizers with which it was written.
        alpha: ``TokenizerSettings.sampling``.
        seed: Any non-negative integer.
    """

    def __init__(self, cache: TokenCache, tokenizers: TokenizerPair, *, alpha: float, seed: int) -> None:
        self._cache = cache
        self._tokenizers = tokenizers
        self._alpha = alpha
        self._seed = seed
        # One folder a process; it vanishes with the object.
        self._folder = tempfile.TemporaryDirectory(prefix="sampled-", dir=cache.folder.parent)

    def __call__(self, epoch: int) -> TokenCache:
        """Return the tokens of an epoch, counted from 0; those of the epoch asked for before are removed."""
        root = Path(self._folder.name)
        earlier = list(root.iterdir())
        cache = _write(
            self._sampled(epoch),
            self._tokenizers,
            root / str(epoch),
            max_tokens=self._cache.max_tokens,
            keep_text=False,
            prefixes=self._cache.prefixes,
        )
        for folder in earlier:
            if folder != cache.folder:
                shutil.rmtree(folder, ignore_errors=True)
        return cache

    def _sampled(self, epoch: int) -> Iterator[Chunk]:
        for number, pairs in enumerate(_chunks(self._cache.pairs())):
            yield (
                pairs,
                self._sample([source for source, _ in pairs], epoch, number, side=0),
                self._sample([target for _, target in pairs], epoch, number, side=1),
            )

    def _sample(self, texts: list[str], epoch: int, number: int, *, side: int) -> list[list[int]]:
        """Sample one side of chunk ``number``."""
        tokenizer = (self._tokenizers.source, self._tokenizers.target)[side]
        usual = (self._cache.source, self._cache.target)[side]
        seed = int(np.random.SeedSequence([self._seed, epoch, number, side]).generate_state(1)[0])
        before = (self._cache.prefixes.source, self._cache.prefixes.target[1:])[side]
        sampled = _after(before, tokenizer.encode_sampled(texts, alpha=self._alpha, seed=seed))
        return [
            ids if len(ids) < self._cache.max_tokens else usual[index].tolist()
            for index, ids in enumerate(sampled, start=number * _CHUNK)
        ]


def _write(
    chunks: Iterable[Chunk],
    tokenizers: TokenizerPair,
    folder: Path,
    *,
    max_tokens: int,
    keep_text: bool,
    prefixes: Prefixes,
) -> TokenCache:
    dtypes = [np.uint16 if side.vocab_size <= 1 << 16 else np.uint32 for side in (tokenizers.source, tokenizers.target)]
    count, dropped = 0, 0
    shutil.rmtree(folder, ignore_errors=True)
    with replacing_folder(folder) as temporary:
        with ExitStack() as stack:

            def writer(name: str, dtype: type[np.generic]) -> _Writer:
                return stack.enter_context(_Writer(temporary, name, dtype))

            ids = [writer("source.tokens", dtypes[0]), writer("target.tokens", dtypes[1])]
            text = [writer("source.text", np.uint8), writer("target.text", np.uint8)] if keep_text else []
            for pairs, sources, targets in chunks:
                kept = [
                    index
                    for index, (source, target) in enumerate(zip(sources, targets, strict=True))
                    if max(len(source), len(target)) < max_tokens
                ]
                count += len(kept)
                dropped += len(pairs) - len(kept)
                for column, sentences in zip(ids, (sources, targets), strict=True):
                    column.append([sentences[index] for index in kept])
                for side, column in enumerate(text):
                    column.append([pairs[index][side].encode("utf-8") for index in kept])
        if not count:
            raise DataError(
                f"All {dropped} pairs have {max_tokens} tokens or more on a side, so nothing is left. "
                "Allow more tokens, or use a larger vocabulary."
            )
        about = {
            "pairs": count,
            "dropped": dropped,
            "max_tokens": max_tokens,
            "prefixes": prefixes,
            "source_dtype": np.dtype(dtypes[0]).name,
            "target_dtype": np.dtype(dtypes[1]).name,
        }
        write_json(temporary / "cache.json", about)
    return TokenCache(folder)


def _after(prefix: list[int], sentences: list[list[int]]) -> list[list[int]]:
    return [prefix + ids for ids in sentences] if prefix else sentences


class _Writer:
    """Appends sequences to a flat file and the places where they begin to another."""

    def __init__(self, folder: Path, name: str, dtype: type[np.generic]) -> None:
        self._dtype = dtype
        self._values = (folder / f"{name}.bin").open("wb")
        self._offsets = (folder / f"{name.removesuffix('.tokens')}.offsets.bin").open("wb")
        self._end = 0
        np.zeros(1, dtype=np.int64).tofile(self._offsets)

    def append(self, sequences: list[list[int]] | list[bytes]) -> None:
        lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
        flat = np.fromiter(chain.from_iterable(sequences), self._dtype, int(lengths.sum()))
        flat.tofile(self._values)
        (self._end + np.cumsum(lengths)).tofile(self._offsets)
        self._end += len(flat)

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._values.close()
        self._offsets.close()


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    iterator = iter(pairs)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk


def _map(path: Path, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise CheckpointError(f"The token cache file {path} cannot be read: {error.strerror}.") from None
    if size != count * dtype.itemsize:
        raise CheckpointError(f"The token cache file {path} is damaged: {size} bytes, not {count * dtype.itemsize}.")
    # An empty file cannot be mapped.
    return np.memmap(path, dtype=dtype, mode="r", shape=(count,)) if count else np.zeros(0, dtype)
