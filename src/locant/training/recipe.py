"""Recipes: everything a run is made of, in one typed object, written as YAML; and what of it may change later.

A recipe is the same in Python (:class:`Recipe`), in a file, and on the command line as ``section.key=value``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, Self

import yaml
from pydantic import Field, model_validator

from locant.errors import ConfigError, DataError, nearest
from locant.files import write_text
from locant.models.architectures import ModelConfig, parse_model_config
from locant.models.config import PRESETS, TransformerConfig
from locant.models.decoding_settings import DecodingSettings
from locant.parsing import LARGEST_YAML, parse_yaml, read_bytes
from locant.settings import Settings
from locant.text import (
    BatchSettings,
    CleaningSettings,
    Corpus,
    CorpusSettings,
    MixtureCorpus,
    TextStore,
    TokenizerSettings,
    load_corpus,
)
from locant.text.samples import with_found_languages
from locant.text.store import Progress, no_progress
from locant.training.settings import FineTuningSettings, TrainingSettings

_logger = logging.getLogger("locant")

_OF_NEW_MODELS = ("model", "tokenizer", "decoding")
"""Sections that a model brings along when training starts from it."""
_SCHEDULE = ("optimizer", "learning_rate", "schedule", "warmup_steps")
"""Keys of ``training`` that suit a new model."""

CHANGEABLE = (
    "description",
    "corpus",
    "decoding",
    "training.steps",
    "training.minutes",
    "training.learning_rate",
    "training.warmup_steps",
    "training.schedule",
    "training.max_grad_norm",
    "training.gradient_accumulation_steps",
    "training.validate_every",
    "training.validation_sentences",
    "training.best",
    "training.patience",
    "training.average",
    "training.average_checkpoints",
    "training.log_every",
    "training.checkpoint_minutes",
    "training.device",
    "training.precision",
    "training.compile",
    "training.parallel",
)
"""The keys (or whole sections) that may change when a run goes on; ``docs/scale.md`` says what each changes."""


class Recipe(Settings):
    """A corpus, and how to make a translator of it.

    Attributes:
        description: One sentence for people.
        seed: Decides initial weights, dropout, the order of batches and subword sampling.
        corpus: Where the parallel text comes from.
        cleaning: Which pairs are left out of training.
        tokenizer: Subword vocabulary.
        max_tokens: Longest sentence to train on, in tokens EOS included.
        batches: Size of the batches.
        model: A ``preset`` and any field of :class:`~locant.models.TransformerConfig` but the vocabulary sizes;
            or ``architecture: rnn`` and fields of :class:`~locant.models.RNNConfig`.
        training: Objective, optimiser, schedule and budget.
        decoding: How the trained model translates by default.
        finetuning: A model to start from; ``model`` and ``tokenizer`` are then its own.
    """

    description: str = ""
    seed: int = Field(1, ge=0, lt=2**63)
    corpus: CorpusSettings
    cleaning: CleaningSettings = CleaningSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    max_tokens: int = Field(256, ge=2)
    batches: BatchSettings = BatchSettings()
    model: dict[str, Any] = Field(default_factory=lambda: {"preset": "small"})
    training: TrainingSettings = TrainingSettings()
    decoding: DecodingSettings = DecodingSettings()
    finetuning: FineTuningSettings | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        # What is left open is chosen to fit.
        asked = "max_tokens" in self.model_fields_set
        if asked and self.max_tokens > self.batches.tokens:
            raise ConfigError(
                f"max_tokens is {self.max_tokens}, so one sentence may exceed a whole batch of batches.tokens "
                f"{self.batches.tokens}; raise the one or lower the other"
            )
        if self.tokenizer.lowercase and isinstance(self.corpus, MixtureCorpus):
            for name, source in self.corpus.sources.items():
                if source.noise and source.noise.changes_case:
                    raise ConfigError(
                        f"corpus.sources.{name}.noise changes the case of text, but tokenizer.lowercase writes all "
                        "text in lower case; leave the one or the other out"
                    )
        if isinstance(self.corpus, MixtureCorpus) and self.corpus.stages and self.training.steps:
            ends = [stage.until for stage in self.corpus.stages if stage.until]
            if ends and ends[-1] >= self.training.steps:
                raise ConfigError(
                    f"the last of corpus.stages begins after {ends[-1]:g} updates, but training.steps is "
                    f"{self.training.steps}; let it begin earlier, or leave it out"
                )
        model = self.sized_model(100, 100)
        if self.training.compile and not isinstance(model, TransformerConfig):
            raise ConfigError(
                f"training.compile is for a Transformer; the architecture {model.architecture} runs step by step, so "
                "leave it out"
            )
        if self.training.guided_alignment and not isinstance(model, TransformerConfig):
            raise ConfigError(
                f"training.guided_alignment is for a Transformer; leave it out for architecture {model.architecture}"
            )
        noisy = isinstance(self.corpus, MixtureCorpus) and any(each.noise for each in self.corpus.sources.values())
        if self.training.guided_alignment and (noisy or self.tokenizer.sampling):
            other = "noise in corpus.sources" if noisy else "tokenizer.sampling"
            raise ConfigError(
                f"training.guided_alignment needs the same tokens in every epoch, and {other} changes them; leave the "
                "one or the other out"
            )
        limit = self.max_positions()
        if asked and limit is not None and limit < self.max_tokens:
            raise ConfigError(
                f"max_tokens is {self.max_tokens}, but max_positions is {limit} in the model's position_options; "
                "raise the one or lower the other"
            )
        return self

    def max_positions(self) -> int | None:
        """Return how many positions the model is to know; ``None`` without a limit in its options."""
        model = self.sized_model(100, 100)
        kinds: list[Any] = [model, *model.kinds.values()] if isinstance(model, TransformerConfig) else []
        return min(filter(None, (kind.position_options.get("max_positions") for kind in kinds)), default=None)

    def open_corpus(self, store: TextStore | None = None) -> Corpus:
        """Open the corpus, with the languages that fine-tuning gives it or its text shows; see ``load_corpus``."""
        corpus = self.with_languages(load_corpus(self.corpus, store))
        if self.finetuning:  # what its parent knows comes first
            return corpus
        return with_found_languages(corpus, self.corpus, tell=store is not None and store.reads)

    def with_languages(self, corpus: Corpus) -> Corpus:
        """Return a corpus with the languages that fine-tuning gives it, if it gives any."""
        finetuning = self.finetuning
        if finetuning is None or not (finetuning.source_language or finetuning.target_language):
            return corpus
        parts = (
            replace(
                part,
                source_language=finetuning.source_language or part.source_language,
                target_language=finetuning.target_language or part.target_language,
            )
            for part in corpus.parts
        )
        return replace(corpus, parts=tuple(parts))

    def sized_model(self, source_vocab_size: int, target_vocab_size: int) -> ModelConfig:
        """Return the model's configuration, given how large the vocabularies turned out."""
        fields = dict(self.model)
        for key in ("source_vocab_size", "target_vocab_size"):
            if key in fields:
                raise ConfigError(f"model.{key} follows from the tokenizer; set tokenizer.vocab_size instead")
        defaults: dict[str, Any] = {"share_embeddings": self.tokenizer.joint}
        if fields.get("architecture", "transformer") == "transformer" and "preset" not in fields:
            defaults |= PRESETS["small"]
        sizes = {"source_vocab_size": source_vocab_size, "target_vocab_size": target_vocab_size}
        return parse_model_config({**defaults, **fields, **sizes})


def builtin_recipes() -> dict[str, str]:
    """Return the names of the built-in recipes and their descriptions."""
    files = sorted(resources.files("locant.recipes").iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".yaml"): parse_yaml(file.read_text(encoding="utf-8"))["description"]
        for file in files
        if file.name.endswith(".yaml")
    }


def load_recipe(name: str | Path, overrides: Sequence[str] = (), *, changes: Mapping[str, Any] | None = None) -> Recipe:
    """Read a recipe.

    Args:
        name: A built-in recipe's name, or a YAML file. Relative paths in it are looked for beside it first, then where
            the program runs.
        overrides: ``section.key=value`` each; values are YAML.
        changes: The same as plain data: ``{"training": {"steps": 8000}}``.

    Raises:
        DataError: The file does not exist or cannot be read.
        ConfigError: No recipe has that name, it is not YAML, a key is unknown, or a value is wrong.
    """
    path = Path(name)
    own = path.suffix in (".yaml", ".yml")
    if own:
        data = _read_yaml(path)
        given = merged(apply_overrides({}, overrides), changes or {})
        if "folder" not in (given.get("corpus") or {}):
            data = _with_full_paths(data, path.parent)
    else:
        known = builtin_recipes()
        if str(name) not in known:
            raise ConfigError(
                f"There is no built-in recipe '{name}'.{nearest(str(name), known)} "
                f"Built-in: {', '.join(known)}. A recipe of your own is a file whose name ends in .yaml."
            )
        data = parse_yaml((resources.files("locant.recipes") / f"{name}.yaml").read_text(encoding="utf-8"))
    return Recipe.parse(with_changes(data, overrides, changes or {}, tell=own), f"recipe {name}")


def with_changes(
    data: dict[str, Any], overrides: Sequence[str], changes: Mapping[str, Any], *, tell: bool = True
) -> dict[str, Any]:
    """Return a recipe's plain data with overrides and changes.

    Where these say what to start from and the recipe does not, it was made for a new model: its model, tokenizer,
    decoding, optimiser and schedule are left out, while those that the overrides and changes name stay. A warning says
    so to its author, if that is wanted.
    """
    found = merged(apply_overrides(data, overrides), changes)
    if not found.get("finetuning") or data.get("finetuning"):
        return found
    rest = {section: value for section, value in data.items() if section not in _OF_NEW_MODELS}
    if isinstance(data.get("training"), dict):
        rest["training"] = {key: value for key, value in data["training"].items() if key not in _SCHEDULE}
    if tell and rest != data and os.environ.get("RANK", "0") == "0":
        _logger.warning(
            "The recipe has no section finetuning, so it was made for a new model: its model, tokenizer, decoding, "
            "optimiser and schedule are left out. Give what should hold as key=value, or write finetuning.parent into "
            "the recipe."
        )
    return merged(apply_overrides(rest, overrides), changes)


_FILE_KEYS = {
    **dict.fromkeys(("files", "tsv", "jsonl"), ("train", "valid", "test")),
    "huggingface": ("dataset",),
}
"""Keys that name files, by the kind of a corpus."""


def _with_full_paths(data: Any, folder: Path, *, are_files: bool = False) -> Any:
    """Return a recipe's plain data with the full paths of files that are in the folder of the recipe."""
    if isinstance(data, list):
        return [_with_full_paths(one, folder, are_files=are_files) for one in data]
    if isinstance(data, dict):
        kind, named = str(data.get("kind")), data.get("folder") not in (None, "", ".")
        keys = ("folder",) if named else _FILE_KEYS.get(kind, ("parent", "parent_test"))
        return {key: _with_full_paths(one, folder, are_files=are_files or key in keys) for key, one in data.items()}
    if are_files and isinstance(data, str) and data and (folder / data).exists():
        return str((folder / data).absolute())
    return data


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        data = parse_yaml(read_bytes(path, 4 * LARGEST_YAML).decode("utf-8")) or {}
    except FileNotFoundError:
        raise DataError(f"The recipe {path} does not exist.") from None
    except OSError as error:
        raise DataError(f"The recipe {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"The recipe {path} cannot be read: byte {error.start + 1} is not valid UTF-8.") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"The recipe {path} is not valid YAML: {error}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"The recipe {path} must be a mapping of sections such as corpus, model and training.")
    return data


def load_run_recipe(run: Path | str) -> Recipe:
    """Read the recipe of a run, made by this version of Locant or an earlier one.

    Raises:
        ConfigError: The recipe cannot be read, or was changed to something that cannot be.
    """
    path = Path(run) / "recipe.yaml"
    return Recipe.parse_saved(_read_yaml(path), f"recipe {path}")


def run_text_store(run: Path, progress: Progress | None = None) -> TextStore:
    """Return where a run keeps large texts while it is prepared, and what it knows of them later.

    Without ``progress``, which is told how far the reading is, only what is known already is of use.
    """
    return TextStore(run / "cache" / "text", progress=progress or no_progress, reads=progress is not None)


def apply_overrides(data: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return plain data, which stays as it is, with ``section.key=value`` overrides; others are a ConfigError."""
    for override in overrides:
        key, equals, value = override.partition("=")
        parts = key.split(".")
        if not equals or not all(parts):
            raise ConfigError(f"'{override}' is not of the form section.key=value, as in training.steps=8000.")
        try:
            parsed = parse_yaml(value)
        except yaml.YAMLError as error:
            raise ConfigError(
                f"The value of '{override}' is not valid YAML ({getattr(error, 'problem', error)}); text with signs of "
                "YAML belongs in quotation marks."
            ) from None
        data = _with_value(data, parts, parsed)
    return data


def _with_value(data: Any, keys: Sequence[str], value: Any) -> dict[str, Any]:
    """Return nested plain data in which some keys, one below the other, have a value."""
    first, *rest = keys
    section = dict(data) if isinstance(data, dict) else {}
    section[first] = _with_value(section.get(first), rest, value) if rest else value
    return section


def merged(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested plain data with changes; a change that is itself a mapping changes the keys that it names."""
    found = dict(data)
    for key, value in changes.items():
        old = found.get(key)
        found[key] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return found


def save_recipe(recipe: Recipe, path: Path) -> None:
    """Write a recipe as YAML, defaults included, so that later versions read it the same."""
    write_text(path, yaml.safe_dump(recipe.to_dict(), sort_keys=False, allow_unicode=True))


class Change(NamedTuple):
    """One key, with dots for sections, that is not what it was when the run began; ``None`` represents no value."""

    key: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.key} {_shown(self.now)} instead of {_shown(self.before)}"


def continued_recipe(saved: Recipe, wanted: Mapping[str, Any], run: str) -> tuple[Recipe, list[Change]]:
    """Return the recipe with which a run goes on, and what differs from before.

    ``wanted`` is what is given of the recipe now; what it does not name stays.

    Raises:
        ConfigError: A key is unknown, a value is wrong, or something differs that may not change.
    """
    before = saved.to_dict()
    recipe = Recipe.parse(merged(before, wanted), "recipe")
    changes = list(differences(before, recipe.to_dict()))
    for change in changes:
        if not any(f"{change.key}.".startswith(f"{key}.") for key in CHANGEABLE):
            may = ", ".join(key if "." in key else f"{key}.*" for key in CHANGEABLE if key != "description")
            raise ConfigError(
                f"The run {run} has begun with {change.key} {_shown(change.before)} and keeps it. Leave {change.key} "
                f"as it is, begin a new run, or start one from its weights by --from {run}. What may change when a "
                f"run goes on: {may}."
            )
    return recipe, changes


def differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> Iterator[Change]:
    """Yield the keys in which nested plain data differ."""
    for key in (*before, *(key for key in now if key not in before)):
        one, other, name = before.get(key), now.get(key), f"{prefix}{key}"
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from differences(one, other, f"{name}.")
        elif one != other:
            yield Change(name, one, other)


def _shown(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_shown, value)) or "nothing"
    return f"{value:g}" if isinstance(value, float) else str(value)
