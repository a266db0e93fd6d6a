"""Locant's positions in the place of those that a model of transformers has, and back."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from torch import nn

from locant.errors import ConfigError, LocantError
from locant.lazy import require_package
from locant.positions.huggingface import unrotated
from locant.positions.huggingface.angles import STATE, ExactAngles, exact_forward, rotating
from locant.positions.huggingface.parts import ModelParts, find_parts
from locant.positions.huggingface.served import original_class, served_class, take_class
from locant.positions.registry import SCHEMES, build_scheme, option_names
from locant.positions.rotary.config import RotaryConfig
from locant.positions.rotary.rotary import Rotary
from locant.positions.scaling import DynamicNTK
from locant.positions.scaling.measured import Measured
from locant.positions.scheme import AttentionShape, PositionScheme

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SCHEME = "position_scheme"
"""Name under which a rotary module has schemes as modules of its own."""

_ALL = "all"  # the layer type of models whose layers all have the same rotary positions
_STEP = 256  # tokens in which lengths are counted where a model's own frequencies follow them


@dataclass(eq=False)
class Installation:
    """Locant's positions in a model; as a context manager it takes them out at the end of the block.

    Attributes:
        model: The model.
        configs: The rotary configurations in force by layer type; none where another scheme has taken their place.
        scheme: The scheme that all layers share, where it is not a plain rotation.
        caches_unrotated_keys: Whether keys are cached unrotated, with their positions.
        notes: Sentences about frequencies that are those of the class, which its configuration is not read to have.
    """

    model: nn.Module = field(repr=False)
    configs: dict[str, RotaryConfig]
    scheme: PositionScheme | None
    caches_unrotated_keys: bool
    notes: tuple[str, ...] = ()

    def uninstall(self) -> None:
        """Take the positions out of the model; as :func:`uninstall`."""
        uninstall(self.model)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if _served(self.model):
            uninstall(self.model)


def install(
    model: PreTrainedModel | nn.Module,
    config: RotaryConfig | Mapping[str, RotaryConfig] | None = None,
    *,
    scheme: PositionScheme | str | None = None,
    scheme_options: Mapping[str, Any] | None = None,
) -> Installation:
    """Let Locant give queries and keys of a model of transformers their positions from now on.

    Angles are exact at every position and in every dtype: computed in integers, rounded once to float32, and applied in
    float32. Everything else stays as it is: weights, state dict, caches, masks, attention functions, training and
    generation; copies and pickles of the model have the same positions. Other models of the class are not touched.

    Where frequencies follow the length of the text (dynamic NTK, LongRoPE), and for all other schemes, keys are cached
    unrotated, each with its position in four further features, and rotated in the attention function; then generating
    with a cache gives what reading the whole text gives. Where the model's own configuration asks for dynamic NTK,
    lengths are counted in steps of 256 tokens; a configuration of your own may say otherwise.

    Args:
        model: A model of transformers whose rotary module returns angles, or one around it (of PEFT, say).
        config: The rotary configuration, or one for every layer type of the class. Unless given, the
            frequencies are those of the model: exact as its configuration is read, or the very numbers of its class
            where these are others; a note of the result says so then.
        scheme: In the place of rotation, another scheme on queries and keys or on scores, for the layers that rotate;
            or its registered name. A scheme whose layers have parameters of their own is copied for each. Parameters
            become the model's own, as ``position_scheme`` in the rotary module.
        scheme_options: Options of a scheme that is given by its name. For those that modify rotation, base, rotated
            features and layout are the model's unless given.

    Returns:
        What is installed; it can be used as a context manager.

    Raises:
        LocantError: The class of the model is built in a way that cannot be served; nothing has been changed then.
        ConfigError: The configuration or the scheme does not fit the model, or positions are installed already.
        MissingExtraError: transformers is not installed.

    Example:
        >>> import torch
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> tiny = LlamaConfig(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        ...                    num_key_value_heads=1, vocab_size=8)
        >>> model, tokens = LlamaForCausalLM(tiny).eval(), torch.arange(8)[None]
        >>> theirs = model(tokens).logits
        >>> with install(model):
        ...     ours = model(tokens).logits
        >>> bool((theirs - ours).abs().max() < 1e-5)
        True
    """
    if config is not None and scheme is not None:
        raise ConfigError("install takes a rotary configuration or another scheme, not both.")
    if scheme_options and not isinstance(scheme, str):
        raise ConfigError("scheme_options are those of a scheme that is given by its name.")
    require_package("transformers", "Positions in models of Hugging Face")
    if _served(model):
        raise ConfigError("Locant's positions are installed in this model already; uninstall(model) takes them out.")
    parts = find_parts(model)
    if isinstance(scheme, str):
        scheme = _named_scheme(parts, scheme, scheme_options or {})
    if scheme is not None and scheme.rotary_config is not None:
        config, scheme = scheme.rotary_config, None
    configs: dict[str, RotaryConfig] = {}
    notes: tuple[str, ...] = ()
    if scheme is None:
        configs, notes = _own_configs(parts) if config is None else (_fitting(parts, config), ())
    is_unrotated = scheme is not None or any(each.scaling.depends_on_length for each in configs.values())
    if is_unrotated:
        _require_unrotated(parts, scheme)
    each: list[PositionScheme] = []
    if scheme is not None and scheme.per_layer:
        each = [scheme, *(copy.deepcopy(scheme) for _ in range(parts.config.num_hidden_layers - 1))]
    for place, (module, layers) in enumerate(parts.rotaries.items()):
        (kind,) = {angles.kind for angles in layers.values()}
        own = {layer: Rotary.from_config(_of_layer(configs, layer)) for layer in layers if configs}
        for rotary in own.values():
            rotary.head_dim = None  # heads of latent attention are wider than what is rotated
        vars(module)[STATE] = (
            unrotated.Schemes({layer: scheme or own[layer] for layer in layers}, each, kind != "complex")
            if is_unrotated
            else ExactAngles(own, {layer: angles.axes for layer, angles in layers.items()}, kind)
        )
        if scheme is not None and not place:
            module.add_module(_SCHEME, (nn.ModuleList(each) if each else scheme).train(module.training))
        take_class(module, served_class(type(module), exact_forward, None))
    for module, kind in parts.users.items():
        members, option = (unrotated.attending, None) if is_unrotated else (rotating, kind)
        take_class(module, served_class(type(module), members, option))
    return Installation(model, configs, scheme, is_unrotated, notes)


def uninstall(model: PreTrainedModel | nn.Module) -> None:
    """Give a model back the positions of its class, as they were.

    Raises:
        ConfigError: Nothing is installed in the model.
    """
    served = _served(model)
    if not served:
        raise ConfigError("Locant's positions are not installed in this model.")
    for module in served:
        take_class(module, original_class(module) or type(module))
        module.__dict__.pop(STATE, None)
        module._modules.pop(_SCHEME, None)


def _served(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if original_class(module) is not None]


def _named_scheme(parts: ModelParts, name: str, options: Mapping[str, Any]) -> PositionScheme:
    given = dict(options)
    if name in SCHEMES and {"base", "rotary_dim", "layout"} <= set(option_names(SCHEMES[name])):
        own = next(iter(_own_configs(parts)[0].values()))
        if isinstance(own.scaling, Measured) and "base" not in given:
            raise ConfigError(
                f"The base of {parts.name} is not read from its configuration. Give base in scheme_options."
            )
        given = {"base": own.base, "rotary_dim": own.rotary_dim, "layout": own.layout} | given
    config, heads = parts.config, parts.config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    if getattr(config, "qk_rope_head_dim", None) and hasattr(config, "qk_nope_head_dim"):
        width = config.qk_rope_head_dim + config.qk_nope_head_dim
    return build_scheme(name, AttentionShape(width * heads, heads, causal=True), given)


def _require_unrotated(parts: ModelParts, scheme: PositionScheme | None) -> None:
    """Raise ConfigError or LocantError where keys cannot be cached unrotated, or a scheme does not go with them."""
    if scheme is not None and "embedding" in scheme.acts_on:
        raise ConfigError(
            f"The scheme '{scheme.name}' acts on the embeddings; install serves schemes that act on queries and keys "
            "or on scores."
        )
    if scheme is not None and scheme.reads_state:
        raise ConfigError(
            f"The scheme '{scheme.name}' reads the input of every layer, which install cannot hand it; choose one that "
            "reads positions, queries and keys alone."
        )
    if isinstance(scheme, Rotary) and scheme.config.layout not in parts.layouts:
        raise ConfigError(
            f"The scheme '{scheme.name}' pairs features as '{scheme.config.layout}', but the weights of "
            f"{parts.name} are made for '{' or '.join(sorted(parts.layouts))}'. Give it that layout."
        )
    has_axes = any(angles.axes for angles in parts.layers.values())
    odd = next((type(module).__name__ for module in parts.users if not unrotated.is_served(type(module))), None)
    if has_axes or odd is not None:
        after = "goes past transformers' attention interface, or changes queries and keys after rotating them"
        raise LocantError(
            f"{parts.name} has {'positions of several axes' if has_axes else f'{odd}, which {after}'}; only plain "
            "rotation can be installed there, with frequencies that do not follow the length of the text."
        )


def _own_configs(parts: ModelParts) -> tuple[dict[str, RotaryConfig], tuple[str, ...]]:
    """Return the rotary configurations of a model by layer type, and notes about those that were not read but measured.

    Raises:
        LocantError: Frequencies follow the length of the text in a way that is not read.
    """
    from locant.rotary_configs import read_huggingface

    try:
        read = dict(read_huggingface(parts.config.to_dict()).configs)
    except (LocantError, ArithmeticError, ValueError):  # what the class computes counts
        read = {}
    configs, notes = {}, []
    for layer, angles in parts.layers.items():
        where = parts.name if layer is None else f"the layer type '{layer}' of {parts.name}"
        candidates = [read[name] for name in sorted(read, key=lambda name: name != layer)]
        config = next((each for each in candidates if angles.are_those_of(each)), None)
        if config is None:
            if len({*angles.texts}) > 1:
                raise LocantError(
                    f"The frequencies of {where} follow the length of the text, otherwise than its configuration is "
                    "read. Say what is meant: install(model, RotaryConfig(...))."
                )
            scale, *frequencies = angles.texts[0]
            given = Measured(given=tuple(frequencies), attention_factor=scale)
            config = RotaryConfig(head_dim=angles.dim, scaling=given)
            notes.append(f"{where} computes other frequencies than its configuration is read to have; they are kept.")
        if config.layout not in parts.layouts:
            config = replace(config, layout=min(parts.layouts))
        if isinstance(scaling := config.scaling, DynamicNTK) and scaling.length_step == 1:
            config = replace(config, scaling=replace(scaling, length_step=_STEP))
        configs[layer or _ALL] = config
    return configs, tuple(notes)


def _fitting(parts: ModelParts, given: RotaryConfig | Mapping[str, RotaryConfig]) -> dict[str, RotaryConfig]:
    """Return given configurations by layer type; raise ConfigError where they do not fit the model."""
    configs = {_ALL: given} if isinstance(given, RotaryConfig) else dict(given)
    known = [layer for layer in parts.layers if layer is not None]
    if not configs or (set(configs) != {_ALL} and set(configs) != {*known} and (known or len(configs) > 1)):
        raise ConfigError(
            f"{parts.name} takes one rotary configuration for each layer type ({', '.join(known) or _ALL}); got those "
            f"of {', '.join(configs) or 'none'}."
        )
    for name, angles in parts.layers.items():
        config = _of_layer(configs, name)
        if config.rotary_dim != angles.dim or config.layout not in parts.layouts:
            raise ConfigError(
                f"The configuration rotates {config.rotary_dim} features of a head, paired as '{config.layout}', but "
                f"{parts.name} rotates {angles.dim}, paired as '{' or '.join(sorted(parts.layouts))}'."
            )
    return configs


def _of_layer(configs: Mapping[str, RotaryConfig], layer: str | None) -> RotaryConfig:
    """Return the configuration of a layer type; ``None`` is that of models that know none."""
    return configs[layer] if layer is not None and layer in configs else next(iter(configs.values()))
