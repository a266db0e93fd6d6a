"""What a training will be: settings that a recipe leaves open, its speed by a few updates on made-up text, its memory.

The settings are chosen from the text, the machine and the budget. The rules are stated where they are computed, and
together in docs/training.md; docs/results/quality.md has the comparisons behind some of them. A key that the recipe or
the command line sets is never changed, and the others follow it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch

from locant.analysis.scores import bleu_tokenizer
from locant.kernels.projected_cross_entropy import CHUNK_BYTES
from locant.models.architectures import ModelConfig, build_model
from locant.models.config import TransformerConfig
from locant.models.transformer import count_parameters
from locant.runtime import explaining_memory, usable_memory
from locant.text import EOS, Batch, Corpus, TokenCache, TokenizerPair, TokenizerSettings
from locant.text.samples import TokenStatistics, text_statistics, token_statistics
from locant.text.store import Progress, no_progress
from locant.text.vocabulary import VocabularyTooSmallError
from locant.training.losses import TranslatorLoss
from locant.training.optimizers import build_optimizer
from locant.training.recipe import Recipe, merged
from locant.training.settings import OptimizerName, TrainingSettings, training_precision

_MINUTES = 60.0
"""Time to train for where the recipe says neither minutes nor steps."""
_SHARE_OF_UPDATES = 0.94
"""Of a budget of time; the rest is validation."""

_VOCABULARIES = (500, 1000, 1500, 2000, 3000, 4000, 6000, 8000, 12000, 16000, 24000, 32000)
_MANY_CHARACTERS = 4000
"""With more, the rarest of them are spelled as unknown."""


class Shape(NamedTuple):
    """Sizes of a Transformer, by the names of its configuration."""

    d_model: int
    encoder_layers: int
    decoder_layers: int
    d_ff: int
    heads: int

    @property
    def layer_weights(self) -> int:
        """The weights of all layers, embeddings left out."""
        encoder = self.encoder_layers * (4 * self.d_model**2 + 2 * self.d_model * self.d_ff)
        return encoder + self.decoder_layers * (8 * self.d_model**2 + 2 * self.d_model * self.d_ff)


SHAPES = (
    Shape(128, 3, 3, 512, 4),
    Shape(192, 3, 3, 768, 6),
    Shape(256, 3, 3, 1024, 8),
    Shape(384, 4, 4, 1536, 6),
    Shape(512, 6, 6, 2048, 8),
    Shape(1024, 6, 6, 4096, 16),
)
"""The sizes that are tried, small ones first."""
_SIZES = {"preset", "d_model", "encoder_layers", "decoder_layers", "d_ff"}
"""Keys of the model that give its size; where one is given, none is chosen."""
_POSITIONS = {"position", "position_options", "pattern", "kinds"}
"""Keys of the model that say its scheme; options alone are those of the usual one."""
_TOKENS_PER_WEIGHT = 2.0
"""Target tokens that the budget must allow for every weight of the layers, or a smaller shape learns more in it."""
_WEIGHTS_PER_TOKEN = 12.0
"""Most weights of the layers for every target token of the text; larger shapes learn it by heart."""
_DROPOUTS = ((4.0, 0.0), (10.0, 0.1), (25.0, 0.2), (math.inf, 0.3))
"""Dropout where the budget allows fewer passes over the text than the first number says."""
_MANY_PASSES = 25.0
"""Passes over the text from which the validation's loss says little about translations."""
_UPDATES = 3000
_SMALLEST_BATCH, _LARGEST_BATCH = 1024, 16384
"""Tokens of a batch: as many as leave 3,000 updates or more, within these limits."""
_STEPS_BATCH = 4096
"""Tokens of a batch where the updates are given."""
_RATES: Mapping[OptimizerName, float] = {"adamw": 0.55, "schedule_free": 0.55, "muon": 1.0}
"""Peak learning rate times the width of the model."""
_LARGEST_RATE = 0.008
_DECAY_OF_MUON = 0.1
"""Weight decay of new models that Muon trains at the rate that is chosen."""
_GENTLE, _FEW_PASSES = 0.5, 2.0
"""Share of Muon's rate that fine-tuning has from that many passes over the text on; with fewer it has all of it."""
_WIDEST_OF_MUON = 256
_LEAST_BETWEEN_VALIDATIONS = 10
"""Updates; a validation takes as long as several of them."""
_FILLED = 0.93
"""Share of a batch that is no padding."""
_OFTEN, _OFTEN_SHARE = 1000, 0.05
"""Training sentences, and share of all of them where that is fewer, that make a length one which was seen often."""
_LEAST_USUAL = 24
"""Tokens that a sentence of a document may have in any case: parts would be too short to be understood."""
_TIMED_UPDATES = 2
_MOST_PASSES, _MOST_OF_NEW = 50, 200
"""Passes over the text beyond which fine-tuning, and the training of a new model, are told to be shorter."""
_BASE_MEMORY = 450e6
"""Bytes of Python, PyTorch and the tokenised text's buffers, whatever the model."""


@dataclass(frozen=True)
class Choice:
    """A setting that the recipe left open.

    Attributes:
        key: With dots for sections.
        value: What was chosen.
        reason: Why, in a few words.
    """

    key: str
    value: bool | int | float | str
    reason: str


@dataclass(frozen=True)
class TrainingPlan:
    """What a training will be, before any of it is done.

    Attributes:
        recipe: Complete.
        choices: What the recipe left open.
        pairs: Training pairs; of a large text an estimate of those that cleaning keeps.
        removed: Pairs of the text that cleaning removes; of a large text likewise an estimate.
        tokens_per_pair: Target tokens, EOS included.
        parameters: Of the model.
        tokens_per_second: Target tokens, measured here by a few updates.
        steps: Updates that the budget allows.
        epochs: Passes over the text.
        seconds: Time of all updates and validations.
        memory: Most memory, in bytes.
        warnings: What to lower, in sentences, where there is less memory than that, or the budget is too short for the
            warm-up or very long for the text.
    """

    recipe: Recipe
    choices: tuple[Choice, ...]
    pairs: int
    removed: int
    tokens_per_pair: float
    parameters: int
    tokens_per_second: float
    steps: int
    epochs: float
    seconds: float
    memory: float
    warnings: tuple[str, ...] = ()


def leaves_open(recipe: Recipe) -> bool:
    """Whether there is anything to choose; a recipe that was saved with its run says everything.

    Where the size of the vocabulary is given, the rest of the tokenizer keeps its usual values.
    """
    data = recipe.model_dump(exclude_unset=True)
    model, training = data.get("model", {}), data.get("training", {})
    asked = {
        "": {"max_tokens"},
        "tokenizer": {"vocab_size"},
        "batches": {"tokens"},
        "training": {"schedule", "learning_rate", "warmup_steps", "average_checkpoints", "validation_sentences"},
    }
    if any(keys - (data.get(section, {}) if section else data).keys() for section, keys in asked.items()):
        return True
    if training.get("minutes") is None and (training.get("steps") is None or "validate_every" not in training):
        return True
    if model.get("architecture", "transformer") != "transformer":
        return False
    return not ({"norm", "dropout"} <= model.keys() and model.keys() & _SIZES and model.keys() & _POSITIONS)


def complete_recipe(
    recipe: Recipe,
    corpus: Corpus,
    device: torch.device,
    *,
    processes: int = 1,
    tokenizers: TokenizerPair | None = None,
    progress: Progress = no_progress,
) -> TrainingPlan:
    """Complete a recipe for a text and a device, and forecast its training.

    Args:
        recipe: What it was not given is chosen.
        corpus: The text.
        device: Where the training will run.
        processes: How many train together.
        tokenizers: Those of the model that is fine-tuned.
        progress: Called with what is being done, and its share, 0 to 1.

    Raises:
        ConfigError: What the recipe sets cannot go together.
        LocantError: The memory does not suffice to measure the model.
    """
    with explaining_memory("Give smaller batches.tokens, or a smaller model by model.preset or model.d_model."):
        return _Planner(recipe, corpus, device, processes, tokenizers, progress).plan()


class _Planner:
    """The rules, applied one after the other; later ones read what was given or chosen before."""

    def __init__(
        self,
        recipe: Recipe,
        corpus: Corpus,
        device: torch.device,
        processes: int,
        tokenizers: TokenizerPair | None,
        progress: Progress,
    ) -> None:
        self._data = recipe.model_dump(mode="json", exclude_unset=True)
        self._device, self._processes = device, processes
        self._choices: list[Choice] = []
        self._largest_batch = _LARGEST_BATCH
        held_out, drawn = list(chain(corpus.valid, corpus.test or ())), corpus.drawn
        train = corpus.train.telling(partial(progress, "looking at the text"))
        self._text = self._drawn = text_statistics(train, recipe.cleaning, held_out)
        self._all_pairs = len(drawn)
        if len(drawn) < len(corpus.train):
            # The vocabulary is of all, so that weights may be raised when the run goes on.
            self._drawn = text_statistics(drawn, recipe.cleaning, held_out)
        words = sum(len(target.split()) for _, target in self._text.sample)
        tokenizer = bleu_tokenizer(corpus.target_language, [target for _, target in self._text.sample])
        self._spaceless = words < 2 * len(self._text.sample) and tokenizer == "13a"
        if self._get("training.steps") is None:
            self._choose("training.minutes", _MINUTES, "neither minutes nor steps were given")
        self._tokens = self._vocabulary(tokenizers)
        self._speed = self._shape()
        self._rates()
        self._validation()

    def plan(self) -> TrainingPlan:
        """Return the complete recipe with a forecast."""
        recipe, model, tokens, passes = self._recipe(), self._model(), self._target_tokens(), self._epochs()
        settings, batch = recipe.training, recipe.batches.tokens
        device = self._device if self._processes == 1 else None
        tuned = recipe.finetuning is not None
        return TrainingPlan(
            recipe=recipe,
            choices=tuple(self._choices),
            pairs=self._drawn.pairs,
            removed=self._all_pairs - self._drawn.pairs,
            tokens_per_pair=self._tokens.lengths[1],
            parameters=_parameters(model),
            tokens_per_second=self._speed,
            steps=max(1, round(tokens / self._update_tokens(batch))),
            epochs=passes,
            seconds=tokens / self._speed / _SHARE_OF_UPDATES,
            memory=memory_needed(model, settings, batch),
            warnings=training_warnings(model, settings, batch, device, passes=passes, finetuning=tuned),
        )

    def _vocabulary(self, tokenizers: TokenizerPair | None) -> TokenStatistics:
        """Choose how text is cut into subwords."""
        text = self._text
        if self._get("tokenizer.vocab_size") is None:
            statistics = self._open_vocabulary(tokenizers)
        else:
            settings = TokenizerSettings.parse(self._data["tokenizer"], "tokenizer")
            statistics = token_statistics(text, settings, tokenizers)
        longest = next((limit for limit in (128, 256, 512) if statistics.longest <= limit), 1024)
        reason = f"99.5% of the sentences have at most {statistics.longest} tokens"
        limits = {
            "batches.tokens": self._get("batches.tokens"),
            "the model's max_positions": self._recipe().max_positions(),
        }
        for what, most in limits.items():
            if most and most < longest:
                longest, reason = most, f"{what} is {most}"
        self._choose("max_tokens", longest, reason)
        return statistics

    def _open_vocabulary(self, tokenizers: TokenizerPair | None) -> TokenStatistics:
        """Choose the size of the vocabulary, and whether the two languages share it."""
        text = self._text
        shared = text.shared_letters
        self._choose("tokenizer.joint", shared >= 0.5, f"{shared:.0%} of the target's letters occur in the source")
        coverage = 0.9995 if text.characters > _MANY_CHARACTERS else 1.0
        self._choose("tokenizer.character_coverage", coverage, f"{text.characters:,} different characters")
        words = text.words if self._get("tokenizer.joint") else max(text.source_words, text.target_words)
        wanted = 23 * max(1, words) ** 0.4
        size = min(_VOCABULARIES, key=lambda size: abs(math.log(size / wanted)))
        size = max(size, 2 * min(text.characters, _MANY_CHARACTERS))
        settings = TokenizerSettings.parse({**self._data["tokenizer"], "vocab_size": size}, "tokenizer")
        try:
            statistics = token_statistics(text, settings, tokenizers)
        except VocabularyTooSmallError as error:
            settings = settings.model_copy(update={"vocab_size": 2 * error.least})
            statistics = token_statistics(text, settings, tokenizers)
        found = max(statistics.vocabulary)
        full = "" if found == settings.vocab_size else ", and they cannot fill more"
        self._choose("tokenizer.vocab_size", found, f"the different sentences have {_count(words)} words{full}")
        return statistics

    def _shape(self) -> float:
        """Choose the largest model that the budget can train and the text can fill; return its speed."""
        model = self._data.setdefault("model", {})
        if not self._is_transformer():
            return self._measured()
        self._choose("model.norm", "pre", "it trains at any depth and learning rate")
        if not model.keys() & _POSITIONS:
            self._choose("model.position", "rotary", "learns more in the same time than sinusoids")
        if model.keys() & _SIZES:
            return self._measured()
        text = self._text_tokens()
        fitting = [shape for shape in SHAPES if len(model.get("pattern") or "") <= shape.encoder_layers]
        speed, chosen, largest_batch = None, fitting[0], _LARGEST_BATCH
        for shape in fitting:
            self._data["model"] = {**model, **shape._asdict()}
            weights = shape.layer_weights
            if speed is not None and weights > _WEIGHTS_PER_TOKEN * text:
                reason = f"a wider one would learn the {_count(text)} target tokens of the text by heart"
                break
            try:
                measured = self._measured()
            except torch.OutOfMemoryError:
                if speed is None:
                    raise
                reason = "a wider one does not fit into the device's memory"
                break
            if speed is not None and self._target_tokens(measured) < _TOKENS_PER_WEIGHT * weights:
                reason = "a wider one would see too little text in the budget"
                break
            speed, chosen, largest_batch = measured, shape, self._largest_batch
        else:
            reason = "there is time and text for the largest"
        assert speed is not None
        self._data["model"], self._largest_batch = model, largest_batch
        for name, value in chosen._asdict().items():
            self._choose(f"model.{name}", value, reason)
            reason = f"goes with d_model {chosen.d_model}"
        return speed

    def _rates(self) -> None:
        """Choose batches, optimiser, learning rate, schedule and dropout."""
        passes, tokens, width = self._epochs(), self._target_tokens(), self._model().d_model
        optimizer = self._optimizer(width)
        if self._get("training.steps"):
            batch = max(_STEPS_BATCH, self._get("max_tokens"))
        else:
            wanted = 2 ** math.floor(math.log2(max(1.0, tokens / _UPDATES / self._batches_of_update())))
            batch = min(self._largest_batch, max(self._smallest_batch(width), self._get("max_tokens"), wanted))
        self._choose("batches.tokens", batch, f"about {_count(tokens / self._update_tokens(batch))} updates")
        self._choose("training.schedule", "cosine", "the budget is known")
        if self._is_transformer():
            why = (
                "learns more in the same time" if optimizer == "muon" else "Muon's products take too long at this width"
            )
            if self._get("training.learning_rate") is None:
                self._choose("training.optimizer", optimizer, why)
                if optimizer == "muon" and "finetuning" not in self._data:  # there weights stay near their parent
                    self._choose("training.weight_decay", _DECAY_OF_MUON, "lowers the loss in the same time")
            dropout = next(dropout for limit, dropout in _DROPOUTS if passes < limit)
            self._choose("model.dropout", dropout, f"about {format_passes(passes)} passes over the text")
            factor, largest, why = _RATES[optimizer], _LARGEST_RATE, ""
            if "finetuning" in self._data:  # with AdamW the parent has chosen
                share = 1.0 if passes < _FEW_PASSES else _GENTLE
                factor, largest = share * factor, share * largest
                why = f", for {format_passes(passes)} passes over the text"
            rate = round(min(largest, factor / width), 5)
            self._choose("training.learning_rate", rate, f"{factor:g} / d_model, at most {largest:g}{why}")
        else:
            self._choose("training.learning_rate", 0.003, "recurrent models bear no more")
        updates = self._target_tokens() / self._update_tokens(self._get("batches.tokens"))
        warmup, why = max(10, min(1000, round(0.1 * updates))), "a tenth of the updates, at least 10 and at most 1,000"
        if round(updates) < 2 * warmup:
            warmup, why = max(1, round(updates / 2)), "half of so few updates"
        self._choose("training.warmup_steps", warmup, why)

    def _validation(self) -> None:
        """Choose how often and on how much the model is measured, for about a twentieth of the time."""
        if self._get("training.minutes") is None:
            steps = self._get("training.steps")
            every = min(steps, max(_LEAST_BETWEEN_VALIDATIONS, min(1000, steps // 8)))
            self._choose("training.validate_every", every, "an eighth of the updates, at least 10 and at most 1,000")
        self._choose("training.average_checkpoints", 3, "the last third of the schedule is alike")
        self._choose("training.validation_sentences", 200, "a score to watch; evaluate takes all")
        passes = self._epochs()
        if passes >= _MANY_PASSES and self._get("training.validation_sentences"):
            reason = f"in {format_passes(passes)} passes the loss rises long before translations become worse"
            if self._spaceless:
                reason += "; the target has no spaces, and BLEU counts words"
            self._choose("training.best", "chrf" if self._spaceless else "bleu", reason)

    def _is_transformer(self) -> bool:
        return self._get("model.architecture") in (None, "transformer")

    def _optimizer(self, width: int) -> OptimizerName:
        """Return the optimiser of a model of some width; a learning rate that is given was meant for AdamW."""
        given: OptimizerName | None = self._get("training.optimizer")
        if given or self._get("training.learning_rate") or not self._is_transformer():
            return given or "adamw"
        return "muon" if width <= _WIDEST_OF_MUON else "adamw"

    def _smallest_batch(self, width: int) -> int:
        """Return the fewest tokens of a batch: Muon takes as long for a small one as for a large one."""
        return max(_SMALLEST_BATCH, 8 * width) if self._optimizer(width) == "muon" else _SMALLEST_BATCH

    def _measured(self) -> float:
        """Return the speed of the model; on a GPU, which needs large batches to be fast, with the one to be chosen."""
        batch, self._largest_batch = self._smallest_batch(self._model().d_model), _LARGEST_BATCH
        if self._device.type == "cpu":
            return self._measured_with(batch)
        given = self._get("batches.tokens") or (_STEPS_BATCH if self._get("training.steps") else None)
        if given:
            return self._measured_with(given)
        speed = self._measured_with(batch)
        # In many passes over a short text larger batches only learn it by heart sooner.
        while 2 * batch <= _LARGEST_BATCH and self._target_tokens(speed) < _MANY_PASSES * self._text_tokens():
            try:
                larger = self._measured_with(2 * batch)
            except torch.OutOfMemoryError:
                self._largest_batch = batch
                break
            if self._target_tokens(larger) / _UPDATES / self._batches_of_update() < 2 * batch:
                break
            batch, speed = 2 * batch, larger
        return speed

    def _measured_with(self, batch: int) -> float:
        model = self._model()
        optimizer = self._optimizer(model.d_model)
        training = TrainingSettings.parse({**self._data.get("training", {}), "optimizer": optimizer}, "training")
        return self._processes * measure_speed(model, training, self._device, self._tokens.lengths, batch)

    def _model(self) -> ModelConfig:
        """Return the model as far as it is chosen."""
        return self._recipe().sized_model(*self._tokens.vocabulary)

    def _recipe(self) -> Recipe:
        data = self._data
        if "tokens" not in data.get("batches", {}):  # not chosen yet
            data = merged(data, {"batches": {"tokens": max(4096, self._get("max_tokens") or 0)}})
        return Recipe.parse(data, "recipe")

    def _target_tokens(self, speed: float | None = None) -> float:
        """Return the target tokens that the budget allows."""
        minutes, steps = self._get("training.minutes"), self._get("training.steps")
        limits = []
        if minutes:
            limits.append(60 * minutes * _SHARE_OF_UPDATES * (speed or self._speed))
        if steps:
            limits.append(steps * self._update_tokens(self._get("batches.tokens") or _STEPS_BATCH))
        return float(min(limits))

    def _update_tokens(self, batch: float) -> float:
        """Return the target tokens of an update, given the budget of a batch on its longer side."""
        source, target = self._tokens.lengths
        full, text = batch * _FILLED * target / max(source, target), self._text_tokens()
        # A pass has whole batches, of which a short text does not fill the last.
        return self._batches_of_update() * text / math.ceil(text / full)

    def _batches_of_update(self) -> float:
        """Return the batches of an update."""
        return float(self._get("training.gradient_accumulation_steps") or 1)

    def _text_tokens(self) -> float:
        """Return the target tokens of the text that is drawn from."""
        return self._drawn.pairs * self._tokens.lengths[1]

    def _epochs(self) -> float:
        return self._target_tokens() / self._text_tokens()

    def _get(self, key: str) -> Any:
        """Return what is given or chosen for a key, or ``None``."""
        section, _, name = key.rpartition(".")
        return (self._data.get(section) or {} if section else self._data).get(name)

    def _choose(self, key: str, value: bool | int | float | str, reason: str) -> None:
        """Set a key that is open."""
        section, _, name = key.rpartition(".")
        values = self._data.setdefault(section, {}) if section else self._data
        if name not in values:
            values[name] = value
            self._choices.append(Choice(key, value, reason))


def choose_usual_length(recipe: Recipe, train: TokenCache) -> tuple[Recipe, tuple[Choice, ...]]:
    """Choose ``decoding.usual_source_length``: as many tokens as many training sentences have, or more of them.

    Returns the complete recipe, and what was chosen; nothing where the recipe says it, ``null`` included.
    """
    if "usual_source_length" in recipe.decoding.model_fields_set:
        return recipe, ()
    counts, end = np.zeros(train.max_tokens, np.int64), 0
    for part in train.parts:
        begin, end = end, end + part.pairs
        # Rows hold what says the languages, which no sentence of a document has.
        counts += np.bincount(train.source.lengths[begin:end] - len(part.prefixes.source), minlength=len(counts))
    often = max(1, min(_OFTEN, round(_OFTEN_SHARE * end)))
    as_long = counts[::-1].cumsum()[::-1]
    seen = int(np.flatnonzero(as_long >= often)[-1])
    if seen >= _LEAST_USUAL:
        reason = f"{often:,} training sentences are as long or longer"
    else:
        reason = f"the least; {often:,} training sentences have {seen} tokens or more"
    chosen = Choice("decoding.usual_source_length", max(seen, _LEAST_USUAL), reason)
    decoding = recipe.decoding.model_copy(update={"usual_source_length": chosen.value})
    return recipe.model_copy(update={"decoding": decoding}), (chosen,)


def measure_speed(
    config: ModelConfig,
    settings: TrainingSettings,
    device: torch.device,
    lengths: tuple[float, float],
    batch_tokens: int,
    *,
    updates: int = _TIMED_UPDATES,
) -> float:
    """Train a model on random ids, one update and those that are timed, and return the latter's target tokens a second.

    ``lengths`` are the mean tokens of a source and of a target sentence, EOS included, and ``batch_tokens`` those of a
    batch on the longer side.
    """
    waits = torch.cuda.synchronize if device.type == "cuda" else lambda device: None
    state = torch.random.get_rng_state()
    try:
        model = build_model(config).to(device)
        loss = TranslatorLoss(
            model, settings.label_smoothing, training_precision(settings, device), r_drop=settings.r_drop
        )
        optimizer = build_optimizer(model, settings)
        optimizer.set_learning_rate(1e-6)
        source_length, target_length = (max(2, round(length)) for length in lengths)
        rows = max(1, batch_tokens // max(source_length, target_length))
        source = torch.randint(EOS + 1, config.source_vocab_size, (rows, source_length))
        target = torch.randint(EOS + 1, config.target_vocab_size, (rows, target_length))
        counts = (torch.full((rows,), source_length), torch.full((rows,), target_length))
        batch = Batch(source, counts[0], target, target, counts[1], source.numel(), target.numel()).to(device)
        for update in range(1 + updates):
            if update == 1:
                waits(device)
                started = time.perf_counter()
            loss(batch)[0].backward()
            optimizer.step()
            optimizer.zero_grad()
        waits(device)
        seconds = (time.perf_counter() - started) / updates
    finally:
        torch.random.set_rng_state(state)
    return batch.target_tokens / seconds


def memory_needed(config: ModelConfig, settings: TrainingSettings, batch_tokens: int) -> float:
    """Return an estimate of the most memory that training takes, in bytes; on CUDA it is memory of the device.

    Weights, gradients and the optimiser's two moments; what the layers keep for the backward pass of one batch; some
    rows of logits.
    """
    copies = 4 + (1 if settings.ema_decay else 0)
    passes = 2 if settings.r_drop else 1
    if isinstance(config, TransformerConfig):
        # Inputs of products and norms: attention keeps about ten rows of d_model, twice in the decoder.
        encoder = config.encoder_layers * (12 * config.d_model + 2 * config.d_ff)
        decoder = config.decoder_layers * (22 * config.d_model + 2 * config.d_ff)
        kept = 4 * (encoder + decoder)
    else:
        kept = 4 * 40 * config.d_model
    return _BASE_MEMORY + 4 * copies * _parameters(config) + passes * batch_tokens * kept + 3 * CHUNK_BYTES


def training_warnings(
    config: ModelConfig,
    settings: TrainingSettings,
    batch_tokens: int,
    device: torch.device | None,
    *,
    passes: float = 0.0,
    finetuning: bool = False,
) -> tuple[str, ...]:
    """Return sentences on what to lower: where memory does not suffice, or where the budget does not fit.

    Args:
        config: Of the model.
        settings: Of training; a budget in minutes holds the warm-up to a tenth of the time.
        batch_tokens: Tokens of a batch on the longer side.
        device: Where it will train; ``None`` where several processes share the memory.
        passes: Passes over the text in the budget; with very many it is learned by heart.
        finetuning: Whether the model knows another text, which it may forget meanwhile.
    """
    found = []
    limit, needed = usable_memory(device) if device else None, memory_needed(config, settings, batch_tokens)
    if device and limit is not None and needed > limit:
        place = "the device" if device.type == "cuda" else "this machine or its control group"
        found.append(
            f"Training needs an estimated {needed / 1e9:.1f} GB of memory, and {place} has {limit / 1e9:.1f} GB: lower "
            f"batches.tokens, now {batch_tokens}, and raise training.gradient_accumulation_steps instead, or choose a "
            "smaller model, by model.preset or model.d_model."
        )
    most = _MOST_PASSES if finetuning else _MOST_OF_NEW
    if passes > most:
        share = most / passes
        minutes = [f"training.minutes={settings.minutes * share:.2g}"] if settings.minutes else []
        updates = [f"training.steps={max(1, round(settings.steps * share))}"] if settings.steps else []
        found.append(
            f"The budget is {format_passes(passes)} passes over the text, which the model learns by heart. A lower one "
            f"may do: {' and '.join(minutes + updates)} is {most} passes."
        )
    steps = settings.budget().steps
    if not settings.minutes and steps and settings.warmup_steps > steps:
        found.append(
            f"training.warmup_steps is {settings.warmup_steps:,} and training.steps {steps:,}, so the learning rate "
            f"ends at {steps / settings.warmup_steps:.2g} of its peak. A tenth of the updates is usual: "
            f"training.warmup_steps={max(1, round(0.1 * steps))}."
        )
    return tuple(found)


def _parameters(config: ModelConfig) -> int:
    with torch.device("meta"):
        return count_parameters(build_model(config))


def format_passes(passes: float) -> str:
    """Return a number of passes over a text as people say it.

    Example:
        >>> [format_passes(passes) for passes in (0.42, 27.51, 1392.5)]
        ['0.4', '27.5', '1,392']
    """
    return f"{passes:.1f}" if passes < 100 else f"{passes:,.0f}"


def _count(number: float) -> str:
    """Return a number as people say it."""
    if number >= 1e6:
        return f"{number / 1e6:.1f} million"
    return f"{round(number, -3 if number >= 10_000 else 0):,.0f}"
