"""Label-smoothed cross-entropy of the projection to the vocabulary, without keeping the logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from locant.kernels import cross_entropy as kernel

# Logits held at a time: enough for full-speed matrix products and few sums of the weight's gradient, few enough to stay
# near the caches.
CHUNK_BYTES = 32 << 20


class _ProjectedCrossEntropy(torch.autograd.Function):
    """Computes the loss and, chunk by chunk while the logits are at hand, its gradients."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float, trains: bool
    ) -> tuple[Tensor, Tensor]:
        vocabulary = weight.shape[0]
        need_hidden, need_weight = (trains and needed for needed in ctx.needs_input_grad[:2])
        with torch.autocast(hidden.device.type, enabled=False):
            matrix = weight.to(hidden.dtype)
            sums = hidden.new_zeros(2, dtype=torch.float64)
            grad_hidden = torch.empty_like(hidden) if need_hidden else None
            grad_weight = torch.zeros_like(weight) if need_weight else None
            size = max(1, CHUNK_BYTES // (hidden.element_size() * vocabulary))
            for start in range(0, len(labels), size):
                rows = slice(start, start + size)
                h = hidden[rows]
                logits = h @ matrix.T
                losses, gradient = _cross_entropy(logits, labels[rows], smoothing, trains)
                sums += losses
                if gradient is None:
                    continue
                if grad_hidden is not None:
                    torch.mm(gradient, matrix, out=grad_hidden[rows])
                if grad_weight is not None:
                    _add_product(grad_weight, gradient.T, h)
        loss, likelihood = sums.float()
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        scale = outer[0]
        return (
            None if grad_hidden is None else grad_hidden * scale.to(grad_hidden.dtype),
            None if grad_weight is None else grad_weight * scale.to(grad_weight.dtype),
            None,
            None,
            None,
        )


def _add_product(total: Tensor, one: Tensor, other: Tensor) -> None:
    """Add a matrix product to a total, which may be of higher precision."""
    if one.dtype == total.dtype:
        total.addmm_(one, other)
        return
    product = one @ other
    if kernel.accumulates(total, product):
        kernel.accumulate(total, product)
    else:
        total += product


def _cross_entropy(logits: Tensor, labels: Tensor, smoothing: float, trains: bool) -> tuple[Tensor, Tensor | None]:
    """Return the smoothed loss and the negative log-likelihood ``[2]``, and the gradient ``[R, V]`` of the former.

    The logits ``[R, V]``, float32 or bfloat16, are used up: the gradient, of the same dtype, may lie in their place.
    """
    if kernel.serves(logits):
        sums = kernel.cross_entropy(logits, labels, smoothing=smoothing, gradient=trains)
        return sums, logits if trains else None
    dtype, logits = logits.dtype, logits.float()
    y, vocabulary = labels.unsqueeze(1), logits.shape[1]
    log_probabilities = torch.log_softmax(logits, dim=-1)
    nll = -log_probabilities.gather(1, y).sum(dtype=torch.float64)
    loss = (1 - smoothing) * nll
    if smoothing:
        loss -= smoothing / vocabulary * log_probabilities.sum(dtype=torch.float64)
    if not trains:
        return torch.stack((loss, nll)), None
    gradient = log_probabilities.exp_().sub_(smoothing / vocabulary)
    gradient.scatter_add_(1, y, gradient.new_full((1, 1), smoothing - 1).expand_as(y))
    return torch.stack((loss, nll)), gradient.to(dtype)


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
    rows = (labels.flatten() != ignore).nonzero().squeeze(1)
    hidden, labels = hidden.flatten(0, 1).index_select(0, rows), labels.flatten().index_select(0, rows)
    trains = torch.is_grad_enabled()
    return _ProjectedCrossEntropy.apply(hidden, weight, labels, smoothing, trains)  # type: ignore[no-untyped-call]
