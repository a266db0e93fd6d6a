"""The version of Locant, in one place."""

__version__ = "0.1.0"
"""The version, as in ``1.2.3``."""
