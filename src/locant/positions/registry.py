"""Every positional scheme by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.embeddings.index import Binary, Index, NormalisedIndex
from locant.positions.embeddings.learned import Learned
from locant.positions.embeddings.sinusoidal import Sinusoidal
from locant.positions.none import NoPositions
from locant.positions.randomised import Randomised
from locant.positions.rotary.distant import RectifiedRotary, SelfExtend
from locant.positions.rotary.multiaxis import AxialRotary, MultimodalRotary
from locant.positions.rotary.rotary import Rotary
from locant.positions.rotary.xpos import XPos
from locant.positions.scheme import AttentionShape, PositionScheme
from locant.positions.scores.alibi import ALiBi
from locant.positions.scores.cope import CoPE
from locant.positions.scores.deberta import DeBERTa
from locant.positions.scores.fire import FIRE
from locant.positions.scores.kerple import KERPLE
from locant.positions.scores.sandwich import Sandwich
from locant.positions.scores.shaw import Shaw
from locant.positions.scores.t5 import T5
from locant.positions.scores.transformer_xl import TransformerXL

SCHEMES: dict[str, type[PositionScheme]] = {
    "none": NoPositions,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "index": Index,
    "normalised-index": NormalisedIndex,
    "binary": Binary,
    "rotary": Rotary,
    "xpos": XPos,
    "axial-rotary": AxialRotary,
    "multimodal-rotary": MultimodalRotary,
    "self-extend": SelfExtend,
    "rerope": RectifiedRotary,
    "shaw": Shaw,
    "transformer-xl": TransformerXL,
    "t5": T5,
    "alibi": ALiBi,
    "kerple": KERPLE,
    "fire": FIRE,
    "sandwich": Sandwich,
    "cope": CoPE,
    "deberta": DeBERTa,
    "randomised": Randomised,
}


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


def _check_type(scheme: str, option: str, value: Any, default: Any) -> None:
    """Raise ConfigError where a value cannot be meant for an option with this default.

    Configurations arrive as plain data: YAML reads 1e4 as text, for example.
    """
    expected = {float: (int, float), tuple: (list, tuple)}.get(type(default), type(default))
    if not isinstance(value, expected) or (isinstance(value, bool) and not isinstance(default, bool)):
        words = {float: "a number", int: "a whole number", str: "text", tuple: "a list"}
        what = words.get(type(default), type(default).__name__)
        raise ConfigError(
            f"The option '{option}' of the scheme '{scheme}' must be {what}, like {default}; got {value!r}."
        )


def build_scheme(name: str, shape: AttentionShape, options: Mapping[str, Any] | None = None) -> PositionScheme:
    """Build a positional scheme by name.

    Args:
        name: A key of :data:`SCHEMES`.
        shape: Dimensions of the model.
        options: The scheme's options.

    Raises:
        ConfigError: The name or an option is unknown (the nearest known one is named), or a value is out of range.
    """
    if name not in SCHEMES:
        raise ConfigError(f"Unknown positional scheme '{name}'.{nearest(name, SCHEMES)} Known: {', '.join(SCHEMES)}.")
    scheme = SCHEMES[name]
    defaults = option_defaults(scheme)
    known = list(defaults)
    for option, value in (options or {}).items():
        if option not in known:
            said = f"Known options: {', '.join(known)}." if known else "It has no options."
            raise ConfigError(f"The scheme '{name}' has no option '{option}'.{nearest(option, known)} {said}")
        if defaults[option] not in (None, inspect.Parameter.empty):
            _check_type(name, option, value, defaults[option])
    return scheme.for_model(shape, **(options or {}))
