"""Locant's positions in the place of those that a model of transformers has, and back."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from torch import nn

from locant.errors import ConfigError, MissingExtraError
from locant.positions.huggingface import angles, unrotated
from locant.positions.huggingface.configurations import config_of_layer, rotary_configs
from locant.positions.huggingface.model_parts import ModelParts, find_parts
from locant.positions.huggingface.served import give_back, original_class, serve
from locant.positions.registry import SCHEMES, build_scheme, option_names
from locant.positions.rotary.config import RotaryConfig
from locant.positions.rotary.rotary import Rotary
from locant.positions.scheme import AttentionShape, PositionScheme

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SCHEME = "position_scheme"
"""Name under which a rotary module has schemes as modules of its own."""


class Installation:
    """Locant's positions in a model; as a context manager it takes them out at the end of the block.

    Attributes:
        model: The model.
        configs: The rotary configurations in force by layer type; none where another scheme has taken their place.
        scheme: The scheme that all layers share, where it is not a plain rotation.
        caches_unrotated_keys: Whether keys are cached unrotated, with their positions.
    """

    def __init__(
        self,
        model: nn.Module,
        configs: Mapping[str, RotaryConfig],
        scheme: PositionScheme | None,
        caches_unrotated_keys: bool,
    ) -> None:
        self.model, self.configs, self.scheme = model, dict(configs), scheme
        self.caches_unrotated_keys = caches_unrotated_keys

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

    def __repr__(self) -> str:
        said = (
            type(self.scheme).__name__
            if self.scheme
            else ", ".join(f"{layer}: {config.describe()}" for layer, config in self.configs.items())
        )
        return f"Installation({type(self.model).__name__}, {said})"


def install(
    model: PreTrainedModel | nn.Module,
    config: RotaryConfig | Mapping[str, RotaryConfig] | None = None,
    *,
    scheme: PositionScheme | str | None = None,
    scheme_options: Mapping[str, Any] | None = None,
) -> Installation:
    """Let a model of transformers tell queries and keys their positions by Locant from now on.

    Angles are exact at every position and in every dtype: computed in integers, rounded once to float32, and applied in
    float32. Everything else stays as it is: weights, state dict, caches, masks, attention functions, training and
    generation; copies and pickles of the model have the same positions. Other models of the class are not touched.

    Where frequencies follow the length of the text (dynamic NTK, LongRoPE), and for all other schemes, keys are cached
    unrotated, each with its position in four further features, and rotated in the attention function; then generating
    with a cache gives what reading the whole text gives. Where the model's own configuration asks for dynamic NTK,
    lengths are counted in steps of 256 tokens; a configuration of your own may say otherwise.

    Args:
        model: A model of transformers whose rotary module hands on angles, or one around it (of PEFT, say).
        config: The rotary configuration, or one for every layer type that the class tells apart. That of the model
            unless given; then it must agree with what the class computes.
        scheme: In the place of rotation, another scheme on queries and keys or on scores, for the layers that rotate;
            or its registered name. A scheme whose layers have parameters of their own is copied for each. Parameters
            become the model's own, as ``position_scheme`` in the rotary module.
        scheme_options: Options of a scheme that is given by its name. For those that modify rotation, base, rotated
            features and layout are the model's unless given.

    Returns:
        What is installed; it can be used as a context manager.

    Raises:
        LocantError: The class of the model is built in a way that cannot be served, or rotates otherwise than its
            configuration is read; nothing has been changed then.
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
    _require_transformers()
    if _served(model):
        raise ConfigError("Locant's positions are installed in this model already; uninstall(model) takes them out.")
    parts = find_parts(model)
    if isinstance(scheme, str):
        scheme = _named_scheme(parts, scheme, scheme_options or {})
    if scheme is not None and scheme.rotary_config is not None:
        config, scheme = scheme.rotary_config, None
    if scheme is not None:
        _check_scheme(parts, scheme)
        _serve_unrotated(parts, {}, scheme)
        return Installation(model, {}, scheme, True)
    configs = rotary_configs(parts, config)
    follows_length = any(each.scaling.depends_on_length for each in configs.values())
    if follows_length:
        _serve_unrotated(parts, configs, None)
    else:
        _serve_exact(parts, configs)
    return Installation(model, configs, None, follows_length)


def uninstall(model: PreTrainedModel | nn.Module) -> None:
    """Give a model back the positions of its class, as they were.

    Raises:
        ConfigError: Nothing is installed in the model.
    """
    served = _served(model)
    if not served:
        raise ConfigError("Locant's positions are not installed in this model.")
    for module in served:
        give_back(module)
        for name in (angles.STATE, unrotated.STATE):
            module.__dict__.pop(name, None)
        module._modules.pop(_SCHEME, None)


def _served(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if original_class(module) is not None]


def _require_transformers() -> None:
    try:
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("Positions in models of Hugging Face", "transformers", "extension") from error


def _serve_exact(parts: ModelParts, configs: Mapping[str, RotaryConfig]) -> None:
    """Let rotary modules hand on exact angles, and attention rotate by them."""
    for part in parts.rotaries:
        own = {layer: config_of_layer(configs, layer) for layer in part.form.pairs}
        part.module.__dict__[angles.STATE] = angles.ExactAngles(own, part.form.axes, part.form.kind == "complex")
        serve(part.module, angles.RotaryServing())
    for module, kind in parts.users:
        serve(module, angles.RotatingServing(kind))


def _serve_unrotated(parts: ModelParts, configs: Mapping[str, RotaryConfig], scheme: PositionScheme | None) -> None:
    """Let rotary modules hand on positions and schemes, and attention functions apply them."""
    parts.require_unrotated()
    each: list[PositionScheme] = []
    if scheme is not None and scheme.per_layer:
        each = [scheme, *(copy.deepcopy(scheme) for _ in range(parts.layers - 1))]
    for part in parts.rotaries:
        module = part.module
        if scheme is None:
            shared: dict[str | None, PositionScheme] = {
                layer: Rotary.from_config(config_of_layer(configs, layer)) for layer in part.form.pairs
            }
        else:
            shared = dict.fromkeys(part.form.pairs, scheme)
        module.__dict__[unrotated.STATE] = unrotated.Schemes(shared, each)
        if scheme is not None and part is parts.rotaries[0]:
            module.add_module(_SCHEME, (nn.ModuleList(each) if each else scheme).train(module.training))
        serve(module, unrotated.HandingOnServing(part.form.kind != "complex"))
    for module, _ in parts.users:
        serve(module, unrotated.AttendingServing())


def _named_scheme(parts: ModelParts, name: str, options: Mapping[str, Any]) -> PositionScheme:
    given = dict(options)
    if name in SCHEMES:
        known = option_names(SCHEMES[name])
        if {"base", "rotary_dim", "layout"} <= set(known):
            config = next(iter(rotary_configs(parts, None).values()))
            given = {"base": config.base, "rotary_dim": config.rotary_dim, "layout": config.layout} | given
    config = parts.config
    heads = config.num_attention_heads
    return build_scheme(name, AttentionShape(parts.head_dim * heads, heads, causal=True), given)


def _check_scheme(parts: ModelParts, scheme: PositionScheme) -> None:
    if "embedding" in scheme.acts_on:
        raise ConfigError(
            f"The scheme '{scheme.name}' acts on the embeddings; install serves schemes that act on queries and keys "
            "or on scores."
        )
    if isinstance(scheme, Rotary) and scheme.config.layout not in parts.layouts:
        raise ConfigError(
            f"The scheme '{scheme.name}' pairs features as '{scheme.config.layout}', but the weights of "
            f"{parts.name} are made for '{' or '.join(sorted(parts.layouts))}'. Give it that layout."
        )
