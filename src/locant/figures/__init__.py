"""Pictures: numbers in, figures out. Needs the extra ``report``."""

from locant.figures.attention import HeadWeights, attention
from locant.figures.bias import HeadBiases, bias
from locant.figures.circle import circle
from locant.figures.clocks import clocks
from locant.figures.criteria import criteria
from locant.figures.drawn import Drawn
from locant.figures.heatmap import heatmap, heatmaps
from locant.figures.inline import svg
from locant.figures.lengths import LengthCurve, quality_by_length
from locant.figures.probe import ProbeCurve, probe
from locant.figures.products import Products, distance, dot_products
from locant.figures.spectrum import Spectrum, spectrum
from locant.figures.training_curves import training_curves
from locant.figures.tutorial_errors import Curve, Refutation, tutorial_errors
from locant.figures.waves import waves
from locant.figures.word_plus_position import WordPlane, word_plus_position

__all__ = [
    "Curve",
    "Drawn",
    "HeadBiases",
    "HeadWeights",
    "LengthCurve",
    "ProbeCurve",
    "Products",
    "Refutation",
    "Spectrum",
    "WordPlane",
    "attention",
    "bias",
    "circle",
    "clocks",
    "criteria",
    "distance",
    "dot_products",
    "heatmap",
    "heatmaps",
    "probe",
    "quality_by_length",
    "spectrum",
    "svg",
    "training_curves",
    "tutorial_errors",
    "waves",
    "word_plus_position",
]
