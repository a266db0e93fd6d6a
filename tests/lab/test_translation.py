"""The translation task, on a toy language whose sentences are short in training and longer in the test."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from locant.errors import ConfigError, DataError
from locant.lab import Budget, MetricValue, Outcome, Record, Trial, build_task
from locant.lab.record import check_fairness
from locant.lab.translation import TranslationTask
from locant.lab.translation_measures import HeldOutPair, held_out_pairs, order_accuracy, swapped
from locant.models import RNN, DecodingSettings, Transformer, TransformerConfig, count_parameters
from locant.text import BOS, EOS, TokenizerPair, TokenizerSettings, train_tokenizers
from locant.translation import Translator

WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs", "red": "rot"}
BASE = TransformerConfig(
    source_vocab_size=60, target_vocab_size=60, encoder_layers=1, decoder_layers=1, d_model=32, d_ff=64, heads=4
)


def build(variant: str, seed: int = 1) -> Any:
    task = build_task("translation", {"train_length": 12})
    assert isinstance(task, TranslationTask)
    return task.build(variant, BASE, seed, longest=40)


def toy_pairs(count: int, seed: int, longest: int) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    sources = [rng.choices(list(WORDS), k=rng.randint(2, longest)) for _ in range(count)]
    return [(" ".join(words), " ".join(WORDS[word] for word in reversed(words))) for words in sources]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    for split, count, longest in (("train", 400, 14), ("valid", 30, 10), ("test", 120, 12)):
        pairs = toy_pairs(count, len(split), longest)
        for side, name in enumerate(("source", "target")):
            (folder / f"{split}.{name}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    splits = {split: {"source": f"{split}.source", "target": f"{split}.target"} for split in ("train", "valid", "test")}
    data = {
        "corpus": {"kind": "files", "folder": str(folder), **splits},
        "cleaning": {"overlap": False, "duplicates": False},
        "tokenizer": {"algorithm": "bpe", "vocab_size": 60},
        "batches": {"tokens": 768},
        "model": {"preset": "tiny", "encoder_layers": 1, "decoder_layers": 1, "d_model": 32, "d_ff": 64},
        "training": {"learning_rate": 0.01, "warmup_steps": 5, "schedule": "linear"},
        "decoding": {"beam": 1, "max_length_extra": 4},
    }
    path = folder / "toy.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def outcomes(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """A few updates of several variants."""
    task = build_task("translation", {"recipe": str(recipe), "train_length": 12, "changes": ["model.dropout=0.1"]})
    task.check()
    prepared = tmp_path_factory.mktemp("lab") / "prepared" / "seed-1"

    def trial(variant: str) -> Trial:
        return Trial(variant, 1, Budget(steps=4), torch.device("cpu"), prepared, lambda _: None)

    task.prepare(trial(""))
    return {name: task.run(trial(name)) for name in ("none", "learned", "rnn:cell=lstm")}


def value_of(outcome: Outcome, metric: str, length: int | None = None) -> MetricValue:
    (found,) = [m for m in outcome.measurements if m.metric == metric and m.length == length]
    return found


def test_everything_but_the_variant_is_the_same(outcomes: dict[str, Outcome]) -> None:
    rest: dict[str, Any] = {"configuration": {}, "wall_seconds": 1, "peak_memory": 1, "device": "cpu"}
    records = [
        Record(task="translation", variant=name, seed=1, outcome=outcome, environment={}, finished="", **rest)
        for name, outcome in outcomes.items()
    ]
    checks = {check.what: check for check in check_fairness(records)}
    assert all(check.holds for check in checks.values())
    assert set(checks["first batch"].values) == set(outcomes)
    assert set(checks["initial weights"].values) == set(outcomes) - {"rnn:cell=lstm"}
    assert len({outcome.tokens for outcome in outcomes.values()}) == 1
    assert {outcome.steps for outcome in outcomes.values()} == {4}


def test_all_lengths_are_measured(outcomes: dict[str, Outcome]) -> None:
    for outcome in outcomes.values():
        lengths = {m.length: m.split for m in outcome.measurements if m.metric == "bleu" and m.length}
        assert lengths
        assert all(split == ("seen" if length <= 12 else "unseen") for length, split in lengths.items())
        assert all(length % 3 == 0 for length in lengths)
        assert len(lengths) > 3
        assert (value_of(outcome, "training", 12).value or 0) > 0
        assert (value_of(outcome, "decoding", 12).value or 0) > 0
        assert 0 <= (value_of(outcome, "bleu_seen").value or 0) <= 100
        assert (outcome.training_loss or 0) > 0


def test_a_table_that_ends_cannot_go_beyond(outcomes: dict[str, Outcome]) -> None:
    learned = outcomes["learned"]
    assert value_of(learned, "bleu", 12).value is not None
    beyond = min(m.length for m in learned.measurements if m.metric == "bleu" and m.length and m.length > 12)
    lengths = [("bleu", beyond), ("decoding", beyond), ("training", beyond), ("bleu", None), ("bleu_unseen", None)]
    for metric, length in lengths:
        found = value_of(learned, metric, length)
        assert found.value is None
        assert "the scheme knows 12 positions" in found.reason
    assert value_of(outcomes["none"], "bleu_unseen").value is not None


def test_without_positions_words_have_no_order(outcomes: dict[str, Outcome]) -> None:
    assert value_of(outcomes["none"], "order").value == 50


@pytest.mark.parametrize("variant", ["rnn", "rnn:cell=lstm", "rnn:encoder_layers=2:decoder_layers=2"])
def test_the_recurrent_model_is_as_large_as_the_transformer(variant: str) -> None:
    wanted = count_parameters(build("none"))
    model = build(variant)
    assert isinstance(model, RNN)
    larger = model.config.model_copy(update={"hidden_size": model.config.hidden_size + 1})
    assert count_parameters(model) <= wanted < count_parameters(RNN(larger))
    assert model.config.d_model == BASE.d_model


@pytest.mark.parametrize(
    ("task", "variant", "named"),
    [
        ("translation", "rotry", "'rotary'"),
        ("translation", "rnn:cel=gru", "'cell'"),
        ("translation", "rnn:cell=elman", "'cell'"),
        ("translation", "rnn:hidden_size=0", "'hidden_size'"),
        ("heads", "3", "heads"),
        ("heads", "many", "many"),
    ],
)
def test_variants_that_cannot_be(recipe: Path, task: str, variant: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        build_task(task, {"recipe": str(recipe)}).check_variant(variant)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"recipe": "bible-modern"}, ConfigError, "bible-modern"),
        ({"changes": ["corpus.train.source=missing.txt"]}, DataError, "missing.txt"),
        ({"changes": ["batches.tokens=8"]}, ConfigError, "batches.tokens"),
        ({"changes": ["model={architecture: rnn, d_model: 8}"]}, ConfigError, "'rnn'"),
    ],
)
def test_mistakes_surface_before_any_work(
    recipe: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        build_task("translation", {"recipe": str(recipe), **options}).check()


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    return train_tokenizers(toy_pairs(200, 1, 8), TokenizerSettings(algorithm="bpe", vocab_size=60))


def test_held_out_pairs_are_evenly_spaced_and_have_the_length_of_the_longer_side(tokenizers: TokenizerPair) -> None:
    pairs = [(" ".join(["one"] * number), "eins") for number in range(1, 11)]
    assert [len(pair.source.split()) for pair in held_out_pairs(pairs, tokenizers, 5)] == [1, 3, 5, 7, 9]
    (only,) = held_out_pairs([("", "eins"), ("one", "eins zwei drei")], tokenizers, 9)
    assert only.length == 1 + len(tokenizers.target.encode(["eins zwei drei"])[0]) > 3


def test_swapping_keeps_the_words() -> None:
    for seed in range(20):
        sentence = "the dog saw the cat"
        other = swapped(sentence, seed)
        assert other is not None
        assert other != sentence
        assert sorted(other.split()) == sorted(sentence.split())
        assert sum(a != b for a, b in zip(sentence.split(), other.split(), strict=True)) == 2
    assert swapped("no no no", 1) is None
    assert swapped("", 1) is None


class Listens:
    """Stands for a model: a source with the wrong first id makes padding likelier and all other tokens less so."""

    def __init__(self, right: int) -> None:
        self.right = right
        self.target_embedding = torch.nn.Embedding(1, 1)

    def __call__(self, source: torch.Tensor, lengths: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        assert (target[:, 0] == BOS).all()
        assert (source.gather(1, (lengths - 1).unsqueeze(1)) == EOS).all()
        logits = torch.zeros(*target.shape, 60)
        logits[:, :, 0] += (source[:, 0] != self.right).float().unsqueeze(1)
        return logits


def test_word_order_is_counted(tokenizers: TokenizerPair) -> None:
    translator = Translator(Transformer(BASE), tokenizers, DecodingSettings())
    pairs = [HeldOutPair("one two", "eins", 3), HeldOutPair("two one", "eins", 3), HeldOutPair("one one", "eins", 3)]
    translator.model = Listens(tokenizers.source.encode(["one"])[0][0])  # type: ignore[assignment]
    assert order_accuracy(translator, pairs[:1]) == 1
    assert order_accuracy(translator, pairs[1:2]) == 0
    assert order_accuracy(translator, pairs) == 0.5
    translator.model = Listens(59)  # type: ignore[assignment]
    assert order_accuracy(translator, pairs) == 0.5
    with pytest.raises(ValueError, match="two different words"):
        order_accuracy(translator, pairs[2:])


@pytest.mark.slow
def test_heads_share_everything_but_their_number(recipe: Path, tmp_path: Path) -> None:
    task = build_task("heads", {"recipe": str(recipe), "train_length": 12, "test_sentences": 20, "order_sentences": 4})

    def trial(variant: str) -> Trial:
        return Trial(variant, 1, Budget(steps=4), torch.device("cpu"), tmp_path / "prepared", lambda _: None)

    task.check()
    task.prepare(trial(""))
    found = {}
    for variant in ("1", "4"):
        task.check_variant(variant)
        found[variant] = task.run(trial(variant))
    first, second = found.values()
    assert first.initial_weights == second.initial_weights
    assert (first.parameters, first.first_batch, first.tokens) == (second.parameters, second.first_batch, second.tokens)
    assert first.training_loss != second.training_loss
    assert {value_of(one, "bleu").value is not None for one in found.values()} == {True}
