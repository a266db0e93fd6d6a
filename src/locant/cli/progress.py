"""Progress bars of the commands that take long; where there is no terminal, a line now and then."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from locant.cli.console import PlainConsole, print_table
from locant.extension.evaluate.evaluation import EvaluationCallback
from locant.extension.extend.finetune import FineTuningStep
from locant.extension.extend.folder import MeasuredMethod
from locant.lab.comparison import Job
from locant.lab.runner import ComparisonCallback
from locant.training import Choice, PreparedReport, Recipe, StepReport, TrainingCallback, TrainingPlan, ValidationReport

_LINES = 20  # of a whole bar, where there is no terminal
_SHORT = 3.0  # seconds of preparing a text, of which nothing is shown


class WorkBar:
    """Draws bars on a terminal, and nothing elsewhere; used in a ``with`` block.

    Attributes:
        console: Where lines are written that stay.
    """

    def __init__(self) -> None:
        self.console = PlainConsole(stderr=True)
        self._bars = Progress(
            TextColumn("{task.fields[before]}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[after]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._tasks: dict[Hashable, TaskID] = {}
        self._lines = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def show(self, done: float, after: str = "", *, before: str = "", task: Hashable = None) -> None:
        """Show a bar, or move it.

        Args:
            done: Share of the work, 0 to 1.
            after: What stands behind the bar.
            before: What stands before it.
            task: Which of several bars.
        """
        if task not in self._tasks:
            self._bars.start()
            self._tasks[task] = self._bars.add_task("", total=1.0, after=after, before=before)
        self._bars.update(self._tasks[task], completed=min(1.0, done), after=after, before=before)

    def remove(self, task: Hashable) -> None:
        """Remove one of several bars, where it is shown; what follows begins anew."""
        self._lines = 0
        if task in self._tasks:
            self._bars.remove_task(self._tasks.pop(task))

    def write_now_and_then(self, done: float, line: str) -> None:
        """Write a line where there is no terminal, some twenty times in all."""
        if not self.console.is_terminal and int(done * _LINES) > self._lines:
            self._lines = int(done * _LINES)
            self.console.print(line, soft_wrap=True)


class TrainingProgress(WorkBar, TrainingCallback):
    """Progress of ``locant train``.

    Args:
        recipe: Of a run that begins.
    """

    def __init__(self, recipe: Recipe | None) -> None:
        super().__init__()
        self._recipe = recipe
        self._step = 0
        self._numbers = ""
        self._preparing, self._begun = "", 0.0

    def on_preparing(self, what: str, share: float) -> None:
        """Show how far it is, where that takes long."""
        now = time.monotonic()
        if what != self._preparing:
            self.remove(self._preparing)
            self._preparing, self._begun = what, now
        if now - self._begun > _SHORT:
            self.show(share, before=what, task=what)
            self.write_now_and_then(share, f"{what} {100 * share:>3.0f}%")

    def on_plan(self, plan: TrainingPlan) -> None:
        """Show what was chosen, and what is to be expected."""
        self.remove(self._preparing)
        show_plan(plan, self.console)
        self._recipe = None

    def on_chosen(self, choice: Choice) -> None:
        """Show what was chosen."""
        self.remove(self._preparing)
        self.console.print(f"{choice.key} {choice.value}: {choice.reason}", soft_wrap=True)

    def on_prepared(self, report: PreparedReport) -> None:
        """Show what will be trained on what."""
        self.remove(self._preparing)
        if self._recipe:
            show_refusals(self._recipe, self.console)
        self.console.print(report.corpus, style="bold", end="")
        self.console.print(f": {report.description}", soft_wrap=True)
        cleaning = report.cleaning
        # One column for each part of a mixture, and for all of it.
        columns = {"count": cleaning}
        if len(report.parts) > 1:
            columns = {**{part.name: part.cleaning for part in report.parts}, "all": cleaning}
        rows = []
        for label in ("total", *cleaning["removed"], "kept"):
            counts = [column[label] if label in column else column["removed"][label] for column in columns.values()]
            rows.append([label, *(f"{count:,}" for count in counts)])
        if len(report.parts) > 1:
            for stage in range(len(report.parts[0].shares)):
                label = f"drawn, stage {stage + 1}" if len(report.parts[0].shares) > 1 else "drawn"
                rows.append([label, *(f"{part.shares[stage]:.1%}" for part in report.parts), ""])
        print_table(self.console, ("training pairs", *columns), rows, names=1, ruled=False)
        vocabulary, waste = report.vocabulary, report.padding_waste
        frozen = report.trained_parameters < report.parameters
        trained = f", of which {report.trained_parameters:,} are trained" if frozen else ""
        self.console.print(
            f"validation {report.valid_pairs:,} pairs, test {report.test_pairs:,} pairs\n"
            f"vocabulary {vocabulary['source']:,} source and {vocabulary['target']:,} target subwords\n"
            f"{report.batches_per_epoch:,} batches an epoch, padding {waste['source']:.1%} of source and "
            f"{waste['target']:.1%} of target cells\n"
            f"model {report.parameters / 1e6:.1f} million parameters{trained}"
        )

    def on_start(self, done: float, device: str) -> None:
        """Show the bar."""
        self.console.print(f"Training on {device}.")
        self.show(done, before=f"step {self._step:>6}")

    def on_step(self, done: float, report: StepReport | None) -> None:
        """Move the bar; every ``log_every`` steps renew its numbers."""
        self._step += 1
        if report:
            self._step, self._numbers = report.step, _training_numbers(report)
            if not self.console.is_terminal:
                self.console.print(f"step {report.step:>6}  {100 * done:>3.0f}%  {self._numbers}", soft_wrap=True)
        self.show(done, self._numbers, before=f"step {self._step:>6}")

    def on_stage(self, number: int, count: int) -> None:
        """Write a line that stays."""
        self.console.print(f"stage {number} of {count} of the corpus", soft_wrap=True)

    def on_validation(self, report: ValidationReport) -> None:
        """Write a line that stays."""
        scores = "" if report.bleu is None else f"   BLEU {report.bleu:.1f}   chrF {report.chrf:.1f} (greedy)"
        best = "   best so far" if report.best else ""
        self.console.print(f"validation at step {report.step}: loss {report.loss:.3f}{scores}{best}", soft_wrap=True)
        if report.parts:
            parts = "   ".join(f"{name} {bleu:.1f}" for name, bleu in report.parts.items())
            self.console.print(f"    BLEU by part: {parts}", soft_wrap=True)


class ExtensionProgress(WorkBar):
    """Progress of ``locant extend``: candidates of ``auto``, and training.

    Args:
        length: Tokens that the model shall read.
    """

    def __init__(self, length: int) -> None:
        super().__init__()
        self._length = length

    def on_measured(self, measured: MeasuredMethod) -> None:
        """Write a line about a candidate of ``auto``."""
        self.console.print(
            f"{measured.method:<9} perplexity {measured.short:>9.3f} at the original length, {measured.long:>9.3f} at "
            f"{self._length} tokens or all of the text",
            soft_wrap=True,
        )

    def on_step(self, step: FineTuningStep) -> None:
        """Move the bar."""
        number, numbers = f"step {step.step:>6}", f"of {step.steps}  loss {step.loss:.4f}"
        self.show(step.step / step.steps, numbers, before=number)
        self.write_now_and_then(step.step / step.steps, f"{number} {numbers}")


class EvaluationProgress(WorkBar, EvaluationCallback):
    """Progress of ``locant evaluate-context``."""

    def on_plan(self, measurements: int, kept: int) -> None:
        """Say what is to come, and show the bar."""
        if kept == measurements:
            self.console.print(f"All {measurements:,} measurements are there already.")
            return
        from_before = f", of which {kept:,} are there already" if kept else ""
        self.console.print(f"{measurements:,} measurements{from_before}. Ctrl-C loses nothing.")
        self.show(0.0)

    def on_progress(self, done: float, what: str) -> None:
        """Move the bar."""
        self.show(done, what)
        self.write_now_and_then(done, f"{100 * done:>3.0f}%  {what}")


def format_duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


class ComparisonProgress(WorkBar, ComparisonCallback):
    """Progress of ``locant compare``: a bar for every trial that runs."""

    def __init__(self) -> None:
        super().__init__()
        self._done, self._all = 0, 0

    def on_start(self, waiting: int, finished: int, at_once: int) -> None:
        """Say how much there is to do."""
        self._all = waiting
        done = f"{finished} are finished already; " if finished else ""
        self.console.print(f"{done}{waiting} trials to run, {at_once} at once.")

    def on_progress(self, job: Job, share: float) -> None:
        """Move a trial's bar."""
        self.show(share, before=str(job), task=job)

    def on_end(self, job: Job, error: str) -> None:
        """Write a line that stays."""
        self.remove(job)
        self._done += bool(job.variant)
        number = f"{self._done}/{self._all} " if job.variant else ""
        self.console.print(f"{number}{job}: {f'FAILED: {error}' if error else 'done'}", soft_wrap=True)


def show_plan(plan: TrainingPlan, console: PlainConsole) -> None:
    """Show what the recipe left open and a forecast of the training."""
    if plan.choices:
        shown = [f"{each.value:g}" if isinstance(each.value, float) else str(each.value) for each in plan.choices]
        rows = [(each.key, value, each.reason) for each, value in zip(plan.choices, shown, strict=True)]
        print_table(console, ("chosen", "value", "because"), rows, ruled=False)
    if "usual_source_length" not in plan.recipe.decoding.model_fields_set:
        console.print("decoding.usual_source_length is chosen when all the text has been tokenised", soft_wrap=True)
    from locant.training.defaults import format_passes

    duration = format_duration(plan.seconds)
    kept = f"{plan.pairs:,} pairs" + (f" (cleaning removes {plan.removed:,})" if plan.removed else "")
    console.print(
        f"expected: {plan.steps:,} updates in about {duration}, {format_passes(plan.epochs)} passes "
        f"over {kept}; {plan.parameters / 1e6:.1f} million parameters at {plan.tokens_per_second:,.0f} target "
        f"tokens a second, {plan.memory / 1e9:.1f} GB of memory",
        soft_wrap=True,
    )
    show_refusals(plan.recipe, console)


def show_refusals(recipe: Recipe, console: PlainConsole) -> None:
    """Say to which formats the model cannot be exported, while it can still be another."""
    from locant.interop.refusals import export_refusals

    if recipe.finetuning:
        return
    several = recipe.corpus.kind == "languages" or (recipe.corpus.kind == "bible" and recipe.corpus.languages)
    for name, reason in export_refusals(recipe.sized_model(8, 8), several_languages=bool(several)).items():
        console.print(f"no export to {name}: {reason}", soft_wrap=True)


def _training_numbers(report: StepReport) -> str:
    return f"loss {report.loss:.3f}  {report.tokens_per_second:,.0f} tokens/s  learning rate {report.learning_rate:.2e}"
