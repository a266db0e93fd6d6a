"""The report of a training run: data, training, scores and translations of held-out text on one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from locant.app.report import (
    Block,
    Code,
    Fact,
    Facts,
    Figure,
    Report,
    Section,
    Table,
    Text,
    TranslationExample,
    Translations,
    write_report,
)
from locant.errors import CheckpointError
from locant.figures import svg, training_curves
from locant.files import explaining_damage, read_json
from locant.models.architectures import ModelConfig
from locant.models.rnn import RNNConfig
from locant.training import (
    BeforeAfter,
    Evaluation,
    PartScores,
    Recipe,
    load_before_after,
    load_run_evaluation,
    load_run_recipe,
    read_metrics,
)
from locant.training.run_folder import resume_command, translate_command


def run_report(run: Path, evaluation: Evaluation, *, examples: int = 8) -> Report:
    """Build the report of a finished run.

    Args:
        run: The run folder.
        evaluation: Of the model on held-out text.
        examples: Number of held-out sentences shown, evenly spaced through the text.

    Raises:
        CheckpointError: The folder holds no run, or one that has not trained.
        MissingExtraError: matplotlib is not installed.
    """
    recipe = load_run_recipe(run)
    with explaining_damage(run):
        return _report(run, recipe, evaluation, examples)


def _report(run: Path, recipe: Recipe, evaluation: Evaluation, examples: int) -> Report:
    data, environment = read_json(run / "data.json"), read_json(run / "environment.json")
    rows = read_metrics(run)
    training = [row for row in rows if row["kind"] == "training"]
    if not training:
        raise CheckpointError(f"There is nothing to report on in {run}: it has not trained yet.")
    return Report(
        title=f"{data['corpus']}: a trained translator",
        summary=_summary(recipe, data, rows, evaluation, environment),
        sections=[
            Section("Result", [_facts(data, rows, training, evaluation), _scores(evaluation)]),
            *_before_after(load_before_after(run)),
            Section("Translations", [_translations(data, evaluation, examples)]),
            Section("Training", _training(rows, training)),
            Section("Data", _data(recipe, data)),
            Section("Model and machine", [_model(recipe, data), _machine(environment)]),
            Section("What to try next", [Code(next_steps(run, recipe, evaluation))]),
        ],
    )


def write_run_report(run: Path, page: Path | None = None, *, examples: int = 8) -> Path:
    """Write the report of a finished run whose model has been evaluated.

    Args:
        run: The run folder.
        page: The file to write, replaced if it is there; ``report.html`` in the run folder unless given.
        examples: Number of held-out sentences shown.

    Returns:
        The file.

    Raises:
        CheckpointError: The folder holds no run, or one that has not trained or not been evaluated, or the disk is not
            writable.
        MissingExtraError: matplotlib or jinja2 is not installed.
    """
    page = page or run / "report.html"
    write_report(page, run_report(run, load_run_evaluation(run), examples=examples))
    return page


def _summary(
    recipe: Recipe,
    data: dict[str, Any],
    rows: Sequence[dict[str, Any]],
    evaluation: Evaluation,
    environment: dict[str, Any],
) -> str:
    """Return the verdict: what was trained, how good it is on which text, and what to do next."""
    kind = "recurrent network" if isinstance(_config(recipe, data), RNNConfig) else "Transformer"
    languages = " to ".join(filter(None, (data["source_language"], data["target_language"])))
    return (
        f"A {kind} of {data['parameters'] / 1e6:.1f} million parameters was trained on {data['cleaning']['kept']:,} "
        f"pairs of {data['corpus']}{f' ({languages})' if languages else ''} for {_minutes(rows)} minutes on "
        f"{environment['cores']} cores. On the {len(evaluation.hypotheses):,} held-out sentences of "
        f"{evaluation.name} it reaches BLEU {evaluation.scores.bleu:.1f}. {verdict(rows, evaluation)}"
    )


def verdict(rows: Sequence[dict[str, Any]], evaluation: Evaluation) -> str:
    """Return in words how good a model is, against a copy of the source, and what would help.

    The steps are those of Google's guide to BLEU of natural text ("Evaluate models", Cloud Translation).
    """
    bleu, copied = evaluation.scores.bleu, evaluation.copy_scores.bleu
    if bleu <= copied:
        return f"Leaving the source as it is would score {copied:.1f}: it has not learned to translate. Train longer."
    steps = ((10, "almost useless"), (20, "hard to get the gist of"), (30, "clear in their gist, with errors"))
    good = next((words for below, words in steps if bleu < below), "understandable to good")
    losses = [row["loss"] for row in rows if row["kind"] == "validation"]
    if len(losses) < 2:
        advice = "It was validated once: training longer would show whether the loss still falls"
    elif min(losses) < 0.99 * losses[-1]:
        advice = "The validation loss had begun to rise: more text would help, more time would not"
    elif losses[-1] < 0.99 * losses[-2]:
        advice = "The validation loss was still falling: training longer would help"
    else:
        advice = "The validation loss had stopped falling: a larger model or more text would help"
    return f"Its translations are {good}; leaving the source as it is would score {copied:.1f}. {advice}."


def _minutes(rows: Sequence[dict[str, Any]]) -> str:
    # The last validation is later than the last row of training, which comes every that many updates.
    return f"{max(row['seconds'] for row in rows if row['kind'] in ('training', 'validation')) / 60:.1f}"


def _facts(
    data: dict[str, Any],
    rows: Sequence[dict[str, Any]],
    training: Sequence[dict[str, Any]],
    evaluation: Evaluation,
) -> Block:
    speed = median(row["tokens_per_second"] for row in training)
    waste = data["padding_waste"]
    updates = max(row["step"] for row in rows)  # the last ones may be in no row of training
    return Facts(
        [
            Fact("BLEU", f"{evaluation.scores.bleu:.1f}", f"copying the source: {evaluation.copy_scores.bleu:.1f}"),
            Fact("chrF", f"{evaluation.scores.chrf:.1f}", f"copying the source: {evaluation.copy_scores.chrf:.1f}"),
            Fact("training", f"{_minutes(rows)} min", f"{updates:,} updates"),
            Fact("speed", f"{speed:,.0f} tokens/s", "target tokens, median"),
            Fact("parameters", f"{data['parameters'] / 1e6:.2f} million"),
            Fact("padding", f"{100 * waste['target']:.1f} %", f"of target cells; source {100 * waste['source']:.1f} %"),
        ]
    )


def _scores(evaluation: Evaluation) -> Block:
    rows = []
    texts: list[tuple[str, Evaluation | PartScores]] = [("", evaluation)]
    texts += [(f"{name}, zero-shot" if part.zero_shot else name, part) for name, part in evaluation.parts.items()]
    for part, found in texts:
        scores, copied, of = found.scores, found.copy_scores, f", {part}" if part else ""
        rows += [
            [f"BLEU{of}", f"{scores.bleu:.2f}", f"{copied.bleu:.2f}", scores.bleu_signature],
            [f"chrF{of}", f"{scores.chrf:.2f}", f"{copied.chrf:.2f}", scores.chrf_signature],
        ]
    scores = evaluation.scores
    caption = f"{evaluation.name}: {scores.n:,} sentences, beam {evaluation.beam}, {evaluation.seconds:.0f} seconds."
    if any(part.zero_shot for part in evaluation.parts.values()):
        caption += " A zero-shot direction is one that the model was never trained on; it does not count in the mean."
    return Table(["metric", "this model", "copying the source", "sacreBLEU signature"], rows, caption=caption)


def _before_after(found: BeforeAfter | None) -> list[Section]:
    """Return the section about what fine-tuning changed, if the run is one."""
    if found is None:
        return []
    whose = {"parent": "the parent's", "new": "new", "both": "of both"}
    rows: list[list[str | int | float | None]] = []
    for test in found.tests:
        scores = test.scores
        for metric, before, after, p in (
            ("BLEU", scores.before.bleu, scores.after.bleu, scores.bleu_chance),
            ("chrF", scores.before.chrf, scores.after.chrf, scores.chrf_chance),
        ):
            name = f"{test.name} ({whose[test.of]}, {scores.after.n:,} sentences)"
            rows.append([name, metric, before, after, f"{after - before:+.2f}", "" if p is None else f"{p:.3f}"])
    caption = (
        f"The model started from {found.parent}. p: paired bootstrap resampling by sacreBLEU; below 0.05 the "
        "difference is usually called significant."
    )
    table = Table(["test set", "metric", "before", "after", "difference", "p"], rows, caption=caption)
    blocks: list[Block] = [table] if rows else []
    return [Section("Before and after fine-tuning", [*blocks, *([Text(found.notes)] if found.notes else [])])]


def _translations(data: dict[str, Any], evaluation: Evaluation, examples: int) -> Block:
    count = len(evaluation.hypotheses)
    chosen = [count * (2 * number + 1) // (2 * examples) for number in range(min(examples, count))]
    return Translations(
        [
            TranslationExample(evaluation.sources[index], evaluation.references[index], evaluation.hypotheses[index])
            for index in chosen
        ],
        source_language=data["source_language"] or "",
        target_language=data["target_language"] or "",
        caption=f"{len(chosen)} of the {count:,} held-out sentences, evenly spaced, not selected by quality.",
    )


def _training(rows: Sequence[dict[str, Any]], training: Sequence[dict[str, Any]]) -> list[Block]:
    validation = [row for row in rows if row["kind"] == "validation"]
    curves = svg(
        training_curves(rows), name="training", description="Losses, validation scores, learning rate and speed"
    )
    table = Table(
        ["step", "minutes", "loss (nats per token)", "BLEU", "chrF"],
        [
            [
                f"{row['step']:,}",
                f"{row['seconds'] / 60:.1f}",
                f"{row['loss']:.3f}",
                _score(row["bleu"]),
                _score(row["chrf"]),
            ]
            for row in validation
        ],
        caption="Validation while training; scores are of greedy translations.",
    )
    note: list[Block] = []
    parts = list(dict.fromkeys(name for row in validation for name in row.get("parts") or {}))
    if parts:
        scores = [
            [f"{row['step']:,}", *(_score((row.get("parts") or {}).get(name)) for name in parts)] for row in validation
        ]
        note.append(Table(["step", *parts], scores, caption="BLEU of greedy translations by part, while training."))
    if average := [row for row in rows if row["kind"] == "average"]:
        last = average[-1]
        steps = ", ".join(f"{step:,}" for step in last["steps"])
        verdict = "is published" if last["published"] else "is not published, because the best single one is better"
        note.append(
            Text(
                [
                    f"The average of the checkpoints of steps {steps} has validation loss {last['loss']:.3f} "
                    f"and {verdict}."
                ]
            )
        )
    return [Figure(curves), table, *note]


def next_steps(run: Path, recipe: Recipe, evaluation: Evaluation) -> str:
    """Return commands to try with a run: to translate, to train it for as long again, to train others.

    Args:
        run: The run folder.
        recipe: Of the run.
        evaluation: Of its model on held-out text.
    """
    budget = recipe.training.budget()
    twice = {"steps": budget.steps and 2 * budget.steps, "minutes": budget.minutes and 2 * budget.minutes}
    longer = " ".join(f"training.{key}={number}" for key, number in twice.items() if number)
    return "\n".join(
        [
            translate_command(run, evaluation.sources[0], evaluation.languages),
            f"{resume_command(run)} {longer}",
            "locant train bible-german-english --output runs/german",
            "locant train --source yours.en --target yours.de --output runs/yours",
        ]
    )


def _score(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _data(recipe: Recipe, data: dict[str, Any]) -> list[Block]:
    cleaning = data["cleaning"]
    rows = [
        ["training pairs", cleaning["total"]],
        *([f"removed: {reason}", count] for reason, count in cleaning["removed"].items()),
    ]
    rows += [["kept", cleaning["kept"]], ["validation pairs", data["valid_pairs"]], ["test pairs", data["test_pairs"]]]
    tokens, vocabulary = data["train_tokens"], data["vocabulary"]
    kind = "joint" if recipe.tokenizer.joint else "separate"
    return [
        Text(
            [
                data["description"],
                f"Tokenizer: SentencePiece {recipe.tokenizer.algorithm}, {kind}, {vocabulary['target']:,} tokens. "
                f"Training text: {tokens['source']:,} source and {tokens['target']:,} target tokens, in "
                f"{data['batches_per_epoch']:,} batches "
                f"of at most {recipe.batches.tokens:,} tokens a side.",
            ]
        ),
        Table(["pairs", "count"], rows, caption="What cleaning removed."),
        *_parts(data.get("parts", [])),
    ]


def _parts(parts: Sequence[dict[str, Any]]) -> list[Block]:
    """Return the table of the parts of a mixed corpus."""
    if len(parts) < 2:
        return []
    return [
        Table(
            ["part", "pairs", "kept", "drawn", "validation", "test"],
            [
                [
                    part["name"],
                    part["cleaning"]["total"],
                    part["cleaning"]["kept"],
                    ", then ".join(f"{100 * share:.1f} %" for share in part["shares"]),
                    part["valid_pairs"],
                    part["test_pairs"],
                ]
                for part in parts
            ],
            caption="The texts that the corpus is mixed of, and how much of what is trained on is drawn from each.",
        )
    ]


def _config(recipe: Recipe, data: dict[str, Any]) -> ModelConfig:
    return recipe.sized_model(data["vocabulary"]["source"], data["vocabulary"]["target"])


def _model(recipe: Recipe, data: dict[str, Any]) -> Block:
    config = _config(recipe, data)
    if isinstance(config, RNNConfig):
        own = [
            ["d_model, hidden_size", f"{config.d_model}, {config.hidden_size}"],
            ["cell", f"{config.cell.upper()}, additive attention"],
        ]
    else:
        own = [
            ["d_model, d_ff, heads", f"{config.d_model}, {config.d_ff}, {config.heads}"],
            ["positions", config.positions],
            ["norm, feed-forward", f"{config.norm}-norm, {config.feed_forward}"],
        ]
    return Table(
        ["setting", "value"],
        [
            ["layers", f"{config.encoder_layers} encoder, {config.decoder_layers} decoder"],
            *own,
            ["dropout, label smoothing", f"{config.dropout:g}, {recipe.training.label_smoothing:g}"],
        ],
        caption="The model; the run's recipe.yaml holds every setting.",
    )


def _machine(environment: dict[str, Any]) -> Block:
    threads = environment["threads"]
    versions = ", ".join(f"{name} {version}" for name, version in environment["packages"].items() if version)
    return Table(
        ["machine", ""],
        [
            ["processor", f"{environment['processor']}, {threads} thread{'' if threads == 1 else 's'}"],
            ["accelerator", environment["cuda"] or "none"],
            ["software", f"locant {environment['locant']}, Python {environment['python']}, {versions}"],
        ],
    )
