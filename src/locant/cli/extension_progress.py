"""What ``locant extend`` shows: what is measured, and a progress bar of training."""

from __future__ import annotations

from locant.cli.work_bar import WorkBar
from locant.extension.finetune import FineTuningStep
from locant.extension.model_card import Measurement

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
