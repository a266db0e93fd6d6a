"""The models and the work that every engine is measured on, what they cost in arithmetic, and how they are built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import MarianMTModel

    from locant.models import Transformer

SENTENCES, LENGTH = 164, 25


@dataclass(frozen=True)
class Shape:
    """An encoder-decoder Transformer with one joint vocabulary and tied embeddings, as in Vaswani et al. 2017."""

    layers: int
    d_model: int
    d_ff: int
    heads: int
    vocabulary: int

    def training_flops(self, sentences: int, length: int) -> float:
        """Floating-point operations of matrix products in one step: forward, and twice as many backward."""
        tokens = sentences * length
        square, forward = self.d_model**2, self.d_model * self.d_ff
        encoder = self.layers * (4 * square + 2 * forward)
        decoder = self.layers * (8 * square + 2 * forward) + self.d_model * self.vocabulary
        attention = 3 * self.layers * 2 * length * self.d_model
        return 3 * 2 * tokens * (encoder + decoder + attention)

    def decoding_flops(self, length: int) -> float:
        """The same of translating one token of a sentence of that many tokens, its share of the encoder included."""
        square, forward = self.d_model**2, self.d_model * self.d_ff
        encoder = self.layers * (4 * square + 2 * forward) + self.layers * 2 * square
        decoder = self.layers * (6 * square + 2 * forward) + self.d_model * self.vocabulary
        return 2 * (encoder + decoder + 4 * self.layers * length * self.d_model)


SHAPES = {
    "tiny-8k": Shape(4, 128, 256, 4, 8000),
    "small-8k": Shape(3, 256, 1024, 4, 8000),
    "small-32k": Shape(3, 256, 1024, 4, 32000),
    "base-32k": Shape(6, 512, 2048, 8, 32000),
}


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
