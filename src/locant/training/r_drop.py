"""Loss of R-Drop: two passes with different dropout must predict well and alike.

Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", arXiv:2106.14448, equations 2 to 4.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from locant.kernels.projected_cross_entropy import CHUNK_BYTES


class _ProjectedRDrop(torch.autograd.Function):
    """Computes the loss and, chunk by chunk while the logits are at hand, its gradients."""

    @staticmethod
    def forward(
        ctx: Any, one: Tensor, other: Tensor, weight: Tensor, labels: Tensor, smoothing: float, alpha: float
    ) -> tuple[Tensor, Tensor]:
        hidden = one, other
        with torch.autocast(one.device.type, enabled=False):
            matrix = weight.to(one.dtype)
            sums = one.new_zeros(2, dtype=torch.float64)
            gradients = torch.empty_like(one), torch.empty_like(other)
            grad_weight = torch.zeros_like(weight)
            size = max(1, CHUNK_BYTES // (4 * weight.shape[0]))
            for start in range(0, len(labels), size):
                rows = slice(start, start + size)
                p, q = (torch.log_softmax((h[rows] @ matrix.T).float(), dim=-1) for h in hidden)
                losses, logit_gradients = _loss_and_gradients(p, q, labels[rows], smoothing, alpha)
                sums += losses
                for h, gradient, of_logits in zip(hidden, gradients, logit_gradients, strict=True):
                    of_logits = of_logits.to(h.dtype)
                    torch.mm(of_logits, matrix, out=gradient[rows])
                    grad_weight += of_logits.T @ h[rows]
        ctx.save_for_backward(one, other, weight, *gradients, grad_weight)
        loss, likelihood = sums.float()
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        gradients = _ScaledGradients.apply(outer[0], *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        return (*gradients, None, None, None)


class _ScaledGradients(torch.autograd.Function):
    """Scales the gradients of three tensors, on which they depend: differentiating them once more is an error."""

    @staticmethod
    def forward(
        ctx: Any, scale: Tensor, one: Tensor, other: Tensor, weight: Tensor, *gradients: Tensor
    ) -> tuple[Tensor, ...]:
        del ctx, one, other, weight
        return tuple(gradient * scale.to(gradient.dtype) for gradient in gradients)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        raise RuntimeError("This loss has no second derivatives.")


def _loss_and_gradients(
    p: Tensor, q: Tensor, labels: Tensor, smoothing: float, alpha: float
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return loss and negative log-likelihood ``[2]`` and the gradients of the two logits ``[R, V]``.

    Args:
        p: Log-probabilities ``[R, V]`` of the first pass.
        q: Those of the second.
        labels: Right ids ``[R]``.
        smoothing: Of the labels.
        alpha: Weight of the divergence.
    """
    y, vocabulary = labels.unsqueeze(1), p.shape[1]
    nll = -(p.gather(1, y) + q.gather(1, y)).sum(dtype=torch.float64) / 2
    loss = (1 - smoothing) * nll
    if smoothing:
        loss -= smoothing / vocabulary * (p.sum(dtype=torch.float64) + q.sum(dtype=torch.float64)) / 2
    first, second, difference = p.exp(), q.exp(), p - q
    gradients = []
    for own, other, sign in ((first, second, 1.0), (second, first, -1.0)):
        divergence = sign * (own * difference).sum(1, keepdim=True)  # KL(own || other)
        loss += alpha / 4 * divergence.sum(dtype=torch.float64)
        gradient = (own * (sign * difference - divergence) + (own - other)).mul_(alpha / 4)
        gradient += (own - smoothing / vocabulary) / 2
        gradient.scatter_add_(1, y, gradient.new_full((1, 1), (smoothing - 1) / 2).expand_as(y))
        gradients.append(gradient)
    return torch.stack((loss, nll)), (gradients[0], gradients[1])


def projected_r_drop(
    one: Tensor, other: Tensor, weight: Tensor, labels: Tensor, *, smoothing: float, alpha: float, ignore: int
) -> tuple[Tensor, Tensor]:
    """Return the summed R-Drop loss of two passes over the same batch, and the plain negative log-likelihood.

    Half of the paper's loss, so that it is of the size of a single pass: the mean of the two label-smoothed
    cross-entropies plus ``alpha / 4 * (KL(p || q) + KL(q || p))`` for each token.

    Args:
        one: Output of the decoder in the first pass ``[B, T, E]``, float32 or bfloat16.
        other: That of the second.
        weight: Matrix of the output projection ``[V, E]``, float32.
        labels: Integer ids of the right next tokens ``[B, T]``.
        smoothing: Probability mass spread evenly over the vocabulary, 0 <= smoothing < 1.
        alpha: Weight of the divergence; the paper has 5 for translation.
        ignore: Id of padding, whose rows do not count.

    Returns:
        Two float32 scalars in nats, summed over the tokens: the loss, with gradients, and the mean of the two negative
        log-likelihoods, without.
    """
    rows = (labels.flatten() != ignore).nonzero().squeeze(1)
    one, other = (hidden.flatten(0, 1).index_select(0, rows) for hidden in (one, other))
    return _ProjectedRDrop.apply(  # type: ignore[no-untyped-call]
        one, other, weight, labels.flatten().index_select(0, rows), smoothing, alpha
    )
