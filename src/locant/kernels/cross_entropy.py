"""Label-smoothed cross-entropy of logits, with their gradient in the logits' own place.

No operators of PyTorch: :mod:`locant.kernels.projected_cross_entropy`, which is one, calls them.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.kernels.library import Kernel, require_done
from locant.kernels.tensors import DTYPES, is_usable, suits_kernels

_ADDRESS, _COUNT, _NUMBER, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_float
_ERROR = ctypes.c_char_p
KERNEL = Kernel(
    {
        "locant_cross_entropy": (
            [_ADDRESS, _NUMBER, _ADDRESS, _COUNT, _COUNT, _FLOAT, _NUMBER, _ADDRESS, _NUMBER],
            _ERROR,
        ),
        "locant_accumulate": ([_ADDRESS, _ADDRESS, _COUNT, _NUMBER], _ERROR),
    },
)


def serves(logits: Tensor) -> bool:
    """Return whether the kernel computes the loss of logits ``[R, V]``."""
    return suits_kernels(logits) and logits.dim() == 2 and logits.is_contiguous() and is_usable(KERNEL)


def cross_entropy(logits: Tensor, labels: Tensor, *, smoothing: float, gradient: bool) -> Tensor:
    """Return the summed label-smoothed cross-entropy and the negative log-likelihood, ``[2]`` in float64.

    Logits ``[R, V]`` are as :func:`serves` asks for, though of any size; where a ``gradient`` is wanted, that of the
    former takes their place. ``labels`` are the right ids ``[R]``, int64.

    Raises:
        ConfigError: A label is outside the vocabulary; or logits or labels are not as said.
        MemoryError: Memory does not suffice.
    """
    if labels.dtype != torch.int64 or labels.shape != logits.shape[:1] or not labels.is_cpu:
        raise ConfigError(
            f"The loss of logits {list(logits.shape)} needs as many labels, int64 on the CPU, as there are rows; got "
            f"{list(labels.shape)} in {labels.dtype} on {labels.device}."
        )
    if logits.dtype not in DTYPES or logits.dim() != 2 or not logits.is_contiguous() or not logits.is_cpu:
        raise ConfigError(f"Logits are [R, V] in float32 or bfloat16, contiguous on the CPU; got {list(logits.shape)}.")
    sums, labels = logits.new_zeros(2, dtype=torch.float64), labels.contiguous()
    small, threads = logits.dtype == torch.bfloat16, torch.get_num_threads()
    places = logits.data_ptr(), small, labels.data_ptr()
    function = KERNEL.library.locant_cross_entropy
    require_done(function(*places, *logits.shape, smoothing, gradient, sums.data_ptr(), threads))
    return sums


def plain_cross_entropy(
    logits: Tensor, labels: Tensor, *, smoothing: float, gradient: bool
) -> tuple[Tensor, Tensor | None]:
    """Return what :func:`cross_entropy` returns, by PyTorch's operations, and the gradient in memory of its own.

    The logits may be of any floating dtype, on any device; the gradient is ``None`` where it is not wanted.
    """
    dtype, logits = logits.dtype, logits.float()
    y, vocabulary = labels.unsqueeze(1), logits.shape[1]
    log_probabilities = torch.log_softmax(logits, dim=-1)
    nll = -log_probabilities.gather(1, y).sum(dtype=torch.float64)
    loss = (1 - smoothing) * nll
    if smoothing:
        loss = loss - smoothing / vocabulary * log_probabilities.sum(dtype=torch.float64)
    if not gradient:
        return torch.stack((loss, nll)), None
    found = log_probabilities.exp_().sub_(smoothing / vocabulary)
    found.scatter_add_(1, y, found.new_full((1, 1), smoothing - 1).expand_as(y))
    return torch.stack((loss, nll)), found.to(dtype)


def accumulate(total: Tensor, product: Tensor) -> None:
    """Add a tensor to a total; bfloat16 to float32 by the kernel, where PyTorch would first make a float32 copy."""
    if (
        (total.dtype, product.dtype) == (torch.float32, torch.bfloat16)
        and suits_kernels(total, product)
        and total.shape == product.shape
        and total.is_contiguous()
        and product.is_contiguous()
        and is_usable(KERNEL)
    ):
        function, size = KERNEL.library.locant_accumulate, total.numel()
        require_done(function(product.data_ptr(), total.data_ptr(), size, torch.get_num_threads()))
    else:
        total += product
