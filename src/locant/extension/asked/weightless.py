"""Models of transformers at any size without memory: built on weights without numbers, and run on made-up ones.

Parameters are tensors on PyTorch's ``meta`` device. While such a model runs, an operation that mixes them with numbers
gives numbers that are drawn once along the features and are the same at every position; elementwise weights (of norms)
change nothing. All else is computed as it is: cosines, rotations, masks. So queries and keys differ by their positions
alone, and their numbers are labels: they tell which rows of which weights they come from.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from locant.errors import ConfigError

_META = torch.device("meta")
_LARGE = 1 << 18  # numbers of a tensor that gets no memory while a model is built, or no label while it runs
_MOST = 1 << 24  # numbers of a tensor that is made up
_SECONDS = 15.0
_MAKERS = frozenset(("empty", "zeros", "ones", "full", "rand", "randn", "arange", "linspace", "eye", "empty_strided"))
_LOOKED_UP = frozenset(("embedding", "index", "index_select"))
_ELEMENTWISE = frozenset(("mul", "add", "sub", "div"))


class TooLargeError(ConfigError):
    """A model is too large to be asked, even without weights."""


class Weight(NamedTuple):
    """A parameter in an operation: its name, the axis of its rows, the first of them there, and how many it has."""

    name: str
    axis: int
    offset: int
    size: int


class Labelled(NamedTuple):
    """Numbers ``[rows]`` of one token that came of weights: of a matrix, or else of weights of single features."""

    numbers: Tensor
    weights: tuple[Weight, ...]
    is_product: bool


class Weightless(TorchDispatchMode):
    """Operations on weights without numbers.

    Args:
        model: The model; ``None`` while it is built, when large tensors get no memory.
        length: Tokens of its text: axes of that many entries, or of up to six more, are those of positions.
    """

    def __init__(self, model: nn.Module | None = None, length: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.length = length
        self._has_numbers = self._runs = model is not None
        self._generator = torch.Generator().manual_seed(0)
        named = () if model is None else model.named_parameters()
        self._weights: dict[int, tuple[str, Tensor]] = {_place(weight): (name, weight) for name, weight in named}
        self._until = time.process_time() + _SECONDS

    def label(self, found: Labelled) -> None:
        """Take note of numbers that came of weights."""

    def notice(self, name: str, args: Any) -> None:
        """Take note of an operation on numbers alone."""

    def shapes_of(self, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return what a module gives, with zeros for its numbers, which are not computed."""
        self._has_numbers = False
        try:
            made = forward(*_as_meta(args), **_as_meta(kwargs))
        finally:
            self._has_numbers = True
        return tree_map_only(torch.Tensor, lambda each: torch.zeros(each.shape, dtype=each.dtype), made)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute an operation, with made-up numbers where weights meet numbers."""
        kwargs, name = dict(kwargs or {}), func.overloadpacket.__name__
        given = (each if isinstance(each, list | tuple) else (each,) for each in (*args, *kwargs.values()))
        tensors = [each for some in given for each in some if isinstance(each, torch.Tensor)]
        device = None if kwargs.get("device") is None else torch.device(kwargs["device"])
        if time.process_time() > self._until:
            raise TooLargeError(f"A model of this configuration takes more than {_SECONDS:g} seconds to be asked.")
        if not any(each.device == _META for each in tensors):
            if not self._runs and name in _MAKERS and _count(name, args) > _LARGE:
                kwargs["device"] = _META
            elif self._has_numbers and device == _META:
                kwargs["device"] = torch.device("cpu")
            self.notice(name, args)
            out = func(*args, **kwargs)
            is_large = not self._runs and isinstance(out, torch.Tensor) and out.numel() > 4 * _LARGE
            return _as_meta(out) if is_large else out
        if name == "_local_scalar_dense":
            return 0.5
        if device is not None:
            kwargs["device"] = _META
        mixed = name in _LOOKED_UP or any(
            t.device != _META and (t.is_floating_point() or t.is_complex()) for t in tensors
        )
        is_written = name.endswith("_") and isinstance(args[0], torch.Tensor)
        if is_written and (args[0].device == _META or name.rstrip("_") in _ELEMENTWISE):
            return args[0]
        if not mixed or not self._has_numbers:
            out = func(*_as_meta(args), **_as_meta(kwargs))
            return self._followed(tensors, out)
        if name in _ELEMENTWISE and len(args) > 1:
            real, weight = args[:2] if args[1].device == _META else args[1::-1]
            shape = torch.broadcast_shapes(real.shape, weight.shape)  # type: ignore[no-untyped-call]
            return self._unchanged(real.expand(shape).clone(), [weight])
        if name == "native_layer_norm" and args[0].device != _META:
            normed, *rest = func(*args[:2], None, None, args[4])
            return self._unchanged(normed, [each for each in args[2:4] if each is not None]), *rest
        out = args[0] if is_written else func(*_as_meta(args), **_as_meta(kwargs))
        made = tree_map_only(torch.Tensor, lambda each: self._made_up(each, tensors), out)
        return args[0].copy_(made) if is_written else made

    def _followed(self, sources: Sequence[Tensor], out: Any) -> Any:
        """Return what comes of weights alone: in another type, or with 1 added, a weight is still that weight."""
        known = [self._weights[_place(each)] for each in sources if _place(each) in self._weights]
        if len(known) == 1 and isinstance(out, torch.Tensor) and out.shape == known[0][1].shape:
            self._weights.setdefault(_place(out), (known[0][0], out))  # kept, so that no other takes its place
        return out

    def _unchanged(self, out: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """Return numbers whose features have weights of their own as they are, labelled."""
        first = out[tuple(slice(0, 1 if self._is_position(size) else None) for size in out.shape[:-1])]
        found = tuple(each for each in self._of(weights, elementwise=True) if each.size == out.shape[-1])
        if found:
            self.label(Labelled(first.flatten().clone(), found, is_product=False))
        return out

    def _made_up(self, like: Tensor, sources: Sequence[Tensor]) -> Tensor:
        if like.numel() > _MOST:
            raise TooLargeError(f"A model of this configuration makes {like.numel()} numbers of {self.length} tokens.")
        if not like.dtype.is_floating_point:
            return torch.zeros(like.shape, dtype=like.dtype)
        drawn = [1 if self._is_position(size) else size for size in like.shape[:-1]] + list(like.shape[-1:])
        row, weights = torch.randn(drawn, generator=self._generator), self._of(sources)
        if weights and like.ndim > 1 and row.numel() <= _LARGE:
            self.label(Labelled(row.flatten(), weights, is_product=True))
        return row.to(like.dtype).expand(like.shape).clone()

    def _is_position(self, size: int) -> bool:
        return self.length <= size <= self.length + 6

    def _of(self, sources: Sequence[Tensor], *, elementwise: bool = False) -> tuple[Weight, ...]:
        found = []
        for each in sources:
            name, weight = self._weights.get(_place(each), ("", each))
            if name and weight.ndim == each.ndim and 0 < each.ndim < 3:
                axis = each.ndim - 1 if elementwise or each.stride() == weight.stride() else 0
                offset = each.storage_offset() // (weight.stride(axis) or 1)
                found.append(Weight(name, axis, offset, weight.shape[axis]))
        return tuple(found)


def _place(tensor: Tensor) -> int:
    """Return what tells a tensor's memory apart from that of others, also where it has none; views have the same."""
    return tensor.untyped_storage()._cdata


def _as_meta(values: Any) -> Any:
    """Return arguments with all tensors on the ``meta`` device."""

    def without_numbers(each: Tensor) -> Tensor:
        if each.device == _META:
            return each
        return torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device=_META)

    return tree_map_only(torch.Tensor, without_numbers, values)


def _count(name: str, args: Any) -> float:
    """Return how many numbers an operation makes that makes them of nothing, at most."""
    if name in ("arange", "linspace"):
        return max(abs(each) for each in args if isinstance(each, int | float))
    return math.prod(args[0]) if isinstance(args[0], list | tuple) else args[0] ** 2


@contextlib.contextmanager
def no_weights() -> Iterator[None]:
    """Build what is built within this without memory for weights, and without drawing any."""
    from transformers.initialization import no_init_weights

    def without_numbers(module: nn.Module, name: str, weight: Any) -> Any:
        if weight is not None and weight.device != _META:
            return nn.Parameter(weight.detach().to(_META), requires_grad=False)

    handle = nn.modules.module.register_module_parameter_registration_hook(without_numbers)
    try:
        with no_init_weights(), torch.no_grad(), Weightless():
            yield
    finally:
        handle.remove()
