"""How fresh weights are drawn, the same for every model of this room."""

from __future__ import annotations

from torch import Tensor, nn

from locant.positions import PositionScheme
from locant.transformer.attention import CrossAttention, SelfAttention
from locant.transformer.blocks import FeedForward


def draw_initial_weights(model: nn.Module, d_model: int, output: nn.Linear, *, tied: bool) -> None:
    """Draw Xavier-uniform matrices, zero biases, and embeddings of standard deviation ``E^-0.5``.

    Every parameter is set, so that a model built on the meta device can be filled.

    Args:
        model: Whose parameters are drawn, in the order of its modules.
        d_model: Width of the model, ``E``.
        output: Its projection to the vocabulary.
        tied: Whether ``output`` has the matrix of an embedding, which is then left as it was drawn there.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear) and module is not output:
            nn.init.zeros_(module.bias)
        match module:
            case SelfAttention():
                _xavier_blocks(module.query_key_value.weight, 3)
                nn.init.xavier_uniform_(module.output.weight)
            case CrossAttention():
                nn.init.xavier_uniform_(module.query.weight)
                _xavier_blocks(module.key_value.weight, 2)
                nn.init.xavier_uniform_(module.output.weight)
            case FeedForward():
                _xavier_blocks(module.inner.weight, 2 if module.gated else 1)
                nn.init.xavier_uniform_(module.outer.weight)
            case nn.LayerNorm() | PositionScheme():
                module.reset_parameters()
            case nn.Embedding():
                # Times sqrt(E) at the input this has unit variance; untouched, it suits the tied output.
                nn.init.normal_(module.weight, std=d_model**-0.5)
    if not tied:
        nn.init.xavier_uniform_(output.weight)


def _xavier_blocks(weight: Tensor, blocks: int) -> None:
    """Initialise the matrices stacked in one weight each for itself: Xavier's range depends on a matrix's own shape."""
    for block in weight.chunk(blocks, dim=0):
        nn.init.xavier_uniform_(block)
