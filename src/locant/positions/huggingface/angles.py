"""Rotary modules of transformers models with exact angles, and the functions that rotate by them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from locant.errors import LocantError
from locant.positions.huggingface.forms import AngleKind, RotationForm, rotation_form
from locant.positions.huggingface.served import methods, rotations, with_globals
from locant.positions.rotary.config import RotaryConfig, RotaryLayout
from locant.positions.rotary.rotary import Rotary
from locant.positions.rotary.rotation import RotaryAngles, apply_rotation

STATE = "locant_angles"
"""Attribute of a served rotary module, no part of its state dict: its :class:`ExactAngles`."""


class ExactAngles:
    """Cosines and sines of a rotary module, for every layer type.

    Args:
        configs: What to compute by layer type; ``None`` where a module knows no layer types.
        axes: For layer types whose positions have several axes, the axis of each pair.
        is_complex: Whether cosines and sines are handed on as complex numbers.
    """

    def __init__(
        self, configs: Mapping[str | None, RotaryConfig], axes: Mapping[str | None, tuple[int, ...]], is_complex: bool
    ) -> None:
        self.configs, self.axes, self.is_complex = dict(configs), dict(axes), is_complex
        self._rotaries = {layer: Rotary.from_config(config) for layer, config in configs.items()}

    def __getstate__(self) -> Any:
        return self.configs, self.axes, self.is_complex

    def __setstate__(self, state: Any) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def of(self, positions: Tensor, layer: str | None) -> tuple[Tensor, Tensor] | Tensor:
        """Return cosines and sines ``[B, L, n]``, float32, at integer positions ``[B, L]`` or ``[A, B, L]``."""
        rotary = self._rotaries[layer]
        if positions.dim() == 2 and positions.shape[0] == 1 and positions.shape[1] > 1:  # a run is found faster
            sine, cosine = (part.unsqueeze(0) for part in rotary.sine_cosine(positions[0]))
        else:
            sine, cosine = rotary.sine_cosine(positions)
        if positions.dim() == 3:
            axis = torch.tensor(self.axes[layer], device=positions.device).view(1, 1, 1, -1)
            index = axis.expand(1, *sine.shape[1:])
            sine, cosine = (part.gather(0, index).squeeze(0) for part in (sine, cosine))
        return torch.complex(cosine, sine) if self.is_complex else (cosine, sine)


@dataclass(frozen=True)
class RotaryServing:
    """A rotary module that hands on exact angles."""

    def members(self, original: type[nn.Module]) -> dict[str, Any]:
        """Return the forward pass."""
        del original

        def forward(
            self: nn.Module, x: Tensor, position_ids: Tensor, layer_type: str | None = None
        ) -> tuple[Tensor, Tensor] | Tensor:
            del x
            angles: ExactAngles = getattr(self, STATE)
            return angles.of(position_ids, layer_type)

        return {"forward": forward}


@dataclass(frozen=True)
class RotatingServing:
    """A module, of attention mostly, that rotates by the angles which a served rotary module hands on.

    Attributes:
        kind: How the original rotary module hands on its angles.
    """

    kind: AngleKind

    def members(self, original: type[nn.Module]) -> dict[str, Any]:
        """Return the methods that rotate, with Locant's rotation."""
        return {
            name: with_globals(method, {each: rotation(function, self.kind) for each, function in found.items()})
            for name, method in methods(original)
            if (found := rotations(method))
        }


def rotation(function: Callable[..., Any], kind: AngleKind) -> Callable[..., Any]:
    """Return a function that is called like one of transformers and rotates with Locant's rotation.

    Args:
        function: One with a form, see :func:`~locant.positions.huggingface.forms.rotation_form`.
        kind: How its angles are handed on; these may be cosines and sines of ``n`` numbers in any case.
    """
    form = rotation_form(function, kind)
    assert form is not None
    known = form
    parameters = inspect.signature(function).parameters
    names = tuple(parameters)
    # One that may be called with queries alone returns them alone.
    keys_are_optional = parameters[form.features[-1]].default is None

    is_plain = form == RotationForm(form.features, form.layout) and names[:4] == (*form.features, "cos", "sin")
    plain = _Shared(form.layout)

    def rotate(*args: Any, **kwargs: Any) -> Any:
        if is_plain and len(args) == 4 and not kwargs and args[1] is not None:  # the usual call, without detours
            return apply_rotation(args[:2], plain.angles(args[2], args[3]), of_any_size=True)
        given = dict(zip(names, args, strict=False))
        given.update(kwargs)
        features = [given[name] for name in known.features if given.get(name) is not None]
        if kind == "complex":
            cosine, sine = given["freqs_cis"].real, given["freqs_cis"].imag
        else:
            cosine, sine = given["cos"], given["sin"]
        turned = _turned(features, cosine, sine, known, heads_last(known, given.get("unsqueeze_dim")))
        if len(turned) == len(known.features):
            return tuple(turned) if len(turned) > 1 else turned[0]
        return turned[0] if keys_are_optional else (turned[0], None)

    return rotate


class _Shared:
    """Cosines and sines as the rotation takes them, made once for all layers that are given the same."""

    def __init__(self, layout: RotaryLayout) -> None:
        self.layout = layout
        self._latest: tuple[Tensor, Tensor, RotaryAngles] | None = None

    def angles(self, cosine: Tensor, sine: Tensor) -> RotaryAngles:
        """Return angles for heads, of cosines and sines ``[B, L, n]``."""
        if torch.compiler.is_compiling():
            return RotaryAngles(cosine.unsqueeze(1), sine.unsqueeze(1), self.layout)
        latest = self._latest
        if latest is None or latest[0] is not cosine or latest[1] is not sine:
            latest = self._latest = cosine, sine, RotaryAngles(cosine.unsqueeze(1), sine.unsqueeze(1), self.layout)
        return latest[2]


def heads_last(form: RotationForm, unsqueeze_dim: int | None) -> bool:
    """Return whether features are ``[B, L, H, D]``, as the axis says that angles are given for the heads.

    Raises:
        LocantError: The axis is neither.
    """
    if unsqueeze_dim is None:
        return form.heads_last
    if unsqueeze_dim not in (1, 2):
        raise LocantError(f"Locant rotates features with heads along axis 1 or 2; got unsqueeze_dim {unsqueeze_dim}.")
    return unsqueeze_dim == 2


def _turned(features: list[Tensor], cosine: Tensor, sine: Tensor, form: RotationForm, swapped: bool) -> list[Tensor]:
    if swapped:
        features = [x.transpose(1, 2) for x in features]
    count, rests = 2 * cosine.shape[-1], []
    if form.trailing:
        rests = [x[..., :-count] for x in features]
        features = [x[..., -count:] for x in features]
    if form.gathers:
        features = [torch.cat((x[..., 0:count:2], x[..., 1:count:2], x[..., count:]), dim=-1) for x in features]
    layout = "half" if form.gathers else form.layout
    angles = RotaryAngles(cosine.unsqueeze(1), sine.unsqueeze(1), layout)
    turned = list(apply_rotation(features, angles, backwards=form.backwards, of_any_size=True))
    if form.trailing:
        turned = [torch.cat(parts, dim=-1) for parts in zip(rests, turned, strict=True)]
    return [x.transpose(1, 2) for x in turned] if swapped else turned
