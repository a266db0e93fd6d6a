"""Gradients by distance, and the operations of a pass that must wait for each other."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from locant.errors import ConfigError

_DIRECTIONS = 4  # along which the last output is differentiated


def gradient_by_distance(outputs: Callable[[Tensor], Tensor], inputs: Tensor, *, seed: int = 0) -> Tensor:
    """Return how much the last output of a sequence depends on the input ``k`` tokens before it.

    The number is the norm of the gradient of ``u . y_L`` with respect to ``x_{L-k}``, for unit vectors ``u`` drawn at
    random; the root of the mean square over rows and several ``u`` is the Frobenius norm of the Jacobian over the root
    of its number of rows, whose decay with ``k`` is the vanishing gradient (Bengio, Simard and Frasconi 1994, section
    4; Pascanu, Mikolov and Bengio 2013, section 2).

    Args:
        outputs: Maps inputs ``[B, L, E]`` to outputs ``[B, L, F]``.
        inputs: Where the gradient is taken, ``[B, L, E]``.
        seed: Of the unit vectors.

    Returns:
        Float64 ``[L]``, the last input (``k = 0``) first.

    Raises:
        ConfigError: The inputs are no such tensor of floats.

    Example:
        >>> from torch import nn
        >>> gru = nn.GRU(4, 4, batch_first=True)
        >>> gradient_by_distance(lambda x: gru(x)[0], torch.zeros(1, 6, 4)).shape
        torch.Size([6])
    """
    if inputs.dim() != 3 or not inputs.is_floating_point():
        raise ConfigError(f"Gradients by distance need inputs [B, L, E] of floats; got {list(inputs.shape)}.")
    x = inputs.detach().clone().requires_grad_()
    last = outputs(x)[:, -1]
    generator = torch.Generator().manual_seed(seed)
    squares = torch.zeros(inputs.shape[1], dtype=torch.float64)
    for number in range(_DIRECTIONS):
        unit = nn.functional.normalize(torch.randn(last.shape, generator=generator), dim=-1)
        (gradient,) = torch.autograd.grad((last * unit.to(last)).sum(), x, retain_graph=number + 1 < _DIRECTIONS)
        squares += gradient.double().square().sum(-1).mean(0).cpu()
    return (squares / _DIRECTIONS).sqrt().flip(0)


def operations_in_a_row(output: Tensor) -> int:
    """Return the number of operations of a differentiable pass of which each needs the result of the one before.

    It is the length of the longest path through the graph that PyTorch records, from ``output`` back to a parameter or
    an input: however many processors there are, so many operations must wait for each other.

    Args:
        output: Result of the pass, with its graph.

    Raises:
        ConfigError: Nothing was recorded for the tensor.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> operations_in_a_row((x * 2).exp() + x)
        3
    """
    if output.grad_fn is None:
        raise ConfigError("The tensor has no graph: compute it from parameters or inputs that require a gradient.")
    longest: dict[object, int] = {}
    stack: list[tuple[torch.autograd.graph.Node, bool]] = [(output.grad_fn, False)]
    while stack:
        node, seen = stack.pop()
        before = [one for one, _ in node.next_functions if one is not None and one.next_functions]
        if seen:
            longest[node] = 1 + max((longest[one] for one in before), default=0)
        elif node not in longest:
            stack.append((node, True))
            stack.extend((one, False) for one in before if one not in longest)
    return longest[output.grad_fn]
