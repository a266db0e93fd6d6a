"""Teacher forcing: what the decoder reads in training and what it must say, and what it reads when it translates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from locant.analysis.introspection import token_pair
from locant.errors import DataError
from locant.figures.drawing import BLUE, FAINT, HIDDEN, INK, VERMILION, FigureData, Numbers, drawing
from locant.figures.registry import Caption, register_figure
from locant.figures.trained import load_trained, readable
from locant.text.batches import decoder_input
from locant.text.tokenizer import BOS, EOS, PAD
from locant.training import load_run_evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class ForcedRow:
    """One target as the decoder reads it and must say it.

    Attributes:
        title: Which.
        reads: Tokens that it reads.
        says: Tokens that it must say after each; empty strings where nothing counts.
        chances: Probability of the right token by a model, ``[T]``, or ``None``.
        choices: The token that the model holds likeliest, where there is a model.
        forced: Whether it reads the right target whatever it says, or its own words.
    """

    title: str
    reads: Sequence[str]
    says: Sequence[str]
    chances: Numbers | None = None
    choices: Sequence[str] = ()
    forced: bool = True


_TARGETS = ("ein Hund rennt", "zwei Kinder spielen im Park")
_MOST_TOKENS = 12  # of a target whose words can be read


def teacher_forcing_numbers(*, run: Path | None = None) -> dict[str, Any]:
    """Return two padded targets and a translation in progress, or a held-out target and what a trained model says.

    Raises:
        CheckpointError: The folder holds no trained model, or the run has not been evaluated.
        DataError: No held-out target is short enough.
        ConfigError: The model is no Transformer.
    """
    if run is not None:
        return {"rows": [_of_run(run)]}
    words = list(dict.fromkeys(" ".join(_TARGETS).split()))
    names = {BOS: "(begin)", EOS: "(end)", PAD: "(pad)", **{EOS + 1 + place: word for place, word in enumerate(words)}}
    ids = {name: number for number, name in names.items()}
    targets = [[ids[word] for word in target.split()] + [EOS] for target in _TARGETS]
    longest = max(map(len, targets))
    output = np.array([target + [PAD] * (longest - len(target)) for target in targets])
    rows = [
        ForcedRow(
            f"Training, target {number + 1} of the batch",
            [names[token] for token in reads],
            [names[token] if token != PAD else "" for token in says],
        )
        for number, (reads, says) in enumerate(zip(decoder_input(output, BOS).tolist(), output.tolist(), strict=True))
    ]
    own = [f"ŷ{number}" for number in range(1, longest)]
    return {"rows": [*rows, ForcedRow("Translating: its own words", ["(begin)", *own], [*own, "(end)"], forced=False)]}


def _of_run(run: Path) -> ForcedRow:
    translator, model = load_trained(run, "The figure 'teacher-forcing'")
    evaluation = load_run_evaluation(run)
    for source, reference in zip(evaluation.sources, evaluation.references, strict=True):
        pair = token_pair(translator.tokenizers, source, reference, translator.prefixes)
        if 4 <= len(pair.target) <= _MOST_TOKENS:
            break
    else:
        raise DataError(f"No held-out target of {run} has 4 to {_MOST_TOKENS} tokens.")
    with torch.no_grad():
        logits = model(torch.tensor([pair.source]), torch.tensor([len(pair.source)]), torch.tensor([pair.target]))
    right = torch.tensor([*pair.target[len(translator.prefixes.target) :], EOS])
    chances = logits[0].double().softmax(-1)[len(translator.prefixes.target) - 1 :]
    tokens = translator.tokenizers.target
    return ForcedRow(
        f"“{source.strip()}”",
        readable(pair.target_tokens)[len(translator.prefixes.target) - 1 :],
        readable([tokens.token(int(index)) for index in right]),
        chances[torch.arange(len(right)), right].numpy(),
        readable([tokens.token(int(index)) for index in chances.argmax(-1)]),
    )


_WIDE, _LINE, _HEAD = 11.0, 0.42, 0.75  # inches of the figure, a line of cells, and above each target
_LEFT, _APART = 1.5, 0.5  # inches for the names of lines, and between what is read and what is said


def teacher_forcing(rows: Sequence[ForcedRow]) -> FigureData:
    """Draw targets as the decoder reads them, above what it must say after each token.

    Args:
        rows: One block each.

    Returns:
        The figure, 11 inches wide, and ``reads TITLE`` and ``says TITLE`` of every row, with ``chances TITLE``.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    steps = max(len(row.reads) for row in rows)
    cell = min(1.5, (_WIDE - _LEFT - 0.3) / steps)
    tall = [_HEAD + 2 * _LINE + _APART + (2 * _LINE if row.chances is not None else 0) for row in rows]
    height = sum(tall) + 0.3
    data: dict[str, Any] = {}
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_WIDE, height))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, _WIDE)
        axes.set_ylim(0, height)
        axes.set_axis_off()
        top = height
        for row, high in zip(rows, tall, strict=True):
            _draw_row(axes, row, top, cell)
            top -= high
            data |= {f"reads {row.title}": np.array(row.reads), f"says {row.title}": np.array(row.says)}
            if row.chances is not None:
                data[f"chances {row.title}"] = row.chances
    return FigureData(figure, data)


def _draw_row(axes: Axes, row: ForcedRow, top: float, cell: float) -> None:
    axes.text(0.2, top - 0.42, row.title, fontsize=12, fontweight="bold", color=INK)
    above = top - _HEAD - _LINE
    below = above - _APART - _LINE
    letters = min(10.0, 72 * cell / 6)
    for y, name in ((above, "reads"), (below, "must say" if row.forced else "says")):
        axes.text(_LEFT - 0.15, y + _LINE / 2, name, ha="right", va="center", fontsize=10, color=FAINT)
    for place, (read, said) in enumerate(zip(row.reads, row.says, strict=True)):
        x = _LEFT + place * cell
        _draw_cell(axes, x, above, cell, read, "#d3e8f6" if read != "(pad)" else HIDDEN, letters)
        _draw_cell(axes, x, below, cell, said or "not counted", "#fbdcae" if said else HIDDEN, letters)
        middle = x + cell / 2
        colour = INK if said else FAINT
        axes.annotate("", (middle, below + _LINE), (middle, above), arrowprops={"arrowstyle": "-|>", "color": colour})
        if not row.forced and place + 1 < len(row.reads):
            axes.annotate(
                "",
                (middle + cell, above),
                (middle, below + _LINE),
                arrowprops={"arrowstyle": "-|>", "color": VERMILION, "linestyle": "--"},
            )
    if row.chances is not None:
        lines = zip(row.chances.tolist(), row.choices, row.says, strict=True)
        for y, name in ((below - _LINE, "its probability"), (below - 2 * _LINE, "model's choice")):
            axes.text(_LEFT - 0.15, y + _LINE / 2, name, ha="right", va="center", fontsize=10, color=FAINT)
        for place, (chance, choice, said) in enumerate(lines):
            middle = _LEFT + (place + 0.5) * cell
            axes.text(middle, below - _LINE / 2, f"{chance:.2f}", ha="center", va="center", fontsize=letters)
            axes.text(
                middle,
                below - 1.5 * _LINE,
                choice,
                ha="center",
                va="center",
                fontsize=letters,
                color=BLUE if choice == said else VERMILION,
                fontweight="normal" if choice == said else "bold",
            )


def _draw_cell(axes: Axes, x: float, y: float, width: float, text: str, fill: str, letters: float) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x, y), width, _LINE, facecolor=fill, edgecolor="white", linewidth=2))
    axes.text(x + width / 2, y + _LINE / 2, text, ha="center", va="center", fontsize=letters, color=INK)


register_figure(
    "teacher-forcing",
    numbers=teacher_forcing_numbers,
    draw=teacher_forcing,
    caption=Caption(
        "What the decoder reads, and what it must say",
        "In training the decoder reads the right target, moved by one: after each token it must say the next, whatever "
        "it would have said itself. All steps are computed at once, because the causal mask hides what is still to be "
        "said. When it translates there is no right target, and each token that it says is what it reads next.",
        "loss&nbsp;= &minus;Σ<sub>t</sub> log p(y<sub>t</sub> | y<sub>0</sub> … y<sub>t&minus;1</sub>, x), &nbsp; "
        "y<sub>0</sub>&nbsp;= (begin) &nbsp;&nbsp; translating: "
        "p(ŷ<sub>t</sub> | ŷ<sub>0</sub> … ŷ<sub>t&minus;1</sub>, x)",
        (
            "Padding fills the shorter targets of a batch; what is said after it does not count in the loss.",
            "With --run: the probability of each right token by a trained model, and what it would have said.",
        ),
    ),
)
