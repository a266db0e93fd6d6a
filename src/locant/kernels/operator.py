"""Kernels as operators of PyTorch, ``torch.ops.locant.NAME``: what compilers, exporters, autograd and modes see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from locant.errors import ConfigError

_NAMESPACE = "locant"


class Operator(NamedTuple):
    """An operator, called as a function, and what computes the same by PyTorch's operations, on any device."""

    overload: Any
    plain: Callable[..., Any]


OPERATORS: dict[str, Operator] = {}
"""The operators that are registered, by name; importing :mod:`locant.kernels.operators` registers all of them."""


def is_transformed() -> bool:
    """Return whether a compiler, an exporter, ``torch.func`` or forward-mode differentiation runs the code."""
    return torch.compiler.is_compiling() or is_under_transforms() or forward_ad._current_level >= 0


def is_under_transforms() -> bool:
    """Return whether a transform of ``torch.func`` runs the code that asks; PyTorch has no public way to say so."""
    return torch._C._are_functorch_transforms_active()


def operator(
    schema: str,
    *,
    kernel: Callable[..., Any],
    plain: Callable[..., Any],
    reads: Callable[..., bool],
    setup: Callable[[Any, tuple[Any, ...], Any], None] | None = None,
    backward: Callable[..., Any] | None = None,
    autocast: bool = False,
) -> Any:
    """Register an operator, and return it as a function.

    Args:
        schema: Name, arguments without defaults, and results, in PyTorch's language of schemas.
        kernel: Computes the results.
        plain: Computes the same by PyTorch's operations: where the kernel does not read the arguments, where shapes
            alone are asked for, and where operators are decomposed.
        reads: Whether the kernel reads these arguments and can be used now.
        setup: Keeps what the backward pass needs: ``setup(ctx, inputs, output)``.
        backward: Takes the context and the gradient of each result, and returns that of each argument.
        autocast: Whether float32 becomes bfloat16 under autocast on the CPU.
    """
    name, bracket, rest = schema.partition("(")

    def run(*inputs: Any) -> Any:
        return kernel(*inputs) if reads(*inputs) else plain(*inputs)

    def fake(*inputs: Any) -> Any:
        first, *others = (x for x in pytree.tree_leaves(inputs) if isinstance(x, Tensor))
        # From tensors without memory ("meta") nothing can be computed. Numbers such as a seed may lie on the CPU.
        if any(x.device != first.device and (x.dim() or x.device.type != "cpu") for x in others):
            devices = ", ".join(str(x.device) for x in (first, *others))
            raise ConfigError(f"{_NAMESPACE}::{name} takes tensors of one device; these are on {devices}.")
        return plain(*inputs)

    registered = torch.library.custom_op(f"{_NAMESPACE}::{name}", run, mutates_args=(), schema=bracket + rest)
    registered.register_fake(fake)
    if backward is not None:
        registered.register_autograd(backward, setup_context=setup)
    if autocast:
        registered.register_autocast("cpu", torch.bfloat16)
    overload = getattr(getattr(torch.ops, _NAMESPACE), name).default
    OPERATORS[name] = Operator(overload, plain)
    return overload


def no_gradient(sentence: str) -> Callable[..., Any]:
    """Return the backward pass of what cannot be differentiated: an error that says ``sentence``."""

    def backward(ctx: Any, *outer: Any) -> Any:
        raise RuntimeError(sentence)

    return backward


def of_first_alone(ctx: Any, output: tuple[Tensor, ...]) -> None:
    """Say that all results but the first one have no gradients: they are for the backward pass."""
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[1:])
