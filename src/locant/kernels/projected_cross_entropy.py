"""Label-smoothed cross-entropy of the projection to the vocabulary, without keeping the logits."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from locant.kernels.library import LIBRARY, require_done
from locant.kernels.operator import no_gradient, of_first_alone, operator
from locant.kernels.tensors import is_usable, lack_rules, suits_kernels

# Logits held at a time: enough for full-speed matrix products and few sums of the weight's gradient, few enough to stay
# near the caches.
CHUNK_BYTES = 32 << 20

_ADDRESS, _COUNT, _NUMBER, _ERROR = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_char_p
LIBRARY.declare(
    {
        "locant_cross_entropy": (
            [_ADDRESS, _NUMBER, _ADDRESS, _COUNT, _COUNT, ctypes.c_float, _NUMBER, _ADDRESS, _NUMBER],
            _ERROR,
        ),
        "locant_accumulate": ([_ADDRESS, _ADDRESS, _COUNT, _NUMBER], _ERROR),
    },
)


def _in_chunks(
    hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float, ignore: int, of_hidden: bool, of_weight: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss with the likelihood ``[2]`` and, computed while the logits are at hand, the loss's gradients.

    The gradients of ``hidden`` and ``weight`` are empty where they are not wanted.
    """
    trains = of_hidden or of_weight
    rows = (labels.flatten() != ignore).nonzero().squeeze(1)
    seen, labels = hidden.flatten(0, 1).index_select(0, rows), labels.flatten().index_select(0, rows)
    with torch.autocast(hidden.device.type, enabled=False):
        matrix = weight.to(hidden.dtype)
        sums = hidden.new_zeros(2, dtype=torch.float64)
        grad_seen = torch.empty_like(seen) if of_hidden else None
        grad_weight = torch.zeros_like(weight) if of_weight else weight.new_empty(0)
        size = max(1, CHUNK_BYTES // (hidden.element_size() * weight.shape[0]))
        for start in range(0, len(labels), size):
            part = slice(start, start + size)
            h = seen[part]
            losses, gradient = cross_entropy(h @ matrix.T, labels[part], smoothing=smoothing, trains=trains)
            sums += losses
            if gradient is None:
                continue
            if grad_seen is not None:
                torch.mm(gradient, matrix, out=grad_seen[part])
            if of_weight:
                _add_product(grad_weight, gradient.T, h)
    if grad_seen is None:
        return sums.float(), hidden.new_empty(0), grad_weight
    grad_hidden = torch.zeros(hidden.shape, dtype=hidden.dtype, device=hidden.device)
    grad_hidden.view(-1, hidden.shape[-1]).index_copy_(0, rows, grad_seen)
    return sums.float(), grad_hidden, grad_weight


def _at_once(
    hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float, ignore: int, of_hidden: bool, of_weight: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the same without looking which rows are padding."""
    matrix, real = weight.to(hidden.dtype), (labels != ignore).unsqueeze(-1)
    y = torch.where(real, labels.unsqueeze(-1), 0)
    logs = torch.log_softmax((hidden @ matrix.T).float(), dim=-1)
    nll = -torch.where(real, logs.gather(-1, y), 0.0).sum(dtype=torch.float64)
    even = smoothing / weight.shape[0]
    loss = (1 - smoothing) * nll - even * torch.where(real, logs, 0.0).sum(dtype=torch.float64)
    right = torch.arange(weight.shape[0], device=hidden.device) == y
    gradient = torch.where(real, logs.exp() - even - torch.where(right, 1 - smoothing, 0.0), 0.0).to(hidden.dtype)
    grad_hidden = gradient @ matrix if of_hidden else hidden.new_empty(0)
    grad_weight = gradient.flatten(0, 1).T @ hidden.flatten(0, 1) if of_weight else weight.new_empty(0)
    return torch.stack((loss, nll)).float(), grad_hidden, grad_weight.to(weight.dtype)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    of_first_alone(ctx, output)
    hidden, weight, *_, ctx.of_hidden, ctx.of_weight = inputs
    ctx.save_for_backward(hidden, weight, *output[1:])


def _gradients(ctx: Any, outer: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    if outer is None:
        return (None,) * 7
    hidden, weight, grad_hidden, grad_weight = ctx.saved_tensors
    scale = outer[0]  # the likelihood has no gradient
    return (
        _SCALED(grad_hidden, hidden, weight, scale) if ctx.of_hidden else None,
        _SCALED(grad_weight, hidden, weight, scale) if ctx.of_weight else None,
        *(None,) * 5,
    )


def _scaled(gradient: Tensor, hidden: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    del hidden, weight  # what it depends on, which differentiating it once more would want
    return gradient * scale.to(gradient.dtype)


_SCALED = operator(
    "projected_cross_entropy_backward(Tensor gradient, Tensor hidden, Tensor weight, Tensor scale) -> Tensor",
    kernel=_scaled,
    plain=_scaled,
    reads=lambda *_: True,
    backward=no_gradient("This loss has no second derivatives; torch.nn.functional.cross_entropy of all logits has."),
)


_LOSS = operator(
    "projected_cross_entropy(Tensor hidden, Tensor weight, Tensor labels, float smoothing, int ignore, bool of_hidden, "
    "bool of_weight) -> (Tensor, Tensor, Tensor)",
    kernel=_in_chunks,
    plain=_at_once,
    reads=lambda *_: True,
    setup=_setup,
    backward=_gradients,
)


def _add_product(total: Tensor, one: Tensor, other: Tensor) -> None:
    """Add a matrix product to a total, which may be of higher precision.

    The kernel adds bfloat16 to float32, where PyTorch would first make a float32 copy.
    """
    if one.dtype == total.dtype:
        total.addmm_(one, other)
        return
    product = one @ other
    types, laid_out = (total.dtype, product.dtype), total.is_contiguous() and product.is_contiguous()
    if types == (torch.float32, torch.bfloat16) and laid_out and suits_kernels(total, product) and is_usable():
        places = product.data_ptr(), total.data_ptr(), total.numel()
        require_done(LIBRARY.load().locant_accumulate(*places, torch.get_num_threads()))
    else:
        total += product


def cross_entropy(logits: Tensor, labels: Tensor, *, smoothing: float, trains: bool) -> tuple[Tensor, Tensor | None]:
    """Return the smoothed loss and the negative log-likelihood ``[2]``, and the gradient ``[R, V]`` of the former.

    The logits ``[R, V]`` are used up: the gradient, of the same dtype, may lie in their place. It is ``None`` unless
    the loss ``trains`` something.

    Raises:
        ConfigError: A label ``[R]``, int64, is outside the vocabulary.
        MemoryError: Memory does not suffice.
    """
    if suits_kernels(logits) and logits.is_contiguous() and labels.dtype == torch.int64 and is_usable():
        sums, labels = logits.new_zeros(2, dtype=torch.float64), labels.contiguous()
        places = logits.data_ptr(), logits.dtype == torch.bfloat16, labels.data_ptr(), *logits.shape
        work = *places, smoothing, trains, sums.data_ptr(), torch.get_num_threads()
        require_done(LIBRARY.load().locant_cross_entropy(*work))
        return sums, logits if trains else None
    dtype, logits = logits.dtype, logits.float()
    y, even = labels.unsqueeze(1), smoothing / logits.shape[1]
    log_probabilities = torch.log_softmax(logits, dim=-1)
    nll = -log_probabilities.gather(1, y).sum(dtype=torch.float64)
    loss = (1 - smoothing) * nll - even * log_probabilities.sum(dtype=torch.float64)
    if not trains:
        return torch.stack((loss, nll)), None
    found = log_probabilities.exp_().sub_(even)
    found.scatter_add_(1, y, found.new_full((1, 1), smoothing - 1).expand_as(y))
    return torch.stack((loss, nll)), found.to(dtype)


def projected_cross_entropy(
    hidden: Tensor, weight: Tensor, labels: Tensor, *, smoothing: float, ignore: int
) -> tuple[Tensor, Tensor]:
    """Return the summed label-smoothed cross-entropy of ``hidden @ weight.T``, and the plain one.

    Equal to ``torch.nn.functional.cross_entropy(hidden @ weight.T, labels, label_smoothing=smoothing,
    ignore_index=ignore, reduction="sum")``; padding never reaches the projection, and memory holds some rows of
    logits instead of all.

    Source of label smoothing: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4.

    Args:
        hidden: Output of the decoder ``[B, T, E]``, float32 or bfloat16.
        weight: Matrix of the output projection ``[V, E]``, float32.
        labels: Integer ids of the right next tokens ``[B, T]``.
        smoothing: Probability mass spread evenly over the vocabulary, 0 <= smoothing < 1.
        ignore: Id of padding, whose rows do not count.

    Returns:
        Two float32 scalars in nats, summed over the tokens: the smoothed loss, with gradients, and the negative
        log-likelihood, without.
    """
    of_hidden, of_weight = (torch.is_grad_enabled() and x.requires_grad for x in (hidden, weight))
    if lack_rules(hidden, weight):
        sums, *_ = _at_once(hidden, weight, labels, smoothing, ignore, False, False)
    else:
        sums, *_ = _LOSS(hidden, weight, labels, smoothing, ignore, of_hidden, of_weight)
    return sums[0], sums[1].detach()
