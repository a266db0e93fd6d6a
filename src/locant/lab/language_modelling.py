"""Language modelling of characters: quality against the length of the text, shorter and longer than trained."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from locant.errors import ConfigError, LocantError
from locant.lab.characters import Characters, nats_per_character, read_characters, scored_text, window_batches
from locant.lab.task import ComparisonTask, Lengths, Metric, MetricValue, Outcome, Trial, split_of
from locant.lab.training import OptimiserSettings, train_fairly
from locant.lab.variants import ModelSettings, beyond
from locant.models.language_model import LanguageModel, LanguageModelConfig


class CharacterTask(ComparisonTask):
    """What tasks on a text have in common; the defaults are nanoGPT's small setting for CPUs."""

    length_means: ClassVar[str] = "characters"

    text: Path | None = Field(None, description="UTF-8 text, .gz too; its last tenth is the test text")
    train_length: int = Field(64, ge=2, description="Characters read at once in training")
    test_lengths: Lengths = Field((), description="By default from half to eight times the trained length")
    stride: int | None = Field(None, ge=1, description="Of sliding windows; by default windows do not overlap")
    test_characters: int = Field(32768, ge=1, description="Characters of the test text that are scored, at most")
    batch: int = Field(12, ge=1, description="Windows in an update")
    model: ModelSettings = ModelSettings()
    optimiser: OptimiserSettings = OptimiserSettings(beta2=0.99, weight_decay=0.1, lowest_share=0.1)

    @property
    def metrics(self) -> dict[str, Metric]:
        """Likelihood in two units."""
        if self.stride is None:
            read = "read in windows of the length that do not overlap"
            left = "a character has half a window before it on average"
        else:
            read = f"read in sliding windows of the length whose starts are {self.stride} characters apart"
            left = (
                f"each window but the first scores its last {self.stride} characters only; windows no longer than "
                "that do not overlap"
            )
        text = f"up to {self.test_characters:,} characters of the test text, the same ones at every length"
        likelihood = f"mean negative log-likelihood of {text}, {read}: {left}"
        return {
            "perplexity": Metric("perplexity", f"Exponential of the {likelihood}.", False, digits=2),
            "nats": Metric("nats a character", "Logarithm of the perplexity, at the trained length.", False, digits=3),
        }

    def check(self) -> None:
        """Raise where the text is missing or too short."""
        self._scored(self._characters())

    @property
    def _lengths(self) -> tuple[int, ...]:
        return self.test_lengths or tuple(self.train_length * factor // 2 for factor in (1, 2, 4, 8, 16))

    @property
    def _strides(self) -> tuple[int, ...]:
        return tuple(min(length, self.stride or length) for length in self._lengths)

    def _characters(self) -> Characters:
        if self.text is None:
            raise ConfigError(f"The task '{self.name}' needs a text: give --text FILE.")
        characters = read_characters(self.text)
        if len(characters.train) <= self.train_length:
            raise ConfigError(f"The text {self.text} is too short to train on {self.train_length} characters at once.")
        return characters

    def _scored(self, characters: Characters) -> Tensor:
        assert self.text is not None
        return scored_text(characters.test, self._lengths, self._strides, self.test_characters, self.text)

    def _train(
        self, config: LanguageModelConfig, characters: Characters, trial: Trial
    ) -> tuple[LanguageModel, dict[str, Any]]:
        batches = window_batches(characters.train, self.train_length, self.batch, trial.seed)
        return train_fairly(config, batches, trial, self.optimiser)

    def _measure(self, model: LanguageModel, characters: Characters, condition: str = "") -> list[MetricValue]:
        """Return the likelihood at every length, or why there is none."""
        scored, found = self._scored(characters), []
        model.eval()
        for length, stride in zip(self._lengths, self._strides, strict=True):
            nats, reason = None, beyond(model, length)
            if not reason:
                try:
                    nats = nats_per_character(model, scored, length, stride)
                except LocantError as error:
                    reason = str(error)
            perplexity = None if nats is None else math.exp(min(nats, 700.0))
            found += [
                MetricValue(
                    metric=metric,
                    value=value,
                    reason=reason,
                    length=length,
                    split=split_of(length, self.train_length),
                    condition=condition,
                )
                for metric, value in (("perplexity", perplexity), ("nats", nats))
            ]
            if length == self.train_length:
                found.append(MetricValue(metric="nats", value=nats, condition=condition, reason=reason))
        return found


class LanguageModellingTask(CharacterTask):
    """A small language model of any text, one for each scheme."""

    name: ClassVar[str] = "language-modelling"
    title: ClassVar[str] = "Character-level language modelling"

    @classmethod
    def default_variants(cls) -> tuple[str, ...]:
        """Return one scheme of each kind."""
        return ("none", "sinusoidal", "learned", "rotary", "t5", "alibi")

    def run(self, trial: Trial) -> Outcome:
        """Train on windows of one length and read the test text in windows of all lengths."""
        characters = self._characters()
        longest = max(self.train_length, *self._lengths)
        size = characters.vocabulary_size
        config = self.model.config(trial.variant, size, trained=self.train_length, longest=longest)
        model, facts = self._train(config, characters, trial)
        return Outcome(measurements=tuple(self._measure(model, characters)), text=characters.digest, **facts)
