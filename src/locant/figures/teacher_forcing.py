"""Teacher forcing: what the decoder reads in training and what it must say, and what it reads when it translates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from locant.analysis.introspection import token_pair
from locant.errors import DataError
from locant.figures.drawing import SLIDE, SLIDE_LETTERS, Axes, Figure, arrow, canvas, write
from locant.figures.palette import BLUE, FAINT, HIDDEN, INK, ON_LIGHT, PAPER, VERMILION
from locant.figures.registry import register_figure
from locant.figures.trained import load_trained, readable
from locant.text.batches import decoder_input
from locant.text.tokenizer import BOS, EOS, PAD
from locant.training import load_run_evaluation

_TARGETS = ("ein Hund rennt", "zwei Kinder spielen im Park")
_MOST_TOKENS = 12  # of a target whose words can be read
_ON_A_SLIDE = 6


def numbers(*, run: Path | None = None) -> dict[str, Any]:
    """Return two padded targets and a translation in progress, or a held-out target and what a trained model says.

    Raises:
        DataError: No held-out target is short enough.
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


def _titles(rows: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rows of each title by what they are."""
    titles = [name.removeprefix("reads ") for name in rows if name.startswith("reads ")]
    kinds = ("reads", "says", "chances", "choices")
    return {title: {what: rows[f"{what} {title}"] for what in kinds if f"{what} {title}" in rows} for title in titles}


_WIDE, _LINE, _HEAD = 11.0, 0.42, 0.75  # inches of the figure, a line of cells, and above each target
_LEFT, _APART = 1.5, 0.5  # inches for the names of lines, and between what is read and what is said


def draw(**rows: Any) -> Figure:
    """Draw targets as the decoder reads them, above what it must say after each token."""
    shown = _titles(rows)
    cell = min(1.5, (_WIDE - _LEFT - 0.3) / max(len(row) for row in rows.values()))
    tall = _HEAD + 2 * _LINE + _APART + (2 * _LINE if len(rows) > 2 * len(shown) else 0)
    figure, axes = canvas(_WIDE, tall * len(shown) + 0.3)
    for number, (title, row) in enumerate(shown.items()):
        _draw_row(axes, title, row, tall * (len(shown) - number) + 0.3, cell, min(10.0, 72 * cell / 6))
    return figure


def slides(**rows: Any) -> Iterator[Figure]:
    """Draw a few tokens of a target on each slide."""
    for title, row in _titles(rows).items():
        for first in range(0, len(row["reads"]), _ON_A_SLIDE):
            figure, axes = canvas(*SLIDE)
            part = {what: of[first : first + _ON_A_SLIDE] for what, of in row.items()}
            many = len(row["reads"]) > _ON_A_SLIDE
            name = f"{title[:40]}…”" if len(title) > 42 else title
            said = f"{name}, from token {first + 1}" if many else name
            tall = _HEAD + 2 * _LINE + _APART + (2 * _LINE if "chances" in row else 0)
            top = (SLIDE[1] + tall) / 2
            _draw_row(axes, said, part, top, (SLIDE[0] - _LEFT - 0.05) / _ON_A_SLIDE, SLIDE_LETTERS)
            yield figure


def _draw_row(axes: Axes, title: str, row: dict[str, Any], top: float, cell: float, letters: float) -> None:
    from matplotlib.patches import Rectangle

    own = title.startswith("Translating")  # it reads what it said
    above = top - _HEAD - _LINE
    below = above - _APART - _LINE
    write(axes, 0.2, top - 0.36, title, 12, color=INK, ha="left", fontweight="bold")
    names = [(above, "reads"), (below, "says" if own else "must say")]
    if "chances" in row:
        names += [(below - _LINE, "its probability"), (below - 2 * _LINE, "model's choice")]
    for y, name in names:
        write(axes, _LEFT - 0.1, y + _LINE / 2, name, max(10, letters), ha="right")
    for place, (read, said) in enumerate(zip(row["reads"], row["says"], strict=True)):
        x = _LEFT + place * cell
        middle = x + cell / 2
        filled = ((above, read, "#d3e8f6" if read != "(pad)" else HIDDEN), (below, said, "#fbdcae" if said else HIDDEN))
        for y, text, fill in filled:
            axes.add_patch(Rectangle((x, y), cell, _LINE, facecolor=fill, edgecolor=PAPER, linewidth=2))
            write(axes, middle, y + _LINE / 2, text or "not\ncounted", letters, color=ON_LIGHT, linespacing=0.9)
        arrow(axes, (middle, above), (middle, below + _LINE), color=INK if said else FAINT)
        if own and place + 1 < len(row["reads"]):
            arrow(axes, (middle, below + _LINE), (middle + cell, above), color=VERMILION, linestyle="--")
        if "chances" in row:
            right = row["choices"][place] == said
            write(axes, middle, below - _LINE / 2, f"{row['chances'][place]:.2f}", letters, color=INK)
            style = {"color": BLUE} if right else {"color": VERMILION, "fontweight": "bold"}
            write(axes, middle, below - 3 * _LINE / 2, row["choices"][place], letters, **style)


register_figure("teacher-forcing", numbers, draw, slides=slides)
