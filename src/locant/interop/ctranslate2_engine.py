"""A translator that searches with CTranslate2 (https://github.com/OpenNMT/CTranslate2) instead of PyTorch.

Tokens, limits of length and the length penalty are Locant's. Greedy search is the same, and in float32 so are its
translations. Two things differ. CTranslate2 keeps its beam wide when a hypothesis ends and stops when as many have
ended as the beam is wide; Locant's beam becomes narrower. And log-probabilities are among the tokens that may be
written, while Locant's count padding and begin mark too, which a trained model gives next to nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import torch

from locant.errors import CheckpointError, ConfigError, LocantError, MissingExtraError, nearest
from locant.files import cache_folder
from locant.interop.ctranslate2 import QUANTIZATIONS, export_ctranslate2
from locant.models.decoding_settings import DecodingSettings
from locant.models.model_card import weights_digest
from locant.models.model_folder import load_model_folder
from locant.translation.search import Hypothesis, length_penalty
from locant.translation.translator import Translator
from locant.version import __version__

COMPUTE_TYPES = ("default", "auto", *QUANTIZATIONS)
"""The types that CTranslate2 computes in, in its own words; ``default`` is float32."""

_UNUSED_DAYS = 30
"""Conversions that nobody used for so long are removed from the cache."""


class CTranslate2Translator(Translator):
    """Translates plain text by CTranslate2; use :meth:`from_pretrained`.

    The model is on the device ``meta``: its weights are CTranslate2's.
    """

    _engine: Any

    @classmethod
    def from_pretrained(
        cls,
        folder: Path | str,
        *,
        device: str | torch.device = "auto",
        dtype: torch.dtype = torch.float32,
        compute_type: str = "default",
    ) -> Self:
        """Load a model folder, which is converted once and kept in Locant's cache folder for its weights.

        Args:
            folder: A model folder, a finished run or a model on the Hub.
            device: ``auto``, ``cpu`` or ``cuda``.
            dtype: float32; other types are named by ``compute_type``.
            compute_type: One of :data:`COMPUTE_TYPES`.

        Raises:
            CheckpointError: The folder cannot be read, or the cache folder not written.
            ConfigError: CTranslate2 cannot express the model, or a value is unknown or not possible on this machine.
            MissingExtraError: The package ``ctranslate2`` is not installed.
        """
        try:
            import ctranslate2
        except ImportError:
            raise MissingExtraError("The engine ctranslate2", "ctranslate2", "ctranslate2") from None
        if compute_type not in COMPUTE_TYPES:
            raise ConfigError(
                f"Unknown compute type '{compute_type}'.{nearest(compute_type, COMPUTE_TYPES)} "
                f"Known: {', '.join(COMPUTE_TYPES)}."
            )
        if dtype != torch.float32:
            raise ConfigError("The engine ctranslate2 is told the type of its weights by compute_type, not by dtype.")
        found = load_model_folder(folder, device="meta")
        converted = _conversion(found.folder, ctranslate2.__version__)
        translator = cls._of_folder(found)
        try:
            translator._engine = ctranslate2.Translator(
                str(converted), **_device(str(device)), compute_type=compute_type, **_threads(compute_type)
            )
        except (RuntimeError, ValueError) as error:
            raise ConfigError(f"CTranslate2 cannot use {compute_type} on the device '{device}': {error}") from None
        return translator

    @property
    def engine(self) -> str:
        """The name of CTranslate2 and the type that it computes in."""
        return f"CTranslate2, {self._engine.compute_type}"

    def save_pretrained(self, folder: Path | str) -> None:
        """Write a model folder with its card, from the weights of the folder that was loaded."""
        assert self.origin is not None
        Translator.from_pretrained(self.origin, device="cpu").save_pretrained(folder)

    def _hypotheses(
        self, sources: list[list[int]], settings: DecodingSettings
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        # All at once: CTranslate2 makes the batches, and runs several where it has several workers.
        filled = [index for index, source in enumerate(sources) if source]
        limits = dict(zip(filled, self._max_lengths([sources[index] for index in filled], settings), strict=True))
        again: dict[int, list[int]] = {}
        highest = max(limits.values(), default=0)
        for index, found in zip(filled, self._run([sources[i] for i in filled], highest, settings), strict=True):
            own = limits[index]
            # CTranslate2 has one limit for all; a sentence that went beyond its own is translated again with that.
            if own < highest and any(len(tokens) >= own for tokens, _ in found):
                again.setdefault(own, []).append(index)
            else:
                yield index, _scored(found, own, settings)
        for limit, group in again.items():
            for index, found in zip(group, self._run([sources[i] for i in group], limit, settings), strict=True):
                yield index, _scored(found, limit, settings)

    def _run(
        self, sources: list[list[int]], limit: int, settings: DecodingSettings
    ) -> list[list[tuple[list[int], float]]]:
        """Return tokens and log-probability of each hypothesis that CTranslate2 found for each source."""
        tokenizers, beam = self.tokenizers, settings.beam
        before, (_, *forced) = self.prefixes
        prefix = [tokenizers.target.piece(index) for index in forced]
        # With a length penalty of 0 it would stop at the first hypothesis to end; 1 divides by the length.
        penalty = 0 if beam == 1 else 1
        longest = limit + len(prefix)
        try:
            found = self._engine.translate_batch(
                [[tokenizers.source.piece(index) for index in (*before, *source)] for source in sources],
                target_prefix=[prefix] * len(sources) if prefix else None,
                max_batch_size=max(1, settings.batch_tokens // beam),
                batch_type="tokens",
                beam_size=beam,
                num_hypotheses=beam,
                length_penalty=penalty,
                max_input_length=0,
                min_decoding_length=0,
                max_decoding_length=longest,
                return_scores=True,
            )
        except (RuntimeError, ValueError) as error:
            raise LocantError(f"CTranslate2 could not translate: {error}") from None
        ids = self._target_ids
        return [
            [
                # The length that CTranslate2 divides by counts the prefix and the end mark.
                ([ids[piece] for piece in pieces[len(prefix) :]], score * min(len(pieces) + 1, longest) ** penalty)
                for pieces, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in found
        ]

    @property
    def _target_ids(self) -> dict[str, int]:
        target = self.tokenizers.target
        if not hasattr(self, "_ids"):
            self._ids = {target.piece(index): index for index in range(target.vocab_size)}
        return self._ids


def _scored(hypotheses: list[tuple[list[int], float]], limit: int, settings: DecodingSettings) -> list[Hypothesis]:
    """Return the hypotheses with Locant's scores, best first, as many as asked for."""
    alpha = settings.length_penalty
    scored = [
        Hypothesis(tokens, total / length_penalty(min(len(tokens) + 1, limit), alpha), total)
        for tokens, total in hypotheses
    ]
    return sorted(scored, key=lambda hypothesis: -hypothesis.score)[: settings.n_best]


def _conversion(folder: Path, engine_version: str) -> Path:
    """Return the CTranslate2 folder of a model folder's present content; made where it is not in the cache."""
    digest = hashlib.sha256(f"{__version__} {engine_version} {weights_digest(folder)}".encode())
    for path in sorted([folder / "config.json", *folder.glob("tokenizer.*")]):
        digest.update(path.read_bytes())
    cache = cache_folder() / "ctranslate2"
    converted = cache / digest.hexdigest()[:32]
    try:
        if not converted.is_dir():
            cache.mkdir(parents=True, exist_ok=True)
            # In a folder of its own: two processes may convert at once, and the second finds the work of the first.
            with tempfile.TemporaryDirectory(dir=cache, prefix=".converting-") as temporary:
                export_ctranslate2(folder, Path(temporary, "model"))
                with suppress(OSError):
                    Path(temporary, "model").rename(converted)
            if not converted.is_dir():
                raise CheckpointError(f"The converted model could not be moved to {converted}.")
        os.utime(converted)
        _remove_unused(cache)
    except OSError as error:
        raise CheckpointError(f"The converted model cannot be kept in {cache}: {error.strerror or error}.") from None
    return converted


def _remove_unused(cache: Path) -> None:
    oldest = time.time() - _UNUSED_DAYS * 86_400
    for path in cache.iterdir():
        with suppress(FileNotFoundError):  # another process may have removed it
            if path.stat().st_mtime < oldest:
                shutil.rmtree(path, ignore_errors=True)


def _device(name: str) -> dict[str, Any]:
    kind, _, index = name.partition(":")
    return {"device": kind, **({"device_index": int(index)} if index else {})}


def _threads(compute_type: str) -> dict[str, int]:
    """Return how CTranslate2 shares the processor.

    int8 arithmetic is so fast that threads of one sentence wait for each other; several sentences run side by side.
    """
    if "int8" not in compute_type:
        return {}
    workers = int(os.environ.get("OMP_NUM_THREADS", 0)) or torch.get_num_threads()
    return {"inter_threads": workers, "intra_threads": 1}
