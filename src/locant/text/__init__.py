"""Text: corpora, cleaning, tokenizers, the token cache and token-bounded batches."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
