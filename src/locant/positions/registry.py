"""Every positional scheme by name: Locant's own, registered ones and those of installed packages."""

from __future__ import annotations

import inspect
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module, metadata
from types import ModuleType
from typing import Any, TypeVar

import torch

from locant.errors import ConfigError, nearest
from locant.positions.scheme import AttentionShape, PositionScheme

_MODULES = (
    "locant.positions.none",
    "locant.positions.embeddings.sinusoidal",
    "locant.positions.embeddings.learned",
    "locant.positions.embeddings.index",
    "locant.positions.rotary.rotary",
    "locant.positions.rotary.xpos",
    "locant.positions.rotary.multiaxis",
    "locant.positions.rotary.mixed",
    "locant.positions.rotary.distant",
    "locant.positions.rotary.polar",
    "locant.positions.rotary.key_offset",
    "locant.positions.scores.shaw",
    "locant.positions.scores.transformer_xl",
    "locant.positions.scores.t5",
    "locant.positions.scores.alibi",
    "locant.positions.scores.kerple",
    "locant.positions.scores.fire",
    "locant.positions.scores.sandwich",
    "locant.positions.scores.cope",
    "locant.positions.scores.deberta",
    "locant.positions.scores.fox",
    "locant.positions.scores.relative_profiles",
    "locant.positions.randomised",
    "locant.positions.temperature",
)
"""The modules of Locant's own schemes, in the order of every table."""

ENTRY_POINTS = "locant.schemes"
"""The entry-point group in which installed packages name their schemes."""

_Scheme = TypeVar("_Scheme", bound=type[PositionScheme])


class SchemeRegistry(MutableMapping[str, type[PositionScheme]]):
    """Scheme classes by name. Modules and entry points are imported when it is first asked for anything."""

    def __init__(self) -> None:
        self._classes: dict[str, type[PositionScheme]] = {}
        self._has_own = self._has_all = False
        self._lock = threading.RLock()

    def register(self, name: str, scheme: type[PositionScheme]) -> None:
        """Add a class under a name; as :func:`register_scheme`, which says what is refused."""
        if not (isinstance(scheme, type) and issubclass(scheme, PositionScheme)):
            raise ConfigError(f"The scheme '{name}' must be a class derived from PositionScheme; got {scheme!r}.")
        if not re.fullmatch(r"[a-z0-9._-]+", name):
            raise ConfigError(
                f"'{name}' is no name for a positional scheme. Use lower-case letters, digits, '-', '_' and '.', so "
                "that recipes and command lines can say it."
            )
        if scheme.__module__ not in _MODULES:
            self._load_own()  # so that a name that is taken is noticed
        known = self._classes.get(name, scheme)
        if (known.__module__, known.__qualname__) != (scheme.__module__, scheme.__qualname__):
            raise ConfigError(
                f"There is a positional scheme '{name}' already: {known.__module__}.{known.__qualname__}. Give "
                f"{scheme.__qualname__} another name."
            )
        scheme.name = name
        scheme.title = scheme.__dict__.get("title") or name
        scheme.paper = scheme.__dict__.get("paper", "")
        self._classes[name] = scheme

    def __getitem__(self, name: str) -> type[PositionScheme]:
        return self._loaded()[name]

    def __setitem__(self, name: str, scheme: type[PositionScheme]) -> None:
        self._loaded()[name] = scheme

    def __delitem__(self, name: str) -> None:
        del self._loaded()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._loaded()))

    def __len__(self) -> int:
        return len(self._loaded())

    def _loaded(self) -> dict[str, type[PositionScheme]]:
        self._load_own()
        with self._lock:  # other threads wait; what is imported may ask for schemes itself
            if not self._has_all:
                self._has_all = True
                self._load_entry_points()
        return self._classes

    def _load_own(self) -> None:
        with self._lock:
            if not self._has_own:
                self._has_own = True
                for module in _MODULES:
                    import_module(module)
                # A scheme that was imported before, alone, gets its place in that order.
                order = {module: number for number, module in enumerate(_MODULES)}
                places = {name: order.get(each.__module__, len(order)) for name, each in self._classes.items()}
                self._classes = {name: self._classes[name] for name in sorted(places, key=places.__getitem__)}

    def _load_entry_points(self) -> None:
        for entry in metadata.entry_points(group=ENTRY_POINTS):
            try:
                found = entry.load()
                if not isinstance(found, ModuleType) and self._classes.get(entry.name) is not found:
                    self.register(entry.name, found)
            except Exception as error:
                package = f" of the package {entry.dist.name}" if entry.dist else ""
                warnings.warn(
                    f"The positional scheme '{entry.name}'{package} cannot be used: its entry point "
                    f"{entry.value} failed with {type(error).__name__}: {error}",
                    stacklevel=2,
                )


SCHEMES = SchemeRegistry()
"""Every positional scheme by name."""


def register_scheme(name: str) -> Callable[[_Scheme], _Scheme]:
    """Register a scheme class under a name, as a decorator.

    From then on the scheme is known wherever schemes are chosen by name: in recipes, on the command line, in
    comparisons, figures and the explorer. A package that others install names its schemes in the entry-point group
    ``locant.schemes`` as well, so that they are found without an import. A class that is defined once more, as in a
    notebook, takes the place of its predecessor.

    Args:
        name: Lower-case letters, digits, ``-``, ``_`` and ``.``; becomes the class's ``name``.

    Raises:
        ConfigError: The name is taken or cannot be written on a command line, or the class is no PositionScheme.

    Example:
        >>> from locant.positions import ALiBi
        >>> @register_scheme("half-alibi")
        ... class HalfALiBi(ALiBi):
        ...     def bias(self, offsets):
        ...         return super().bias(offsets) / 2
        >>> SCHEMES["half-alibi"].name
        'half-alibi'
        >>> del SCHEMES["half-alibi"]
    """

    def register(scheme: _Scheme) -> _Scheme:
        SCHEMES.register(name, scheme)
        return scheme

    return register


_OTHER_NAMES = {
    **{"nope": "none", "nopositions": "none", "sinusoid": "sinusoidal", "sine": "sinusoidal", "sincos": "sinusoidal"},
    **{"abs": "learned", "absolute": "learned", "learnedabsolute": "learned", "rotaryembedding": "rotary"},
}
"""What the field also calls schemes, beside their names and titles, in small letters and without signs."""


def scheme_name(word: str) -> str:
    """Return the registered name of a scheme.

    Args:
        word: The name, the title (``RoPE``) or another name of the field (``rope``, ``nope``, ``abs``), in any case.

    Raises:
        ConfigError: No scheme is called so; the message names the nearest.
    """
    if word in SCHEMES:
        return word
    called = {**_OTHER_NAMES}
    for name, scheme in SCHEMES.items():
        called |= {_letters(scheme.title): name, _letters(name): name}
    if found := called.get(_letters(word)):
        return found
    hint = nearest(word.lower(), [*SCHEMES, *(scheme.title.lower() for scheme in SCHEMES.values()), *_OTHER_NAMES])
    raise ConfigError(f"Unknown positional scheme '{word}'.{hint} Known: {', '.join(SCHEMES)}.")


def _letters(word: str) -> str:
    return re.sub(r"[\W_]+", "", word.lower())


def option_defaults(scheme: type[PositionScheme]) -> dict[str, Any]:
    """Return a scheme's options with their defaults, the keyword-only arguments of constructor and ``for_model``.

    An option without a default has ``inspect.Parameter.empty``.
    """
    found = {}
    for function in (scheme.for_model, scheme.__init__):
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY:
                found[parameter.name] = parameter.default
    return found


def option_names(scheme: type[PositionScheme]) -> list[str]:
    """Return the names of a scheme's options."""
    return list(option_defaults(scheme))


_TYPES: dict[type, tuple[type | tuple[type, ...], str]] = {
    float: ((int, float), "a number"),
    int: (int, "a whole number"),
    str: (str, "text"),
    tuple: ((list, tuple), "a list"),
}
"""What an option may be whose default is of a type, and in words; YAML reads 1e4 as text, for example."""


def build_scheme(name: str, shape: AttentionShape, options: Mapping[str, Any] | None = None) -> PositionScheme:
    """Build a positional scheme by name.

    Args:
        name: A key of :data:`SCHEMES`, or another name of such a scheme; see :func:`scheme_name`.
        shape: Dimensions of the model.
        options: The scheme's options.

    Raises:
        ConfigError: The name or an option is unknown (the nearest known one is named), or a value is out of range.
    """
    name = scheme_name(name)
    scheme = SCHEMES[name]
    defaults = option_defaults(scheme)
    for option, value in (options or {}).items():
        if option not in defaults:
            said = f"Known options: {', '.join(defaults)}." if defaults else "It has no options."
            raise ConfigError(f"The scheme '{name}' has no option '{option}'.{nearest(option, defaults)} {said}")
        kind = type(default := defaults[option])
        expected, what = _TYPES.get(kind, (kind, kind.__name__))
        if default not in (None, inspect.Parameter.empty) and (
            not isinstance(value, expected) or (isinstance(value, bool) and kind is not bool)
        ):
            raise ConfigError(
                f"The option '{option}' of the scheme '{name}' must be {what}, like {default}; got {value!r}."
            )
    return scheme.for_model(shape, **(options or {}))


def check_options(name: str, shape: AttentionShape, options: Mapping[str, Any] | None = None) -> None:
    """Check a scheme's name and options without using memory or random numbers.

    Arguments and errors are those of :func:`build_scheme`.
    """
    try:
        with torch.device("meta"):
            build_scheme(name, shape, options)
    except (RuntimeError, OverflowError, MemoryError):
        raise ConfigError(
            f"position '{name}' cannot be built: an option or the width of the model is too large"
        ) from None
