"""``locant train``."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from locant.cli.arguments import add_output, require_both
from locant.errors import UsageError

if TYPE_CHECKING:
    from locant.cli.console import PlainConsole
    from locant.training import BeforeAfter, RunSummary

_EPILOG = """examples:
  locant train --source train.en --target train.de --output runs/en-de
  locant train --tsv pairs.tsv --minutes 30 --output runs/mine
  locant train --source train.en --target train.de --minutes 30 --dry-run
  locant train bible-modern-english --output runs/bible
  locant train multi30k-en-de corpus.folder=~/multi30k training.steps=4000 --output runs/multi30k
  locant train --resume runs/bible
  locant train my-recipe.yaml --output runs/mine --resume-if-exists
  locant train --from runs/en-de --source news.en --target news.de --minutes 5 --output runs/news
  locant train --from opus-mt-en-de finetuning.lora.rank=8 --tsv pairs.tsv --output runs/adapted
  torchrun --nproc-per-node 2 -m locant train my-recipe.yaml --output runs/two

`locant recipes` lists the built-in recipes; RUN/recipe.yaml of any run shows every key."""


_WHOSE = {"parent": "the parent's test set", "new": "new test set", "both": "test set of both"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.usage = "locant train [RECIPE] [key=value ...] [--output RUN] [options]"
    add = parser.add_argument
    what = "a built-in recipe or a .yaml file, and changes to it such as model.d_model=256"
    add("recipe_and_overrides", nargs="*", metavar="RECIPE key=value", help=what)
    add_output(parser, "RUN", "new folder for the run (default: runs/NAME, after recipe or text)")
    what = "show what would be chosen for this text, machine and time, with an estimate of time and memory, and stop"
    add("--dry-run", action="store_true", help=what)
    what = "go on with the run in --output where there is one, else begin it: one command for schedulers"
    add("--resume-if-exists", action="store_true", help=what)
    add("--resume", type=Path, metavar="RUN", help="go on with a run that was stopped or killed")
    start = parser.add_argument_group("a model to start from (fine-tuning)")
    what = "a run, a model folder, a Marian, M2M-100 or NLLB folder, or hf://user/model; keeps tokenizer and shape"
    start.add_argument("--from", dest="parent", metavar="MODEL", help=what)
    what = "go on with a run's newest checkpoint, optimiser included"
    start.add_argument("--keep-optimizer", action="store_true", help=what)
    text = parser.add_argument_group("two columns of text")
    text.add_argument("--source", type=Path, metavar="FILE", help="source sentences, one a line (.gz too)")
    text.add_argument("--target", type=Path, metavar="FILE", help="their translations, line by line")
    text.add_argument("--tsv", type=Path, metavar="FILE", help="source and target, separated by a tab")
    what = "an object a line with the fields source and target (others: corpus.source_field)"
    text.add_argument("--jsonl", type=Path, metavar="FILE", help=what)
    short = parser.add_argument_group("short for key=value")
    short.add_argument("--preset", metavar="NAME", help="model.preset: tiny, small, base or big")
    short.add_argument("--steps", type=int, metavar="N", help="training.steps: updates to train for")
    short.add_argument("--minutes", type=float, metavar="N", help="training.minutes: time to train for")
    for side in ("source", "target"):
        what = f"corpus.{side}_language: code of the {side} language, such as de, which scores and exports need"
        short.add_argument(f"--{side}-language", metavar="CODE", help=what)
    short.add_argument("--seed", type=int, metavar="N", help="seed of everything random")
    short.add_argument("--device", metavar="NAME", help="training.device: auto, cpu or cuda")


def run(options: argparse.Namespace) -> None:
    """Train."""
    recipes = [given for given in options.recipe_and_overrides if "=" not in given]
    overrides = _overrides(options) + [given for given in options.recipe_and_overrides if "=" in given]
    if len(recipes) > 1:
        raise UsageError(f"Only one recipe can be trained at a time, but {' and '.join(recipes)} were given.")
    if options.resume:
        if recipes or options.output or options.source or options.tsv or options.jsonl or options.parent:
            raise UsageError("--resume takes the recipe, the corpus and the folder from the run; leave those out.")
        if options.dry_run:
            raise UsageError("A resumed run has nothing left to choose; leave --dry-run out.")
        if options.resume_if_exists:
            raise UsageError("--resume-if-exists goes with a recipe and --output; leave one of the two out.")
    elif not recipes and not any(re.match("corpus[.=](?!..*_language=)", override) for override in overrides):
        raise UsageError(
            "Say what to train on: a recipe (see `locant recipes`), --source and --target, --tsv, --jsonl, or keys of "
            "a corpus, such as corpus.kind=huggingface corpus.dataset=NAME."
        )
    if not (options.resume or options.output or options.dry_run):
        options.output = _default_output(options, recipes)

    from locant.cli.progress import TrainingProgress
    from locant.runtime import keep_freed_memory, limit_onednn_cache
    from locant.training import load_recipe, plan_training, resume_training, train

    # For the whole process, which a call of the library leaves as it is.
    keep_freed_memory()
    limit_onednn_cache()
    if not options.resume:
        recipe = load_recipe(recipes[0] if recipes else "translator", overrides)
    if options.dry_run:
        from locant.cli.console import PlainConsole, WorkBar
        from locant.cli.progress import show_plan

        with WorkBar("measuring text and machine"):
            plan = plan_training(recipe)
        show_plan(plan, PlainConsole())
        return
    try:
        with TrainingProgress(None if options.resume or options.resume_if_exists else recipe) as progress:
            if options.resume:
                summary = resume_training(options.resume, overrides, callback=progress)
            else:
                again = options.resume_if_exists
                summary = train(recipe, options.output, resume_if_exists=again, callback=progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_how_to_go_on(options.resume or options.output)) from None
    if os.environ.get("RANK", "0") == "0":
        _show_summary(summary)


def _how_to_go_on(run: Path) -> str:
    """Return how to go on with a run that was interrupted."""
    from locant.training.checkpoint import checkpoint_folders
    from locant.training.run_folder import has_run, resume_command

    if not has_run(run):
        return "Training had not begun; the same command begins it again."
    saved = checkpoint_folders(run)
    where = f"update {int(saved[-1].name.rpartition('-')[2]):,}, the newest checkpoint" if saved else "the first update"
    return f"Go on from {where}, by `{resume_command(run)}`."


def _overrides(options: argparse.Namespace) -> list[str]:
    """Return the options that are short for ``key=value``, in which names are quoted as YAML reads them."""
    require_both(options)
    named = [name for name in ("source", "tsv", "jsonl") if getattr(options, name)]
    if len(named) > 1:
        raise UsageError(f"The text is named by one option; got {' and '.join(f'--{name}' for name in named)}.")
    if options.keep_optimizer and not options.parent:
        raise UsageError("--keep-optimizer goes with --from RUN.")
    names = {
        "finetuning.parent": options.parent,
        "corpus.train.source": options.source,
        "corpus.train.target": options.target,
        "corpus.train": options.tsv or options.jsonl,
        "corpus.source_language": options.source_language,
        "corpus.target_language": options.target_language,
    }
    values = {
        "finetuning.keep_optimizer": options.keep_optimizer or None,
        "corpus.kind": {"source": "files"}.get(named[0], named[0]) if named else None,
        "model.preset": options.preset,
        "training.steps": options.steps,
        "training.minutes": options.minutes,
        "seed": options.seed,
        "training.device": options.device,
    }
    quoted = {key: name and json.dumps(str(name), ensure_ascii=False) for key, name in names.items()}
    return [f"{key}={value}" for key, value in {**values, **quoted}.items() if value is not None]


def _default_output(options: argparse.Namespace, recipes: list[str]) -> Path:
    """Return ``runs/NAME``, after the recipe or the text, and say so."""
    text = options.source or options.tsv or options.jsonl
    named = recipes[0] if recipes else text or "translator"
    name = Path(named).name.partition(".")[0]
    print(f"The run goes to runs/{name} (--output names another folder).", file=sys.stderr)
    return Path("runs", name)


def _show_summary(summary: RunSummary) -> None:
    """Show how the run ended and what can be done with it."""
    from locant.cli.console import PlainConsole, format_duration
    from locant.training.run_folder import evaluate_command, translate_command

    console = PlainConsole(stderr=True)
    if summary.before_after:
        _show_before_after(console, summary.before_after)
    console.say(
        f"Done: {summary.reason} ({summary.steps:,} steps, {format_duration(summary.seconds)}). Try:\n"
        f"  {translate_command(summary.folder, None, summary.languages)}\n"
        f"  {evaluate_command(summary.folder)}"
    )


def _show_before_after(console: PlainConsole, found: BeforeAfter) -> None:
    """Show the test sets before and after fine-tuning."""
    known = False
    for test in found.tests:
        scores = test.scores
        chances = ["" if p is None else f" (p {p:.3f})" for p in (scores.bleu_chance, scores.chrf_chance)]
        known = known or any(chances)
        console.say(
            f"{test.name} ({_WHOSE[test.of]}, {scores.after.n:,} sentences): "
            f"BLEU {scores.before.bleu:.1f} before, {scores.after.bleu:.1f} after{chances[0]}; "
            f"chrF {scores.before.chrf:.1f} before, {scores.after.chrf:.1f} after{chances[1]}"
        )
    if known:
        console.say("p by sacreBLEU's paired bootstrap; below 0.05 the difference is significant")
    for note in found.notes:
        console.say(note)
