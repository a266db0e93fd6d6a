"""What ``locant compare`` shows while trials run."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from locant.lab.comparison import Job


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
