"""Fine-tuning: what a run takes over from its parent, kept in the run folder so that it can be resumed without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.models.architectures import build_model
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.model_folder import ModelFolder
from locant.text import Corpus, TokenizerPair
from locant.text.new_subwords import ExtendedTokenizers, extend_tokenizers
from locant.text.sentencepiece_model import model_proto
from locant.text.tokenizer import UNK, Tokenizer
from locant.text.vocabulary import Pairs
from locant.training import parallel
from locant.training.before_after import measure_before, named_test
from locant.training.checkpoint import Checkpoint, Progress, average_in, read_about, read_state, write_state
from locant.training.parent import Parent, fitted_recipe, new_tags, open_parent, require_fitting
from locant.training.recipe import Recipe
from locant.training.settings import FineTuningSettings
from locant.training.trained_parts import (
    add_adapters,
    freeze,
    merged_weights,
    part_parameters,
    require_peft,
)

START = Path("cache") / "start"
"""Where the weights stand that a run begins with, and the optimiser that it keeps."""

_LOOKED_AT = 2000
"""Sentence pairs that say whether the parent's vocabulary suits the text."""
_MOST_UNKNOWN = 0.2
"""Share of unknown tokens from which on a text cannot be learned."""


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
        fitted = fitted_recipe(recipe, self._parent, corpus)
        require_fitting(fitted.with_languages(corpus), self._parent, self.settings)
        if not self.settings.extend_vocabulary:
            self._require_known(self._parent.found.tokenizers, corpus.train)
        named_test(self.settings)  # or it is refused before any work
        self._new_tags = new_tags(corpus, self._parent)
        if self._new_tags:
            model_proto(self._parent.found.tokenizers.source.model, extending=True)  # or it says what is missing
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

        On the first process.

        Raises:
            ConfigError: The parent's vocabulary does not have the characters of the text.
            MissingExtraError: The package ``protobuf`` is not installed.
        """
        if self._parent is None:
            return TokenizerPair.load(self.folder)
        pair, shared = self._parent.found.tokenizers, self._parent.found.model.config.share_embeddings
        if self.settings.extend_vocabulary or self._new_tags:
            count = self.settings.extend_vocabulary
            self._extended = extend_tokenizers(pair, text, count, shared=shared, tags=self._new_tags)
            pair = self._extended.pair
        self._require_known(pair, text)
        return pair

    def keep_start(self) -> None:
        """Write what the run begins with and what the parent says into the run folder; on the first process.

        Raises:
            CheckpointError: The disk is full or not writable.
            DataError: The parent's test set that the settings name cannot be read.
        """
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
        """Give a new model the weights to begin with, freeze its parts and add its adapters.

        Args:
            model: Of the recipe, with any weights; changed in place. On the first process it gets those of the parent.
            begins: Whether there is no checkpoint yet that has the weights.

        Returns:
            What the trainer is to go on with where the parent's optimiser is kept.

        Raises:
            CheckpointError: What the run folder kept of the parent is missing or damaged.
        """
        kept = None
        if begins:
            weights, kept = self._start()
            model.load_state_dict(weights, strict=False)  # tied matrices are stored once
        grown = False
        if self.settings.lora:
            about = parallel.from_first_process(lambda: read_about(self.folder / START))
            grown = about.get("grown", self.settings.extend_vocabulary > 0)  # earlier versions added subwords alone
        self._choose(self.recipe, model, grows=grown)
        if kept and (average := average_in(kept)):
            # What translates is the parent's average, and its frozen parts stay as they are there.
            frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
            kept.weights.update({name: weight for name, weight in average.items() if name in frozen})
        return kept

    def _start(self) -> tuple[dict[str, Tensor], Checkpoint | None]:
        """Read what the run begins with; the tensors are on the first process alone, which gives them to the others."""
        mine: list[tuple[dict[str, Tensor], dict[str, Tensor]]] = []

        def read() -> tuple[bool, bool, int]:
            weights, states, about = read_state(self.folder / START)
            mine.append((weights, states))
            return bool(states), about.get("evaluated", True), about.get("averaged", 0)

        keeps_optimizer, evaluated, averaged = parallel.from_first_process(read)
        weights, states = mine[0] if mine else ({}, {})
        progress = Progress(averaged=averaged)
        return weights, Checkpoint(weights, states, progress, evaluated) if keeps_optimizer else None

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
                unknown = _unknown_characters(tokenizer, sentences)
                raise ConfigError(
                    f"The parent's vocabulary does not know {share:.0%} of the tokens of the {side} text (such as "
                    f"{' '.join(unknown)}). Start from a model of this language and script, or add characters and "
                    "subwords with finetuning.extend_vocabulary."
                )


def _unknown_characters(tokenizer: Tokenizer, sentences: Sequence[str]) -> list[str]:
    """Return some characters that the tokenizer does not know."""
    characters = dict.fromkeys("".join(sentences[:200]))
    unknown = [one for one in characters if not one.isspace() and UNK in tokenizer.encode([one])[0]]
    return unknown[:8]


@torch.no_grad()
def with_more_tokens(found: ModelFolder, extended: ExtendedTokenizers) -> EncoderDecoder[Any]:
    """Return a model with rows for new tokens, each the mean of the rows of what the subword replaces.

    A tag replaces nothing and begins as the mean of all rows, which changes the model's output least (Hewitt 2021,
    "Initializing New Word Embeddings for Pretrained Language Models").

    Args:
        found: The model and its tokenizers.
        extended: Its tokenizers with new tokens.
    """
    old = found.model
    sizes = {
        "source_vocab_size": extended.pair.source.vocab_size,
        "target_vocab_size": extended.pair.target.vocab_size,
    }
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
