"""The architectures that can be trained, by name: configuration from plain data, and model from configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locant.errors import ConfigError, nearest
from locant.models.config import TransformerConfig, preset
from locant.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from locant.models.rnn import RNN, RNNConfig
from locant.models.transformer import Transformer

ModelConfig = TransformerConfig | RNNConfig

_CONFIGS: dict[str, type[ModelConfig]] = {"transformer": TransformerConfig, "rnn": RNNConfig}


def config_class(data: Mapping[str, Any], where: str = "model") -> type[ModelConfig]:
    """Return the class for plain data: that of its ``architecture``, a Transformer's where it names none.

    Raises:
        ConfigError: There is no such architecture.
    """
    architecture = data.get("architecture", "transformer")
    if not isinstance(architecture, str) or architecture not in _CONFIGS:
        raise ConfigError(
            f"{where}: unknown architecture '{architecture}'.{nearest(str(architecture), _CONFIGS)} "
            f"Known: {', '.join(_CONFIGS)}."
        )
    return _CONFIGS[architecture]


def parse_model_config(data: Mapping[str, Any], where: str = "model") -> ModelConfig:
    """Return the configuration of a model from plain data.

    Args:
        data: Its ``architecture`` and fields of :class:`TransformerConfig`, a ``preset`` with or without fields, or
            fields of :class:`~locant.models.RNNConfig`.
        where: Where the data came from, for messages.

    Raises:
        ConfigError: The architecture, the preset or a field is unknown or does not belong to the architecture, or a
            value is wrong.
    """
    chosen = config_class(data, where)
    fields = dict(data)
    if chosen is TransformerConfig and "preset" in fields:
        return preset(fields.pop("preset"), **fields)
    transformers = {"preset", *TransformerConfig.model_fields} - chosen.model_fields.keys()
    if chosen is RNNConfig and (foreign := [key for key in data if key in transformers]):
        raise ConfigError(
            f"{where}: a Transformer has the option{'s' if len(foreign) > 1 else ''} {', '.join(foreign)}, but the "
            f"architecture rnn has not. Its options are: {', '.join(sorted(chosen.model_fields))}."
        )
    return chosen.parse(fields, where)


def build_model(config: EncoderDecoderConfig) -> EncoderDecoder[Any]:
    """Return a new model of a configuration, with fresh random weights."""
    match config:
        case TransformerConfig():
            return Transformer(config)
        case RNNConfig():
            return RNN(config)
    raise TypeError(f"There is no model for a {type(config).__name__}.")


def require_transformer(model: EncoderDecoder[Any], purpose: str) -> Transformer:
    """Return the model if it is a Transformer.

    Args:
        model: Any model.
        purpose: What only a Transformer can be used for, as the subject of a sentence.

    Raises:
        ConfigError: It is another.
    """
    if not isinstance(model, Transformer):
        raise ConfigError(
            f"{purpose} needs a Transformer, but this model's architecture is {model.config.architecture}. "
            "Train a model with model.architecture=transformer."
        )
    return model
