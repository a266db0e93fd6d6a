"""From text to text: a model, its tokenizers and a search."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self, overload

import torch

from locant.errors import ConfigError, DataError
from locant.models.architectures import require_transformer
from locant.models.decoding_settings import DecodingSettings
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.hub import upload
from locant.models.model_card import write_card
from locant.models.model_folder import ModelFolder, check_vocabularies, load_model_folder, save_model_folder
from locant.text.languages import PLAIN, Prefixes
from locant.text.tokenizer import EOS, PAD, TokenizerPair
from locant.translation.compiled import CompiledTransformer
from locant.translation.search import Hypothesis, beam_search, greedy_search

# Sentences shorter than this fill the budget of a batch like ones of this length: their logits take as much room.
_SHORTEST_COUNTED = 8


@dataclass(frozen=True)
class Translation:
    """A translation and its score: log-probability (natural) divided by the length penalty."""

    text: str
    score: float


class Translator:
    """Translates plain text.

    Args:
        model: The model; translates on the device where it is, in evaluation mode whatever its own mode.
        tokenizers: Of the model's vocabularies.
        settings: How to search by default.
        source_language: ISO 639 code, or ``None`` when it is not known; of a model for several languages the one that
            it is told, in the model's own codes.
        target_language: Likewise.
        origin: The folder that the model came from; its records make the card of a saved model.

    Raises:
        CheckpointError: The tokenizers do not fit the model.

    Example::

        translator = Translator.from_pretrained("runs/de-en")
        translator.translate("Guten Morgen!")
        translator.translate(["Guten Morgen!", "Gute Nacht!"], beam=1)
    """

    def __init__(
        self,
        model: EncoderDecoder[Any],
        tokenizers: TokenizerPair,
        settings: DecodingSettings | None = None,
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        origin: Path | None = None,
    ) -> None:
        check_vocabularies(model.config, tokenizers)
        self.model = model
        self.tokenizers = tokenizers
        self.settings = settings or DecodingSettings()
        self.source_language = source_language
        self.target_language = target_language
        self.origin = origin
        self._compiled: CompiledTransformer | None = None

    def compile(self, precision: str = "float32") -> None:
        """Translate by Locant's C++ kernels on the CPU from now on, several times faster than by PyTorch.

        Args:
            precision: ``float32`` gives the same translations; ``bfloat16`` and ``int8`` are faster and may give
                others, ``int8`` more often.

        Raises:
            ConfigError: The kernels cannot express the model or the precision, there is no C++ compiler, or the model
                is not on the CPU.
        """
        device = self.model.target_embedding.weight.device
        if device.type != "cpu":
            raise ConfigError(f"Compiled translation is for the CPU, but the model is on {device}.")
        self._compiled = CompiledTransformer(require_transformer(self.model, "Compiled translation"), precision)

    def choose_languages(self, source: str | None, target: str | None) -> None:
        """Tell a model for several languages between which ones it translates from now on.

        Args:
            source: Code of the source language; ``None`` leaves it as it is.
            target: Code of the target language; ``None`` leaves it as it is.

        Raises:
            ConfigError: The model is for two languages alone, a language is unknown to it, or one is missing.
        """
        languages = self.tokenizers.languages
        if languages is None:
            raise ConfigError(
                f"The model translates between two languages alone ({self.source_language or 'unknown'} to "
                f"{self.target_language or 'unknown'}), so none can be chosen. Leave the languages out."
            )
        chosen = source or self.source_language, target or self.target_language
        languages.prefixes(*chosen)
        self.source_language, self.target_language = chosen

    @property
    def prefixes(self) -> Prefixes:
        """The ids that stand before the pieces of a source and of its translation.

        Raises:
            ConfigError: The model is for several languages and has not been told which.
        """
        languages = self.tokenizers.languages
        return languages.prefixes(self.source_language, self.target_language) if languages else PLAIN

    @property
    def engine(self) -> str:
        """What translates, and in which type of numbers."""
        return f"compiled kernels, {self._compiled.precision}" if self._compiled else "PyTorch"

    @classmethod
    def from_pretrained(
        cls, folder: Path | str, *, device: str | torch.device = "auto", dtype: torch.dtype = torch.float32
    ) -> Self:
        """Load a model folder, or a model on the Hub as ``hf://user/model``.

        Arguments and errors are those of :func:`~locant.models.model_folder.load_model_folder`.
        """
        return cls._of_folder(load_model_folder(folder, device=device, dtype=dtype))

    @classmethod
    def _of_folder(cls, found: ModelFolder) -> Self:
        return cls(
            found.model,
            found.tokenizers,
            found.decoding,
            source_language=found.source_language,
            target_language=found.target_language,
            origin=found.folder,
        )

    def save_pretrained(self, folder: Path | str) -> None:
        """Write a model folder with its card (see :mod:`locant.models.model_card`).

        Errors are those of :func:`~locant.models.model_folder.save_model_folder`.
        """
        save_model_folder(
            folder,
            self.model,
            self.tokenizers,
            self.settings,
            source_language=self.source_language,
            target_language=self.target_language,
        )
        write_card(Path(folder), self.origin)

    def push_to_hub(
        self,
        repository: str,
        *,
        private: bool = False,
        token: str | None = None,
        message: str = "Model trained with Locant",
    ) -> str:
        """Publish the model folder with its card on the Hugging Face Hub; needs the extra ``hub``.

        Args:
            repository: ``user/model``; created where there is none.
            private: Whether a new repository is private.
            token: Access token; by default that of ``hf auth login`` or ``HF_TOKEN``.
            message: What the commit says.

        Returns:
            The address of the repository.

        Raises:
            ConfigError: There is no token, or the Hub refuses the repository.
            LocantError: The Hub cannot be reached.
            MissingExtraError: The package ``huggingface_hub`` is not installed.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return upload(Path(folder), repository, private=private, token=token, message=message)

    @overload
    def translate(self, text: str, **overrides: Any) -> str: ...
    @overload
    def translate(self, text: Sequence[str], **overrides: Any) -> list[str]: ...
    def translate(self, text: str | Sequence[str], **overrides: Any) -> str | list[str]:
        """Translate a sentence or a list of sentences.

        Args:
            text: Sentences; one without text gives an empty translation.
            overrides: Fields of :class:`DecodingSettings` that differ from the translator's.

        Returns:
            The best translation of each sentence, in the order of the input; a string for a string.

        Raises:
            DataError: A sentence is too long; nothing has been translated then.
            ConfigError: An override is unknown or out of range, or the model must be told its languages.
        """
        settings = self._settings(overrides)
        if isinstance(text, str):
            return self._translate([text], settings)[0][0].text
        return [found[0].text for found in self._translate(text, settings)]

    def translate_n_best(self, sentences: Sequence[str], **overrides: Any) -> list[list[Translation]]:
        """Return the ``n_best`` translations of each sentence, best first.

        Arguments and errors are those of :meth:`translate`. There are fewer only where the model has no more, as for
        a sentence without text: its only translation is empty, with score 0.
        """
        return self._translate(sentences, self._settings(overrides))

    def stream(self, lines: Iterable[str], *, chunk: int = 64, **overrides: Any) -> Iterator[str]:
        """Translate lines as they come, such as those of standard input.

        Args:
            lines: Lines, with or without line ends.
            chunk: Lines read before they are translated together: 1 answers at once, more is faster.
            overrides: As in :meth:`translate`.

        Yields:
            The translation of each line.

        Raises:
            DataError: A line is too long; the chunks before it have been translated then.
            ConfigError: As in :meth:`translate`, or ``chunk`` is not positive.
        """
        settings = self._settings(overrides)
        if chunk < 1:
            raise ConfigError(f"A chunk must have at least 1 line; got {chunk}.")
        remaining = iter(lines)
        done = 0
        while sentences := list(islice(remaining, chunk)):
            for found in self._translate(sentences, settings, first=done + 1):
                yield found[0].text
            done += len(sentences)

    def _settings(self, overrides: dict[str, Any]) -> DecodingSettings:
        return (
            DecodingSettings.parse({**self.settings.to_dict(), **overrides}, "decoding") if overrides else self.settings
        )

    def _translate(
        self, sentences: Sequence[str], settings: DecodingSettings, *, first: int = 1
    ) -> list[list[Translation]]:
        """Translate sentences, numbered from ``first`` in messages."""
        marks = len(self.prefixes.source) + 1
        sources = self.tokenizers.source.encode(sentences)
        limit, reason = settings.max_source_length, "max_source_length"
        if self.model.max_positions and self.model.max_positions - marks < limit:
            limit, reason = self.model.max_positions - marks, "the positions that the model knows"
        for number, source in enumerate(sources, start=first):
            if len(source) > limit:
                raise DataError(
                    f"Sentence {number} has {len(source)} tokens, but at most {limit} can be translated ({reason}). "
                    "Split it into shorter sentences."
                )
        results = [[Translation("", 0.0)] for _ in sources]
        for index, found in self._hypotheses(sources, settings):
            texts = self.tokenizers.target.decode([hypothesis.tokens for hypothesis in found])
            results[index] = [
                Translation(text, hypothesis.score) for text, hypothesis in zip(texts, found, strict=True)
            ]
        return results

    def _hypotheses(
        self, sources: list[list[int]], settings: DecodingSettings
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield the index of each source that has tokens, in any order, and its hypotheses, best first."""
        for batch in _batches([len(source) for source in sources], settings):
            yield from zip(batch, self._search([sources[index] for index in batch], settings), strict=True)

    def _max_lengths(self, sources: list[list[int]], settings: DecodingSettings) -> list[int]:
        """Return the most tokens that the translation of each source may have, its end mark included."""
        lengths = [settings.max_target_length(len(ids)) for ids in sources]
        if self.model.max_positions is None:
            return lengths
        known = self.model.max_positions - len(self.prefixes.target) + 1
        return [min(length, known) for length in lengths]

    def _search(self, sources: list[list[int]], settings: DecodingSettings) -> list[list[Hypothesis]]:
        """Search for translations of source ids, as one batch."""
        device = self.model.target_embedding.weight.device
        before, prefix = self.prefixes
        # As in training, the end mark belongs to the source.
        rows = [[*before, *ids, EOS] for ids in sources]
        lengths = [len(row) for row in rows]
        source = torch.tensor([row + [PAD] * (max(lengths) - len(row)) for row in rows], device=device)
        source_lengths = torch.tensor(lengths, device=device)
        max_lengths = torch.tensor(self._max_lengths(sources, settings), device=device)
        model = self._compiled or self.model
        training = self.model.training
        self.model.eval()
        try:
            if settings.beam == 1:
                greedy = greedy_search(
                    model, source, source_lengths, max_lengths, alpha=settings.length_penalty, prefix=prefix
                )
                return [[hypothesis] for hypothesis in greedy]
            return beam_search(
                model,
                source,
                source_lengths,
                max_lengths,
                beam=settings.beam,
                alpha=settings.length_penalty,
                n_best=settings.n_best,
                prefix=prefix,
            )
        finally:
            self.model.train(training)


def _batches(lengths: list[int], settings: DecodingSettings) -> Iterator[list[int]]:
    """Yield the indices of each batch, longest sentences first; sentences without tokens are in none."""
    order = sorted((index for index, length in enumerate(lengths) if length), key=lambda index: -lengths[index])
    while order:
        width = max(lengths[order[0]] + 1, _SHORTEST_COUNTED)
        size = max(1, settings.batch_tokens // (width * settings.beam))
        yield order[:size]
        order = order[size:]
