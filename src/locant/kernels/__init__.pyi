from locant.kernels.library import SWITCH as SWITCH
from locant.kernels.library import enabled as enabled
from locant.kernels.operators import decompositions as decompositions

__all__ = ["decompositions", "enabled"]
