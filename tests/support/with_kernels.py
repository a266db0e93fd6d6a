"""The C++ kernels switched on for tensors of any size, or off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import locant.kernels
from locant.kernels.library import find_compiler

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler, as the kernels do")


@contextmanager
def kernels(on: bool, *, smallest: int = 0) -> Iterator[None]:
    """Switch the kernels on or off; ``smallest`` is the number of elements from which they serve."""
    before = locant.kernels.enabled()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("locant.kernels.tensors.SMALLEST", smallest)
        locant.kernels.enabled(on)
        try:
            yield
        finally:
            locant.kernels.enabled(before)
