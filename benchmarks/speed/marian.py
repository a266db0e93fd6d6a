"""The shape of a benchmark as a model of Hugging Face transformers."""

from __future__ import annotations

from typing import Any

from shapes import Shape
from transformers import MarianConfig, MarianMTModel


def marian_model(shape: Shape, **options: Any) -> MarianMTModel:
    """Return the model with random weights, in evaluation mode."""
    config = MarianConfig(
        vocab_size=shape.vocabulary,
        d_model=shape.d_model,
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
        encoder_ffn_dim=shape.d_ff,
        decoder_ffn_dim=shape.d_ff,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        activation_function="relu",
        scale_embedding=True,
        **options,
    )
    return MarianMTModel(config).eval()
