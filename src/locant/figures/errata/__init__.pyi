from locant.figures.errata.catalogue import INTRODUCTION as INTRODUCTION
from locant.figures.errata.catalogue import RECOGNITION as RECOGNITION
from locant.figures.errata.catalogue import RIGHTLY_SAID as RIGHTLY_SAID
from locant.figures.errata.catalogue import TOPICS as TOPICS
from locant.figures.errata.catalogue import Erratum as Erratum
from locant.figures.errata.catalogue import Topic as Topic
from locant.figures.errata.catalogue import Value as Value
from locant.figures.errata.catalogue import errata_markdown as errata_markdown
from locant.figures.errata.catalogue import get_erratum as get_erratum
from locant.figures.errata.identification import NumberFinding as NumberFinding
from locant.figures.errata.identification import identify_array as identify_array
from locant.figures.errata.identification import identify_text as identify_text

__all__ = ["TOPICS", "Erratum", "get_erratum", "identify_array", "identify_text"]
