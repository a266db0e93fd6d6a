"""Length generalisation: problems with exact answers, trained up to a length and tested up to twice that length.

After Kazemnejad et al. 2023, "The Impact of Positional Encoding on Length Generalization in Transformers", sections 3
and 4: decoder-only models from scratch, answers without a scratchpad, exact match.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from random import Random
from types import new_class
from typing import ClassVar

import torch
from pydantic import Field

from locant.errors import ConfigError
from locant.lab.problems import PROBLEMS, Problem
from locant.lab.task import ComparisonTask, Lengths, Metric, MetricValue, Outcome, Trial, split_of
from locant.lab.training import OptimiserSettings, train_fairly
from locant.lab.variants import ModelSettings, beyond
from locant.models.language_model import LanguageModel
from locant.text import PAD
from locant.training import LanguageModelBatch

START, ANSWER, END = 1, 2, 3
_TEST_ROWS = 100  # at once

EXACT = Metric(
    "exact match (%)",
    "Share of test questions whose greedily decoded answer is right to the last token, EOS included.",
    higher_is_better=True,
)


class LengthGeneralisationTask(ComparisonTask):
    """One problem. Sequences are ``<start> question <answer> answer <end>``; only answers are learned."""

    averages_lengths: ClassVar[bool] = True
    problem: ClassVar[Problem]

    train_length: int = Field(10, ge=1, description="Longest question trained on; lengths are drawn evenly from 1 on")
    test_lengths: Lengths = Field((), description="By default every length up to twice the trained one")
    test_examples: int = Field(100, ge=1, description="Questions for each test length")
    batch: int = Field(64, ge=1, description="Questions in an update")
    model: ModelSettings = ModelSettings(layers=2, d_model=64, d_ff=256)
    optimiser: OptimiserSettings = OptimiserSettings(learning_rate=2e-3)

    @property
    def metrics(self) -> dict[str, Metric]:
        """Exact match."""
        return {"exact": EXACT}

    @classmethod
    def default_variants(cls) -> tuple[str, ...]:
        """Return the schemes of the paper, with rotary positions both whole and as in its baseline."""
        return ("none", "t5", "alibi", "rotary", "rotary-25", "sinusoidal")

    def check(self) -> None:
        """Raise ConfigError where the problem has no questions so long."""
        limit, longest = self.problem.max_length, max(self.train_length, *self._lengths)
        if limit is not None and longest > limit:
            raise ConfigError(
                f"The longest question of '{self.name}' has {limit} {self.length_means}; got length {longest}."
            )

    def run(self, trial: Trial) -> Outcome:
        """Train on short questions and count right answers at every test length."""
        tests = {length: self.test_batches(trial.seed, length) for length in self._lengths}
        longest = max(batch.ids.shape[1] for batches in tests.values() for batch in batches)
        # Questions have different numbers of tokens; what training shows is the longest of very many.
        random = self._random(trial.seed, "longest")
        trained = max(self._batch(random, [self.train_length] * 2000).ids.shape[1], 2)
        config = self.model.config(trial.variant, self.vocabulary_size, trained=trained, longest=longest)
        model, facts = train_fairly(config, self.training_batches(trial.seed, trained), trial, self.optimiser)
        measurements = tuple(self.measure(model.eval(), length, batches) for length, batches in tests.items())
        return Outcome(measurements=measurements, **facts)

    @property
    def _lengths(self) -> tuple[int, ...]:
        return self.test_lengths or tuple(range(1, 2 * self.train_length + 1))

    @property
    def vocabulary_size(self) -> int:
        """Number of ids: padding, the marks and the problem's symbols."""
        return END + 1 + len(self.problem.symbols)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {symbol: number for number, symbol in enumerate(self.problem.symbols, start=END + 1)}

    def _random(self, seed: int, purpose: str) -> Random:
        return Random(f"{self.name}/{seed}/{purpose}")

    def training_batches(self, seed: int, longest: int) -> Iterator[LanguageModelBatch]:
        """Yield batches without end; a sequence longer than any known to the tables is drawn again."""
        random = self._random(seed, "training")
        while True:
            batch = self._batch(random, [random.randint(1, self.train_length) for _ in range(self.batch)])
            if batch.ids.shape[1] <= longest:
                yield batch

    def test_batches(self, seed: int, length: int) -> list[LanguageModelBatch]:
        """Return the test questions of one length, always the same ones."""
        random = self._random(seed, f"test/{length}")
        sizes = [min(_TEST_ROWS, self.test_examples - done) for done in range(0, self.test_examples, _TEST_ROWS)]
        return [self._batch(random, [length] * size) for size in sizes]

    def _batch(self, random: Random, lengths: list[int]) -> LanguageModelBatch:
        rows, starts = [], []
        for length in lengths:
            question, answer = self.problem.sample(random, length)
            numbers = self._numbers
            rows.append([START, *(numbers[t] for t in question), ANSWER, *(numbers[t] for t in answer), END])
            starts.append(len(question) + 1)
        width = max(map(len, rows))
        ids = torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
        labels = ids[:, 1:].clone()
        labels[torch.arange(width - 1) < torch.tensor(starts)[:, None]] = PAD
        return LanguageModelBatch(ids[:, :-1], labels, sum(map(len, rows)) - len(rows))

    @torch.no_grad()
    def measure(self, model: LanguageModel, length: int, batches: list[LanguageModelBatch]) -> MetricValue:
        """Count right answers at one length.

        A greedily decoded answer is right exactly where each of its tokens is the likeliest after the right ones
        before it, so that one pass over question and answer decides.
        """
        needed = max(batch.ids.shape[1] for batch in batches)
        device, reason = next(model.parameters()).device, beyond(model, needed)
        value: float | None = None
        if reason:
            reason = f"questions of length {length} have {needed} tokens, {reason}"
        else:
            right = 0
            for batch in batches:
                labels = batch.labels.to(device)
                right += int(((model(batch.ids.to(device)).argmax(-1) == labels) | (labels == PAD)).all(-1).sum())
            value = 100 * right / self.test_examples
        split = split_of(length, self.train_length)
        return MetricValue(metric="exact", value=value, length=length, split=split, reason=reason)


def _task_of(problem: Problem) -> type[LengthGeneralisationTask]:
    fields = {
        "__doc__": problem.sample.__doc__,
        "__module__": __name__,
        "name": problem.name,
        "title": problem.title,
        "length_means": problem.length_means,
        "problem": problem,
    }
    return new_class(problem.name, (LengthGeneralisationTask,), exec_body=lambda body: body.update(fields))


LENGTH_TASKS: dict[str, type[LengthGeneralisationTask]] = {
    name: _task_of(problem) for name, problem in PROBLEMS.items()
}
"""One task for every problem, by name."""
