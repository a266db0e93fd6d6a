from locant.analysis.attention_steps import AttentionSteps as AttentionSteps
from locant.analysis.attention_steps import attention_steps as attention_steps
from locant.analysis.geometry import Geometry as Geometry
from locant.analysis.geometry import measure_geometry as measure_geometry
from locant.analysis.geometry import shift_matrix as shift_matrix
from locant.analysis.introspection import Introspection as Introspection
from locant.analysis.introspection import StackStates as StackStates
from locant.analysis.introspection import TokenPair as TokenPair
from locant.analysis.introspection import hidden_states as hidden_states
from locant.analysis.introspection import introspect as introspect
from locant.analysis.introspection import token_pair as token_pair
from locant.analysis.position_probe import LinearReading as LinearReading
from locant.analysis.position_probe import PositionProbe as PositionProbe
from locant.analysis.position_probe import StackReadings as StackReadings
from locant.analysis.position_probe import probe_positions as probe_positions
from locant.analysis.properties import DEFAULT_SHAPE as DEFAULT_SHAPE
from locant.analysis.properties import PROPERTIES as PROPERTIES
from locant.analysis.properties import Probe as Probe
from locant.analysis.properties import Property as Property
from locant.analysis.properties import check_properties as check_properties
from locant.analysis.scores import Scores as Scores
from locant.analysis.scores import bleu_tokenizer as bleu_tokenizer
from locant.analysis.scores import mean_scores as mean_scores
from locant.analysis.scores import score_translations as score_translations
from locant.analysis.significance import PairedComparison as PairedComparison
from locant.analysis.significance import paired_bootstrap as paired_bootstrap

__all__ = [
    "attention_steps",
    "check_properties",
    "introspect",
    "measure_geometry",
    "paired_bootstrap",
    "probe_positions",
    "score_translations",
    "shift_matrix",
    "token_pair",
]
