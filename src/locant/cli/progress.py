"""Progress on the terminal: bars and tables of training, extension and comparison."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from locant.extension.extend.finetune import FineTuningStep
from locant.extension.extend.report import Measurement
from locant.lab.comparison import Job
from locant.training import RunSummary, StepReport, ValidationReport

_PARTS = 10_000  # of the bar


class WorkBar:
    """Draws a bar on a terminal, and nothing elsewhere; used in a ``with`` block.

    Args:
        after: What follows the bar, a format of rich with ``{task.fields[name]}``.
        before: What stands before it.
    """

    def __init__(self, after: str, before: str = "") -> None:
        self.console = Console(stderr=True, highlight=False)
        self._bar = Progress(
            *([TextColumn(before)] if before else []),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn(after),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def show(self, done: float, **fields: Any) -> None:
        """Show the bar, or move it.

        Args:
            done: Share of the work, 0 to 1.
            fields: What the formats name.
        """
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task("", total=_PARTS, completed=round(_PARTS * done), **fields)
        else:
            self._bar.update(self._task, completed=_PARTS * done, **fields)


_LINES = 20  # where there is no terminal for a bar


class ExtensionProgress(WorkBar):
    """Draws a progress bar on a terminal, and writes plain lines elsewhere.

    Args:
        length: Tokens that the model shall read.
    """

    def __init__(self, length: int) -> None:
        super().__init__("{task.fields[numbers]}", before="step {task.fields[step]:>6}")
        self._length = length

    def on_measured(self, measured: Measurement) -> None:
        """Write a line about a candidate of ``auto``."""
        self.console.print(
            f"{measured.method:<9} perplexity {measured.short:>9.3f} at the original length, {measured.long:>9.3f} at "
            f"{self._length} tokens or all of the text",
            soft_wrap=True,
        )

    def on_step(self, step: FineTuningStep) -> None:
        """Move the bar."""
        numbers = f"of {step.steps}  loss {step.loss:.4f}"
        self.show(step.step / step.steps, step=step.step, numbers=numbers)
        is_line = step.step == step.steps or step.step % max(1, step.steps // _LINES) == 0
        if is_line and not self.console.is_terminal:
            self.console.print(f"step {step.step:>6} {numbers}", soft_wrap=True)


class TrialBars:
    """Draws a bar for every trial that runs on a terminal, and writes plain lines elsewhere."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._shown: dict[Job, TaskID] = {}
        self._done, self._all = 0, 0

    def __enter__(self) -> TrialBars:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def on_start(self, waiting: int, finished: int, at_once: int) -> None:
        """Say how much there is to do."""
        self._all = waiting
        done = f"{finished} are finished already; " if finished else ""
        self._console.print(f"{done}{waiting} trials to run, {at_once} at once.")

    def on_progress(self, job: Job, share: float) -> None:
        """Move a trial's bar."""
        if job not in self._shown:
            self._shown[job] = self._bars.add_task(str(job), total=1.0)
        self._bars.update(self._shown[job], completed=min(1.0, share))

    def on_end(self, job: Job, error: str) -> None:
        """Write a line that stays."""
        if job in self._shown:
            self._bars.remove_task(self._shown.pop(job))
        self._done += bool(job.contender)
        number = f"{self._done}/{self._all} " if job.contender else ""
        self._console.print(f"{number}{job}: {f'FAILED: {error}' if error else 'done'}", soft_wrap=True, markup=False)


_console = Console(stderr=True, highlight=False)


class ProgressCallback(WorkBar):
    """Draws a progress bar on a terminal, and writes plain lines elsewhere."""

    def __init__(self) -> None:
        super().__init__("{task.fields[numbers]}", before="step {task.fields[step]:>6}")
        self._step = 0
        self._numbers = ""

    def on_start(self, done: float, device: str) -> None:
        """Show the bar."""
        self.console.print(f"Training on {device}.")
        self.show(done, step=self._step, numbers="")

    def on_step(self, done: float, report: StepReport | None) -> None:
        """Move the bar; every ``log_every`` steps renew its numbers."""
        self._step += 1
        if report:
            self._step, self._numbers = report.step, _numbers(report)
            if not self.console.is_terminal:
                self.console.print(f"step {report.step:>6}  {100 * done:>3.0f}%  {self._numbers}", soft_wrap=True)
        self.show(done, step=self._step, numbers=self._numbers)

    def on_validation(self, report: ValidationReport) -> None:
        """Write a line that stays."""
        scores = "" if report.bleu is None else f"   BLEU {report.bleu:.1f}   chrF {report.chrf:.1f} (greedy)"
        best = "   best so far" if report.best else ""
        self.console.print(f"validation at step {report.step}: loss {report.loss:.3f}{scores}{best}", soft_wrap=True)


def show_prepared(data: dict[str, Any]) -> None:
    """Show what will be trained on what."""
    _console.print(f"[bold]{data['corpus']}[/bold]: {data['description']}", soft_wrap=True)
    cleaning = data["cleaning"]
    table = Table("training pairs", "count", box=None, padding=(0, 2))
    table.columns[1].justify = "right"
    for label, count in (("total", cleaning["total"]), *cleaning["removed"].items(), ("kept", cleaning["kept"])):
        table.add_row(label, f"{count:,}")
    _console.print(table)
    vocabulary, waste = data["vocabulary"], data["padding_waste"]
    _console.print(
        f"validation {data['valid_pairs']:,} pairs, test {data['test_pairs']:,} pairs\n"
        f"vocabulary {vocabulary['source']:,} source and {vocabulary['target']:,} target pieces\n"
        f"{data['batches_per_epoch']:,} batches an epoch, padding {waste['source']:.1%} of source and "
        f"{waste['target']:.1%} of target cells\n"
        f"model {data['parameters'] / 1e6:.1f} million parameters"
    )


def show_summary(summary: RunSummary) -> None:
    """Show how the run ended and what can be done with it."""
    _console.print(
        f"Done: {summary.reason} ({summary.steps:,} steps, {summary.seconds / 60:.1f} minutes). Try:\n"
        f'  locant translate {summary.folder} "..."\n'
        f"  locant evaluate {summary.folder}"
    )


def _numbers(report: StepReport) -> str:
    return f"loss {report.loss:.3f}  {report.tokens_per_second:,.0f} tokens/s  learning rate {report.learning_rate:.2e}"
