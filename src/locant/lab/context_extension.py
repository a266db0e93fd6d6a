"""Context extension: one trained rotary model under every frequency scaling, without and with a short fine-tune.

The shape of the tables of Chen et al. 2023, "Extending Context Window of Large Language Models via Position
Interpolation", and of Peng et al. 2023, "YaRN".
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field
from safetensors.torch import load_file

from locant.files import read_json, replacing_folder, write_json, write_tensors
from locant.lab.characters import Characters, window_batches
from locant.lab.language_modelling import CharacterTask
from locant.lab.task import MetricValue, Outcome, Trial
from locant.lab.training import train_language_model
from locant.lab.variants import require_known, split_variant
from locant.models.language_model import LanguageModel, LanguageModelConfig
from locant.positions.scaling import SCALINGS, scaling_from_options
from locant.training import Budget


class ContextExtensionTask(CharacterTask):
    """The same rotary model, trained once for each seed, extended in different ways."""

    name: ClassVar[str] = "context-extension"
    title: ClassVar[str] = "Extending the context of a rotary model"
    prepares: ClassVar[bool] = True

    factors: tuple[int, ...] = Field((2, 4, 8), min_length=1, description="Extensions of the trained length")
    fine_tune_steps: int = Field(100, ge=0, description="Updates at the extended length; 0 leaves the fine-tune out")
    fine_tune_rate: float = Field(2e-4, gt=0, description="Learning rate of the fine-tune at its peak")
    base: float = Field(10000.0, gt=1, description="Base of the rotary wavelengths")

    @classmethod
    def default_variants(cls) -> tuple[str, ...]:
        """Return no scaling, PI (``linear``), NTK-aware, dynamic NTK, NTK-by-parts and YaRN."""
        return ("none", "linear", "ntk", "dynamic", "ntk-by-parts", "yarn")

    def check_variant(self, variant: str) -> None:
        """Variants are the frequency scalings that follow from lengths, with options perhaps."""
        name, _ = split_variant(variant)
        known = [name for name in SCALINGS if self._lengths_of(name, 2) is not None]
        require_known(name, known, "frequency scaling")
        for factor in self.factors:
            scaling_from_options(name, self._options(variant, factor))

    @property
    def _lengths(self) -> tuple[int, ...]:
        return self.test_lengths or tuple(self.train_length * factor for factor in (1, *self.factors))

    def prepare(self, trial: Trial) -> None:
        """Train the rotary model of a seed."""
        characters = self._characters()
        model, facts = self._train(self._config(characters, "none", 1), characters, trial)
        with replacing_folder(trial.prepared) as folder:
            write_tensors(folder / "model.safetensors", dict(model.named_parameters()))
            write_json(folder / "trained.json", facts)

    def run(self, trial: Trial) -> Outcome:
        """Measure the model under one scaling by every factor, then tune it briefly and measure again."""
        characters, measurements, untuned = self._characters(), list[MetricValue](), list[MetricValue]()
        before: dict[str, Any] = {}
        for done, factor in enumerate(self.factors):
            options = self._options(trial.variant, factor)
            if done == 0 or options != before:  # else it is the same model, as long as it is not tuned
                untuned = self._measure(self._trained(characters, trial, factor), characters)
            measurements += [one.model_copy(update={"condition": f"{factor}x"}) for one in untuned]
            if self.fine_tune_steps:
                model = self._trained(characters, trial, factor)
                # On windows of the extended length, as many characters an update as in training.
                length, rows = self.train_length * factor, max(1, self.batch // factor)
                batches = window_batches(characters.train, length, rows, trial.seed)
                optimiser = self.optimiser.model_copy(update={"learning_rate": self.fine_tune_rate, "warmup_steps": 10})
                train_language_model(model, batches, Budget(steps=self.fine_tune_steps), optimiser, lambda _: None)
                measurements += self._measure(model, characters, f"{factor}x, fine-tuned")
            before = options
            trial.progress((done + 1) / len(self.factors))
        trained = read_json(trial.prepared / "trained.json")
        return Outcome(measurements=tuple(measurements), text=characters.digest, **trained)

    def _trained(self, characters: Characters, trial: Trial, factor: int) -> LanguageModel:
        model = LanguageModel(self._config(characters, trial.variant, factor)).to(trial.device)
        # The output matrix is the embedding's and stored once.
        weights = load_file(trial.prepared / "model.safetensors", device=str(trial.device))
        model.load_state_dict(weights, strict=False)
        return model

    def _lengths_of(self, name: str, factor: int) -> dict[str, Any] | None:
        """Return the options of a scaling that follow from trained and extended length, if it has such."""
        rotary_dim = self.model.head_features
        lengths = {"trained": self.train_length, "longest": self.train_length * factor}
        return SCALINGS[name].options_for_lengths(rotary_dim=rotary_dim, **lengths)

    def _options(self, variant: str, factor: int) -> dict[str, Any]:
        """Return all options of a scaling, those that the variant gives included."""
        name, given = split_variant(variant)
        return {**(self._lengths_of(name, factor) or {}), **given}

    def _config(self, characters: Characters, variant: str, factor: int) -> LanguageModelConfig:
        size, length = characters.vocabulary_size, self.train_length
        config = self.model.config("rotary", size, trained=length, longest=length * factor)
        scaling = {"kind": split_variant(variant)[0], **self._options(variant, factor)}
        return config.with_positions(position="rotary", position_options={"base": self.base, "scaling": scaling})
