"""The engines of translation: their protocol, PyTorch, and choosing one for a model folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from locant.errors import ConfigError, MissingExtraError, UsageError, nearest
from locant.kernels.translation import PRECISIONS
from locant.models.decoding_settings import DecodingSettings
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.model_folder import ModelFolder, load_model_folder
from locant.runtime import choose_device, explaining_memory
from locant.translation.compiled import CompiledEngine
from locant.translation.hypotheses import Hypothesis
from locant.translation.search import SearchState, evaluated, require_ids, search

ENGINES = ("pytorch", "compiled", "ctranslate2", "auto")


class Engine(Protocol):
    """What translates token ids: a model and the arithmetic that runs it."""

    @property
    def name(self) -> str:
        """What computes, and in which type of numbers where there is a choice: ``CTranslate2, int8_float32``."""

    def translate(
        self,
        sources: Sequence[list[int]],
        max_lengths: Sequence[int],
        prefix: Sequence[int],
        settings: DecodingSettings,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Search for translations of any number of sentences; the engine makes the batches.

        Args:
            sources: Source ids of each sentence as the encoder reads them, EOS included.
            max_lengths: Most target tokens of each, EOS included, at least 1.
            prefix: Target ids that the decoder reads before it writes, at least one; no part of the hypotheses.
            settings: Beam, length penalty, number of hypotheses and size of a batch.

        Yields:
            The index of each source, in any order, and its hypotheses, best first.

        Raises:
            ConfigError: A sentence or the prefix is empty, a greatest length is not positive, or an id is outside the
                vocabulary.
            LocantError: The model's output is not a number.
        """


class PyTorchEngine:
    """The engine that runs every model on every device.

    Args:
        model: The model; translates on the device where it is, in evaluation mode whatever its own mode, which stays.
    """

    name = "PyTorch"

    def __init__(self, model: EncoderDecoder[Any]) -> None:
        self.model = model

    def translate(
        self,
        sources: Sequence[list[int]],
        max_lengths: Sequence[int],
        prefix: Sequence[int],
        settings: DecodingSettings,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Search for translations; see :meth:`Engine.translate`."""
        config, device = self.model.config, self.model.target_embedding.weight.device
        for source in sources:
            require_ids(source, config.source_vocab_size, "source")
        require_ids(prefix, config.target_vocab_size, "target")
        with explaining_memory(
            f"Lower --batch-tokens (batch_tokens), now {settings.batch_tokens}, or the beam, now {settings.beam}."
        ):
            yield from search(self, sources, max_lengths, settings, prefix=prefix, device=device)

    def start_search(self, source: Tensor, source_lengths: Tensor) -> SearchState:
        """Encode source ids; see :class:`~locant.translation.search.SearchModel`.

        Others may use the model and change its mode between two batches.
        """
        state: SearchState = evaluated(self.model).start_search(source, source_lengths)
        return state


def fastest_engine(model: EncoderDecoder[Any]) -> Engine:
    """Return the fastest engine that gives the translations of PyTorch: the compiled kernels where they can run it.

    Args:
        model: The model, in memory. Its later training does not reach the kernels, which copy its matrices.
    """
    try:
        return CompiledEngine(model)
    except ConfigError:
        return PyTorchEngine(model)


def load_engine(
    folder: Path | str,
    *,
    engine: str = "pytorch",
    device: str | torch.device = "auto",
    dtype: torch.dtype = torch.float32,
    compute_type: str | None = None,
) -> tuple[ModelFolder, Engine, str]:
    """Load a model folder with the engine that is asked for.

    Args:
        folder: A model folder, a finished run or a model on the Hub (``hf://user/model``).
        engine: ``pytorch``, ``compiled``, ``ctranslate2`` or ``auto``, which takes the fastest one that can run the
            model: on a CPU the compiled kernels, else CTranslate2, else PyTorch; elsewhere PyTorch.
        device: ``auto``, ``cpu`` or ``cuda``.
        dtype: Type of the weights, of PyTorch alone.
        compute_type: For the compiled kernels ``float32``, ``bfloat16`` or ``int8``; for CTranslate2 any of its own.

    Returns:
        The model folder, whose model has shapes alone (device ``meta``) where the engine keeps the weights in its own
        format; the engine; its name, and why it is not a faster one.

    Raises:
        UsageError: The engine is unknown, or a compute type is given for PyTorch, or a dtype for another engine.
        ConfigError: The engine asked for cannot run the model, or a value is unknown.
        CheckpointError: The folder cannot be read, or the cache folder not written.
        MissingExtraError: The package ``ctranslate2`` is not installed.
        LocantError: The Hub cannot be reached.
    """
    if engine not in ENGINES:
        raise UsageError(f"Unknown engine '{engine}'.{nearest(engine, ENGINES)} Known: {', '.join(ENGINES)}.")
    if engine == "pytorch" and compute_type:
        raise UsageError("A compute type goes with the engines compiled, ctranslate2 and auto; PyTorch has float32.")
    if engine != "pytorch" and dtype != torch.float32:
        raise UsageError(f"A dtype goes with the engine pytorch; the type of {engine} is said by compute_type.")
    chosen = choose_device(str(device))
    place = chosen if str(device) == "auto" else device

    def load(engine: str, reasons: Sequence[str] = ()) -> tuple[ModelFolder, Engine, str]:
        made: Engine
        if engine == "ctranslate2":
            from locant.translation.ctranslate2 import CTranslate2Engine  # the last resort: not worth its import

            found = load_model_folder(folder, device="meta")
            made = CTranslate2Engine(found, device=str(place), compute_type=compute_type or "default")
        else:
            found = load_model_folder(folder, device=place, dtype=dtype)
            compiled = engine == "compiled"
            made = CompiledEngine(found.model, compute_type or "float32") if compiled else PyTorchEngine(found.model)
        return found, made, f"{made.name}, because: {' '.join(reasons)}" if reasons else made.name

    if engine != "auto":
        return load(engine)
    reasons: list[str] = []
    if chosen.type != "cpu":
        reasons.append(f"the other engines are for CPUs, and the device is {chosen.type}")
    else:
        for fast in ("compiled", "ctranslate2") if compute_type in (None, *PRECISIONS) else ("ctranslate2",):
            try:
                return load(fast, reasons)
            except (ConfigError, MissingExtraError) as error:
                reasons.append(str(error))
    if compute_type:
        raise ConfigError(f"No engine can translate this model in {compute_type}. {' '.join(reasons)}")
    return load("pytorch", reasons)
