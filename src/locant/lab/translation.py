"""Translation: the model of ``locant train`` with each scheme in encoder and decoder, and the model it replaced.

Vaswani et al. 2017, section 3.5 and Table 3, row (E); the recurrent model is that of Bahdanau et al. 2015.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import torch
from pydantic import Field

from locant.analysis.scores import bleu_tokenizer, score_translations
from locant.errors import ConfigError
from locant.files import replacing_folder
from locant.lab.task import ComparisonTask, Metric, MetricValue, Outcome, Split, Trial, split_of
from locant.lab.training import train_translator
from locant.lab.translation_measures import (
    METRICS,
    HeldOutPair,
    by_length,
    decode,
    held_out_pairs,
    order_accuracy,
)
from locant.lab.variants import (
    beyond,
    build_fairly,
    check_scheme,
    initial_facts,
    position_fields,
    require_known,
    split_variant,
)
from locant.models.config import TransformerConfig
from locant.models.rnn import RNN, RNNConfig
from locant.models.transformer import Transformer, count_parameters
from locant.text import Corpus, PreparedData, load_corpus, prepare
from locant.training import Budget, Recipe, load_recipe
from locant.training.defaults import measure_speed
from locant.translation.translator import Translator

_FEWEST = 10  # sentences of a length; BLEU of fewer says little
_RECURRENT = "rnn"
_RECURRENT_OPTIONS = ("cell", "encoder_layers", "decoder_layers", "hidden_size", "dropout")
_LARGEST_HIDDEN = 1 << 16


class TranslationTask(ComparisonTask):
    """A recipe of ``locant train``, trained on its shorter sentences and tested on all held-out ones."""

    name: ClassVar[str] = "translation"
    title: ClassVar[str] = "Translation, with test sentences longer than any in training"
    length_means: ClassVar[str] = "tokens of a sentence or its reference, whichever has more, EOS included"
    prepares: ClassVar[bool] = True

    recipe: str = Field("bible-modern-english", description="A built-in recipe or a YAML file")
    changes: tuple[str, ...] = Field((), description="Changes of the recipe, section.key=value each")
    train_length: int = Field(
        40, ge=8, multiple_of=4, description="Longest sentence trained on, in tokens, EOS included"
    )
    test_sentences: int = Field(1000, ge=1, description="The most test sentences, evenly spaced")
    order_sentences: int = Field(200, ge=1, description="The most sentences whose words are swapped")

    @property
    def metrics(self) -> dict[str, Metric]:
        """BLEU, word order and speed."""
        return METRICS

    @classmethod
    def default_variants(cls) -> tuple[str, ...]:
        """Return the schemes of each kind, the code added and concatenated, and the recurrent model."""
        return (
            "none",
            "sinusoidal",
            "sinusoidal:combine=concatenate",
            "learned",
            "rotary",
            "alibi",
            "t5",
            "transformer-xl",
            "rnn",
        )

    def check_variant(self, variant: str) -> None:
        """Variants are positional schemes, and ``rnn``: the recurrent model of Bahdanau et al. 2015."""
        name, options = split_variant(variant)
        if name != _RECURRENT:
            check_scheme(variant)
            return
        for option in options:
            require_known(option, _RECURRENT_OPTIONS, f"option of {name}")
        RNNConfig.parse({"source_vocab_size": 1, "target_vocab_size": 1, **options}, variant)

    def check(self) -> None:
        """Raise before any work starts where the recipe or its corpus cannot be used."""
        recipe = self._recipe(1, Budget(steps=1))
        if not isinstance(recipe.sized_model(100, 100), TransformerConfig):
            raise ConfigError(f"The model of the recipe {self.recipe} must be a Transformer; 'rnn' is a variant.")
        load_corpus(recipe.corpus)

    def prepare(self, trial: Trial) -> None:
        """Clean and tokenise the corpus."""
        recipe = self._recipe(trial.seed, trial.budget)
        with replacing_folder(trial.prepared) as folder:
            _data(load_corpus(recipe.corpus), recipe, folder)

    def run(self, trial: Trial) -> Outcome:
        """Train on short sentences, translate held-out ones of all lengths and measure the speed."""
        recipe = self._recipe(trial.seed, trial.budget)
        corpus = load_corpus(recipe.corpus)
        data = _data(corpus, recipe, trial.prepared, resume=True)
        held_out = [pair for part in (data.tests or data.valids).values() for pair in part]
        pairs = held_out_pairs(held_out, data.tokenizers, self.test_sentences)
        longest = max(recipe.decoding.max_target_length(pair.length) for pair in pairs)
        sizes = data.tokenizers.source.vocab_size, data.tokenizers.target.vocab_size
        base = recipe.sized_model(*sizes)
        assert isinstance(base, TransformerConfig)  # checked before
        model = self.build(trial.variant, base, trial.seed, longest=longest)
        facts = initial_facts(model)
        if isinstance(model, RNN):
            facts["initial_weights"] = ""  # it shares none
        facts |= train_translator(
            model.to(trial.device), recipe, corpus, data, trial.device, lambda share: trial.progress(0.9 * share)
        )
        translator = Translator(model, data.tokenizers, recipe.decoding, target_language=corpus.target_language)
        buckets = by_length(pairs, self.train_length // 4)
        measurements = self._translations(translator, buckets)
        seen = [pair for pair in pairs if pair.length <= self.train_length]
        order = order_accuracy(translator, seen[: self.order_sentences])
        measurements.append(MetricValue(metric="order", value=100 * order))
        for length in buckets:
            reason, speed = beyond(model, length), None
            if not reason:
                lengths = (float(length), float(length))
                speed = measure_speed(model.config, recipe.training, trial.device, lengths, recipe.batches.tokens)
            split = split_of(length, self.train_length)
            measurements.append(MetricValue(metric="training", value=speed, length=length, split=split, reason=reason))
        return Outcome(measurements=tuple(measurements), **facts)

    def build(self, variant: str, base: TransformerConfig, seed: int, *, longest: int) -> Transformer | RNN:
        """Return the untrained model of a variant, its weights those of every other one wherever shapes allow.

        Args:
            variant: As :meth:`check_variant` accepts it. The recurrent model has the parameters of the Transformer
                without positions in number, by its ``hidden_size``, unless that is given.
            base: The model of the recipe; its positions do not count.
            seed: Of the initial weights.
            longest: Longest test sentence or translation, in tokens.

        Raises:
            ConfigError: The scheme cannot be built for these dimensions.
        """
        name, options = split_variant(variant)
        if name != _RECURRENT:
            lengths = {"trained": self.train_length, "longest": longest}
            position = position_fields(variant, head_dim=base.blocks().head_features, **lengths)
            return build_fairly(Transformer, base.with_positions(variant, **position), seed)
        shared = ("source_vocab_size", "target_vocab_size", "d_model", "dropout", "share_embeddings", "tie_output")
        fields = {**{name: getattr(base, name) for name in shared}, **options}

        def sized(hidden_size: int) -> RNNConfig:
            return RNNConfig.parse({**fields, "hidden_size": hidden_size}, variant)

        size = options.get("hidden_size")
        if size is None:  # the largest one that does not exceed the Transformer
            with torch.device("meta"):
                wanted = count_parameters(Transformer(base.with_positions(position="none")))
                sizes = range(1, _LARGEST_HIDDEN)
                size = max(1, bisect_right(sizes, wanted, key=lambda size: count_parameters(RNN(sized(size)))))
        torch.manual_seed(seed)
        return RNN(sized(size))

    def _recipe(self, seed: int, budget: Budget) -> Recipe:
        """Return the recipe under a budget, with nothing but the loss validated."""
        every = max(20, budget.steps // 8) if budget.steps else "null"
        forced = {
            "seed": seed,
            "max_tokens": self.train_length,
            "training.steps": budget.steps or "null",
            "training.minutes": budget.minutes or "null",
            "training.validate_every": every,
            "training.validation_sentences": 0,
            "training.best": "loss",
            "training.log_every": 10,
        }
        return load_recipe(self.recipe, [*self.changes, *(f"{key}={value}" for key, value in forced.items())])

    def _translations(self, translator: Translator, buckets: dict[int, list[HeldOutPair]]) -> list[MetricValue]:
        """Translate the test sentences length by length; return BLEU and speed of each, of both splits and of all."""
        measurements, tokens, seconds = list[MetricValue](), 0, 0.0
        done: dict[Split, list[tuple[list[HeldOutPair], list[str]]]] = {"seen": [], "unseen": []}
        missing: dict[Split, str] = {}

        def bleu(translated: Sequence[tuple[list[HeldOutPair], list[str]]]) -> float:
            hypotheses = [hypothesis for _, of_length in translated for hypothesis in of_length]
            references = [pair.reference for pairs, _ in translated for pair in pairs]
            tokenize = bleu_tokenizer(translator.target_language, references)
            return score_translations(hypotheses, references, tokenize=tokenize).bleu

        decode(translator, next(iter(buckets.values()))[:1])  # whatever the first search prepares is not its speed
        for length, pairs in buckets.items():
            split, longest = split_of(length, self.train_length), max(pair.length for pair in pairs)
            values: dict[str, float | None] = {"bleu": None, "decoding": None}
            reason = beyond(translator.model, longest)
            if reason:
                reason = missing[split] = f"sentences have {longest} tokens, {reason}"
            else:
                hypotheses, taken, time = decode(translator, pairs)
                done[split].append((pairs, hypotheses))
                tokens, seconds = tokens + taken, seconds + time
                values = {"bleu": bleu(done[split][-1:]), "decoding": taken / time}
            if len(pairs) >= _FEWEST:
                measurements += [
                    MetricValue(metric=metric, value=value, length=length, split=split, reason=reason)
                    for metric, value in values.items()
                ]
        both: tuple[Split, ...] = ("seen", "unseen")
        for metric, splits in {"bleu": both, "bleu_seen": both[:1], "bleu_unseen": both[1:]}.items():
            reason = next((missing[split] for split in splits if split in missing), "")
            translated = [one for split in splits for one in done[split]]
            if reason or translated:
                value = None if reason else bleu(translated)
                measurements.append(MetricValue(metric=metric, value=value, reason=reason))
        if tokens:
            measurements.append(MetricValue(metric="decoding", value=tokens / seconds))
        return measurements


def _data(corpus: Corpus, recipe: Recipe, folder: Path, *, resume: bool = False) -> PreparedData:
    return prepare(
        corpus, recipe.cleaning, recipe.tokenizer, max_tokens=recipe.max_tokens, folder=folder, resume=resume
    )


class HeadsTask(TranslationTask):
    """A recipe of ``locant train`` with one attention head or several, at equal parameters and initial weights.

    Vaswani et al. 2017, Table 3, row (A): the width of the model stays, and is divided among the heads.
    """

    name: ClassVar[str] = "heads"
    title: ClassVar[str] = "Translation with different numbers of attention heads, at equal parameters"

    @classmethod
    def default_variants(cls) -> tuple[str, ...]:
        """Return the numbers of heads."""
        return ("1", "2", "4", "8")

    def check_variant(self, variant: str) -> None:
        """Variants are numbers of heads that share the width of the recipe's model evenly."""
        base = self._recipe(1, Budget(steps=1)).sized_model(100, 100)
        if isinstance(base, TransformerConfig):
            self._with_heads(base, variant)

    def build(self, variant: str, base: TransformerConfig, seed: int, *, longest: int) -> Transformer | RNN:
        """Return an untrained model with that many heads, its weights those of every other variant."""
        torch.manual_seed(seed)
        return Transformer(self._with_heads(base, variant))

    @staticmethod
    def _with_heads(base: TransformerConfig, variant: str) -> TransformerConfig:
        if not variant.isdecimal() or int(variant) < 1:
            raise ConfigError(f"'{variant}' is no number of heads. Write them with commas between, as in 1,2,4,8.")
        return TransformerConfig.parse({**base.to_dict(), "heads": int(variant)}, f"{variant} heads")
