"""Number of heads: the score of one model with its width divided among 1, 2, 4 and 8 heads, beside the 2017 paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from locant.figures.drawing import BLUE, FAINT, VERMILION, FigureData, Numbers, drawing, new_figure, settle
from locant.figures.record import read_record
from locant.figures.registry import Caption, register_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PAPER_WIDTH = 512  # of the base model


def number_of_heads_numbers() -> dict[str, Any]:
    """Return the scores of the record."""
    record = read_record("number_of_heads")
    return {
        "bleu": {int(heads): list(of_seed.values()) for heads, of_seed in record["bleu"].items()},
        "paper": {int(heads): bleu for heads, bleu in record["paper"].items()},
        "width": record["width"],
        "made": f"{record['updates']:,} updates, {record['sentences']} sentences; {record['machine']}",
    }


def number_of_heads(
    bleu: Mapping[int, Sequence[float]], paper: Mapping[int, float], *, width: int, made: str
) -> FigureData:
    """Draw the score against the number of heads.

    Args:
        bleu: BLEU of every seed, by number of heads.
        paper: BLEU in Vaswani et al. 2017, Table 3, base model and row (A), by number of heads.
        width: d_model, which the heads share.
        made: How long the models were trained, tested on what, and on which machine.

    Returns:
        The figure, and ``[2, N]`` (heads, BLEU) for each seed (``seed: NUMBER``) and for the paper (``paper``).

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    heads = np.array(sorted(bleu))
    scores = np.array([bleu[number] for number in sorted(bleu)])
    data: dict[str, Numbers] = {"paper": np.array([list(paper), list(paper.values())])}
    data |= {f"seed: {number + 1}": np.stack([heads, of_seed]) for number, of_seed in enumerate(scores.T)}
    with drawing():
        figure = new_figure(11, 4.4)
        here, published = figure.subplots(1, 2)
        for of_seed in scores.T:
            here.plot(heads, of_seed, "o", color=BLUE, markersize=5, alpha=0.6)
        here.plot(heads, scores.mean(axis=1), "-", color=BLUE)
        _name_axes(here, heads, width, "Preset tiny, captions")
        here.text(0, -0.27, made, transform=here.transAxes, fontsize=8.5, color=FAINT)
        published.plot(*data["paper"], "-s", color=VERMILION, markersize=5)
        _name_axes(published, data["paper"][0], _PAPER_WIDTH, "Base model of the 2017 paper, news")
        settle(figure)
    return FigureData(figure, data)


def _name_axes(axes: Axes, heads: Numbers, width: int, title: str) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    axes.set_title(title, pad=8)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator([float(number) for number in heads]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{int(number)}\n{width // int(number)}" for number in heads])
    axes.set_xlabel("heads, and below them features of each")
    axes.set_ylabel("BLEU")
    axes.margins(y=0.25)


register_figure(
    "number-of-heads",
    numbers=number_of_heads_numbers,
    draw=number_of_heads,
    caption=Caption(
        "Why several heads: the same model, divided differently",
        "The width of the model stays and is shared among the heads, so that all these models have the same weights "
        "to begin with and cost the same. One head averages where several could look at different words; many heads "
        "are left with few features each to find them by.",
        "head<sub>i</sub>&nbsp;= Attention(Q W<sub>i</sub><sup>Q</sup>, K W<sub>i</sub><sup>K</sup>, "
        "V W<sub>i</sub><sup>V</sup>), d<sub>k</sub>&nbsp;= d<sub>model</sub>&nbsp;/&nbsp;h &nbsp;&nbsp; "
        "(Vaswani et al. 2017, section 3.2.2)",
        (
            "In the paper one head costs 0.9 BLEU and 32 cost 0.4 (Table 3, row A).",
            "On captions of a dozen words, after 500 updates and with one seed, a tiny model shows nothing of it: "
            "the four lie within 1.7 BLEU, and one head is not the worst.",
            "The numbers are a record; docs/figures.md has the command. Each dot is one seed, the line their mean.",
        ),
    ),
)
