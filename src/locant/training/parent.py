"""Parents of fine-tuned models: opened, and the recipe that fits them."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locant.errors import CheckpointError, ConfigError
from locant.files import read_json
from locant.interop import import_model
from locant.languages import english_name
from locant.models.config import PRESETS
from locant.models.hub import local_folder
from locant.models.model_folder import ModelFolder, load_model_folder
from locant.text import UNK, Corpus, TokenizerSettings
from locant.training.checkpoint import Checkpoint, find_newest_checkpoint
from locant.training.recipe import Recipe, load_run_recipe
from locant.training.settings import FineTuningSettings

_logger = logging.getLogger("locant")

_DROPOUTS = ("dropout", "attention_dropout", "feed_forward_dropout")
"""What of the model may differ from the parent: it changes how it learns, not what it is."""


@dataclass(frozen=True)
class Parent:
    """A model to start from.

    Attributes:
        name: As the user named it.
        found: Model (on the CPU, in float32), tokenizers, search settings and languages.
        recipe: Of its run, or ``None`` where it is no run.
        checkpoint: The run's newest one, where training goes on with its optimiser.
    """

    name: str
    found: ModelFolder
    recipe: Recipe | None
    checkpoint: Checkpoint | None = None


def open_parent(settings: FineTuningSettings) -> Parent:
    """Read the model to start from; one in Hugging Face's format is imported.

    Raises:
        CheckpointError: There is no such folder, it holds no model, or a file of it is damaged.
        ConfigError: It is a kind of model that cannot be imported, or has no optimiser to keep.
        LocantError: The Hub cannot be reached.
        MissingExtraError: A package is not installed.
    """
    folder = local_folder(settings.parent, other_formats=True)
    if not folder.is_dir():
        said = f"{folder} is a file, no folder" if folder.exists() else f"There is no folder {folder}"
        raise CheckpointError(
            f"{said} to start from. Name a run, a model folder, a Marian, M2M-100 or NLLB folder, "
            "or a model on the Hugging Face Hub as hf://user/model."
        )
    run = (folder / "recipe.yaml").is_file()
    if not (folder / "config.json").is_file():
        why = "it has not trained long enough to save its model" if run else "it holds no config.json"
        raise CheckpointError(f"There is no model to start from in {folder}: {why}.")
    config = read_json(folder / "config.json")
    if isinstance(config, dict) and config.get("format") == "locant":
        found = load_model_folder(folder, device="cpu")
    else:
        with tempfile.TemporaryDirectory(prefix="locant-") as work:
            for note in import_model(folder, Path(work) / "model"):
                _logger.warning(note)
            found = load_model_folder(Path(work) / "model", device="cpu")
    if not found.tokenizers.ends_source:
        raise ConfigError(
            f"The model in {folder} reads sources without a token at their end, and training always writes one. It "
            "translates, but cannot be trained further."
        )
    recipe = load_run_recipe(folder) if run else None
    checkpoint = _newest_checkpoint(folder, found, recipe) if settings.keep_optimizer else None
    return Parent(settings.parent, found, recipe, checkpoint)


def _newest_checkpoint(folder: Path, found: ModelFolder, recipe: Recipe | None) -> Checkpoint:
    stored = find_newest_checkpoint(folder) if recipe else None
    if stored is None:
        raise ConfigError(
            f"finetuning.keep_optimizer needs a run with its checkpoints, but {folder} has none. Leave it out, so that "
            "the optimiser starts anew."
        )
    checkpoint = stored.read()
    names = {name: weight.shape for name, weight in checkpoint.weights.items()}
    if names != {name: weight.shape for name, weight in found.model.named_parameters()}:
        raise ConfigError(
            f"finetuning.keep_optimizer: {folder} trained adapters beside its model, whose optimiser cannot go on with "
            "the model alone. Leave it out."
        )
    return checkpoint


def fitted_recipe(recipe: Recipe, parent: Parent, corpus: Corpus) -> Recipe:
    """Return a recipe that has the parent's model and tokenizer, and a schedule for fine-tuning where it names none.

    Raises:
        ConfigError: The recipe asks for another model or tokenizer.
    """
    assert recipe.finetuning is not None
    given = recipe.model_dump(mode="json", exclude_unset=True)
    found = parent.found
    finetuning = dict(given["finetuning"])
    for side in ("source_language", "target_language"):
        if not any(getattr(part, side) for part in corpus.parts):
            finetuning[side] = getattr(found, side)
    if parent.recipe and "max_tokens" not in given and "batches" not in given:
        given["max_tokens"] = min(parent.recipe.max_tokens, recipe.batches.tokens)
    training, model = given.get("training", {}), dict(given.get("model", {}))
    preset = model.pop("preset", None)
    shape = {key: value for key, value in PRESETS.get(preset, {}).items() if key not in _DROPOUTS}
    sizes = ("source_vocab_size", "target_vocab_size")
    own = {key: value for key, value in found.model.config.to_dict().items() if key not in sizes}
    if parent.recipe is not None:
        tokenizer = parent.recipe.tokenizer.to_dict() | {"sampling": 0.0}
    else:  # an imported model
        tokenizer = TokenizerSettings(
            algorithm=found.tokenizers.target.algorithm,
            vocab_size=max(8, found.tokenizers.target.vocab_size),
            joint=found.tokenizers.joint or found.model.config.share_embeddings,
            lowercase=found.tokenizers.source.lowercase,
        ).to_dict()
    if any(own.get(key) != value for key, value in shape.items()):
        model["preset"] = preset  # is refused
    data = {
        **given,
        "finetuning": finetuning,
        "model": _kept("model", own, model, parent, may_change=_DROPOUTS),
        "tokenizer": _kept("tokenizer", tokenizer, given.get("tokenizer", {}), parent, may_change=("sampling",)),
        "training": {**_schedule(recipe, parent, training), **training},
        "decoding": {**found.decoding.to_dict(), **given.get("decoding", {})},
    }
    return Recipe.parse(data, "recipe")


def _kept(
    section: str, own: dict[str, Any], given: Mapping[str, Any], parent: Parent, *, may_change: Sequence[str]
) -> dict[str, Any]:
    """Return the parent's own settings of a section, with those of the given ones that may change.

    Raises:
        ConfigError: Another one differs.
    """
    for key, value in given.items():
        if key in may_change and key in own:
            own[key] = value
        elif own.get(key) != value:
            raise ConfigError(
                f"{section}.{key} is {value}, and that of the parent {parent.name} is {own.get(key, 'another')}. A "
                f"fine-tuned model keeps its parent's {section} but for {', '.join(may_change)}: leave {section}.{key} "
                "out, or train a new model."
            )
    return own


def _schedule(recipe: Recipe, parent: Parent, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fine-tuning defaults of the schedule.

    A model that Muon trained goes on with it, unless adapters are trained; others with AdamW. The peak is a factor over
    the model's width ``E``: for AdamW 0.1 (5e-4 for a width of 192, 1e-4 for 1024), ten times as much for adapters
    (which begin at zero, and are usually trained so), at most 2e-3. A new Muon's stays open, for it follows the passes
    over the text; one that goes on or has no warm-up has 0.5, at most 4e-3. After 100 updates, or a tenth of fewer
    than 1,000, it is reached; an optimiser that goes on needs no warm-up. Then it falls to zero as a cosine.

    Raises:
        ConfigError: The optimiser that is to go on is another one.
    """
    assert recipe.finetuning is not None
    steps, lora = given.get("steps"), recipe.finetuning.lora
    trained_by = parent.recipe.training.optimizer if parent.recipe else None
    optimizer = given.get("optimizer") or ("muon" if trained_by == "muon" and not lora else "adamw")
    found: dict[str, Any] = {"optimizer": optimizer, "warmup_steps": min(100, steps // 10) if steps else 100}
    at_once = parent.checkpoint or not given.get("warmup_steps", found["warmup_steps"])
    if lora or optimizer != "muon" or at_once:
        factor, largest = (1.0, 2e-3) if lora else (0.5, 4e-3) if optimizer == "muon" else (0.1, 2e-3)
        found["learning_rate"] = min(largest, factor / parent.found.model.config.d_model)
    if parent.checkpoint and parent.recipe:
        own = trained_by
        if given.get("optimizer", own) != own:
            raise ConfigError(
                f"training.optimizer is {given['optimizer']}, but finetuning.keep_optimizer goes on with the parent's, "
                f"which is {own}. Leave one of the two out."
            )
        if own == "schedule_free" and recipe.finetuning.layer_decay != 1:
            raise ConfigError(
                "A schedule-free optimiser that goes on cannot change finetuning.layer_decay; leave it out."
            )
        found |= {"optimizer": own, "warmup_steps": 0}
    free = given.get("optimizer", found["optimizer"]) == "schedule_free"
    return {**found, "schedule": "constant" if free else "cosine"}


def new_tags(corpus: Corpus, parent: Parent) -> list[str]:
    """Return the tags of a corpus that the parent's vocabulary lacks."""
    source = parent.found.tokenizers.source
    return [tag for tag in corpus.tags if source.id(tag) == UNK]


def require_fitting(corpus: Corpus, parent: Parent, settings: FineTuningSettings) -> None:
    """Raise ConfigError where the parent cannot be told the corpus' languages or tags, or has other languages."""
    found = parent.found
    known = found.tokenizers.languages
    if corpus.layout and (known is None or known.layout != corpus.layout):
        has = f"the layout '{known.layout}'" if known else "none"
        raise ConfigError(
            f"The corpus {corpus.name} has several languages with tokens in the layout '{corpus.layout}', but the "
            f"parent {parent.name} has {has}. "
            + (f"Set corpus.layout={known.layout}." if known else "Start from a model for several languages.")
        )
    for tag in corpus.tags:
        if known and found.tokenizers.source.id(tag) in known.ids.values():
            raise ConfigError(f"The tag '{tag}' is the token of a language of {parent.name}; choose another.")
    new = new_tags(corpus, parent)
    if new and settings.keep_optimizer:
        raise ConfigError(
            f"The tag '{new[0]}' is not in the vocabulary of {parent.name}, and finetuning.keep_optimizer goes on with "
            "that model's own weights, so none can be added. Leave one of the two out."
        )
    for part in corpus.parts:
        if known:
            for side in ("source", "target") if known.takes_source else ("target",):
                if getattr(part, f"{side}_language") is None:
                    raise ConfigError(
                        f"{parent.name} translates between several languages and must be told the {side} language of "
                        f"the corpus '{part.name}', by {side}_language of the corpus, or by "
                        f"finetuning.{side}_language in the parent's own codes. Known: {', '.join(known.ids)}."
                    )
            try:
                found.tokenizers.prefixes(part.source_language, part.target_language)
            except ConfigError as error:
                raise ConfigError(
                    f"The corpus '{part.name}' does not fit the parent {parent.name}: {error} A corpus says its "
                    "languages in source_language and target_language; finetuning.source_language and "
                    "finetuning.target_language say them in the parent's own codes."
                ) from None
            continue
        for side, ours, theirs in (
            ("source", part.source_language, found.source_language),
            ("target", part.target_language, found.target_language),
        ):
            # As far as that can be told; the code of a group may be of any language.
            names = {english_name(code) if code else None for code in (ours, theirs)}
            if len(names) == 2 and None not in names and not settings.other_languages:
                raise ConfigError(
                    f"The parent {parent.name} translates {found.source_language} into {found.target_language}, but "
                    f"the {side} language of the corpus '{part.name}' is {ours}. Start from a model of these "
                    "languages, or set finetuning.other_languages=true to teach this one others."
                )
