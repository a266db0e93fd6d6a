"""Every figure by name: what it shows, its formula, its options and how it is drawn."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np

from locant.analysis.geometry import shift_matrix
from locant.analysis.properties import PROPERTIES, check_registry
from locant.app.gallery import attention, codes, scalings, trained
from locant.app.gallery.refutations import refutations
from locant.app.gallery.words import words_and_positions
from locant.errors import UsageError, nearest
from locant.figures import (
    FigureData,
    bias,
    circle,
    clocks,
    criteria,
    distance,
    dot_products,
    heatmap,
    heatmaps,
    probe,
    spectrum,
    training_curves,
    tutorial_errors,
    waves,
    word_plus_position,
)
from locant.figures import attention as attention_figure
from locant.figures.drawing import Numbers
from locant.positions.embeddings.sinusoidal import SinusoidDialect

_LARGEST_BASE = 10**12


@dataclass(frozen=True)
class Entry:
    """One figure.

    Attributes:
        build: Computes the numbers and draws them; its keyword arguments are the figure's options.
        limits: Largest value of the options that have one, beyond which a figure cannot be read.
    """

    build: Callable[..., FigureData]
    limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def options(self) -> list[str]:
        """Names of the options."""
        return list(inspect.signature(self.build).parameters)

    @property
    def needs_run(self) -> bool:
        """Whether it shows a trained model, so that the option ``run`` must be given."""
        run = inspect.signature(self.build).parameters.get("run")
        return run is not None and run.default is run.empty


def draw(name: str, options: Mapping[str, Any] | None = None) -> FigureData:
    """Draw a figure.

    Args:
        name: A key of :data:`ENTRIES`.
        options: Options of the figure; the others keep their defaults.

    Raises:
        UsageError: The name is unknown, the figure does not have an option, or a value is out of range.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> sorted(draw("waves", {"length": 20}).data)[:2]
        ['cosine', 'pairs']
    """
    check(name, options or {})
    return ENTRIES[name].build(**(options or {}))


def check(name: str, options: Mapping[str, Any]) -> None:
    """Raise UsageError unless there is such a figure with such options; draws nothing."""
    if name not in ENTRIES:
        raise UsageError(f"Unknown figure '{name}'.{nearest(name, ENTRIES)} Known: {', '.join(ENTRIES)}.")
    entry = ENTRIES[name]
    for option, value in options.items():
        spelled = _spelled(option)
        if option not in entry.options:
            takes = f"It takes {', '.join(map(_spelled, entry.options))}." if entry.options else "It has no options."
            raise UsageError(f"The figure '{name}' does not take {spelled}. {takes}")
        if option == "base" and not 1 < value <= _LARGEST_BASE:
            raise UsageError(f"--base must be above 1 and at most {_LARGEST_BASE:,}; got {value:g}.")
        least = 0 if option == "token" else 2
        if option in entry.limits and not least <= value <= entry.limits[option]:
            most = entry.limits[option]
            raise UsageError(f"{spelled} of the figure '{name}' must be {least} to {most:,}; got {value:,}.")
    if entry.needs_run and "run" not in options:
        raise UsageError(f"The figure '{name}' shows a trained model; say which: --run FOLDER.")


def _spelled(option: str) -> str:
    return "--" + option.replace("_", "-")


def _clocks(*, d_model: int = 8, length: int = 13, base: float = 10000.0) -> FigureData:
    positions = np.arange(length)
    sine, cosine, wavelengths = codes.hands(length, d_model=d_model, base=base)
    last = length - 1
    return clocks(
        positions,
        codes.digits_of(positions, 10, len(str(last))),
        codes.digits_of(positions, 2, last.bit_length()),
        sine,
        cosine,
        wavelengths=wavelengths,
    )


def _waves(*, d_model: int = 16, length: int = 60, base: float = 10000.0, token: int | None = None) -> FigureData:
    token = length // 3 if token is None else token
    if token >= length:
        raise UsageError(f"--token {token} is not among the {length} positions of the figure (0 to {length - 1}).")
    numbers = codes.wave_curves(d_model=d_model, length=length, base=base, token=token)
    arguments = asdict(numbers)
    return waves(**arguments, title=f"Sinusoidal code of {d_model} features")


def _heatmap(
    *,
    scheme: str = "sinusoidal",
    dialect: str | None = None,
    d_model: int = 128,
    length: int = 50,
    base: float | None = None,
) -> FigureData:
    options = {name: value for name, value in (("dialect", dialect), ("base", base)) if value is not None}
    table = codes.code_table(scheme, d_model=d_model, length=length, options=options)
    detail = {
        "sinusoidal": f", {dialect or 'paper'} order, base {base or 10000:,g}",
        "learned": ", initial values",
    }.get(scheme, "")
    return heatmap(table, title=f"{scheme}{detail}")


def _heatmaps(*, d_model: int = 32, length: int = 16, base: float = 10000.0) -> FigureData:
    def table(scheme: str, **options: Any) -> Numbers:
        return codes.code_table(scheme, d_model=d_model, length=length, options=options)

    tables = {
        f"sinusoidal, {dialect}": table("sinusoidal", dialect=dialect, base=base)
        for dialect in get_args(SinusoidDialect)
    }
    for scheme in codes.INPUT_SCHEMES:
        if scheme != "sinusoidal":
            tables["learned, initial values" if scheme == "learned" else scheme] = table(scheme)
    return heatmaps(tables)


def _circle() -> FigureData:
    k, marked = 2, (0, 1, 3)
    sine, cosine, _ = codes.hands(7, d_model=2, base=10000.0)
    table = np.concatenate((sine, cosine), axis=1)
    matrix = shift_matrix(2, k).numpy()
    turned = table[list(marked)] @ matrix.T
    return circle(table, matrix, turned, angles=np.arange(7.0), k=k, marked=marked)


def _dot_products(*, length: int = 100, base: float = 10000.0) -> FigureData:
    widths = {width: codes.product_matrix(d_model=width, length=length, base=base) for width in (20, 64, 512)}
    return dot_products(widths, base=base)


def _distance(*, d_model: int = 128, length: int = 250, base: float = 10000.0) -> FigureData:
    centres = (500, 1_000_000)
    around = [codes.products_around(centre, d_model=d_model, reach=length // 2, base=base) for centre in centres]
    distances, bound = attention.rotary_bound(head_dim=d_model, reach=length, base=base)
    return distance(
        around[0][0],
        [products for _, products in around],
        centres=centres,
        width=d_model,
        distances=distances,
        bound=bound,
        head_dim=d_model,
    )


def _spectrum() -> FigureData:
    title = (
        f"Phi-3-mini: {scalings.HEAD_DIM // 2} pairs, base {scalings.BASE:,.0f}, "
        f"from {scalings.TRAINED:,} to {scalings.TARGET:,} tokens"
    )
    return spectrum(scalings.spectra(), trained=scalings.TRAINED, target=scalings.TARGET, title=title)


def _bias(*, d_model: int | None = None, length: int = 200, run: Path | None = None) -> FigureData:
    if run is not None:
        if d_model is not None:
            raise UsageError("--d-model is for schemes as they begin; the model of --run has a width of its own.")
        return bias(*trained.learned_biases(run, length=length))
    biases = [attention.head_biases(scheme, length=length, d_model=d_model or 512) for scheme in attention.BIASES]
    return bias(np.arange(length, dtype=float), biases)


def _criteria() -> FigureData:
    checked = check_registry()
    return criteria(
        list(checked),
        PROPERTIES,
        [[wish.verdict for wish in wishes] for wishes in checked.values()],
        [[wish.reason for wish in wishes] for wishes in checked.values()],
    )


def _tutorial_errors(*, d_model: int = 64) -> FigureData:
    return tutorial_errors(refutations(d_model=d_model))


def _word_plus_position(*, run: Path, text: str | None = None) -> FigureData:
    found = words_and_positions(run, text)
    return word_plus_position(
        found.planes, labels=found.labels, word_norms=found.word_norms, position_norms=found.position_norms
    )


def _attention(*, run: Path, text: str | None = None) -> FigureData:
    return attention_figure(trained.attention_weights(run, text))


def _probe(*, run: Path) -> FigureData:
    found = trained.position_readings(run)
    return probe(found.stacks, stages=found.stages, guesses=found.guesses)


def _training(*, run: Path) -> FigureData:
    rows = trained.metrics(run)
    return FigureData(training_curves(rows), trained.metric_columns(rows))


# In the order that tells the story.
ENTRIES: dict[str, Entry] = {
    "clocks": Entry(_clocks, {"length": 32, "d_model": 24}),
    "waves": Entry(_waves, {"length": 1000, "d_model": 4096, "token": 999}),
    "heatmap": Entry(_heatmap, {"length": 4096, "d_model": 4096}),
    "heatmaps": Entry(_heatmaps, {"length": 512, "d_model": 512}),
    "circle": Entry(_circle),
    "dot-products": Entry(_dot_products, {"length": 1024}),
    "distance": Entry(_distance, {"length": 10000, "d_model": 1024}),
    "spectrum": Entry(_spectrum),
    "bias": Entry(_bias, {"length": 512, "d_model": 8192}),
    "criteria": Entry(_criteria),
    "tutorial-errors": Entry(_tutorial_errors, {"d_model": 1024}),
    "training": Entry(_training),
    "word-plus-position": Entry(_word_plus_position),
    "attention": Entry(_attention),
    "probe": Entry(_probe),
}
