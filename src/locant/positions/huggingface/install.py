"""Locant's positions in the place of those that a model of transformers has, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from torch import nn

from locant.errors import ConfigError, LocantError
from locant.lazy import require_package
from locant.positions.huggingface.angles import STATE, ExactAngles, exact_forward, rotating
from locant.positions.huggingface.parts import ModelParts, find_parts
from locant.positions.huggingface.served import original_class, served_class, take_class
from locant.positions.rotary.config import RotaryConfig
from locant.positions.rotary.rotary import Rotary
from locant.positions.scaling.measured import Measured

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ALL = "all"  # the layer type of models whose layers all have the same rotary positions


@dataclass(eq=False)
class Installation:
    """Locant's positions in a model; as a context manager it takes them out at the end of the block.

    Attributes:
        model: The model.
        configs: The rotary configurations in force by layer type.
        notes: Sentences about frequencies that are those of the class, which its configuration is not read to have.
    """

    model: nn.Module = field(repr=False)
    configs: dict[str, RotaryConfig]
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
    length: int | None = None,
) -> Installation:
    """Let Locant rotate queries and keys of a model of transformers from now on.

    Angles are exact at every position and in every dtype: computed in integers, rounded once to float32, and applied in
    float32. Everything else stays as it is: weights, state dict, caches, masks, attention functions, training and
    generation; copies and pickles of the model have the same positions. Other models of the class are not touched.

    Args:
        model: A model of transformers whose rotary module returns angles, or one around it (of PEFT, say).
        config: The rotary configuration, or one for every layer type of the class. Unless given, the
            frequencies are those of the model: exact as its configuration is read, or the very numbers of its class
            where these are others; a note of the result says so then.
        length: The longest text in tokens, for frequencies that follow the length of the text (dynamic NTK, LongRoPE):
            all texts then have those of this length, so that generating with a cache gives what one pass gives.

    Returns:
        What is installed; it can be used as a context manager.

    Raises:
        LocantError: The class of the model is built in a way that cannot be served; nothing has been changed then.
        ConfigError: The configuration does not fit the model, it needs a length, or positions are installed already.
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
    require_package("transformers", "Positions in models of Hugging Face")
    if _served(model):
        raise ConfigError("Locant's positions are installed in this model already; uninstall(model) takes them out.")
    parts = find_parts(model)
    configs, notes = _own_configs(parts) if config is None else (_fitting(parts, config), ())
    configs = {layer: _of_length(parts, each, length) for layer, each in configs.items()}
    for module, layers in parts.rotaries.items():
        (kind,) = {angles.kind for angles in layers.values()}
        own = {layer: Rotary.from_config(_of_layer(configs, layer)) for layer in layers}
        vars(module)[STATE] = ExactAngles(own, {layer: angles.axes for layer, angles in layers.items()}, kind)
        take_class(module, served_class(type(module), exact_forward, None))
    for module, kind in parts.users.items():
        take_class(module, served_class(type(module), rotating, kind))
    return Installation(model, configs, notes)


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


def _served(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if original_class(module) is not None]


def _of_length(parts: ModelParts, config: RotaryConfig, length: int | None) -> RotaryConfig:
    """Return a configuration whose frequencies are the same for all texts."""
    if not config.scaling.depends_on_length:
        return config
    if length is None:
        raise ConfigError(
            f"The frequencies of {parts.name} follow the length of the text, and cached keys would keep those of a "
            "shorter one. Give the longest text: install(model, length=...)."
        )
    return replace(config, scaling=config.scaling.fixed_for(length), max_length=None)


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
