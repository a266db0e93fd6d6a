"""Settings that a recipe leaves open: what they follow, and that what is given stays."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
import torch
import yaml
from toy_language import sentences

from locant.cli import main
from locant.errors import ConfigError, DataError, LocantError
from locant.text import TokenCache, load_corpus
from locant.text.samples import text_statistics
from locant.text.tokenizer_pair import Prefixes
from locant.training import (
    Recipe,
    TrainingCallback,
    load_recipe,
    plan_training,
    resume_training,
    train,
)
from locant.training.defaults import choose_usual_length, complete_recipe, format_passes, leaves_open
from locant.training.settings import learning_rate


@pytest.fixture
def open_recipe(recipe_data):
    """A recipe that says nothing but its text and a little time."""
    return {"corpus": recipe_data["corpus"], "training": {"minutes": 5}}


@pytest.fixture
def measured(monkeypatch):
    """A machine whose speed is known, where a test is not about how it is measured."""
    monkeypatch.setattr("locant.training.defaults._Planner._measured", lambda planner: 4000.0)


def longer(repeat):
    """Statistics as of a text that is so many times as long."""

    def statistics(*text):
        found = text_statistics(*text)
        names = ("pairs", "source_words", "target_words", "words")
        return replace(found, **{name: repeat * getattr(found, name) for name in names})

    return statistics


def planned(data, tokens_per_second=4000.0, processes=1, repeat=1):
    """Plan with a machine of a given speed; ``repeat`` makes the text longer."""
    recipe = Recipe.parse(data)
    corpus = load_corpus(recipe.corpus)

    def measure(config, settings, device, lengths, tokens):
        return tokens_per_second * (128 / config.d_model) ** 2

    with patch.multiple("locant.training.defaults", text_statistics=longer(repeat), measure_speed=measure):
        return complete_recipe(recipe, corpus, torch.device("cpu"), processes=processes)


def test_everything_left_open_is_chosen_and_the_result_is_complete(open_recipe):
    plan = planned(open_recipe)
    assert leaves_open(Recipe.parse(open_recipe))
    assert not leaves_open(plan.recipe)
    assert not leaves_open(Recipe.parse(yaml.safe_load(yaml.safe_dump(plan.recipe.to_dict()))))
    keys = [choice.key for choice in plan.choices]
    assert len(keys) == len(set(keys))
    assert {"tokenizer.vocab_size", "model.d_model", "training.learning_rate", "batches.tokens"} <= set(keys)
    for choice in plan.choices:
        section, _, name = choice.key.rpartition(".")
        found = getattr(plan.recipe, section) if section else plan.recipe
        assert (found[name] if isinstance(found, dict) else getattr(found, name)) == choice.value
        assert choice.reason


def test_the_demonstration_leaves_nothing_open():
    """Nothing is measured before it, and its output is that of the README."""
    assert not leaves_open(load_recipe("bible-modern-english"))
    assert leaves_open(load_recipe("translator", ["corpus.kind=tsv", "corpus.train=x.tsv"]))


def test_what_is_given_stays(open_recipe):
    given = {
        **open_recipe,
        "max_tokens": 77,
        "tokenizer": {"vocab_size": 30},
        "batches": {"tokens": 500},
        "model": {"preset": "tiny", "dropout": 0.05},
        "training": {"steps": 70, "learning_rate": 0.007},
    }
    plan = planned(given)
    recipe = plan.recipe
    assert (recipe.max_tokens, recipe.tokenizer.vocab_size, recipe.batches.tokens) == (77, 30, 500)
    assert (recipe.training.steps, recipe.training.minutes, recipe.training.learning_rate) == (70, None, 0.007)
    assert recipe.model["dropout"] == 0.05
    assert recipe.sized_model(30, 30).d_model == 128
    assert plan.steps == 70


def test_more_time_allows_larger_models_and_batches_until_the_text_is_used_up(open_recipe):
    def size(minutes, repeat):
        return planned({**open_recipe, "training": {"minutes": minutes}}, repeat=repeat).recipe

    widths = [size(minutes, 10_000).model["d_model"] for minutes in (5, 60, 600, 20_000)]
    assert widths == sorted(widths)
    assert widths[0] == 128
    assert widths[-1] >= 512
    assert size(20_000, 1).model["d_model"] == 128  # 600 sentences would be learned by heart
    batches = [size(minutes, 10_000).batches.tokens for minutes in (5, 600, 20_000)]
    assert batches[0] < batches[-1]
    rates = [size(minutes, 10_000).training.learning_rate for minutes in (5, 20_000)]
    assert rates[0] > rates[1]


def test_muon_up_to_some_width_unless_a_learning_rate_is_given(open_recipe):
    def settings(**training):
        minutes = {"minutes": 20_000, **training}
        return planned({**open_recipe, "training": minutes}, repeat=10_000).recipe.training

    narrow = planned(open_recipe).recipe
    assert narrow.training.optimizer == "muon"
    assert narrow.batches.tokens >= 8 * narrow.model["d_model"]
    assert narrow.training.weight_decay == 0.1
    assert (settings().optimizer, settings().weight_decay) == ("adamw", 0.0)
    for given in ({"weight_decay": 0.0}, {"optimizer": "muon", "learning_rate": 0.004}):
        assert planned({**open_recipe, "training": {"minutes": 5, **given}}).recipe.training.weight_decay == 0
    assert (
        planned({**open_recipe, "training": {"minutes": 5, "learning_rate": 0.002}}).recipe.training.optimizer
        == "adamw"
    )


@pytest.mark.parametrize(
    ("model", "position"),
    [
        ({}, "rotary"),
        ({"preset": "tiny"}, "rotary"),
        ({"position": "alibi"}, "alibi"),
        ({"position_options": {"dialect": "tensor2tensor"}}, "sinusoidal"),
    ],
)
def test_rotary_positions_unless_others_are_given_or_wanted(open_recipe, model, position):
    recipe = planned({**open_recipe, "model": model}).recipe
    assert recipe.sized_model(30, 30).position == position
    assert not leaves_open(recipe)


@pytest.fixture
def on_gpu(open_recipe, monkeypatch):
    """Plan for a GPU that is so fast with each width and batch; return the plan and the batches that were measured."""

    def plan(speed, *, repeat=20_000, **changes):
        recipe, measured = Recipe.parse({**open_recipe, **changes}), []

        def measure(config, settings, device, lengths, batch):
            measured.append(batch)
            return speed(config.d_model, batch)

        replaced = {"text_statistics": longer(repeat), "measure_speed": measure, "usable_memory": lambda device: None}
        with patch.multiple("locant.training.defaults", **replaced):
            return complete_recipe(recipe, load_corpus(recipe.corpus), torch.device("cuda")), measured

    return plan


@pytest.mark.parametrize(
    ("minutes", "changes", "tokens"),
    [
        (2, {}, 1024),
        (5, {}, 8192),  # 5,640 updates, as with fewer tokens; with twice as many 2,820
        (60, {}, 16384),
        (60, {"batches": {"tokens": 3000}}, 3000),
        (60, {"training": {"minutes": 60, "steps": 100}}, 4096),
    ],
)
def test_a_gpu_is_measured_with_the_batches_that_it_is_given(on_gpu, minutes, changes, tokens):
    """As fast as its batches are large, up to 8,192 tokens."""
    plan, measured = on_gpu(
        lambda width, batch: 20.0 * min(batch, 8192), **{"training": {"minutes": minutes}, **changes}
    )
    assert plan.recipe.batches.tokens == tokens
    assert tokens in measured
    assert plan.tokens_per_second == 20.0 * min(tokens, 8192)


def test_a_gpu_is_given_what_fits_its_memory(on_gpu, monkeypatch):
    def speed(width, batch):
        if width * batch > 256 * 4096:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return 20.0 * batch

    training = {"minutes": 600}
    plan, _ = on_gpu(speed, training=training)
    assert (plan.recipe.model["d_model"], plan.recipe.batches.tokens) == (1024, 1024)
    assert on_gpu(speed, training=training, model={"d_model": 384})[0].recipe.batches.tokens == 2048
    with pytest.raises(LocantError, match=r"batches\.tokens"):
        on_gpu(speed, training=training, model={"d_model": 384}, batches={"tokens": 8192})
    monkeypatch.setattr("locant.training.defaults._SMALLEST_BATCH", 2048)
    plan, _ = on_gpu(speed, training=training)
    assert (plan.recipe.model["d_model"], plan.recipe.batches.tokens) == (512, 2048)


def test_a_gpu_gets_no_larger_batches_of_a_text_that_it_passes_over_many_times(on_gpu):
    assert on_gpu(lambda width, batch: 20.0 * batch, repeat=1, training={"minutes": 60})[1] == [1024]


def test_dropout_follows_the_passes_over_the_text(open_recipe):
    dropouts = [planned(open_recipe, repeat=repeat).recipe.model["dropout"] for repeat in (10_000, 100, 1)]
    assert dropouts == sorted(dropouts)
    assert dropouts[0] == 0.0
    assert dropouts[-1] == 0.3


def test_translations_decide_where_there_is_time_to_learn_a_text_by_heart(open_recipe):
    few, many = (planned(open_recipe, repeat=repeat) for repeat in (100, 1))
    assert few.epochs < 25 <= many.epochs
    assert few.recipe.training.best == "loss"
    assert many.recipe.training.best == "bleu"
    given = {**open_recipe, "training": {"minutes": 5, "best": "loss"}}
    assert planned(given).recipe.training.best == "loss"
    given = {**open_recipe, "training": {"minutes": 5, "validation_sentences": 0}}
    assert planned(given).recipe.training.best == "loss"


@pytest.mark.parametrize(("word", "best"), [("wort", "chrf"), ("我爱你他在家吃饭", "bleu")])
def test_bleu_decides_nothing_where_it_cannot_count_words(tmp_path, word, best):
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"word {n} of many\t{word}{n}\n" for n in range(100)), encoding="utf-8")
    corpus = {"kind": "tsv", "train": str(table)}
    plan = planned({"corpus": corpus, "training": {"minutes": 5}})
    assert plan.epochs > 25
    assert plan.recipe.training.best == best


def test_updates_of_several_batches_take_more_of_the_text(open_recipe):
    def plan(**training):
        return planned({**open_recipe, "training": training}, repeat=100)

    one, four = plan(steps=60), plan(steps=60, gradient_accumulation_steps=4)
    assert [each.steps for each in (one, four)] == [60, 60]
    assert four.epochs / one.epochs == pytest.approx(4)
    assert four.seconds == pytest.approx(4 * one.seconds)
    minutes = [plan(minutes=5, gradient_accumulation_steps=number) for number in (1, 4)]
    assert minutes[1].recipe.training.warmup_steps == pytest.approx(minutes[0].recipe.training.warmup_steps / 4, abs=1)


def test_a_pass_over_a_short_text_is_a_whole_number_of_batches(open_recipe, tmp_path):
    corpus = {**open_recipe["corpus"], "train": open_recipe["corpus"]["valid"]}
    kept = {"overlap": False, "duplicates": False}
    data = {"corpus": corpus, "training": {"steps": 12, "device": "cpu"}, "cleaning": kept}
    plan = planned(data)
    assert plan.recipe.batches.tokens > plan.pairs * plan.tokens_per_pair
    assert (plan.steps, plan.epochs) == (12, 12)
    train({**data, "model": {"preset": "tiny"}}, tmp_path / "run")
    state = json.loads((tmp_path / "run" / "checkpoints" / "step-00000012" / "state.json").read_text())
    assert state["progress"]["epoch"] + 1 == 12


def tokenised(lengths, *parts):
    """Stand for a text with sentences of these lengths, in parts of (pairs, tokens that say the languages)."""
    rows = [SimpleNamespace(pairs=pairs, prefixes=Prefixes([9] * before, [])) for pairs, before in parts]
    found = np.array(lengths, np.int32)
    rows = rows or [SimpleNamespace(pairs=len(found), prefixes=Prefixes([], []))]
    return SimpleNamespace(source=SimpleNamespace(lengths=found), parts=rows, max_tokens=256)


@pytest.mark.parametrize(
    ("lengths", "usual"),
    [
        ([30] * 99_000 + [70] * 999 + [50], 50),  # a thousand have 50 or more
        ([30] * 99_001 + [70] * 999, 30),
        ([30] * 94 + [41] * 5 + [200], 41),  # of a small text, a twentieth
        ([8] * 94 + [9] * 6, 24),  # phrases: parts of sentences would be shorter still
        ([60], 60),
    ],
)
def test_a_length_is_usual_that_was_seen_often(lengths, usual, recipe_data):
    recipe = Recipe.parse(recipe_data)
    found, (choice,) = choose_usual_length(recipe, tokenised(lengths))
    assert (choice.key, choice.value) == ("decoding.usual_source_length", usual)
    assert found.decoding == recipe.decoding.model_copy(update={"usual_source_length": usual})
    # What tells the language is no part of a sentence.
    parts = ((len(lengths) // 2, 2), (len(lengths) - len(lengths) // 2, 2))
    assert choose_usual_length(recipe, tokenised([each + 2 for each in lengths], *parts))[0] == found


def test_runs_know_what_was_chosen_and_go_on_with_it(open_recipe, tmp_path, monkeypatch, measured):
    monkeypatch.setattr("locant.training.defaults._LEAST_USUAL", 1)

    class Notes(TrainingCallback):
        def __init__(self):
            self.chosen, self.plans = [], []

        def on_plan(self, plan):
            self.plans.append(plan)

        def on_chosen(self, choice):
            self.chosen.append(choice)

    def known(run):
        found = yaml.safe_load((run / "recipe.yaml").read_text()), json.loads((run / "config.json").read_text())
        return tuple(one["decoding"].get("usual_source_length") for one in found)

    notes, run = Notes(), tmp_path / "run"
    cleaning, changes = {"overlap": False, "duplicates": False}, {"minutes": None, "validation_sentences": 0}
    train(open_recipe, run, callback=notes, cleaning=cleaning, training={**changes, "steps": 2})
    (choice,), (plan,) = notes.chosen, notes.plans
    lengths = TokenCache(run / "cache" / "train").source.lengths
    assert (lengths >= choice.value).sum() >= 30 > (lengths > choice.value).sum()  # a twentieth of 600
    assert known(run) == (choice.value, choice.value)
    *others, row = json.loads((run / "choices.json").read_text())
    assert [one["key"] for one in others] == [one.key for one in plan.choices]
    assert (row["key"], row["value"], row["reason"]) == (choice.key, choice.value, choice.reason)
    saved = (run / "recipe.yaml").read_text()
    resume_training(run, callback=notes, training={"steps": 3})
    assert (run / "recipe.yaml").read_text() == saved.replace("steps: 2\n", "steps: 3\n")
    assert (len(notes.plans), len(notes.chosen), *known(run)) == (1, 1, choice.value, choice.value)
    # Of a run that began before there was the rule, nothing is known.
    old = yaml.safe_load((run / "recipe.yaml").read_text())
    del old["decoding"]["usual_source_length"]
    (run / "recipe.yaml").write_text(yaml.safe_dump(old))
    resume_training(run, callback=notes, training={"steps": 4})
    assert (len(notes.chosen), *known(run)) == (1, None, None)


def test_a_dry_run_measures_this_machine_and_writes_nothing(corpus, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source, target = str(corpus / "train.en"), str(corpus / "train.de")
    assert main(["train", "--source", source, "--target", target, "--minutes", "2", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "tokenizer.vocab_size" in shown
    assert "about 2 minutes" in shown
    assert "decoding.usual_source_length is chosen when" in shown
    assert not list(tmp_path.iterdir())


def test_fine_tuning_with_muon_is_gentle_where_it_passes_over_the_text_often(open_recipe):
    rates = []
    for steps in (1, 4000):
        training = {"steps": steps, "optimizer": "muon"}
        plan = planned({**open_recipe, "finetuning": {"parent": "somewhere"}, "training": training})
        (reason,) = (choice.reason for choice in plan.choices if choice.key == "training.learning_rate")
        assert f"{format_passes(plan.epochs)} passes" in reason
        assert (plan.epochs < 2) == (steps == 1)
        rates.append(plan.recipe.training.learning_rate)
    new = planned({**open_recipe, "training": {"steps": 4000, "optimizer": "muon"}}).recipe.training.learning_rate
    assert rates == [new, pytest.approx(new / 2, abs=1e-5)]


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"batches": {"tokens": 100}}, "batches.tokens"),
        (
            {"model": {"position": "learned", "position_options": {"max_positions": 100}}},
            "the model's max_positions",
        ),
    ],
    ids=str,
)
def test_the_longest_sentence_fits_what_is_given(open_recipe, given, key):
    plan = planned({**open_recipe, **given})
    assert plan.recipe.max_tokens == 100
    assert [choice.reason for choice in plan.choices if choice.key == "max_tokens"] == [f"{key} is 100"]
    with pytest.raises(ConfigError, match="max_tokens is 101"):
        planned({**open_recipe, **given, "max_tokens": 101})


def test_choices_follow_the_text_that_cleaning_keeps(tmp_path, measured):
    """Otherwise the vocabulary could be larger than the text that it is learned from can fill."""
    pairs = sentences(300, seed=8)
    often = [
        *pairs * 20,
        (" ".join(source for source, _ in pairs), "x"),
        *[(f"only {number}", "") for number in range(99)],
    ]
    lines = "".join(f"{source}\t{target}\n" for source, target in often)
    (tmp_path / "pairs.tsv").write_text(lines, encoding="utf-8")
    corpus = {"kind": "tsv", "folder": str(tmp_path), "train": "pairs.tsv"}
    plan = planned({"corpus": corpus, "training": {"minutes": 5}})
    assert plan.pairs <= len(set(pairs))
    summary = train({"corpus": corpus, "training": {"steps": 1, "device": "cpu"}}, tmp_path / "run")
    report = json.loads((summary.folder / "data.json").read_text())
    assert report["train_pairs"] == plan.pairs
    with pytest.raises(DataError, match="Cleaning removed all"):
        planned({"corpus": corpus, "cleaning": {"max_length": 1}, "training": {"minutes": 5}})


@pytest.mark.parametrize(
    ("steps", "warmup", "every"),
    [(1, 1, 1), (2, 1, 2), (6, 3, 6), (15, 8, 10), (20, 10, 10), (80, 10, 10), (800, 80, 100), (90_000, 1000, 1000)],
)
def test_warm_up_and_validation_fit_few_updates_and_many(open_recipe, steps, warmup, every):
    training = planned({**open_recipe, "training": {"steps": steps}}).recipe.training
    assert (training.warmup_steps, training.validate_every) == (warmup, every)
    rates = [learning_rate(training, 128, step, steps) for step in range(1, min(steps, 1000) + 1)]
    assert max(rates) == training.learning_rate


@pytest.mark.parametrize(
    ("changes", "most", "lower"),
    [
        ({"finetuning": {"parent": "somewhere"}}, 50, "minutes"),
        ({"finetuning": {"parent": "somewhere"}, "training": {"steps": 4000}}, 50, "steps"),
        ({"training": {"minutes": 60}}, 200, "minutes"),
    ],
)
def test_a_text_that_is_passed_over_too_often_is_a_warning(open_recipe, changes, most, lower):
    plan = planned({**open_recipe, **changes})
    budget = getattr(plan.recipe.training, lower)
    assert plan.epochs > most
    (given,) = re.findall(rf"training\.{lower}=([\d.e+]+)", " ".join(plan.warnings))
    assert float(given) == pytest.approx(budget * most / plan.epochs, rel=0.05)
    less = planned({**open_recipe, **changes, "training": {lower: float(given) if lower == "minutes" else int(given)}})
    assert less.epochs < 1.1 * most
    assert not any(lower in said for said in planned({**open_recipe, **changes, "training": {"steps": 1}}).warnings)


def test_a_warm_up_that_training_ends_before_is_a_warning(recipe_data, open_recipe, tmp_path, caplog):
    def said(**settings):
        given = {**open_recipe, "training": {"learning_rate": 0.1, "validate_every": 1, **settings}}
        return " ".join(planned(given, repeat=1000).warnings)

    assert "training.warmup_steps=30" in said(steps=300, warmup_steps=4000)
    assert not said(steps=300, warmup_steps=300)  # the last update has the peak
    assert not said(minutes=1, warmup_steps=4000)  # held to a tenth of the time
    long = {"training": {**recipe_data["training"], "steps": 2, "warmup_steps": 8}}
    train({**recipe_data, **long}, tmp_path / "run")  # it leaves nothing open, so that it is not planned
    plan_training({**open_recipe, "model": {"preset": "tiny"}, **long})
    assert caplog.text.count("training.warmup_steps=1.") == 2


def test_too_little_memory_is_a_warning(recipe_data, tmp_path, monkeypatch, caplog):
    def limit(gigabytes):
        monkeypatch.setattr("locant.training.defaults.usable_memory", lambda device: gigabytes * 1e9)

    limit(0.7)
    large = {"batches": {"tokens": 100_000}, "training": {**recipe_data["training"], "steps": 1}}
    assert "batches.tokens, now 100000" in planned({**recipe_data, **large}).warnings[0]
    limit(0.1)
    # A recipe that leaves nothing open is not planned.
    train({**recipe_data, "training": {**recipe_data["training"], "steps": 1}}, tmp_path / "run")
    assert "GB of memory" in caplog.text
    limit(50)
    assert not planned(recipe_data).warnings
