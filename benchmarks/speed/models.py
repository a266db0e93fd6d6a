"""The shape of a benchmark as a model of Locant and of Hugging Face transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shapes import Shape

if TYPE_CHECKING:
    from transformers import MarianMTModel

    from locant.models import Transformer


def locant_model(shape: Shape, **options: Any) -> Transformer:
    """Return Locant's model with random weights."""
    from locant.models import Transformer, TransformerConfig

    config = TransformerConfig(
        source_vocab_size=shape.vocabulary,
        target_vocab_size=shape.vocabulary,
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
        d_model=shape.d_model,
        d_ff=shape.d_ff,
        heads=shape.heads,
        **options,
    )
    return Transformer(config)


def marian_model(shape: Shape, **options: Any) -> MarianMTModel:
    """Return the model of transformers with random weights, in evaluation mode."""
    from transformers import MarianConfig, MarianMTModel

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
