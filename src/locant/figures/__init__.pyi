from locant.figures.architecture import architecture as architecture
from locant.figures.attention import HeadWeights as HeadWeights
from locant.figures.attention import attention as attention
from locant.figures.attention_steps import Step as Step
from locant.figures.attention_steps import attention_steps as attention_steps
from locant.figures.bands import LayerBands as LayerBands
from locant.figures.bands import bands as bands
from locant.figures.bands import write_inspection_figure as write_inspection_figure
from locant.figures.bias import HeadBiases as HeadBiases
from locant.figures.bias import bias as bias
from locant.figures.circle import circle as circle
from locant.figures.clocks import clocks as clocks
from locant.figures.context import perplexity_by_length as perplexity_by_length
from locant.figures.context import retrieval_grid as retrieval_grid
from locant.figures.criteria import criteria as criteria
from locant.figures.distance import distance as distance
from locant.figures.dot_product_scaling import ScoreStatistics as ScoreStatistics
from locant.figures.dot_product_scaling import dot_product_scaling as dot_product_scaling
from locant.figures.dot_products import Products as Products
from locant.figures.dot_products import dot_products as dot_products
from locant.figures.drawing import FigureData as FigureData
from locant.figures.drawing import svg as svg
from locant.figures.embedding_sum import embedding_sum as embedding_sum
from locant.figures.errata import Erratum as Erratum
from locant.figures.errata import NumberFinding as NumberFinding
from locant.figures.errata import errata_markdown as errata_markdown
from locant.figures.errata import get_erratum as get_erratum
from locant.figures.errata import identify_array as identify_array
from locant.figures.errata import identify_text as identify_text
from locant.figures.files import FORMATS as FORMATS
from locant.figures.files import save_figure as save_figure
from locant.figures.files import write_figures as write_figures
from locant.figures.heads import heads as heads
from locant.figures.heatmap import heatmap as heatmap
from locant.figures.heatmaps import heatmaps as heatmaps
from locant.figures.layer_norm import NormedBatch as NormedBatch
from locant.figures.layer_norm import layer_norm as layer_norm
from locant.figures.masks import MaskedWeights as MaskedWeights
from locant.figures.masks import masks as masks
from locant.figures.probe import ProbeCurve as ProbeCurve
from locant.figures.probe import probe as probe
from locant.figures.quality_by_length import LengthCurve as LengthCurve
from locant.figures.quality_by_length import quality_by_length as quality_by_length
from locant.figures.recurrence import recurrence as recurrence
from locant.figures.registry import FIGURES as FIGURES
from locant.figures.registry import Caption as Caption
from locant.figures.registry import RegisteredFigure as RegisteredFigure
from locant.figures.registry import draw_figure as draw_figure
from locant.figures.registry import get_figure as get_figure
from locant.figures.registry import register_figure as register_figure
from locant.figures.shift_derivation import DerivationStep as DerivationStep
from locant.figures.shift_derivation import shift_derivation as shift_derivation
from locant.figures.sine_alone import sine_alone as sine_alone
from locant.figures.sinusoid_forms import sinusoid_forms as sinusoid_forms
from locant.figures.spectrum import Spectrum as Spectrum
from locant.figures.spectrum import spectrum as spectrum
from locant.figures.teacher_forcing import ForcedRow as ForcedRow
from locant.figures.teacher_forcing import teacher_forcing as teacher_forcing
from locant.figures.training_curves import training_curves as training_curves
from locant.figures.turning_pairs import turning_pairs as turning_pairs
from locant.figures.tutorial_errors import Curve as Curve
from locant.figures.tutorial_errors import Refutation as Refutation
from locant.figures.tutorial_errors import tutorial_errors as tutorial_errors
from locant.figures.waves import waves as waves
from locant.figures.word_energy import PairGroup as PairGroup
from locant.figures.word_energy import word_energy as word_energy
from locant.figures.word_plus_position import WordPlane as WordPlane
from locant.figures.word_plus_position import word_plus_position as word_plus_position

__all__ = [
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
