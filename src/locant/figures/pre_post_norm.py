"""Pre-norm beside post-norm: the gradient of every layer before and after training, and the losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from locant.figures.drawing import BLUE, ORANGE, PURPLE, VERMILION, FigureData, Numbers, drawing, new_figure, settle
from locant.figures.record import read_record
from locant.figures.registry import Caption, register_figure

_LINES = {
    ("post", True): (VERMILION, "-", "o"),
    ("post", False): (ORANGE, "--", "D"),
    ("pre", True): (BLUE, "-", "s"),
    ("pre", False): (PURPLE, "--", "^"),
}


@dataclass(frozen=True)
class NormedTraining:
    """One training.

    Attributes:
        norm: ``pre`` or ``post``.
        warm_up: Updates over which the learning rate rises; 0 begins at its peak.
        before: Norm of the gradient by layer before training, ``[N]``, the lowest layer first.
        after: The same after training.
        losses: Means of the loss over so many updates each, in nats a token, in the order of training.
        test_loss: On held-out text.
    """

    norm: str
    warm_up: int
    before: Numbers
    after: Numbers
    losses: Numbers
    test_loss: float

    @property
    def label(self) -> str:
        """Its name."""
        return f"{self.norm}-norm, {'warm-up' if self.warm_up else 'no warm-up'}"


def pre_post_norm_numbers() -> dict[str, Any]:
    """Return the trainings of the record."""
    record = read_record("norms")
    trainings = [
        NormedTraining(
            run["norm"],
            run["warm-up"],
            np.array(run["before"]),
            np.array(run["after"]),
            np.array(run["losses"]),
            run["test loss"],
        )
        for run in record["runs"]
    ]
    return {"trainings": trainings, "every": record["updates a loss"]}


def pre_post_norm(trainings: Sequence[NormedTraining], *, every: int) -> FigureData:
    """Draw gradients by layer before and after training, and the losses.

    Args:
        trainings: Of models that differ in the place of the norm, with and without warm-up.
        every: Updates that each of their losses is the mean of.

    Returns:
        The figure, and ``WHAT: TRAINING`` for every line.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    data: dict[str, Numbers] = {}
    with drawing():
        figure = new_figure(13.5, 4.8)
        before, after, loss = figure.subplots(1, 3)
        begun = set()
        for training in trainings:
            colour, style, marker = _LINES[training.norm, training.warm_up > 0]
            layers = np.arange(1, len(training.before) + 1)
            if training.norm not in begun:  # both trainings of a norm begin with the same weights
                name = f"{training.norm}-norm"
                before.plot(layers, training.before, style, marker=marker, markersize=5, color=colour, label=name)
                begun.add(training.norm)
            after.plot(layers, training.after, style, marker=marker, markersize=5, color=colour, label=training.label)
            steps = (np.arange(len(training.losses)) + 0.5) * every
            label = f"{training.label}: {training.test_loss:.2f}"
            loss.plot(steps, training.losses, style, color=colour, label=label)
            data |= {
                f"before: {training.label}": training.before,
                f"after: {training.label}": training.after,
                f"loss: {training.label}": training.losses,
            }
        for axes, title in ((before, "Before training"), (after, "After training")):
            axes.set_title(title, pad=8)
            axes.set_xlabel("layer, from the input")
            axes.set_ylabel("norm of the gradient of W₂")
            axes.set_ylim(0, 1.45 * axes.get_ylim()[1])
            axes.legend(loc="upper left", fontsize=9)
        loss.set_title("Training", pad=8)
        loss.set_xlabel("updates")
        loss.set_ylabel("nats a character")
        loss.legend(loc="upper right", fontsize=9, title="and on held-out text")
        low, high = loss.get_ylim()
        loss.set_ylim(low, high + 0.35 * (high - low))
        settle(figure)
    return FigureData(figure, data)


register_figure(
    "pre-post-norm",
    numbers=pre_post_norm_numbers,
    draw=pre_post_norm,
    caption=Caption(
        "Pre-norm and post-norm: what a layer's gradient is",
        "With pre-norm the sum along the residual connections grows from layer to layer, each layer is a smaller part "
        "of it, and its gradient falls towards the output. With post-norm every sum is normalised again: before "
        "training the upper layers get as much gradient as the lower, and more than with pre-norm.",
        "post: x&prime;&nbsp;= LayerNorm(x + F(x)) &nbsp;&nbsp; pre: x&prime;&nbsp;= x + F(LayerNorm(x)) &nbsp;&nbsp; "
        "(Xiong et al. 2020, sections 3.2 and 3.3)",
        (
            "Large gradients near the output at a full learning rate are why post-norm wants a learning rate that "
            "rises at first (Xiong et al. 2020). With the six layers and the rate of this record all four trainings "
            "succeed, and warm-up only costs time.",
            "W₂ is the second matrix of a layer's feed-forward network. After training the lowest layers get alike, "
            "and with pre-norm the gradient still falls towards the output.",
            "The numbers are a record of small models of characters; docs/figures.md has the command.",
        ),
    ),
)
