"""Whole runs that start from another model, on a toy corpus."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml
from processes import run_processes
from safetensors.torch import load_file
from toy_language import WORDS, sentences

from locant.errors import CheckpointError, ConfigError
from locant.models import load_model_folder
from locant.text import TokenCache, TokenizerPair
from locant.training import (
    Recipe,
    TrainingCallback,
    evaluate,
    load_before_after,
    load_run_recipe,
    plan_training,
    read_metrics,
    resume_training,
    train,
)
from locant.training.checkpoint import checkpoint_folders
from locant.training.finetuning import fitted_recipe, open_parent
from locant.training.recipe import apply_overrides, load_recipe

NEW = {"one": "een", "two": "zwei", "three": "drei", "zebra": "zebra", "seven": "sieben"}


@pytest.fixture(scope="module")
def parent(recipe_data, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("parents") / "parent"
    train(
        Recipe.parse(apply_overrides(recipe_data, ["training.validation_sentences=0", "training.validate_every=30"])),
        run,
    )
    return run


@pytest.fixture(scope="module")
def new_data(recipe_data, tmp_path_factory) -> dict:
    """A recipe for text with other words, of which the parent's vocabulary has not all letters."""
    folder = tmp_path_factory.mktemp("new")
    for split, count in (("train", 300), ("valid", 20), ("test", 20)):
        pairs = [
            (source, " ".join({**WORDS, **NEW}[word] for word in source.split()))
            for source, _ in sentences(count, seed=len(split) + 10)
        ]
        pairs = [(f"{source} zebra seven", f"{target} zebra sieben") for source, target in pairs]
        for side, language in enumerate(("en", "de")):
            (folder / f"{split}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    training = {"steps": 8, "validate_every": 4, "validation_sentences": 0, "log_every": 1}
    return {
        **{key: recipe_data[key] for key in ("cleaning", "batches")},
        "corpus": {**recipe_data["corpus"], "folder": str(folder)},
        "training": {**training, "device": "cpu", "precision": "float32"},
        "finetuning": {"test_sentences": 0},
    }


def fine_tune(data: dict, parent: Path, run: Path, **finetuning: object) -> Path:
    train(data, run, start_from=parent, finetuning=finetuning)
    return run


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_tokenizer_and_shape_are_the_parents_and_both_tests_are_measured(parent, new_data, tmp_path):
    summary = train(new_data, tmp_path / "run", start_from=parent, finetuning={"test_sentences": 10})
    recipe, own = load_run_recipe(tmp_path / "run"), load_run_recipe(parent)
    config = load_model_folder(tmp_path / "run").model.config
    assert config == load_model_folder(parent).model.config
    assert recipe.sized_model(34, 34) == config
    assert recipe.tokenizer == own.tokenizer
    assert recipe.decoding == own.decoding
    assert TokenizerPair.load(tmp_path / "run").digest == TokenizerPair.load(parent).digest
    assert recipe.training.learning_rate == 2e-3
    assert (recipe.training.schedule, recipe.training.warmup_steps) == ("cosine", 0)

    found = load_before_after(tmp_path / "run")
    assert found == summary.before_after
    assert [test.of for test in found.tests] == ["parent", "new"]
    assert found.parent == str(parent)
    parents, new = found.tests
    assert parents.scores.before.n == new.scores.after.n == 10
    # The new model's score is that of `locant evaluate` with the same sentences.
    folder = Path(new_data["corpus"]["folder"])
    for side in ("en", "de"):
        lines = (folder / f"test.{side}").read_text().splitlines(keepends=True)
        (tmp_path / f"ten.{side}").write_text("".join(lines[:10]))
    scores = evaluate(tmp_path / "run", source=tmp_path / "ten.en", target=tmp_path / "ten.de").scores
    assert new.scores.after == scores
    assert 0 < new.scores.bleu_p_value <= 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "finetuning",
    [
        {"freeze": ["embeddings", "encoder"], "layer_decay": 0.5},
        {"lora": {"rank": 2, "dropout": 0.1}, "extend_vocabulary": 8},
        {"lora": {"rank": 2, "target_modules": ["cross_attention.query"]}},
        {"keep_optimizer": True},
    ],
    ids=str,
)
def test_a_stopped_fine_tuning_resumes_exactly(finetuning, parent, new_data, tmp_path):
    if "lora" in finetuning:
        pytest.importorskip("peft")
    whole = fine_tune(new_data, parent, tmp_path / "whole", **finetuning)

    class Stop(TrainingCallback):
        def __init__(self, at: int) -> None:
            self.at = at

        def on_step(self, done, report):
            if report and report.step == self.at:
                raise KeyboardInterrupt

    ours = tmp_path / "moved"
    shutil.copytree(parent, ours)
    stopped = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        train(new_data, stopped, start_from=ours, finetuning=finetuning, callback=Stop(2))
    assert not checkpoint_folders(stopped)
    shutil.rmtree(ours)  # A run needs its parent no more.
    with pytest.raises(KeyboardInterrupt):
        resume_training(stopped, callback=Stop(5))
    resume_training(stopped)

    def rows(run: Path) -> list:
        return [(row["step"], row["loss"]) for row in read_metrics(run)]

    assert rows(stopped) == rows(whole)
    before, first, second = weights(parent), weights(stopped), weights(whole)
    assert all(torch.equal(first[name], second[name]) for name in second)
    assert before.keys() == second.keys(), "adapters end in a plain model"
    changed = {name for name in before if not torch.equal(first[name], before[name])}
    data = json.loads((stopped / "data.json").read_text())
    if "freeze" in finetuning:
        assert changed == {name for name in before if name.startswith("decoder")}
        assert data["trained_parameters"] == sum(before[name].numel() for name in changed)
    elif "target_modules" in finetuning.get("lora", {}):
        (name,) = changed
        assert name.endswith("cross_attention.query.weight")
        assert torch.linalg.matrix_rank(first[name] - before[name]) == 2


def test_new_subwords_begin_as_the_mean_of_what_they_replace(parent, new_data, tmp_path):
    data = apply_overrides(new_data, ["training.learning_rate=1e-12", "training.steps=1"])
    run = fine_tune(data, parent, tmp_path / "run", extend_vocabulary=8)
    old, new = TokenizerPair.load(parent).target, TokenizerPair.load(run).target
    assert 34 < new.vocab_size <= 34 + 8
    assert len(new.encode(["zebra seven"])[0]) < len(old.encode(["zebra seven"])[0])
    before, after = weights(parent)["target_embedding.weight"], weights(run)["target_embedding.weight"]
    torch.testing.assert_close(after[:34], before, atol=1e-6, rtol=0)
    pieces = [new.token(index) for index in range(34, new.vocab_size)]
    known = [piece for piece in pieces if 1 not in old.encode([piece.removeprefix("▁")])[0] and piece[0] == "▁"]
    assert known
    for piece in known:
        ids = old.encode([piece.removeprefix("▁")])[0]
        torch.testing.assert_close(after[34 + pieces.index(piece)], before[ids].mean(0), atol=1e-5, rtol=0)
    unknown = next(piece for piece in pieces if len(piece) == 1)
    torch.testing.assert_close(after[34 + pieces.index(unknown)], before[1], atol=1e-5, rtol=0)
    assert load_model_folder(run).model.config.target_vocab_size == new.vocab_size


def test_a_kept_optimizer_goes_on_as_if_the_run_had(parent, recipe_data, tmp_path):
    """The first update from a checkpoint is that of the parent, resumed: same moments, same batch, same rate."""
    rate = ["training.schedule=constant", "training.learning_rate=0.001", "training.warmup_steps=0", "model.dropout=0"]
    data = apply_overrides(recipe_data, [*rate, "training.steps=3", "training.validate_every=3"])
    first = tmp_path / "first"
    train(Recipe.parse(data), first)
    resumed = tmp_path / "resumed"
    shutil.copytree(first, resumed)
    resume_training(resumed, training={"steps": 4, "validate_every": 1})
    run = tmp_path / "run"
    again = {key: value for key, value in data.items() if key not in ("model", "tokenizer")}
    again = apply_overrides(
        again, ["training.steps=1", "training.average_checkpoints=1", "finetuning.test_sentences=0"]
    )
    fine_tune(again, first, run, keep_optimizer=True)
    checkpoints = [load_file(checkpoint_folders(one)[-1] / "optimizer.safetensors") for one in (resumed, run)]
    steps = [{float(value) for name, value in one.items() if name.startswith("step/")} for one in checkpoints]
    assert steps == [{4.0}, {4.0}]


@pytest.mark.parametrize("decay", [0.9, None])
def test_frozen_parts_are_those_of_the_parents_average(recipe_data, tmp_path, decay):
    data = apply_overrides(
        recipe_data, ["training.steps=6", "training.average_checkpoints=1", "training.validation_sentences=0"]
    )
    first = tmp_path / "first"
    train(Recipe.parse(apply_overrides(data, ["training.ema_decay=0.9"])), first)
    data = {key: value for key, value in data.items() if key not in ("model", "tokenizer")}
    data["training"] = {**data["training"], "ema_decay": decay}
    run = fine_tune(data, first, tmp_path / "run", keep_optimizer=True, freeze=["embeddings"], test_sentences=0)
    before, after = weights(first), weights(run)
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert same == {name for name in before if "embedding" in name}
    assert same


def test_only_what_suits_new_models_is_left_out_of_a_recipe(caplog):
    recipe = load_recipe("bible-modern-english", ["finetuning.parent=x", "training.minutes=2", "model.dropout=0.2"])
    assert recipe.model == {"dropout": 0.2}
    assert recipe.batches.tokens == 1536
    assert recipe.training.learning_rate is None
    assert recipe.training.minutes == 2
    assert recipe.training.validation_sentences == 200
    assert load_recipe("bible-modern-english").model["d_model"] == 192
    assert not caplog.text


@pytest.mark.parametrize(
    ("finetuning", "optimizer", "rate"),
    [({}, "muon", None), ({"lora": {"rank": 2}}, "adamw", 0.002), ({"optimizer": "adamw"}, "adamw", 0.002)],
    ids=str,
)
def test_a_model_that_muon_trained_goes_on_with_it(finetuning, optimizer, rate, parent, new_data, tmp_path):
    run = tmp_path / "parent"
    shutil.copytree(parent, run)
    own = yaml.safe_load((run / "recipe.yaml").read_text())
    own["training"]["optimizer"] = "muon"
    (run / "recipe.yaml").write_text(yaml.safe_dump(own))
    settings = {key: value for key, value in finetuning.items() if key == "lora"}
    given = {key: value for key, value in finetuning.items() if key == "optimizer"}
    recipe = Recipe.parse({**new_data, "training": given, "finetuning": {"parent": str(run), **settings}})
    assert recipe.finetuning is not None
    fitted = fitted_recipe(recipe, open_parent(recipe.finetuning), recipe.open_corpus()).training
    assert (fitted.optimizer, fitted.learning_rate) == (optimizer, rate)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"d_model": 64}}, r"model\.d_model is 64"),
        ({"model": {"preset": "small"}}, r"model\.preset is small"),
        ({"model": {"position": "rotary"}}, r"model\.position is rotary"),
        ({"tokenizer": {"vocab_size": 500}}, "tokenizer.vocab_size is 500"),
        ({"finetuning": {"freeze": ["encoder", "decoder", "embeddings"]}}, "Nothing is left to train"),
        ({"finetuning": {"freeze": "decodr"}}, "no part 'decodr'.*Did you mean 'decoder'"),
        ({"finetuning": {"keep_optimizer": True, "extend_vocabulary": 5}}, "keep_optimizer goes on.*extend_vocabulary"),
        ({"finetuning": {"keep_optimizer": True}, "training": {"optimizer": "muon"}}, "goes on with the parent's"),
        ({"corpus": {"target_language": "fr"}}, "translates en into de, but the target language .* is fr"),
        ({"finetuning": {"layer_decay": 2}}, "layer_decay"),
        ({"finetuning": {"parant": "x"}}, "unknown key.*Did you mean 'parent'|parant"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_an_error_before_any_work(changes, message, parent, new_data, tmp_path):
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        train(new_data, tmp_path / "run", start_from=parent, **changes)
    assert not (tmp_path / "run").exists()


def test_parents_that_are_none_are_named(parent, new_data, tmp_path):
    (tmp_path / "file").write_text("text")
    for name, config in (("empty", None), ("bert", '{"model_type": "bert"}'), ("other", '{"add_source_eos": true}')):
        (tmp_path / name).mkdir()
        if config:
            (tmp_path / name / "config.json").write_text(config)
    shutil.copytree(parent, tmp_path / "bare")
    shutil.rmtree(tmp_path / "bare" / "checkpoints")
    for name, error in (
        ("nowhere", CheckpointError),
        ("file", CheckpointError),
        ("empty", CheckpointError),
        ("bert", ConfigError),
        ("other", ConfigError),
        ("bare", ConfigError),
    ):
        with pytest.raises(error, match=name):
            train(new_data, tmp_path / "run", start_from=tmp_path / name, finetuning={"keep_optimizer": name == "bare"})


def test_text_in_another_script_needs_new_subwords(parent, new_data, tmp_path):
    data = json.loads(json.dumps(new_data))
    data["corpus"]["folder"] = str(tmp_path)
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.en").write_text("one two three\nfour five\nsix red two\n" * 10)
        (tmp_path / f"{split}.de").write_text("один два три\nчетыре пять\nшесть красный два\n" * 10)
    for begin in (partial(train, output=tmp_path / "run"), plan_training):
        with pytest.raises(
            ConfigError, match=r"does not know \d+% of the tokens of the target text.*о д и.*extend_vocab"
        ):
            begin(data, start_from=parent)
        assert not (tmp_path / "run").exists()
    fine_tune(data, parent, tmp_path / "more", extend_vocabulary=30)
    assert TokenizerPair.load(tmp_path / "more").target.encode(["два"])[0] != [4, 1]


def tagged(new_data: dict, *changes: str) -> dict:
    """The new text twice, once with a tag that the parent lacks."""
    corpus = new_data["corpus"]
    sources = {"new": {"corpus": corpus}, "back": {"tag": "<bt>", "corpus": {**corpus, "valid": None, "valid_size": 0}}}
    return apply_overrides({**new_data, "corpus": {"kind": "mixture", "sources": sources}}, list(changes))


def test_a_tag_that_the_parent_lacks_is_added(parent, new_data, tmp_path):
    run = fine_tune(tagged(new_data, "training.learning_rate=1e-12", "training.steps=1"), parent, tmp_path / "run")
    pair, old = TokenizerPair.load(run), TokenizerPair.load(parent)
    assert pair.joint
    assert (pair.source.vocab_size, pair.tag("<bt>")) == (35, 34)
    texts = ["one two red <bt> five", "six"]
    assert pair.source.encode(texts) == old.source.encode(texts)
    assert pair.source.decode([[34, *old.source.encode(texts)[1]]]) == ["six"]
    before, after = weights(parent)["target_embedding.weight"], weights(run)["target_embedding.weight"]
    torch.testing.assert_close(after[:34], before, atol=1e-6, rtol=0)
    torch.testing.assert_close(after[34], before.mean(0), atol=1e-6, rtol=0)
    assert [part.prefixes.source for part in TokenCache(run / "cache" / "train").parts] == [[], [34]]


def test_several_processes_fine_tune_like_one(parent, new_data, tmp_path):
    pytest.importorskip("peft")
    finetuning = {"parent": str(parent), "lora": {"rank": 2}, "extend_vocabulary": 8, "test_sentences": 5}
    changes = ["training.steps=3", "training.validate_every=3", "model.dropout=0"]
    data = apply_overrides({**new_data, "finetuning": finetuning}, changes)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(data))
    train(data, tmp_path / "one")
    run_processes(["train", tmp_path / "recipe.yaml", "--output", tmp_path / "two"], tmp_path)
    one, two = (
        [(row["step"], row["loss"]) for row in read_metrics(tmp_path / name) if row["kind"] == "training"]
        for name in ("one", "two")
    )
    assert [step for step, _ in one] == [step for step, _ in two] == [1, 2, 3]
    for (_, left), (_, right) in zip(one, two, strict=True):
        assert left == pytest.approx(right, rel=2e-5)
    assert len(load_before_after(tmp_path / "two").tests) == 2
