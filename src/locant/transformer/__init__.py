"""The encoder-decoder Transformer: attention, blocks, model, presets."""

from locant.transformer.attention import CrossAttention, SelfAttention
from locant.transformer.cache import DecoderCache, KeyValueCache
from locant.transformer.config import PRESETS, TransformerConfig, preset
from locant.transformer.model import Transformer, count_parameters

__all__ = [
    "PRESETS",
    "CrossAttention",
    "DecoderCache",
    "KeyValueCache",
    "SelfAttention",
    "Transformer",
    "TransformerConfig",
    "count_parameters",
    "preset",
]
