"""Training: recipes, objective, schedule, loop, checkpoints, distribution."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
