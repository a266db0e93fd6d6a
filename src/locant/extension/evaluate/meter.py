"""Estimate of the time of an evaluation, and its progress."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from locant.extension.evaluate.jobs import Session

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_TRIAL = 384  # tokens whose reading is timed for the estimate


class EvaluationCallback:
    """Is told how an evaluation goes on; a subclass overrides what it wants to know."""

    def on_plan(self, measurements: int, kept: int, seconds: float) -> None:
        """Told before the first measurement: how many there are in all, how many are kept, a guess of the time."""

    def on_progress(self, done: float, what: str) -> None:
        """Told what share of the work is done, 0 to 1, and what is being measured."""


class Meter:
    """Guesses the time, and turns tokens read into a share of the work."""

    def __init__(self, callback: EvaluationCallback | None, total: int, kept: int) -> None:
        self.callback, self.total, self.kept = callback, total, kept
        self.work = self.done = self.current = 0.0
        self.shape = (1.0, 0.0)
        self.what, self.job = "", (0, 0)

    def plan(self, session: Session, sizes: Sequence[tuple[int, int]]) -> None:
        """Time a short text once, and say how long all will take."""
        if self.work or self.callback is None:
            return
        self.shape = _work_of(session.model)
        self.work = sum(self._work(size, cached) for size, cached in sizes)
        self.callback.on_plan(self.total, self.kept, self.work * _seconds_a_unit(session, self._work(_TRIAL, 0)))

    def begin(self, what: str, size: int, cached: int) -> None:
        """Begin a job."""
        self.what, self.job, self.current = what, (size, cached), 0.0
        self.on_chunk(cached)

    def on_chunk(self, tokens: int) -> None:
        """So many tokens of the job have been read."""
        self.current = self._work(tokens, min(self.job[1], tokens))
        if self.callback is not None and self.work:
            self.callback.on_progress(min((self.done + self.current) / self.work, 1.0), self.what)

    def end(self) -> None:
        """End the job."""
        self.done += self._work(*self.job)

    def _work(self, tokens: int, cached: int) -> float:
        a_token, a_pair = self.shape
        return (tokens - cached) * a_token + (tokens**2 - cached**2) / 2 * a_pair


def _work_of(model: PreTrainedModel) -> tuple[float, float]:
    """Return multiplications for a token, and for a pair of tokens that attend to each other."""
    config = model.config.get_text_config()
    width = config.hidden_size
    pairs = 2.0 * config.num_hidden_layers * width
    return float(sum(weights.numel() for weights in model.parameters())), pairs


def _seconds_a_unit(session: Session, work: float) -> float:
    import torch

    from locant.extension.evaluate.prefill import token_losses

    tokens = torch.zeros(_TRIAL, dtype=torch.long)
    seconds = []
    for _ in range(2):  # the first pass warms up
        begin = time.perf_counter()
        token_losses(session.model, tokens, chunk=session.chunk, exact=session.exact)
        seconds.append(time.perf_counter() - begin)
    return min(seconds) / work
