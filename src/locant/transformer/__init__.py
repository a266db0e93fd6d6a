"""The encoder-decoder models: the Transformer with its presets, and the recurrent model it replaced."""

from locant.transformer.architectures import (
    ModelConfig,
    build_model,
    config_class,
    parse_model_config,
    require_transformer,
)
from locant.transformer.attention import CrossAttention, SelfAttention
from locant.transformer.cache import DecoderCache, KeyValueCache
from locant.transformer.config import PRESETS, TransformerConfig, preset
from locant.transformer.encoder_decoder import DecoderState, EncoderDecoder, EncoderDecoderConfig
from locant.transformer.language_model import LanguageModel, LanguageModelCache, LanguageModelConfig
from locant.transformer.model import Transformer, count_parameters
from locant.transformer.rnn import RNN, AdditiveAttention, RNNConfig

__all__ = [
    "PRESETS",
    "RNN",
    "AdditiveAttention",
    "CrossAttention",
    "DecoderCache",
    "DecoderState",
    "EncoderDecoder",
    "EncoderDecoderConfig",
    "KeyValueCache",
    "LanguageModel",
    "LanguageModelCache",
    "LanguageModelConfig",
    "ModelConfig",
    "RNNConfig",
    "SelfAttention",
    "Transformer",
    "TransformerConfig",
    "build_model",
    "config_class",
    "count_parameters",
    "parse_model_config",
    "preset",
    "require_transformer",
]
