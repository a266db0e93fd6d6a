"""Say what produced a table of positions or a vector of frequencies found in a checkpoint."""

from locant.positions.identify.identify import identify
from locant.positions.identify.result import Identification

__all__ = ["Identification", "identify"]
