"""Reports of a run while it trains: to its files, and to a callback."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.files import append_line, write_text
from locant.parsing import parse_json
from locant.training.checkpoint import ValidationScores

if TYPE_CHECKING:
    from locant.training.defaults import Choice, TrainingPlan


@dataclass(frozen=True)
class StepReport:
    """One row of training metrics, averaged over the steps since the row before.

    Attributes:
        step: Updates done.
        epoch: Pass over the training data, from 0.
        loss: Label-smoothed cross-entropy, in nats a token.
        nll: Negative log-likelihood, in nats a token.
        learning_rate: Of the newest update.
        gradient_norm: Before clipping, of the newest update.
        tokens_per_second: Target tokens without padding.
        seconds: Time trained.
    """

    step: int
    epoch: int
    loss: float
    nll: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    seconds: float


@dataclass(kw_only=True)
class ValidationReport(ValidationScores):
    """The result of a validation.

    Attributes:
        step: Updates done.
        seconds: Time trained.
        best: Whether this is the best so far.
    """

    step: int
    seconds: float
    best: bool


@dataclass(frozen=True)
class PartReport:
    """What is trained on in one part of a corpus.

    Attributes:
        name: Of the part.
        cleaning: How many training pairs there were, were removed for each reason and kept.
        valid_pairs: Pairs of the validation set.
        test_pairs: Pairs of the test set.
        train_tokens: Tokens of the training pairs, by side.
        shares: How much of the text trained on is drawn from this part, 0 to 1, in each stage of the corpus.
    """

    name: str
    cleaning: dict[str, Any]
    valid_pairs: int
    test_pairs: int
    train_tokens: dict[str, int]
    shares: list[float]


@dataclass(frozen=True)
class PreparedReport:
    """What will be trained on what; the content of a run's ``data.json``.

    Attributes:
        corpus: Its name.
        description: One sentence about it.
        licence: Of the corpus, where it is known.
        source_language: ISO code, where it is known.
        target_language: Likewise.
        cleaning: How many training pairs there were, were removed for each reason and kept.
        train_pairs: Pairs that are trained on.
        valid_pairs: Pairs of the validation set.
        test_pairs: Pairs of the test set; 0 where there is none.
        train_tokens: Tokens of the training pairs, by side.
        vocabulary: Subwords, by side.
        batches_per_epoch: Batches of the first pass over the training data.
        padding_waste: Share of padding in them, 0 to 1, by side.
        parameters: Parameters of the model, adapters included.
        trained_parameters: Those of them that are not frozen.
        parts: The same of each part of the corpus; one of a plain corpus.
        languages: The languages that have a token, in a model for several.
        zero_shot: Directions that are only measured.
        fingerprint: Identifies the text and the settings from which all is prepared.
        doubts: What is likely not meant about the text; see :class:`locant.text.samples.Doubt`.
    """

    corpus: str
    description: str
    licence: str | None
    source_language: str | None
    target_language: str | None
    cleaning: dict[str, Any]
    train_pairs: int
    valid_pairs: int
    test_pairs: int
    train_tokens: dict[str, int]
    vocabulary: dict[str, int]
    batches_per_epoch: int
    padding_waste: dict[str, float]
    parameters: int
    trained_parameters: int
    parts: list[PartReport]
    languages: tuple[str, ...] = ()
    zero_shot: tuple[str, ...] = ()
    fingerprint: str | None = None
    doubts: list[dict[str, Any]] = field(default_factory=list)


class TrainingCallback:
    """Base of what is told how a run goes, on its first process; every method does nothing unless overridden."""

    def on_plan(self, plan: TrainingPlan) -> None:
        """What the recipe left open is chosen; not called where it left nothing open."""

    def on_chosen(self, choice: Choice) -> None:
        """A setting that follows from the tokenised text is chosen, where the recipe left it open."""

    def on_preparing(self, what: str, share: float) -> None:
        """Text is prepared: what is being done, in words, and how much of it is done, 0 to 1."""

    def on_prepared(self, report: PreparedReport) -> None:
        """Data and model are ready."""

    def on_start(self, done: float, device: str) -> None:
        """Training begins; ``done`` is the share of the budget used by earlier sessions, 0 to 1."""

    def on_step(self, done: float, report: StepReport | None) -> None:
        """An update is done; a report comes every ``log_every`` updates."""

    def on_stage(self, number: int, count: int) -> None:
        """Training goes on with another stage of the corpus, counted from 1."""

    def on_validation(self, report: ValidationReport) -> None:
        """A validation is done."""


class MetricsLog:
    """Appends rows to ``metrics.jsonl`` and, where it is installed, to TensorBoard.

    Rows after ``step``, written by a session that was killed before its next checkpoint, are removed.
    """

    def __init__(self, run: Path, step: int) -> None:
        self.path = run / "metrics.jsonl"
        if self.path.exists():
            # The last row is that of the average, which is made again.
            kept = [row for row in read_metrics(run) if (row["step"], row["kind"] == "average") <= (step, False)]
            write_text(self.path, "".join(json.dumps(row) + "\n" for row in kept))
        self._writer = None
        if find_spec("tensorboard"):
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(run / "tensorboard", purge_step=step + 1)

    def write(self, kind: str, row: dict[str, Any]) -> None:
        """Append one row; ``kind`` is ``training`` or ``validation``."""
        append_line(self.path, json.dumps({"kind": kind, **row}))
        if self._writer:
            for name, value in row.items():
                for part, number in value.items() if isinstance(value, dict) else [(None, value)]:
                    if isinstance(number, float):
                        self._writer.add_scalar("/".join(filter(None, (kind, name, part))), number, row["step"])

    def close(self) -> None:
        """Flush and close."""
        if self._writer:
            self._writer.close()


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """Return the rows of ``metrics.jsonl``; what is none, as a last line cut short by a kill, is left out."""
    rows = []
    for line in (run / "metrics.jsonl").read_bytes().split(b"\n"):
        with suppress(ValueError):
            row = parse_json(line)
            if isinstance(row, dict) and isinstance(row.get("step"), int) and isinstance(row.get("kind"), str):
                rows.append(row)
    return rows
