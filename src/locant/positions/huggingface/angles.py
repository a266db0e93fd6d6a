"""Rotary modules of transformers models with exact angles, and the functions that rotate by them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from locant.positions.huggingface.parts import AngleKind, as_returned, features_of, layout_of
from locant.positions.huggingface.served import methods, rotations, with_globals
from locant.positions.rotary.rotary import Rotary
from locant.positions.rotary.rotation import RotaryAngles, apply_rotation

STATE = "locant_positions"
"""Attribute of a served rotary module, not in its state dict: what computes its result (``result``)."""


def exact_forward(original: type[nn.Module], option: None) -> dict[str, Any]:
    """Return the forward pass of a rotary module that returns Locant's angles."""
    del original, option

    def forward(self: nn.Module, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
        return getattr(self, STATE).result(x, position_ids, layer_type)

    return {"forward": forward}


@dataclass
class ExactAngles:
    """Cosines and sines of a rotary module.

    Attributes:
        rotaries: What computes them, by layer type; ``None`` where a module knows none.
        axes: The axis of each pair, where positions have several axes.
        kind: How the class returns them.
    """

    rotaries: dict[str | None, Rotary]
    axes: dict[str | None, tuple[int, ...] | None]
    kind: AngleKind

    def result(self, x: Tensor, positions: Tensor, layer: str | None) -> tuple[Tensor, Tensor] | Tensor:
        """Return cosines and sines ``[B, 1, L, n]``, or complex ``[B, L, n]``, at ``[B, L]`` or ``[A, B, L]``."""
        del x
        rotary = self.rotaries[layer]
        if positions.dim() == 2 and positions.shape[0] == 1 and positions.shape[1] > 1:  # a run is found faster
            sine, cosine = (part.unsqueeze(0) for part in rotary.sine_cosine(positions[0]))
        else:
            sine, cosine = rotary.sine_cosine(positions)
        if positions.dim() == 3:
            axis = torch.tensor(self.axes[layer], device=positions.device).expand(1, *sine.shape[1:])
            sine, cosine = (part.gather(0, axis).squeeze(0) for part in (sine, cosine))
        return torch.complex(cosine, sine) if self.kind == "complex" else (cosine.unsqueeze(1), sine.unsqueeze(1))


def rotating(original: type[nn.Module], kind: AngleKind) -> dict[str, Any]:
    """Return the methods of a module that rotate, with rotations in float32, rounded once."""
    return {
        name: with_globals(method, {each: _rotation(function, kind) for each, function in found.items()})
        for name, method in methods(original)
        if (found := rotations(method))
    }


def _rotation(function: Callable[..., Any], kind: AngleKind) -> Callable[..., Any]:
    """Return a function that is called like one that rotates, and rotates in float32.

    A plain rotation of queries and keys is Locant's; any other is that of the class, of wider numbers.
    """
    names, features = tuple(inspect.signature(function).parameters), features_of(function)
    layout, is_plain = layout_of(function, kind)

    def rotate(*args: Any, **kwargs: Any) -> Any:
        if is_plain and layout and len(args) == 4 and not kwargs and args[1] is not None:  # the usual call
            return apply_rotation(args[:2], RotaryAngles(args[2], args[3], layout), of_any_size=True)
        given = dict(zip(names, args, strict=False)) | kwargs
        dtype = given[features[0]].dtype
        for name in features:
            if given.get(name) is not None:
                given[name] = given[name].to(torch.promote_types(dtype, torch.float32))
        if kind != "complex":
            given |= as_returned(given["cos"].squeeze(1), given["sin"].squeeze(1), kind)
        found = function(**given)
        if not isinstance(found, tuple):
            return found.to(dtype)
        return tuple(None if each is None else each.to(dtype) for each in found)

    return rotate
