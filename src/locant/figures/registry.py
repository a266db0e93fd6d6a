"""The registry of figures: what a figure says about itself, and every figure by name.

A figure is a function that computes numbers, one that draws them, and the words around the drawing. Those of Locant are
in ``story.toml``, in the order that tells the story; the module of a figure ends with :func:`register_figure`.
Everything else (``locant figures``, the page, the list of options) asks the registry.
"""

from __future__ import annotations

import inspect
import tomllib
from collections import UserDict
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from locant.errors import UsageError, nearest
from locant.figures.drawing import Figure, FigureData, drawing, settle

_LARGEST_BASE = 10**12
_ACTS = tomllib.loads(Path(__file__).with_name("story.toml").read_text(encoding="utf-8"))["acts"]
_STORY: dict[str, dict[str, Any]] = {entry["name"]: entry for act in _ACTS for entry in act["figures"]}


@dataclass(frozen=True)
class Caption:
    """The words around a figure.

    Attributes:
        title: Heading.
        text: Two or three sentences.
        formula: HTML of one line or more; the page places it as it is. May be empty.
        points: Further sentences, listed.
    """

    title: str
    text: str
    formula: str = ""
    points: tuple[str, ...] = ()


@dataclass(frozen=True)
class RegisteredFigure:
    """One figure.

    Attributes:
        name: Its name on the command line.
        numbers: Computes what is drawn and returns the arguments of ``draw`` by name. Its keyword arguments are the
            figure's options; a figure of a trained model has an option ``run`` without a default.
        draw: Draws the numbers; returns a matplotlib figure, or a :class:`FigureData`.
        caption: The words around it.
        limits: Smallest and largest value of options, beyond which the figure cannot be read.
        slides: Draws the numbers as a figure whose panels are slides, where those of ``draw`` do not fit one; or
            options with which the whole figure is one slide.
    """

    name: str
    numbers: Callable[..., Mapping[str, Any]]
    draw: Callable[..., Figure | FigureData]
    caption: Caption
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    slides: Mapping[str, Any] | Callable[..., Figure] | None = None

    @property
    def options(self) -> list[str]:
        """Names of the options."""
        return list(inspect.signature(self.numbers).parameters)

    @property
    def needs_run(self) -> bool:
        """Whether it shows a trained model, so that the option ``run`` must be given."""
        run = inspect.signature(self.numbers).parameters.get("run")
        return run is not None and run.default is run.empty

    def check(self, options: Mapping[str, Any]) -> None:
        """Raise UsageError unless the figure takes such options; computes nothing."""

        def spelled(option: str) -> str:
            return "--" + option.replace("_", "-")

        for option, value in options.items():
            if option not in self.options:
                takes = f"It takes {', '.join(map(spelled, self.options))}." if self.options else "It has no options."
                raise UsageError(f"The figure '{self.name}' does not take {spelled(option)}. {takes}")
            if option == "base" and not 1 < value <= _LARGEST_BASE:
                raise UsageError(f"--base must be above 1 and at most {_LARGEST_BASE:,}; got {value:g}.")
            if option in self.limits:
                least, most = self.limits[option]
                if not least <= value <= most:
                    wanted = f"{least} to {most:,}; got {value:,}"
                    raise UsageError(f"{spelled(option)} of the figure '{self.name}' must be {wanted}.")
        if self.needs_run and "run" not in options:
            raise UsageError(f"The figure '{self.name}' shows a trained model; say which: --run FOLDER.")

    def __call__(self, **options: Any) -> FigureData:
        """Compute and draw the figure.

        Raises:
            UsageError: The figure does not have an option, or a value is out of range.
            MissingExtraError: matplotlib is not installed.
        """
        self.check(options)
        return self.drawn(self.numbers(**options))

    @drawing()
    def drawn(self, numbers: Mapping[str, Any]) -> FigureData:
        """Draw numbers that :attr:`numbers` returned; the data of the figure are the arrays among them."""
        found = self.draw(**numbers)
        if isinstance(found, FigureData):
            return found
        return settle(found, {name: value for name, value in numbers.items() if isinstance(value, np.ndarray)})


class _Figures(UserDict[str, RegisteredFigure]):
    """Figures by name, Locant's own first; the module of one of these is imported when it is asked for."""

    def __getitem__(self, name: str) -> RegisteredFigure:
        if name in self.data and self.data[name] is None:
            import_module(_HOMES[name])
        return super().__getitem__(name)


_HOMES = {name: f"locant.figures.{entry.get('module', name.replace('-', '_'))}" for name, entry in _STORY.items()}
_NOT_IMPORTED: Any = None
FIGURES: MutableMapping[str, RegisteredFigure] = _Figures(dict.fromkeys(_HOMES, _NOT_IMPORTED))
"""Every figure by name."""


def register_figure(
    name: str,
    numbers: Callable[..., Mapping[str, Any]],
    draw: Callable[..., Figure | FigureData],
    caption: Caption | None = None,
    *,
    limits: Mapping[str, tuple[int, int]] | None = None,
    slides: Mapping[str, Any] | Callable[..., Figure] | None = None,
) -> RegisteredFigure:
    """Register a figure; the arguments are the attributes of :class:`RegisteredFigure`.

    Locant's own figures have their caption in ``story.toml``.

    Raises:
        ValueError: Another figure has this name, or there is no caption.

    Example:
        >>> import numpy as np
        >>> from locant.figures import Caption, draw_figure, heatmap
        >>> def numbers(*, length: int = 8):
        ...     return {"table": np.tri(length), "title": "What a decoder sees"}
        >>> figure = register_figure(
        ...     "causal-mask", numbers=numbers, draw=heatmap, caption=Caption("Causal mask", "Keys after a query.")
        ... )
        >>> draw_figure("causal-mask", length=4).data["table"].shape
        (4, 4)
        >>> del FIGURES["causal-mask"]
    """
    own = _HOMES.get(name) == numbers.__module__
    if name in FIGURES and not own:
        raise ValueError(f"There is a figure '{name}' already.")
    if own:
        entry = _STORY[name]
        caption = Caption(entry["title"], entry["text"], entry["formula"], tuple(entry.get("points", ())))
    if caption is None:
        raise ValueError(f"The figure '{name}' needs a caption.")
    FIGURES[name] = RegisteredFigure(name, numbers, draw, caption, limits or {}, slides)
    return FIGURES[name]


def get_figure(name: str) -> RegisteredFigure:
    """Return a figure.

    Raises:
        UsageError: There is none of this name.
    """
    if name not in FIGURES:
        raise UsageError(f"Unknown figure '{name}'.{nearest(name, list(FIGURES))} Known: {', '.join(FIGURES)}.")
    return FIGURES[name]


def draw_figure(name: str, /, **options: Any) -> FigureData:
    """Compute and draw a figure.

    Args:
        name: A key of :data:`FIGURES`.
        options: Options of the figure; the others keep their defaults.

    Raises:
        UsageError: The name is unknown, the figure does not have an option, or a value is out of range.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> sorted(draw_figure("waves", length=20).data)[:2]
        ['cosine', 'pairs']
    """
    return get_figure(name)(**options)


def acts(names: Iterable[str]) -> dict[str, list[str]]:
    """Return names of figures by the act of the story that they belong to; others than Locant's own come last."""
    found: dict[str, list[str]] = {}
    act_of = {entry["name"]: act["title"] for act in _ACTS for entry in act["figures"]}
    for name in names:
        found.setdefault(act_of.get(name, "More"), []).append(name)
    return found
