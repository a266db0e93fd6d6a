"""Every operator of the kernels: importing this module registers all of them, for exported programs that hold them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from locant.kernels.operator import OPERATORS

__all__ = ["OPERATORS", "decompositions"]

for _name in ("attention", "layer_norm", "projected_cross_entropy", "rotation"):
    import_module(f"locant.kernels.{_name}")


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return what each operator is in PyTorch's operations, for ``ExportedProgram.run_decompositions``.

    An exported program then needs nothing of Locant, and can be given to a converter that knows PyTorch's operations
    alone, such as ``torch.onnx.export``.
    """
    return {operator.overload: operator.plain for operator in OPERATORS.values()}
