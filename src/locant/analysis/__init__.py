"""Analysis: scores of translations, probes and introspection of trained models, properties of schemes."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
