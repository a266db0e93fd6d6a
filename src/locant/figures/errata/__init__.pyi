from locant.figures.errata.catalogue import RIGHTLY_SAID as RIGHTLY_SAID
from locant.figures.errata.catalogue import TOPICS as TOPICS
from locant.figures.errata.catalogue import Topic as Topic
from locant.figures.errata.catalogue import get_erratum as get_erratum
from locant.figures.errata.entry import Erratum as Erratum
from locant.figures.errata.entry import Value as Value
from locant.figures.errata.findings import NumberFinding as NumberFinding
from locant.figures.errata.markdown import errata_markdown as errata_markdown
from locant.figures.errata.recognition import identify_printed as identify_printed
from locant.figures.errata.tables import identify_array as identify_array

__all__ = ["TOPICS", "Erratum", "get_erratum", "identify_array"]
