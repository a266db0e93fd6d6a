"""Layer norm with the dropout and the residual connection before it, in one pass.

Source: Ba et al. 2016 (layer normalisation, section 3); Vaswani et al. 2017, sections 3.1 and 5.4.
"""

from __future__ import annotations

import ctypes
from typing import Any, TypeAlias

import torch
from torch import Tensor

from locant.kernels.library import LIBRARY, require_done
from locant.kernels.operator import no_gradient, of_first_alone, operator
from locant.kernels.tensors import DTYPES, address, int64s, is_usable, suits_kernels

CHANCES = 256
"""A random byte decides for an element: that many values has it."""

_BLOCK = 64  # Features that share a block of random numbers.
# Of what is normalised, and of the output.
_PRECISIONS = ((torch.float32,) * 2, (torch.bfloat16,) * 2, (torch.float32, torch.bfloat16))
_Maybe: TypeAlias = Tensor | None
_Three: TypeAlias = tuple[Tensor, Tensor, Tensor]
_Type: TypeAlias = torch.dtype


_ADDRESSES = [ctypes.c_void_p] * 8
_FLAGS = (ctypes.c_int, ctypes.c_int)
LIBRARY.declare(
    {
        "locant_layer_norm": ([*_ADDRESSES, ctypes.c_float, ctypes.c_float, *_FLAGS], ctypes.c_char_p),
        "locant_layer_norm_backward": ([*_ADDRESSES, ctypes.c_float, *_FLAGS], ctypes.c_char_p),
    },
)


def serves(x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None) -> bool:
    """Return whether the kernel normalises ``x [..., E]``, plus a residual, with a weight and a bias ``[E]``."""
    return (
        torch.is_grad_enabled()  # else there is nothing to save
        and suits_kernels(*(part for part in (x, residual, weight, bias) if part is not None))
        and _fits(x, residual, weight, bias)
    )


def _fits(x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None) -> bool:
    shape = x.shape
    return (
        len(shape) > 0
        and shape[-1] > 0
        and shape[-1] % _BLOCK == 0
        and _scales(weight, shape[-1])
        and _scales(bias, shape[-1])
        and (residual is None or (residual.dtype == x.dtype and residual.shape == shape and residual.is_cpu))
        and is_usable()
    )


def _scales(x: Tensor | None, width: int) -> bool:
    return x is not None and x.dtype == torch.float32 and x.dim() == 1 and x.shape[0] == width and x.is_cpu


def layer_norm(
    x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor, *, epsilon: float, dropped: int = 0
) -> Tensor:
    """Return the layer norm of ``residual + dropout(x)``, with gradients.

    ``x`` and the residual are as :func:`serves` asks for, though of any size; ``epsilon`` is added to the variance, and
    that many of :data:`CHANCES` elements of ``x`` are ``dropped``.

    Returns ``[..., E]``, under autocast in the lower precision.
    """
    seed, dtype = random_words() if dropped else None, x.dtype
    if dtype == torch.float32 and torch.is_autocast_enabled("cpu"):
        lower = torch.get_autocast_dtype("cpu")
        dtype = lower if lower in DTYPES else dtype
    return LAYER_NORM(x, residual, weight, bias, seed, dropped, epsilon, dtype)[0]


def random_words(*shape: int) -> Tensor:
    """Draw whole numbers of 64 random bits, int64, from PyTorch's generator of the CPU.

    They are the same where a compiler has traced this, unless it replaces PyTorch's generator as Inductor does.
    """
    if torch.compiler.is_compiling():  # nothing random is traced in place
        return torch.randint(-(2**63), 2**63 - 1, shape, device="cpu") ^ -(2**63)
    return torch.empty(shape, dtype=torch.int64, device="cpu").random_(-(2**63), None)


def keeps(seed: Tensor, shape: torch.Size, dropped: int, device: torch.device) -> Tensor:
    """Return which elements of a tensor the kernels keep, boolean of its shape: the same, by PyTorch's operations."""
    size = shape.numel()
    # The SplitMix64 generator (Steele et al. 2014), in whole numbers of 64 bits that wrap.
    state = seed.to(device) + torch.arange(1, (size + 7) // 8 + 1, device=device) * _signed(0x9E3779B97F4A7C15)
    state = (state ^ _shifted(state, 30)) * _signed(0xBF58476D1CE4E5B9)
    state = (state ^ _shifted(state, 27)) * _signed(0x94D049BB133111EB)
    state = state ^ _shifted(state, 31)
    numbers = (state.unsqueeze(-1) >> torch.arange(0, 64, 8, device=device)) & 255
    return (numbers.flatten()[:size] >= dropped).view(shape)


def drop(x: Tensor, seed: Tensor | None, dropped: int) -> Tensor:
    """Return ``x`` with dropout of the elements that the kernels drop, by PyTorch's operations; see :func:`keeps`."""
    if seed is None or not dropped:
        return x
    return torch.where(keeps(seed, x.shape, dropped, x.device), x * (CHANCES / (CHANCES - dropped)), 0.0)


def _signed(number: int) -> int:
    return number - (number >> 63 << 64)


def _shifted(number: Tensor, by: int) -> Tensor:
    """Shift to the right as numbers without a sign are shifted."""
    return (number >> by) & ((1 << 64 - by) - 1)


def _kernel(
    x: Tensor, residual: _Maybe, weight: Tensor, bias: Tensor, seed: _Maybe, dropped: int, epsilon: float, dtype: _Type
) -> _Three:
    out, normalised = (x.new_empty(x.shape, dtype=dtype) for _ in range(2))
    found = out, normalised, x.new_empty(x.shape[:-1], dtype=torch.float32)
    # Copies must outlive the call.
    given = [None if part is None else part.contiguous() for part in (x, residual, weight, bias)]
    small = x.dtype == torch.bfloat16, dtype == torch.bfloat16
    places, scale = map(address, (*given, *found)), CHANCES / (CHANCES - dropped)
    require_done(LIBRARY.load().locant_layer_norm(_work(x, seed, dropped), *places, scale, epsilon, *small))
    return found


def _plain(
    x: Tensor, residual: _Maybe, weight: Tensor, bias: Tensor, seed: _Maybe, dropped: int, epsilon: float, dtype: _Type
) -> _Three:
    total = drop(_wide(x), seed, dropped)
    total = total if residual is None else _wide(residual) + total
    variance, mean = torch.var_mean(total, -1, correction=0, keepdim=True)
    inverse = (variance + epsilon).rsqrt()
    normalised = (total - mean) * inverse
    out = (normalised * weight + bias).to(dtype).contiguous()
    return out, normalised.to(dtype).contiguous(), inverse.squeeze(-1).contiguous()


def _reads(x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor, *rest: Any) -> bool:
    precisions = x.dtype, rest[-1]
    return x.is_cpu and precisions in _PRECISIONS and _fits(x, residual, weight, bias)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    of_first_alone(ctx, output)
    x, residual, weight, _, seed, ctx.dropped, *_ = inputs
    ctx.dtypes = x.dtype, weight.dtype
    ctx.adds = residual is not None
    ctx.save_for_backward(*output[1:], weight, seed)


def _gradients(ctx: Any, outer: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    if outer is None:
        return (None,) * 8
    separate = ctx.adds and ctx.dropped > 0  # without dropout both have the same gradient
    x_dtype, dtype = ctx.dtypes
    of_x, of_residual, sums = LAYER_NORM_BACKWARD(outer, *ctx.saved_tensors, ctx.dropped, separate, x_dtype)
    if not separate:
        of_residual = of_x if ctx.adds else None
    return of_x, of_residual, *sums.to(dtype).unbind(), None, None, None, None


def _kernel_backward(
    outer: Tensor, rows: Tensor, inverse: Tensor, weight: Tensor, seed: _Maybe, dropped: int, apart: bool, dtype: _Type
) -> _Three:
    scale = CHANCES / (CHANCES - dropped)
    outer, weight = outer.contiguous(), weight.contiguous()  # copies must outlive the call
    of_x = outer.new_empty(outer.shape, dtype=dtype)
    of_residual = outer.new_empty(outer.shape if apart else 0, dtype=dtype)
    sums = outer.new_zeros(torch.get_num_threads(), 2, outer.shape[-1], dtype=torch.float32)
    places = map(address, (outer, rows, inverse, weight, of_x, of_residual if apart else None, sums))
    small = dtype == torch.bfloat16, outer.dtype == torch.bfloat16
    require_done(LIBRARY.load().locant_layer_norm_backward(_work(outer, seed, dropped), *places, scale, *small))
    return of_x, of_residual, sums.sum(0)


def _plain_backward(
    outer: Tensor, rows: Tensor, inverse: Tensor, weight: Tensor, seed: _Maybe, dropped: int, apart: bool, dtype: _Type
) -> _Three:
    above, wide = _wide(outer), _wide(rows)
    gradient = above * weight
    along = (gradient * wide).mean(-1, keepdim=True)
    total = (gradient - gradient.mean(-1, keepdim=True) - wide * along) * inverse.unsqueeze(-1)
    dims = tuple(range(outer.dim() - 1))
    sums = torch.stack(tuple(part.sum(dims) if dims else part for part in (above * wide, above)))
    of_residual = total if apart else total.new_empty(0)
    of_x = drop(total, seed, dropped)
    return of_x.to(dtype, copy=True).contiguous(), of_residual.to(dtype).contiguous(), sums


def _reads_backward(outer: Tensor, normalised: Tensor, inverse: Tensor, weight: Tensor, *rest: Any) -> bool:
    for x, shape, kept_in in ((normalised, outer.shape, outer.dtype), (inverse, outer.shape[:-1], torch.float32)):
        if not (x.is_cpu and (x.shape, x.dtype) == (shape, kept_in) and x.is_contiguous()):
            return False
    return outer.is_cpu and (rest[-1], outer.dtype) in _PRECISIONS and _fits(outer, None, weight, weight)


def _work(x: Tensor, seed: Tensor | None, dropped: int) -> Any:
    """Return rows, width, seed, dropped and threads, as ``layer_norm.cpp`` reads them."""
    number = 0 if seed is None else int(seed.item())
    return int64s(x.numel() // x.shape[-1], x.shape[-1], number, dropped, torch.get_num_threads())


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


LAYER_NORM_BACKWARD = operator(
    "layer_norm_backward(Tensor outer, Tensor normalised, Tensor inverse, Tensor weight, Tensor? seed, int dropped, "
    "bool separate, ScalarType dtype) -> (Tensor, Tensor, Tensor)",
    kernel=_kernel_backward,
    plain=_plain_backward,
    reads=_reads_backward,
    backward=no_gradient("This layer norm has no second derivatives; LOCANT_KERNELS=0 takes PyTorch's instead."),
)
"""Returns the gradients of x, of the residual (empty unless it is to be separate) and of weight and bias ``[2, E]``."""
LAYER_NORM = operator(
    "layer_norm(Tensor x, Tensor? residual, Tensor weight, Tensor bias, Tensor? seed, int dropped, float epsilon, "
    "ScalarType dtype) -> (Tensor, Tensor, Tensor)",
    kernel=_kernel,
    plain=_plain,
    reads=_reads,
    setup=_setup,
    backward=_gradients,
)
"""Returns the output, the rows before weight and bias, and the inverse of each one's standard deviation."""
