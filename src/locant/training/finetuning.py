"""Fine-tuning: the parent is opened, the recipe is fitted to it, and what the run takes over is kept in its folder.

A run is resumed without its parent.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from locant.errors import CheckpointError, ConfigError
from locant.files import read_json
from locant.interop import import_model
from locant.languages import english_name
from locant.models.architectures import build_model
from locant.models.config import PRESETS
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.hub import local_folder
from locant.models.model_folder import ModelFolder, load_model_folder
from locant.text import UNK, Corpus, TokenizerPair, TokenizerSettings
from locant.text.sentencepiece_model import model_proto
from locant.text.vocabulary import ExtendedTokenizers, Pairs, extend_tokenizers
from locant.training import parallel
from locant.training.before_after import measure_before, named_test
from locant.training.checkpoint import (
    Checkpoint,
    Progress,
    average_in,
    find_newest_checkpoint,
    read_about,
    read_state,
    write_state,
)
from locant.training.recipe import Recipe, load_run_recipe
from locant.training.settings import FineTuningSettings
from locant.training.trained_parts import add_adapters, freeze, merged_weights, part_parameters, require_peft

_logger = logging.getLogger("locant")

START = Path("cache") / "start"
"""Where the weights are that a run begins with, and the optimiser that it keeps."""

_LOOKED_AT = 2000
"""Sentence pairs that say whether the parent's vocabulary suits the text."""
_MOST_UNKNOWN = 0.2
"""Share of unknown tokens from which on a text cannot be learned."""
_DROPOUTS = ("dropout", "attention_dropout", "feed_forward_dropout")
"""What of the model may differ from the parent: it changes how it learns, not what it is."""


@dataclass(frozen=True)
class Parent:
    """A model to start from, named as by the user: on the CPU, in float32, with its tokenizers and search settings.

    It has the recipe of its run, if it is one, and its newest checkpoint, where training goes on with its optimiser.
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
    if not settings.keep_optimizer:
        return Parent(settings.parent, found, recipe)
    stored = find_newest_checkpoint(folder) if recipe else None
    if stored is None:
        raise ConfigError(
            f"finetuning.keep_optimizer needs a run with its checkpoints, but {folder} has none. Leave it out, so that "
            "the optimiser starts again."
        )
    checkpoint = stored.read()
    names = {name: weight.shape for name, weight in checkpoint.weights.items()}
    if names != {name: weight.shape for name, weight in found.model.named_parameters()}:
        raise ConfigError(
            f"finetuning.keep_optimizer: {folder} trained adapters beside its model, whose optimiser cannot go on with "
            "the model alone. Leave it out."
        )
    return Parent(settings.parent, found, recipe, checkpoint)


class FineTuning:
    """The start of a run from another model's weights, on every process of the run.

    Args:
        recipe: With a section ``finetuning``.
        corpus: Its corpus.
        folder: The run folder.
        resume: Whether the run has begun already; its parent is then not looked at again.

    Attributes:
        recipe: The same with the parent's model and tokenizer, and with a schedule where it named none.
        corpus: The same with the parent's languages where it named none.

    Raises:
        ConfigError: The recipe asks for another model than the parent's, or for parts that it does not have.
        CheckpointError: The parent cannot be read.
        DataError: The parent's test set that the settings name cannot be read.
        MissingExtraError: A package is not installed.
    """

    def __init__(self, recipe: Recipe, corpus: Corpus, folder: Path, *, resume: bool) -> None:
        assert recipe.finetuning is not None
        self.settings: FineTuningSettings = recipe.finetuning
        self.folder, self.resume = folder, resume
        self._parent: Parent | None = None  # on the first process of a run that begins
        self._extended: ExtendedTokenizers | None = None
        self._new_tags: list[str] = []
        if self.settings.lora:
            require_peft()
        self.recipe = recipe if resume else parallel.from_first_process(lambda: self._open(recipe, corpus))
        assert self.recipe.finetuning is not None
        self.settings = self.recipe.finetuning
        self.corpus = self.recipe.with_languages(corpus)

    def _open(self, recipe: Recipe, corpus: Corpus) -> Recipe:
        """Return the recipe that fits the parent; on the first process."""
        self._parent = open_parent(self.settings)
        source = self._parent.found.tokenizers.source
        self._new_tags = [tag for tag in corpus.tags if source.id(tag) == UNK]
        fitted = fitted_recipe(recipe, self._parent, corpus)
        _require_fitting(fitted.with_languages(corpus), self._parent, self.settings)
        if not self.settings.extend_vocabulary:
            self._require_known(self._parent.found.tokenizers, corpus.train)
        named_test(self.settings)  # or it is refused before any work
        if self._new_tags:
            model_proto(source.model, extending=True)  # or it says what is missing
        # Parts that do not exist are found now, before the text is prepared.
        config = self._parent.found.model.config
        with torch.device("meta"):
            model = build_model(config)
        self._choose(fitted, model, grows=bool(self._new_tags or self.settings.extend_vocabulary))
        if self._new_tags and not model.get_parameter("source_embedding.weight").requires_grad:
            raise ConfigError(
                f"The tag '{self._new_tags[0]}' is new to {self._parent.name}, and is learned in the embeddings of the "
                "source, which finetuning.freeze or train_only leaves as they are. Train the embeddings, or leave the "
                "tag out."
            )
        return fitted

    @property
    def parent_tokenizers(self) -> TokenizerPair | None:
        """The parent's tokenizers, on the first process of a run that begins."""
        return self._parent.found.tokenizers if self._parent else None

    def tokenizers(self, text: Pairs) -> TokenizerPair:
        """Return the parent's tokenizers, with new subwords of a text if that is wanted, and with new tags.

        On the first process. Raises ConfigError where the parent's vocabulary does not have the characters of the text.
        """
        assert self._parent is not None
        pair, shared = self._parent.found.tokenizers, self._parent.found.model.config.share_embeddings
        if self.settings.extend_vocabulary or self._new_tags:
            count = self.settings.extend_vocabulary
            self._extended = extend_tokenizers(pair, text, count, shared=shared, tags=self._new_tags)
            pair = self._extended.pair
        self._require_known(pair, text)
        return pair

    def keep_start(self) -> None:
        """Write what the run begins with and what the parent says into the run folder; on the first process."""
        assert self._parent is not None
        measure_before(self.folder, self._parent, self.corpus, self.settings)
        model = self._parent.found.model
        if self._extended:
            model = with_more_tokens(self._parent.found, self._extended)
        checkpoint = self._parent.checkpoint
        weights = checkpoint.weights if checkpoint else dict(model.named_parameters())
        states = {} if checkpoint is None else checkpoint.optimizer
        kept = {name: state for name, state in states.items() if not name.startswith("random/")}
        about = {
            "parent": self._parent.name,
            "grown": self._extended is not None,
            "evaluated": checkpoint is None or checkpoint.evaluated,
            "averaged": checkpoint.progress.averaged if checkpoint and average_in(checkpoint) else 0,
        }
        write_state(self.folder / START, weights, kept, about)
        self._parent = None  # its weights are not needed any more

    def prepare_model(self, model: EncoderDecoder[Any], *, begins: bool) -> Checkpoint | None:
        """Give a new model the weights to begin with, freeze its parts and add its adapters, in place.

        Where the parent's optimiser is kept, returns what the trainer is to go on with. ``begins`` says that there is
        no checkpoint yet that has the weights.
        """
        kept = None
        if begins:
            weights, states, about = read_state(self.folder / START)
            model.load_state_dict(weights, strict=False)  # tied matrices are stored once
            if states:
                progress = Progress(averaged=about.get("averaged", 0))
                kept = Checkpoint(weights, states, progress, about.get("evaluated", True))
        grown = False
        if self.settings.lora:
            about = read_about(self.folder / START)
            grown = about.get("grown", self.settings.extend_vocabulary > 0)  # earlier versions added subwords alone
        self._choose(self.recipe, model, grows=grown)
        if kept and (average := average_in(kept)):
            # What translates is the parent's average, and its frozen parts stay as they are there.
            frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
            kept.weights.update({name: weight for name, weight in average.items() if name in frozen})
        return kept

    def _choose(self, recipe: Recipe, model: EncoderDecoder[Any], *, grows: bool) -> None:
        """Freeze parts and add adapters as the settings say; rows of new tokens are trained beside these."""
        settings = self.settings
        freeze(model, settings.freeze, settings.train_only)
        if settings.lora is None:
            return
        new = set[str]()
        if grows:
            new = part_parameters(model, "embeddings") | part_parameters(model, "output")
            new = {name for name in new if model.get_parameter(name).requires_grad}
        add_adapters(model, settings.lora, recipe.seed)
        for name in new:
            model.get_parameter(name).requires_grad_(True)

    def plain_weights(self, model: EncoderDecoder[Any]) -> Callable[[dict[str, Tensor]], dict[str, Tensor]] | None:
        """Return the function that adds adapters to the matrices, or ``None`` where there are no adapters."""
        config, lora = model.config, self.settings.lora
        return None if lora is None else lambda weights: merged_weights(config, lora, weights)

    def _require_known(self, pair: TokenizerPair, text: Pairs) -> None:
        sample = list(islice(text, _LOOKED_AT))
        for side, tokenizer in (("source", pair.source), ("target", pair.target)):
            sentences = [two[0 if side == "source" else 1] for two in sample]
            ids = tokenizer.encode(sentences)
            share = sum(row.count(UNK) for row in ids) / max(1, sum(map(len, ids)))
            if share > _MOST_UNKNOWN:
                characters = [one for one in dict.fromkeys("".join(sentences[:200])) if not one.isspace()]
                unknown = (one for one in characters if UNK in tokenizer.encode([one])[0])
                raise ConfigError(
                    f"The parent's vocabulary does not know {share:.0%} of the tokens of the {side} text (such as "
                    f"{' '.join(islice(unknown, 8))}). Start from a model of this language and script, or "
                    "add characters and subwords with finetuning.extend_vocabulary."
                )


def fitted_recipe(recipe: Recipe, parent: Parent, corpus: Corpus) -> Recipe:
    """Return a recipe that has the parent's model and tokenizer, and a schedule for fine-tuning where it names none.

    Raises ConfigError where it asks for another model or tokenizer.
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
    """Return the parent's own settings of a section with the given ones that may change; others are refused."""
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


def _require_fitting(corpus: Corpus, parent: Parent, settings: FineTuningSettings) -> None:
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
    for part in corpus.parts:
        if known:
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


@torch.no_grad()
def with_more_tokens(found: ModelFolder, extended: ExtendedTokenizers) -> EncoderDecoder[Any]:
    """Return a model with rows for the new tokens of extended tokenizers: the mean of the rows of what each replaces.

    A tag replaces nothing and begins as the mean of all rows, which changes the model's output least (Hewitt 2021,
    "Initializing New Word Embeddings for Pretrained Language Models").
    """
    old, pair = found.model, extended.pair
    sizes = {"source_vocab_size": pair.source.vocab_size, "target_vocab_size": pair.target.vocab_size}
    model = build_model(old.config.model_copy(update=sizes))
    state = old.state_dict()
    sides = {"source_embedding": extended.source, "target_embedding": extended.target, "output": extended.target}
    for name, replaced in sides.items():
        if replaced:
            weight = state[f"{name}.weight"]
            of_all = weight.mean(0, dtype=torch.float64)
            new = torch.stack([weight[list(ids)].double().mean(0) if ids else of_all for ids in replaced])
            state[f"{name}.weight"] = torch.cat((weight, new.to(weight.dtype)))
    model.load_state_dict(state)
    return model.eval()
