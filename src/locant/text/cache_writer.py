"""Writing tokenised text: the cache of a corpus, block by block, gone on with where a process was killed."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from locant.errors import DataError
from locant.files import publish, readable_errors, sealed, write_json
from locant.text.cache import SIDES, TokenCache
from locant.text.checksums import write_checksums
from locant.text.encoding import Encoded, Encoder, Task, id_types
from locant.text.growing import GrowingColumns
from locant.text.pairs import Pair, ParallelText, memory_blocks
from locant.text.tokenizer_pair import PLAIN, Prefixes, TokenizerPair
from locant.text.workers import in_order


class TextPart(NamedTuple):
    """Text of one part of a corpus.

    Attributes:
        pairs: Sentence pairs, streamed.
        prefixes: What stands before the tokens of a sentence, as :meth:`TokenizerPair.prefixes` says.
    """

    pairs: Iterable[Pair]
    prefixes: Prefixes = PLAIN


def write_cache(
    pairs: Iterable[Pair],
    tokenizers: TokenizerPair,
    folder: Path,
    *,
    max_tokens: int,
    keep_text: bool = False,
    prefixes: Prefixes = PLAIN,
) -> TokenCache:
    """Tokenise the pairs of a corpus of one part into a new cache; see :func:`write_parts`."""
    parts = [TextPart(pairs, prefixes)]
    return write_parts(parts, tokenizers, folder, max_tokens=max_tokens, keep_text=keep_text)


def write_parts(
    parts: Sequence[TextPart],
    tokenizers: TokenizerPair,
    folder: Path,
    *,
    max_tokens: int,
    keep_text: bool = False,
    processes: int = 1,
    made_from: Any = None,
    what: str = "pairs",
    progress: Callable[[float], None] = lambda share: None,
) -> TokenCache:
    """Tokenise the parts of a corpus into a new cache; one that is already there is replaced.

    The cache is the same whatever the number of processes.

    Args:
        parts: One or more.
        tokenizers: For both languages.
        folder: Where the cache goes; it appears only when it is complete.
        max_tokens: The most tokens a side may have, EOS and language tokens included; longer pairs are dropped and
            counted.
        keep_text: Store the text too, for :class:`SampledEpochs`.
        processes: How many tokenise at once.
        made_from: Plain data that says what all this is. Where it is given, what a killed process has done of the same
            is gone on with.
        what: What they are called where none is left.
        progress: Is told how much is done, 0 to 1.

    Raises:
        DataError: No pair is left.
        CheckpointError: The disk is full or not writable.
    """
    prefixes = [part.prefixes for part in parts]
    encoder = Encoder(tokenizers, prefixes, max_tokens, keep_text)
    total = max(1, sum(len(text) for text, _ in parts if isinstance(text, Sized)))
    with CacheWriter(folder, encoder, made_from) as writer:
        waiting = islice(_tasks(parts), writer.blocks, None)
        for encoded in in_order(encoder, waiting, processes):
            writer.append(encoded)
            progress(min(1.0, writer.seen / total))
        writer.finish(what)
    return TokenCache(folder)


def _tasks(parts: Sequence[TextPart]) -> Iterator[Task]:
    for number, (text, _) in enumerate(parts):
        for block in text.open_blocks() if isinstance(text, ParallelText) else memory_blocks(text):
            yield Task(number, block)


class CacheWriter:
    """Writes encoded blocks, which come part by part, into a new cache; used in a ``with`` block.

    Args:
        folder: Where the cache goes; one that is there is removed at once.
        encoder: What encodes.
        made_from: As for :func:`write_parts`.

    Attributes:
        blocks: How many blocks are written, a killed process's included.
    """

    def __init__(self, folder: Path, encoder: Encoder, made_from: Any = None) -> None:
        self._folder, self._encoder, self._resumable = folder, encoder, made_from is not None
        name = f".{folder.name}" if self._resumable else f".{folder.name}-{secrets.token_hex(8)}"
        self._partial = folder.with_name(f"{name}.partial")
        kinds = dict(zip(SIDES, id_types(encoder.tokenizers), strict=True))
        columns: dict[str, npt.DTypeLike] = {}
        for side in SIDES:
            columns |= {f"{side}.tokens": kinds[side], f"{side}.offsets": np.int64, f"{side}.lengths": np.int32}
            if encoder.keep_text:
                columns |= {f"{side}.text": np.uint8, f"{side}.text.offsets": np.int64}
        self._about = {
            "max_tokens": encoder.max_tokens,
            **{f"{side}_dtype": np.dtype(kind).name for side, kind in kinds.items()},
            "source_vocabulary": encoder.tokenizers.source.vocab_size,
            "target_vocabulary": encoder.tokenizers.target.vocab_size,
        }
        shutil.rmtree(folder, ignore_errors=True)
        self._columns = GrowingColumns(self._partial, columns, [made_from, self._about, encoder.keep_text])
        parts = len(encoder.prefixes)
        state = self._columns.state or [0, [0] * parts, [0] * parts]
        self.blocks, self._counts, self._dropped = state
        if not self._columns.state:
            for name in columns:
                if name.endswith("offsets"):
                    self._columns.append(name, np.zeros(1, dtype=np.int64))

    @property
    def seen(self) -> int:
        """How many pairs the blocks had."""
        return sum(self._counts) + sum(self._dropped)

    def append(self, encoded: Encoded) -> None:
        """Write a block."""
        for number, side in enumerate(SIDES):
            self._append(f"{side}.tokens", f"{side}.offsets", encoded.ids[number], encoded.lengths[number])
            self._columns.append(f"{side}.lengths", encoded.lengths[number])
            if encoded.texts:
                name = f"{side}.text"
                self._append(name, f"{name}.offsets", encoded.texts[number], encoded.text_lengths[number])
        self._counts[encoded.part] += len(encoded.lengths[0])
        self._dropped[encoded.part] += encoded.dropped
        self.blocks += 1
        if self._resumable:
            self._columns.mark([self.blocks, self._counts, self._dropped])

    def _append(self, name: str, offsets: str, values: npt.NDArray[Any], lengths: npt.NDArray[np.int32]) -> None:
        end = self._columns.size(name)
        self._columns.append(offsets, end + np.cumsum(lengths, dtype=np.int64))
        self._columns.append(name, values)

    def finish(self, what: str = "pairs") -> None:
        """Give the cache its name.

        Args:
            what: As for :func:`write_parts`.

        Raises:
            DataError: No pair is left.
        """
        if not sum(self._counts):
            raise DataError(
                f"All {sum(self._dropped)} {what} have {self._encoder.max_tokens} tokens or more on a side, so nothing "
                "is left. Allow more tokens, or use a larger vocabulary."
            )
        self._columns.finish()
        with readable_errors(self._folder):
            for path in self._partial.glob("*.bin"):
                if path.stat().st_size:
                    write_checksums(path, np.memmap(path, np.uint8, "r"))
        parts = zip(self._counts, self._dropped, self._encoder.prefixes, strict=True)
        about = {
            "pairs": sum(self._counts),
            "parts": [{"pairs": count, "dropped": lost, "prefixes": before._asdict()} for count, lost, before in parts],
            **self._about,
        }
        write_json(self._partial / "cache.json", sealed(about))
        with readable_errors(self._folder):
            publish(self._partial, self._folder)

    def __enter__(self) -> CacheWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._columns.close()
        # What is wrong with the text stays wrong; anything else may be mended.
        if kind is not None and (not self._resumable or issubclass(kind, DataError)):
            shutil.rmtree(self._partial, ignore_errors=True)
