from locant.figures.bands import bands as bands
from locant.figures.bands import write_inspection_figure as write_inspection_figure
from locant.figures.drawing import FigureData as FigureData
from locant.figures.drawing import svg as svg
from locant.figures.errata import Erratum as Erratum
from locant.figures.errata import NumberFinding as NumberFinding
from locant.figures.errata import errata_markdown as errata_markdown
from locant.figures.errata import get_erratum as get_erratum
from locant.figures.errata import identify_array as identify_array
from locant.figures.errata import identify_text as identify_text
from locant.figures.files import FORMATS as FORMATS
from locant.figures.files import save_figure as save_figure
from locant.figures.files import write_figures as write_figures
from locant.figures.heatmap import heatmap as heatmap
from locant.figures.quality_by_length import quality_by_length as quality_by_length
from locant.figures.registry import FIGURES as FIGURES
from locant.figures.registry import Caption as Caption
from locant.figures.registry import RegisteredFigure as RegisteredFigure
from locant.figures.registry import draw_figure as draw_figure
from locant.figures.registry import get_figure as get_figure
from locant.figures.registry import register_figure as register_figure
from locant.figures.training_curves import training_curves as training_curves

__all__ = [
    "FIGURES",
    "Caption",
    "FigureData",
    "draw_figure",
    "get_erratum",
    "heatmap",
    "identify_array",
    "identify_text",
    "register_figure",
    "save_figure",
    "write_figures",
]
