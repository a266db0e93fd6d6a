"""C++ kernels for the CPU, each beside its source; what builds and loads them, and the switch that turns them off.

A kernel serves by itself where PyTorch's operations are slower. It comes with the package; an installation from the
sources builds it at its first use and keeps it in the user's cache folder. :func:`enabled` switches all of them off or
on.
"""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
