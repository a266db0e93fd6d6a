"""The translator: text in, text out, by any engine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, overload

import torch

from locant.errors import ConfigError, MissingExtraError, UsageError, nearest
from locant.kernels.translation import PRECISIONS
from locant.languages import english_name, find_language, require_language
from locant.models.decoding_settings import DecodingSettings
from locant.models.encoder_decoder import AlignmentStep, EncoderDecoder
from locant.models.hub import upload
from locant.models.model_card import write_card
from locant.models.model_folder import check_vocabularies, load_model_folder, save_model_folder
from locant.runtime import choose_device
from locant.text.tokenizer_pair import Prefixes, TokenizerPair
from locant.translation.alignment import Alignment, align
from locant.translation.compiled import CompiledEngine
from locant.translation.engines import ENGINES, Engine, PyTorchEngine
from locant.translation.glossary import Glossary
from locant.translation.hypotheses import Translation, joined
from locant.translation.lines import OnLong, parts_of
from locant.translation.terms import place_terms


class Translator:
    """Translates plain text.

    Args:
        model: The model; one whose weights an engine keeps elsewhere is on the device ``meta``.
        tokenizers: Of the model's vocabularies.
        settings: How to search by default.
        engine: What computes; by default PyTorch, on the device where the model is.
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
        engine: Engine | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        origin: Path | None = None,
    ) -> None:
        check_vocabularies(model.config, tokenizers)
        self.model, self._positions = model, model.max_positions
        self.tokenizers = tokenizers
        self.settings = settings or DecodingSettings()
        self.source_language = source_language
        self.target_language = target_language
        self.origin = origin
        self.engine: Engine = engine or PyTorchEngine(model)

    def choose_languages(self, source: str | None, target: str | None) -> None:
        """Tell a model for several languages between which ones it translates from now on.

        Languages that the model is not told, as both of a model for two and the source of many from OPUS-MT, it names
        where the model does not know them itself, or only a group that they are of; documents are then cut into
        sentences by the rules of the source's, and BLEU has the words of the target's.

        Args:
            source: Code of the source language, in any form; ``None`` leaves it as it is.
            target: Code of the target language, likewise.

        Raises:
            ConfigError: A language is unknown to the model, is not the one that it has on that side, or is missing.
        """
        languages = self.tokenizers.languages
        chosen = {"source": self.source_language, "target": self.target_language}
        for side, code in (("source", source), ("target", target)):
            own = chosen[side]
            if code is None:
                continue
            if languages and (side == "target" or languages.takes_source):
                chosen[side] = find_language(code, languages.ids) or code
                continue
            require_language(code, f"The {side} language")
            if own is None or english_name(own) is None:  # a group of languages
                chosen[side] = code
            elif not find_language(code, [own]):
                raise ConfigError(f"The {side} language of the model is '{own}' alone, so it cannot be '{code}'.")
        if languages:
            languages.prefixes(chosen["source"] if languages.takes_source else None, chosen["target"])
        self.source_language, self.target_language = chosen["source"], chosen["target"]

    @property
    def prefixes(self) -> Prefixes:
        """The ids that are before the tokens of a source and of its translation.

        Raises:
            ConfigError: The model is for several languages and has not been told which.
        """
        return self.tokenizers.prefixes(self.source_language, self.target_language)

    @staticmethod
    def from_pretrained(
        folder: Path | str,
        *,
        engine: str = "pytorch",
        device: str | torch.device = "auto",
        dtype: torch.dtype = torch.float32,
        compute_type: str | None = None,
    ) -> Translator:
        """Load a model folder, a finished run, or a model on the Hub as ``hf://user/model``.

        Arguments and errors are those of :func:`~locant.translation.load_translator`.
        """
        return load_translator(folder, engine=engine, device=device, dtype=dtype, compute_type=compute_type)[0]

    def save_pretrained(self, folder: Path | str) -> None:
        """Write a model folder with its card (see :mod:`locant.models.model_card`).

        Errors are those of :func:`~locant.models.model_folder.save_model_folder`.
        """
        save_model_folder(
            folder,
            self._model_with_weights,
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
    def translate(self, text: str, *, glossary: Glossary | None = None, **overrides: Any) -> str: ...
    @overload
    def translate(self, text: Sequence[str], *, glossary: Glossary | None = None, **overrides: Any) -> list[str]: ...
    def translate(
        self, text: str | Sequence[str], *, glossary: Glossary | None = None, **overrides: Any
    ) -> str | list[str]:
        """Translate a sentence or a list of sentences.

        Args:
            text: Sentences; one without text gives an empty translation.
            glossary: Terms that the translations have to have; see :meth:`with_terms`.
            overrides: Fields of :class:`DecodingSettings` that differ from the translator's.

        Returns:
            The best translation of each sentence, in the order of the input; a string for a string.

        Raises:
            DataError: A sentence is too long; nothing has been translated then.
            ConfigError: An override is unknown or out of range, or the model must be told its languages.
        """
        settings = self.settings_with(**overrides)
        found, _ = self._translate([text] if isinstance(text, str) else text, settings, glossary)
        texts = [translations[0].text for translations in found]
        return texts[0] if isinstance(text, str) else texts

    def translate_n_best(
        self, sentences: Sequence[str], *, glossary: Glossary | None = None, **overrides: Any
    ) -> list[list[Translation]]:
        """Return the ``n_best`` translations of each sentence, best first.

        Arguments and errors are those of :meth:`translate`. There are fewer only where the model has no more, as for
        a sentence without text: its only translation is empty, with score 0.
        """
        return self._translate(sentences, self.settings_with(**overrides), glossary)[0]

    def stream(
        self,
        lines: Iterable[str],
        *,
        chunk: int = 64,
        on_long: OnLong = "error",
        say: Callable[[str], None] = lambda sentence: None,
        glossary: Glossary | None = None,
        **overrides: Any,
    ) -> Iterator[str]:
        """Translate lines as they come, in chunks of one size.

        Args:
            lines: Lines, with or without line ends.
            chunk: Lines read before they are translated together: 1 answers at once, more is faster.
            on_long: What becomes of a line that is too long; see :meth:`translate_chunks`.
            say: Likewise.
            glossary: As in :meth:`translate`, like the overrides.
            overrides: Fields of :class:`DecodingSettings`.

        Yields:
            The translation of each line.

        Raises:
            DataError: A line is too long and ``on_long`` is ``error``; the chunks before it have been translated then.
            ConfigError: As in :meth:`translate`, or ``chunk`` is not positive.
        """
        if chunk < 1:
            raise ConfigError(f"A chunk must have at least 1 line; got {chunk}.")
        remaining = iter(lines)
        chunks = iter(lambda: list(islice(remaining, chunk)), [])
        for found in self.translate_chunks(chunks, on_long=on_long, say=say, glossary=glossary, **overrides):
            yield from (translations[0].text for translations in found)

    def translate_chunks(
        self,
        chunks: Iterable[Sequence[str]],
        *,
        on_long: OnLong = "error",
        say: Callable[[str], None] = lambda sentence: None,
        glossary: Glossary | None = None,
        **overrides: Any,
    ) -> Iterator[list[list[Translation]]]:
        """Translate a text that does not fit into memory, or that is not all there yet.

        The translations are the same however the lines are cut into chunks, those that are drawn at random included.

        Args:
            chunks: Sentences that are translated together, sorted by length.
            on_long: What becomes of a sentence that is too long: ``error`` raises; ``split`` cuts it into parts, at the
                end of sentences and clauses where that is possible, which are translated one by one; ``empty`` gives an
                empty translation.
            say: Called with a line about each sentence that is too long and is not translated as a whole.
            glossary: As in :meth:`translate`, like the overrides.
            overrides: Fields of :class:`DecodingSettings`.

        Yields:
            Of each chunk the ``n_best`` translations of each sentence, best first.

        Raises:
            DataError: A sentence is too long and ``on_long`` is ``error``; the chunks before it have been translated.
            ConfigError: As in :meth:`translate`.
        """
        settings = self.settings_with(**overrides)
        first, rows = 1, 0
        for sentences in chunks:
            found, translated = self._translate(
                sentences, settings.continued(rows), glossary, first=first, on_long=on_long, say=say
            )
            yield found
            first += len(sentences)
            rows += translated

    def align(
        self,
        sources: Sequence[str],
        translations: Sequence[str],
        *,
        layer: int | None = None,
        step: AlignmentStep | None = None,
        prefixes: Prefixes | None = None,
        say: Callable[[str], None] | None = None,
        **overrides: Any,
    ) -> list[Alignment]:
        """Say which words of translations come from which words of their sources, by the model's attention.

        The model reads source and translation in one pass, whatever engine has translated and whoever has written the
        translation. A subword of the translation is linked to the subword of the source that is attended to most for
        it, in the mean of the heads of one layer; words are linked where any of their subwords are. Which layer and
        step :attr:`locant.models.Transformer.alignment_attention` says.

        Args:
            sources: Sentences.
            translations: The translation of each; one without text, or of a source without text, has no links.
            layer: The decoder layer whose attention is taken, from 0; ``None`` for the one that does it best.
            step: Whether the attention is that of the step that ``predicts`` a subword or that ``reads`` it; ``None``
                for what does it best.
            prefixes: What tells the model its languages; by default those that were chosen.
            say: Called with a line about each pair that is too long, which has no links then; ``None`` makes it an
                error.
            overrides: As in :meth:`translate`; ``batch_tokens`` and the limits of lengths count.

        Raises:
            DataError: There are not as many translations as sources, or a pair is too long or no text.
            ConfigError: There is no such layer or step, an override is unknown or out of range, or the model must be
                told its languages.

        Example::

            (alignment,) = translator.align(["Guten Morgen!"], ["Good morning!"])
            alignment.word_pairs  # (("Guten", "Good"), ("Morgen!", "morning!"))
        """
        settings, prefixes = self.settings_with(**overrides), prefixes or self.prefixes
        limit, reason = self._longest_source(settings, prefixes)
        longest, known = settings.max_target_length(limit), self._positions
        return align(
            self._model_with_weights,
            self.tokenizers,
            prefixes,
            sources,
            translations,
            limits=(limit, min(longest, known - len(prefixes.target)) if known else longest, reason),
            batch_tokens=settings.batch_tokens,
            layer=layer,
            step=step,
            say=say,
        )

    def with_terms(
        self,
        glossary: Glossary,
        sources: Sequence[str],
        translations: Sequence[str],
        *,
        prefixes: Prefixes | None = None,
        **overrides: Any,
    ) -> list[str]:
        """Return translations that have the terms of their sources, whoever has translated.

        A term that is not there takes the place of the words that :meth:`align` links it with, or is beside those
        of its neighbours; a pair that lacks none stays as it is.

        Args:
            glossary: The terms.
            sources: Sentences.
            translations: The translation of each.
            prefixes: What tells the model its languages; by default those that were chosen.
            overrides: As in :meth:`align`.

        Example::

            translator.with_terms(Glossary({"Guten Morgen": "Top of the morning"}), ["Guten Morgen!"], ["Hello!"])
        """
        aligned = partial(self.align, prefixes=prefixes, say=lambda sentence: None, **overrides)
        return place_terms(glossary, sources, translations, aligned)

    @cached_property
    def _model_with_weights(self) -> EncoderDecoder[Any]:
        """The model; read from its folder where the engine keeps the weights in its own format."""
        if self.model.output.weight.is_meta and self.origin is not None:
            return load_model_folder(self.origin, device="cpu").model
        return self.model

    def longest_source(self, *, prefixes: Prefixes | None = None, **overrides: Any) -> int:
        """Return the most tokens that a sentence to be translated may have.

        Args:
            prefixes: What tells the model its languages; by default those that were chosen.
            overrides: As in :meth:`translate`.
        """
        return self._longest_source(self.settings_with(**overrides), prefixes or self.prefixes)[0]

    def _longest_source(self, settings: DecodingSettings, prefixes: Prefixes) -> tuple[int, str]:
        """Return the most tokens of a source sentence, and what sets the limit."""
        known = self._positions
        own = len(prefixes.source) + 1
        if known and known - own < settings.max_source_length:
            return known - own, "the positions that the model knows"
        return settings.max_source_length, "max_source_length"

    def search_input(
        self, tokens: Sequence[int], settings: DecodingSettings, prefixes: Prefixes | None = None
    ) -> tuple[list[int], int]:
        """Return what an engine is given of a sentence.

        Args:
            tokens: Of the sentence, by the source tokenizer.
            settings: How to search.
            prefixes: What tells the model its languages; by default those that were chosen.

        Returns:
            The ids that the encoder reads, EOS included, and the most target tokens, EOS included.
        """
        before, prefix = prefixes or self.prefixes
        most, known = settings.max_target_length(len(tokens)), self._positions
        # As in training, EOS belongs to the source.
        return [*before, *tokens, *self.tokenizers.source_end], min(most, known - len(prefix) + 1) if known else most

    def settings_with(self, **overrides: Any) -> DecodingSettings:
        """Return the translator's decoding settings with some that differ; errors as in :meth:`translate`."""
        changed = {**self.settings.to_dict(), **overrides}
        return DecodingSettings.parse(changed, "decoding") if overrides else self.settings

    def _translate(
        self,
        sentences: Sequence[str],
        settings: DecodingSettings,
        glossary: Glossary | None = None,
        *,
        first: int = 1,
        on_long: OnLong = "error",
        say: Callable[[str], None] = lambda sentence: None,
    ) -> tuple[list[list[Translation]], int]:
        """Translate sentences, numbered from ``first`` in messages; also return how many sources the engine had."""
        prefixes = self.prefixes
        most, reason = self._longest_source(settings, prefixes)
        parts = parts_of(
            sentences,
            self.tokenizers.source.encode,
            most=most,
            reason=reason,
            on_long=on_long,
            say=say,
            whole=glossary.spans if glossary else None,
            first=first,
        )
        sources = [part for of_sentence in parts for part in of_sentence]
        given = [self.search_input(ids, settings, prefixes) for _, ids in sources]
        rows, max_lengths = [row for row, _ in given], [longest for _, longest in given]
        results: list[list[Translation]] = [[] for _ in sources]
        for place, found in self.engine.translate(rows, max_lengths, prefixes.target, settings):
            texts = self.tokenizers.target.decode([hypothesis.tokens for hypothesis in found])
            results[place] = [
                Translation(text, each.score, each.log_probability, min(len(each.tokens) + 1, max_lengths[place]))
                for text, each in zip(texts, found, strict=True)
            ]
        if glossary:
            of_each = [text for (text, _), found in zip(sources, results, strict=True) for _ in found]
            written = [translation.text for found in results for translation in found]
            texts_with_terms = iter(self.with_terms(glossary, of_each, written, **settings.to_dict()))
            results = [[replace(each, text=next(texts_with_terms)) for each in found] for found in results]
        remaining = iter(results)
        return [joined(list(islice(remaining, len(each))), settings) for each in parts], len(sources)


def load_translator(
    folder: Path | str,
    *,
    engine: str = "pytorch",
    device: str | torch.device = "auto",
    dtype: torch.dtype = torch.float32,
    compute_type: str | None = None,
) -> tuple[Translator, str]:
    """Load a translator with the engine that is asked for.

    Args:
        folder: A model folder, a finished run or a model on the Hub (``hf://user/model``).
        engine: ``pytorch``, ``compiled``, ``ctranslate2`` or ``auto``, which takes the fastest one that can run the
            model: on a CPU the compiled kernels, else CTranslate2, else PyTorch; elsewhere PyTorch.
        device: ``auto``, ``cpu`` or ``cuda``.
        dtype: Type of the weights, of PyTorch alone.
        compute_type: For the compiled kernels ``float32``, ``bfloat16`` or ``int8``; for CTranslate2 any of its own.

    Returns:
        The translator, and the name of its engine; where that was not the first choice, with the reasons.

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

    def load(engine: str, reasons: Sequence[str] = ()) -> tuple[Translator, str]:
        made: Engine
        if engine == "ctranslate2":
            from locant.translation.ctranslate2 import CTranslate2Engine  # the last resort: not worth its import

            found = load_model_folder(folder, device="meta")
            made = CTranslate2Engine(found, device=str(place), compute_type=compute_type or "default")
        else:
            found = load_model_folder(folder, device=place, dtype=dtype)
            compiled = engine == "compiled"
            made = CompiledEngine(found.model, compute_type or "float32") if compiled else PyTorchEngine(found.model)
        translator = Translator(
            found.model,
            found.tokenizers,
            found.decoding,
            engine=made,
            source_language=found.source_language,
            target_language=found.target_language,
            origin=found.folder,
        )
        return translator, f"{made.name}, because: {' '.join(reasons)}" if reasons else made.name

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
