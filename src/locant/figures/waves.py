"""The waves: sine and cosine of every pair of features over the position."""

from __future__ import annotations

from locant.figures.drawing import (
    BLUE,
    FAINT,
    INK,
    VERMILION,
    FigureData,
    Numbers,
    count,
    drawing,
    new_figure,
    settle,
    signed,
)


def waves(
    places: Numbers,
    sine: Numbers,
    cosine: Numbers,
    *,
    wavelengths: Numbers,
    pairs: Numbers,
    token: int,
    token_sine: Numbers,
    token_cosine: Numbers,
    title: str,
) -> FigureData:
    """Draw each pair's sine and cosine in a strip of its own, and mark what one token receives.

    Args:
        places: Places ``[N]`` along the text at which the curves are given, in tokens; not only whole ones.
        sine: Sine ``[P, N]`` of every pair.
        cosine: Cosine ``[P, N]``.
        wavelengths: Tokens of a full turn, ``[P]``.
        pairs: Number of every pair, ``[P]``.
        token: Position of the token.
        token_sine: Sines ``[P]`` that it receives.
        token_cosine: Cosines ``[P]``.
        title: Title of the figure.

    Returns:
        The figure, 10 inches wide, and the arrays.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with drawing():
        figure = new_figure(10, 1.5 + 0.82 * len(pairs))
        strips = figure.subplots(len(pairs), 1, sharex=True, squeeze=False)[:, 0]
        for row, axes in enumerate(strips):
            axes.plot(places, sine[row], color=BLUE, label="sine")
            axes.plot(places, cosine[row], "--", color=VERMILION, label="cosine")
            axes.axvline(token, color=INK, linewidth=0.9)
            axes.plot(token, token_sine[row], "o", color=BLUE, markersize=6, markeredgecolor="white", clip_on=False)
            axes.plot(
                token, token_cosine[row], "s", color=VERMILION, markersize=6, markeredgecolor="white", clip_on=False
            )
            axes.set_ylim(-1.25, 1.25)
            axes.set_yticks([-1, 0, 1])
            axes.tick_params(labelsize=8.5)
            axes.set_ylabel(
                f"pair {int(pairs[row])}\n{count(wavelengths[row])} tokens",
                rotation=0, ha="right", va="center", fontsize=9, linespacing=1.4,
            )  # fmt: skip
            values = ((0.74, BLUE, "sin", token_sine[row]), (0.26, VERMILION, "cos", token_cosine[row]))
            for height, colour, name, value in values:
                axes.annotate(
                    f"{name} {signed(value)}",
                    (1.015, height),
                    xycoords="axes fraction",
                    va="center",
                    color=colour,
                    fontsize=9.5,
                )
        strips[0].set_title(title, pad=12)
        strips[0].annotate(f"token {token} receives", (1.015, 1.12), xycoords="axes fraction", fontsize=9.5, color=INK)
        strips[-1].set_xlabel("position in tokens")
        strips[-1].set_xlim(places[0], places[-1])
        handles, labels = strips[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9.5, labelcolor=FAINT)
        settle(figure)
    data = {
        "places": places, "sine": sine, "cosine": cosine, "wavelengths": wavelengths, "pairs": pairs,
        "token_sine": token_sine, "token_cosine": token_cosine,
    }  # fmt: skip
    return FigureData(figure, data)
