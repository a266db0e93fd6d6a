"""The engines of translation: their protocol, PyTorch, and choosing one for a model folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from torch import Tensor

from locant.errors import ConfigError
from locant.models.decoding_settings import DecodingSettings
from locant.models.encoder_decoder import EncoderDecoder
from locant.runtime import explaining_memory
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
