"""Teacher forcing: what the decoder reads in training and what it must say, and what it reads when it translates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from locant.analysis.introspection import token_pair
from locant.errors import DataError
from locant.figures.drawing import BLUE, FAINT, HIDDEN, INK, ON_LIGHT, PAPER, VERMILION, arrow, canvas
from locant.figures.registry import Caption, register_figure
from locant.figures.trained import load_trained, readable
from locant.text.batches import decoder_input
from locant.text.tokenizer import BOS, EOS, PAD
from locant.training import load_run_evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TARGETS = ("ein Hund rennt", "zwei Kinder spielen im Park")
_MOST_TOKENS = 12  # of a target whose words can be read


def numbers(*, run: Path | None = None) -> dict[str, Any]:
    """Return two padded targets and a translation in progress, or a held-out target and what a trained model says.

    Raises:
        CheckpointError: The folder holds no trained model, or the run has not been evaluated.
        DataError: No held-out target is short enough.
        ConfigError: The model is no Transformer.
    """
    if run is not None:
        return _of_run(run)
    words = list(dict.fromkeys(" ".join(_TARGETS).split()))
    names = {BOS: "(begin)", EOS: "(end)", PAD: "(pad)", **{EOS + 1 + place: word for place, word in enumerate(words)}}
    ids = {name: number for number, name in names.items()}
    targets = [[ids[word] for word in target.split()] + [EOS] for target in _TARGETS]
    longest = max(map(len, targets))
    output = np.array([target + [PAD] * (longest - len(target)) for target in targets])
    found: dict[str, Any] = {}
    for number, (reads, says) in enumerate(zip(decoder_input(output, BOS).tolist(), output.tolist(), strict=True)):
        title = f"Training, target {number + 1} of the batch"
        found[f"reads {title}"] = np.array([names[token] for token in reads])
        found[f"says {title}"] = np.array([names[token] if token != PAD else "" for token in says])
    own, title = [f"ŷ{number}" for number in range(1, longest)], "Translating: its own words"
    return found | {f"reads {title}": np.array(["(begin)", *own]), f"says {title}": np.array([*own, "(end)"])}


def _of_run(run: Path) -> dict[str, Any]:
    translator, model = load_trained(run, "teacher-forcing")
    evaluation = load_run_evaluation(run)
    for source, reference in zip(evaluation.sources, evaluation.references, strict=True):
        pair = token_pair(translator.tokenizers, source, reference, translator.prefixes)
        if 4 <= len(pair.target) <= _MOST_TOKENS:
            break
    else:
        raise DataError(f"No held-out target of {run} has 4 to {_MOST_TOKENS} tokens.")
    with torch.no_grad():
        logits = model(torch.tensor([pair.source]), torch.tensor([len(pair.source)]), torch.tensor([pair.target]))
    begins = len(translator.prefixes.target) - 1
    right = torch.tensor([*pair.target[begins + 1 :], EOS])
    chances = logits[0].double().softmax(-1)[begins:]
    title, tokens = f"“{source.strip()}”", translator.tokenizers.target
    return {
        f"reads {title}": np.array(readable(pair.target_tokens)[begins:]),
        f"says {title}": np.array(readable([tokens.token(int(index)) for index in right])),
        f"chances {title}": chances[torch.arange(len(right)), right].numpy(),
        f"choices {title}": np.array(readable([tokens.token(int(index)) for index in chances.argmax(-1)])),
    }


_WIDE, _LINE, _HEAD = 11.0, 0.42, 0.75  # inches of the figure, a line of cells, and above each target
_LEFT, _APART = 1.5, 0.5  # inches for the names of lines, and between what is read and what is said


def draw(**rows: Any) -> Figure:
    """Draw targets as the decoder reads them, above what it must say after each token."""
    titles = [name.removeprefix("reads ") for name in rows if name.startswith("reads ")]
    cell = min(1.5, (_WIDE - _LEFT - 0.3) / max(len(row) for row in rows.values()))
    tall = _HEAD + 2 * _LINE + _APART + (2 * _LINE if len(rows) > 2 * len(titles) else 0)
    figure, axes = canvas(_WIDE, tall * len(titles) + 0.3)
    for number, title in enumerate(titles):
        row = {
            what: rows[f"{what} {title}"]
            for what in ("reads", "says", "chances", "choices")
            if f"{what} {title}" in rows
        }
        _draw_row(axes, title, row, tall * (len(titles) - number) + 0.3, cell)
    return figure


def _draw_row(axes: Axes, title: str, row: dict[str, Any], top: float, cell: float) -> None:
    from matplotlib.patches import Rectangle

    own = title.startswith("Translating")  # it reads what it said
    above = top - _HEAD - _LINE
    below = above - _APART - _LINE
    letters = min(10.0, 72 * cell / 6)

    def write(x: float, y: float, text: str, **how: Any) -> None:
        axes.text(x, y + _LINE / 2, text, **{"ha": "center", "va": "center", "fontsize": letters, **how})

    def box(x: float, y: float, text: str, fill: str) -> None:
        axes.add_patch(Rectangle((x, y), cell, _LINE, facecolor=fill, edgecolor=PAPER, linewidth=2))
        write(x + cell / 2, y, text, color=ON_LIGHT)

    axes.text(0.2, top - 0.42, title, fontsize=12, fontweight="bold")
    names = [(above, "reads"), (below, "says" if own else "must say")]
    if "chances" in row:
        names += [(below - _LINE, "its probability"), (below - 2 * _LINE, "model's choice")]
    for y, name in names:
        write(_LEFT - 0.15, y, name, ha="right", fontsize=10, color=FAINT)
    for place, (read, said) in enumerate(zip(row["reads"], row["says"], strict=True)):
        x = _LEFT + place * cell
        middle = x + cell / 2
        box(x, above, read, "#d3e8f6" if read != "(pad)" else HIDDEN)
        box(x, below, said or "not counted", "#fbdcae" if said else HIDDEN)
        arrow(axes, (middle, above), (middle, below + _LINE), color=INK if said else FAINT)
        if own and place + 1 < len(row["reads"]):
            arrow(axes, (middle, below + _LINE), (middle + cell, above), color=VERMILION, linestyle="--")
        if "chances" in row:
            right = row["choices"][place] == said
            write(middle, below - _LINE, f"{row['chances'][place]:.2f}")
            style = {"color": BLUE} if right else {"color": VERMILION, "fontweight": "bold"}
            write(middle, below - 2 * _LINE, row["choices"][place], **style)


register_figure(
    "teacher-forcing",
    numbers=numbers,
    draw=draw,
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
