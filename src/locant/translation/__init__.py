"""Translation: greedy and beam search, the translator, and the engines that run it."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
