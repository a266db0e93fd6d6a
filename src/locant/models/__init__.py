"""Models: attention, blocks, the encoder-decoder Transformer, the language model, the RNN; saving and loading."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
