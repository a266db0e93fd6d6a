"""What ``locant train`` shows: tables before and after, and a progress bar with the numbers that matter."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from locant.cli.work_bar import WorkBar
from locant.training import RunSummary, StepReport, ValidationReport

_console = Console(stderr=True, highlight=False)


class ProgressMonitor(WorkBar):
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
