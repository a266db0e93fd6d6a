"""Pictures: numbers in, figures out. Needs the extra ``report``."""

from locant.figures.bias import HeadBiases, bias
from locant.figures.circle import circle
from locant.figures.clocks import clocks
from locant.figures.criteria import criteria
from locant.figures.drawn import Drawn
from locant.figures.heatmap import heatmap, heatmaps
from locant.figures.inline import svg
from locant.figures.products import Products, distance, dot_products
from locant.figures.spectrum import Spectrum, spectrum
from locant.figures.training_curves import training_curves
from locant.figures.waves import waves

__all__ = [
    "Drawn",
    "HeadBiases",
    "Products",
    "Spectrum",
    "bias",
    "circle",
    "clocks",
    "criteria",
    "distance",
    "dot_products",
    "heatmap",
    "heatmaps",
    "spectrum",
    "svg",
    "training_curves",
    "waves",
]
