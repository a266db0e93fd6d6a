"""Forms in which the classes of transformers write rotation down, found by asking their functions for numbers.

A rotary module computes cosines and sines of the angles, and a function with a name such as ``apply_rotary_pos_emb``
turns queries and keys by them. Both are written in several ways; which one a class has, a few random numbers tell.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Literal

import torch
from torch import Tensor, nn

from locant.positions.rotary.config import RotaryLayout
from locant.positions.rotary.rotation import rotate_pairs

AngleKind = Literal["halves", "neighbours", "single", "complex"]
"""How a rotary module hands on the cosines of ``n`` pairs: ``2n`` numbers, all pairs twice one after the other or each
pair twice; ``n`` numbers; or ``n`` complex numbers that hold the sines as well."""

_ANGLES = ("cos", "sin", "freqs_cis")
_PAIRS = 4
_ROUNDING = 1e-5


@dataclass(frozen=True)
class RotationForm:
    """What a function does to queries and keys.

    Attributes:
        features: Names of its arguments that are rotated.
        layout: Which features form a pair.
        gathers: Whether neighbours come out as halves.
        backwards: Whether it turns the other way round.
        trailing: Whether of a wider head the last features are rotated, and not the first.
        heads_last: Whether it takes ``[B, L, H, D]`` unless it is told otherwise, and not ``[B, H, L, D]``.
    """

    features: tuple[str, ...]
    layout: RotaryLayout
    gathers: bool = False
    backwards: bool = False
    trailing: bool = False
    heads_last: bool = False


@dataclass(frozen=True)
class ModuleForm:
    """What a rotary module computes.

    Attributes:
        kind: How it hands on cosines and sines.
        pairs: Number of pairs of each layer type; ``None`` is that of modules that know no layer types.
        axes: For layer types whose positions have several axes, the axis of each pair.
    """

    kind: AngleKind
    pairs: dict[str | None, int]
    axes: dict[str | None, tuple[int, ...]]


@cache
def rotation_form(function: Callable[..., Any], kind: AngleKind) -> RotationForm | None:
    """Find out what a function does to queries and keys.

    Args:
        function: It takes one or two tensors of features, and ``cos`` and ``sin`` or ``freqs_cis``.
        kind: How cosines and sines are given to it.

    Returns:
        Its form, or ``None`` where it is none of those known here.
    """
    names = list(inspect.signature(function).parameters)
    first = min((names.index(name) for name in _ANGLES if name in names), default=0)
    if first not in (1, 2):
        return None
    features = tuple(names[:first])
    generator = torch.Generator().manual_seed(0)
    angles = torch.rand(1, 5, _PAIRS, generator=generator) * 3
    given = _handed_on(angles, kind)
    wider = [width for width in (2 * _PAIRS, 2 * _PAIRS + 4) if _takes(function, features, width, given)]
    if not wider:
        return None
    switches = product((False, True), repeat=4)
    layouts: tuple[RotaryLayout, ...] = ("half", "interleaved")
    candidates = [RotationForm(features, layout, *switch) for switch in switches for layout in layouts]
    for form in candidates:
        if form.gathers and form.layout == "half":
            continue
        if all(_agrees(function, form, width, angles, given) for width in wider):
            return form
    return None


def turn(
    x: Tensor, sine: Tensor, cosine: Tensor, form: RotationForm, rotate: Callable[..., Tensor] = rotate_pairs
) -> Tensor:
    """Rotate ``[B, H, L, D]`` by angles ``[B, 1, L, n]`` as a form says."""
    count = 2 * cosine.shape[-1]
    rotated, rest = (x[..., -count:], x[..., :-count]) if form.trailing else (x[..., :count], x[..., count:])
    rotated = rotate(rotated, -sine if form.backwards else sine, cosine, form.layout)
    if form.gathers:
        rotated = torch.cat((rotated[..., 0::2], rotated[..., 1::2]), dim=-1)
    return torch.cat((rest, rotated) if form.trailing else (rotated, rest), dim=-1)


def _handed_on(angles: Tensor, kind: AngleKind) -> dict[str, Tensor]:
    """Return angles ``[..., n]`` as a rotary module of a kind hands them on, by the names of the arguments."""
    if kind == "complex":
        return {"freqs_cis": torch.polar(torch.ones_like(angles), angles)}
    if kind == "halves":
        angles = torch.cat((angles, angles), dim=-1)
    elif kind == "neighbours":
        angles = angles.repeat_interleave(2, dim=-1)
    return {"cos": angles.cos(), "sin": angles.sin()}


def _call(function: Callable[..., Any], names: tuple[str, ...], x: Tensor, given: dict[str, Tensor]) -> Tensor | None:
    try:
        found = function(**dict.fromkeys(names, x), **given)
    except (TypeError, RuntimeError, IndexError, ValueError):
        return None
    found = found if isinstance(found, tuple) else (found,)
    return found[0] if len(found) == len(names) and torch.equal(found[0], found[-1]) else None


def _features(width: int, heads_last: bool) -> Tensor:
    x = torch.rand(1, 2, 5, width, generator=torch.Generator().manual_seed(1))
    return x.transpose(1, 2) if heads_last else x


def _takes(function: Callable[..., Any], names: tuple[str, ...], width: int, given: dict[str, Tensor]) -> bool:
    return any(_call(function, names, _features(width, heads_last), given) is not None for heads_last in (False, True))


def _agrees(
    function: Callable[..., Any], form: RotationForm, width: int, angles: Tensor, given: dict[str, Tensor]
) -> bool:
    x = _features(width, heads_last=False)
    theirs = _call(function, form.features, _features(width, form.heads_last), given)
    if theirs is None:
        return False
    ours = turn(x, angles.sin().unsqueeze(1), angles.cos().unsqueeze(1), form)
    theirs = theirs.transpose(1, 2) if form.heads_last else theirs
    return theirs.shape == ours.shape and bool((theirs - ours).abs().max() < _ROUNDING)


def module_form(module: nn.Module) -> ModuleForm:
    """Find out what a rotary module computes.

    Args:
        module: On the CPU, in float32, one that has computed nothing yet.

    Raises:
        ValueError: It is called in another way, or hands on something else.
    """
    kinds: set[AngleKind] = set()
    pairs: dict[str | None, int] = {}
    axes: dict[str | None, tuple[int, ...]] = {}
    for layer in layer_types(module):
        found = called(module, torch.arange(6).unsqueeze(0), layer)
        kind, sine, _ = _pairs_of(found)
        kinds.add(kind)
        pairs[layer] = sine.shape[-1]
        if hasattr(module, "recomposition_frequencies"):
            axes[layer] = _axes(module, layer, kind)
    if len(kinds) != 1:
        raise ValueError("layer types differ in the form of their angles")
    return ModuleForm(kinds.pop(), pairs, axes)


def sines_and_cosines(module: nn.Module, positions: Tensor, layer: str | None) -> tuple[Tensor, Tensor]:
    """Return the sines and the cosines ``[L, n]``, times the attention scale, that a rotary module has for ``[L]``.

    Args:
        module: As for :func:`module_form`.
        positions: Integer positions.
        layer: The layer type.
    """
    _, sine, cosine = _pairs_of(called(module, positions.unsqueeze(0), layer))
    return sine[0], cosine[0]


def layer_types(module: nn.Module) -> list[str | None]:
    """Return the layer types that a rotary module tells apart, or ``None`` alone."""
    if "layer_type" not in inspect.signature(module.forward).parameters:
        return [None]
    names = {*vars(module), *dict(module.named_buffers())}
    suffix, original = "_inv_freq", "_original_inv_freq"
    found = sorted(name.removesuffix(suffix) for name in names if name.endswith(suffix) and not name.endswith(original))
    return [name for name in found if not name.endswith("_long")] or [None]


def called(module: nn.Module, positions: Tensor, layer: str | None) -> Any:
    """Return what a rotary module hands on for positions ``[..., L]``."""
    options = {} if layer is None else {"layer_type": layer}
    return module.forward(torch.zeros(1, positions.shape[-1], 1), position_ids=positions, **options)


def _pairs_of(found: Any) -> tuple[AngleKind, Tensor, Tensor]:
    """Return the kind, and the sines and cosines of every pair, of what a rotary module hands on."""
    if isinstance(found, Tensor) and found.is_complex():
        return "complex", found.imag, found.real
    if not (isinstance(found, tuple) and len(found) == 2 and all(isinstance(part, Tensor) for part in found)):
        raise ValueError("it hands on something else than cosines and sines")
    cosine, sine = found
    count = sine.shape[-1] // 2
    if torch.equal(sine[..., :count], sine[..., count:]):
        return "halves", sine[..., :count], cosine[..., :count]
    if torch.equal(sine[..., 0::2], sine[..., 1::2]):
        return "neighbours", sine[..., 0::2], cosine[..., 0::2]
    return "single", sine, cosine


def _axes(module: nn.Module, layer: str | None, kind: AngleKind) -> tuple[int, ...]:
    """Return the axis of each pair of a module whose positions have several axes."""
    for count in (2, 3, 4):
        try:
            sines = torch.stack([_sine_along(module, layer, axis, count, kind) for axis in range(count)])
        except RuntimeError:
            continue
        return tuple(sines.abs().argmax(dim=0).tolist())
    raise ValueError("its positions have neither two nor three nor four axes")


def _sine_along(module: nn.Module, layer: str | None, axis: int, count: int, kind: AngleKind) -> Tensor:
    """Return the sines ``[n]`` for position 1 along an axis and 0 along the others."""
    coordinates = torch.zeros(count, 1, 1, dtype=torch.int64)
    coordinates[axis] = 1
    _, sine = called(module, coordinates, layer)
    if kind == "halves":
        return sine[0, 0, : sine.shape[-1] // 2]
    return sine[0, 0, 0::2] if kind == "neighbours" else sine[0, 0]


def probe_positions(limit: int | None) -> Iterator[int]:
    """Yield positions at which a float32 angle is still right to a thousandth, below a limit."""
    yield from (p for p in (1, 3, 10, 50, 200, 1000, 3000) if limit is None or p < limit)
