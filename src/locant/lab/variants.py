"""Model variants of a comparison: schemes by name, perhaps with options, in models that differ in nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import torch
import yaml
from pydantic import Field
from torch import nn

from locant.errors import ConfigError, nearest
from locant.models.config import BlockOptions, FeedForwardKind, Norm
from locant.models.language_model import LanguageModelConfig
from locant.models.transformer import count_parameters
from locant.parsing import parse_yaml
from locant.positions import SCHEMES, PositionScheme
from locant.positions.registry import option_names, scheme_name
from locant.positions.scaling import SCALINGS

_Model = TypeVar("_Model", bound=nn.Module)


class ModelSettings(BlockOptions):
    """Dimensions of the decoder-only model; the fields mean what they mean in ``LanguageModelConfig``."""

    layers: int = Field(4, ge=1)
    d_model: int = Field(128, ge=1)
    d_ff: int = Field(512, ge=1)
    heads: int = Field(4, ge=1)
    dropout: float = Field(0.0, ge=0, lt=1)
    norm: Norm = "pre"
    feed_forward: FeedForwardKind = "gelu"
    parallel: bool = False
    scale_embeddings: bool = True

    @property
    def head_features(self) -> int:
        """Features of a head."""
        return self.head_size or self.d_model // self.heads

    def config(self, variant: str, vocab_size: int, *, trained: int, longest: int) -> LanguageModelConfig:
        """Return the configuration of the model with a scheme fitted to lengths in tokens.

        Raises:
            ConfigError: The scheme cannot be built for these dimensions.
        """
        position = position_fields(variant, head_dim=self.head_features, trained=trained, longest=longest)
        return LanguageModelConfig.parse({"vocab_size": vocab_size, **self.to_dict(), **position}, variant)


def build_fairly(kind: Callable[[Any], _Model], config: Any, seed: int) -> _Model:
    """Return a model whose initial weights are those of the model without positions wherever shapes allow.

    A scheme with parameters of its own draws random numbers too; without this all weights drawn later would differ.

    Args:
        kind: The class of the model.
        config: Its configuration.
        seed: Of the weights.
    """
    torch.manual_seed(seed)
    plain = kind(config.with_positions(position="none")).state_dict()
    model = kind(config)
    own = model.state_dict()
    shared = {name: weight for name, weight in plain.items() if name in own and own[name].shape == weight.shape}
    model.load_state_dict(shared, strict=False)
    return model


def weights_outside_schemes(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the weights that belong to no positional scheme, by name."""
    schemes = tuple(f"{name}." for name, module in model.named_modules() if isinstance(module, PositionScheme))
    return {name: weight for name, weight in model.named_parameters() if not name.startswith(schemes)}


def beyond(model: Any, length: int) -> str:
    """Return why a model cannot read a text of that many tokens; empty where it can."""
    known = model.max_positions
    return f"the scheme knows {known} positions" if known is not None and length > known else ""


def initial_facts(model: nn.Module) -> dict[str, Any]:
    """Return the fields of :class:`~locant.lab.task.Outcome` that describe an untrained model."""
    shared, digest = weights_outside_schemes(model), hashlib.sha256()
    for name, weight in sorted(shared.items()):
        digest.update(f"{name} {tuple(weight.shape)}".encode() + weight.detach().to("cpu").numpy().tobytes())
    parameters = count_parameters(model)
    return {
        "parameters": parameters,
        "scheme_parameters": parameters - sum(weight.numel() for weight in shared.values()),
        "initial_weights": digest.hexdigest(),
    }


# Named variants: a scheme and how its options follow from the model.
NAMED_VARIANTS = {"rotary-25": "rotary"}
"""``rotary-25`` rotates the first quarter of each head, as the baseline of Kazemnejad et al. 2023 (and GPT-J) does."""


def all_schemes() -> tuple[str, ...]:
    """Return every scheme and variant by name."""
    return (*SCHEMES, *NAMED_VARIANTS)


def modules_of(variants: Iterable[str]) -> tuple[str, ...]:
    """Return the modules outside Locant that register the schemes and scalings of variants.

    Raises:
        ConfigError: A scheme is defined in the script that runs, which other processes cannot import.
    """
    found: dict[str, None] = {}
    for variant in variants:
        names = [name for name, _ in kinds_of(variant).values()]
        registered = [table.get(NAMED_VARIANTS.get(name, name)) for name in names for table in (SCHEMES, SCALINGS)]
        for name, module in ((one.name, one.__module__) for one in registered if one is not None):
            if module == "__main__":
                raise ConfigError(
                    f"'{name}' is defined in the script or notebook that runs the comparison, but trials run in "
                    "processes of their own. Put it into a module and import it."
                )
            if module.partition(".")[0] != "locant":
                found[module] = None
    return tuple(found)


def split_variant(variant: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of ``NAME`` or ``NAME:option=value:option=value``.

    Raises:
        ConfigError: An option has no value, or one that is not YAML.
    """
    name, *words = variant.split(":")
    options = {}
    for word in words:
        key, equals, value = word.partition("=")
        try:
            options[key] = parse_yaml(value)
        except yaml.YAMLError:
            equals = ""
        if not key or not equals:
            raise ConfigError(f"'{word}' in '{variant}' is no option. Write NAME:option=value:option=value.")
    return name, options


def kinds_of(variant: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return scheme and options of each kind of layers, by its letter; a variant with one kind has it under ``""``.

    A mix is written as its pattern, in capitals, with the scheme of each letter and, after a dot, its options and its
    window: ``LLLG:L=rotary:L.window=16:G=none``.

    Raises:
        ConfigError: An option cannot be read, or a letter of a mix has no scheme.
    """
    name, options = split_variant(variant)
    if not name.isupper():
        return {"": (name, options)}
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for letter in dict.fromkeys([*name, *(key.partition(".")[0] for key in options)]):
        if not isinstance(scheme := options.get(letter), str):
            raise ConfigError(
                f"'{variant}' does not say what '{letter}' is. Write PATTERN:LETTER=SCHEME:LETTER.option=value, as in "
                "LLLG:L=rotary:L.window=16:G=none."
            )
        own = {key[2:]: value for key, value in options.items() if key.startswith(f"{letter}.")}
        found[letter] = (scheme_name(scheme) if scheme not in NAMED_VARIANTS else scheme, own)
    return found


def registered(variant: str) -> str:
    """Return a variant with the registered name of its scheme: ``rope:base=500`` is ``rotary:base=500``."""
    name, colon, options = variant.partition(":")
    with suppress(ConfigError):  # not every variant is a scheme
        name = scheme_name(name)
    return f"{name}{colon}{options}"


def require_known(name: str, known: Sequence[str], what: str = "scheme") -> None:
    """Raise ConfigError, naming the nearest known one, where a name is unknown."""
    if name not in known:
        raise ConfigError(f"Unknown {what} '{name}'.{nearest(name, known)} Known: {', '.join(known) or 'none'}.")


def check_scheme(variant: str) -> None:
    """Raise ConfigError, naming the nearest known one, unless name and options are those of a scheme."""
    kinds = kinds_of(variant)
    for letter, (name, options) in kinds.items():
        require_known(name, all_schemes())
        known = option_names(SCHEMES[NAMED_VARIANTS.get(name, name)])
        for option in options:
            require_known(option, [*known, "window"] if letter else known, f"option of {name}")
    fields = position_fields(variant, head_dim=64, trained=2, longest=2)
    layers = len(fields.get("pattern", "1"))
    LanguageModelConfig.parse({"vocab_size": 1, "layers": layers, "d_model": 512, "heads": 8, **fields}, variant)


def options_for_lengths(scheme: type[PositionScheme], *, trained: int, longest: int) -> dict[str, Any]:
    """Return the options of a scheme that say how long texts are, so that no scheme is at an advantage.

    An option counts by its name: tables end at the trained length (``max_positions``), positions are drawn from a range
    that covers the longest test (with ``evaluation_length``), a ``window`` of distances and a ``length`` of steps are
    what was trained, and a ``group`` brings the farthest distance of the longest test to one that was.

    Args:
        scheme: The class.
        trained: Longest training text, in tokens.
        longest: Longest test text, in tokens.
    """
    near = max(1, trained // 2)
    rules: dict[tuple[str, ...], tuple[int, ...]] = {
        ("max_positions", "evaluation_length"): (max(4 * longest, 2 * trained), max(longest, trained)),
        ("max_positions",): (max(2, trained),),
        ("window", "group"): (near, max(1, -(-(longest - near) // max(1, trained - near)))),
        ("window",): (trained,),
        ("length",): (trained,),
    }
    known = option_names(scheme)
    return next((dict(zip(names, rules[names], strict=True)) for names in rules if {*names} <= {*known}), {})


def position_fields(variant: str, *, head_dim: int, trained: int, longest: int) -> dict[str, Any]:
    """Return the fields of a model's configuration that say its positions: a scheme and options, or a pattern.

    What a scheme must know about lengths follows from the task, see :func:`options_for_lengths`.

    Args:
        variant: Name and options of a scheme, or a mix of several; see :func:`kinds_of`.
        head_dim: Features of a head.
        trained: Longest training text, in tokens.
        longest: Longest test text, in tokens.
    """
    kinds: dict[str, dict[str, Any]] = {}
    for letter, (name, given) in kinds_of(variant).items():
        scheme = NAMED_VARIANTS.get(name, name)
        options: dict[str, Any] = {}
        if scheme in SCHEMES:  # another is refused, with the known ones, by the configuration it goes to
            options = options_for_lengths(SCHEMES[scheme], trained=trained, longest=longest)
        if name == "rotary-25":
            options["rotary_dim"] = max(2, head_dim // 8 * 2)
        kinds[letter] = {"position": scheme, "position_options": {**options, **given}}
        if letter and "window" in given:
            kinds[letter]["window"] = kinds[letter]["position_options"].pop("window")
    return kinds[""] if "" in kinds else {"pattern": split_variant(variant)[0], "kinds": kinds}
