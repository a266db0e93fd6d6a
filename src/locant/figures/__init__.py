"""Pictures: numbers in, figures out. Needs the extra ``report``."""

from locant.figures.inline import svg
from locant.figures.training_curves import training_curves

__all__ = ["svg", "training_curves"]
