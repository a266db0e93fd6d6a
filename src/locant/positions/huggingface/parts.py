"""The parts of a transformers model that give queries and keys their positions: rotary modules and their users.

What a rotary module computes, and how a function pairs the features that it rotates, is found by calling them with a
few numbers.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from locant.errors import LocantError
from locant.positions.huggingface.served import ANGLES, is_replaced, methods, rotations
from locant.positions.rotary.config import RotaryConfig, RotaryLayout
from locant.positions.rotary.rotation import rotate_pairs

AngleKind = Literal["halves", "neighbours", "single", "complex"]
"""How a rotary module returns the cosines of ``n`` pairs: ``2n`` numbers, all pairs twice one after the other or each
pair twice; ``n`` numbers; or ``n`` complex numbers that hold the sines as well."""

_LENGTHS = (3, 1 << 17)  # in tokens, of a short and of a long text, for which rotary modules are asked
_ROUNDING = 1e-5  # relative; frequencies in float32 are off by up to 3e-6 where a ramp blends them
_ODD = (TypeError, ValueError, RuntimeError, KeyError, IndexError, AttributeError)


@dataclass(frozen=True)
class LayerAngles:
    """What a rotary module computes for a layer type.

    Attributes:
        kind: How it returns cosines and sines.
        texts: For a short and a long text, what multiplies cosine and sine, and the frequencies in radians a token.
        axes: Where positions have several axes, the axis of each pair.
    """

    kind: AngleKind
    texts: tuple[tuple[float, ...], ...]
    axes: tuple[int, ...] | None

    @property
    def dim(self) -> int:
        """Number of rotated features."""
        return 2 * (len(self.texts[0]) - 1)

    def are_those_of(self, config: RotaryConfig) -> bool:
        """Return whether a configuration has these frequencies and scales."""
        return config.rotary_dim == self.dim and all(
            math.isclose(ours, theirs, rel_tol=_ROUNDING)
            for length, text in zip(_LENGTHS, self.texts, strict=True)
            for ours, theirs in zip(
                (config.attention_scale(length), *map(float, config.frequencies(length))), text, strict=True
            )
        )


@dataclass
class ModelParts:
    """What :func:`find_parts` finds.

    Attributes:
        name: Name of the model's class.
        config: Configuration of the part of the model that reads text, an object of transformers.
        rotaries: Its rotary modules, with what they compute by layer type; ``None`` where they know none.
        users: Modules that rotate by what these return, with the form of that.
        layouts: How they pair features.
    """

    name: str
    config: Any
    rotaries: dict[nn.Module, dict[str | None, LayerAngles]] = field(default_factory=dict)
    users: dict[nn.Module, AngleKind] = field(default_factory=dict)
    layouts: set[RotaryLayout] = field(default_factory=set)

    @property
    def layers(self) -> dict[str | None, LayerAngles]:
        """What all rotary modules compute."""
        return {layer: angles for each in self.rotaries.values() for layer, angles in each.items()}


def find_parts(model: nn.Module) -> ModelParts:
    """Find the parts of a model of transformers, or of one around it.

    Raises:
        LocantError: There are none, or they are built in a way that is not known here; the message says which.
    """
    from transformers import PreTrainedModel

    inner = next((module for module in model.modules() if isinstance(module, PreTrainedModel)), None)
    if inner is None:
        raise LocantError(f"{type(model).__name__} is no model of transformers and holds none.")
    parts = ModelParts(type(inner).__name__, inner.config.get_text_config())
    modules, text = dict(model.named_modules()), type(parts.config)
    for path, rotary in modules.items():
        if not _is_rotary(rotary) or type(getattr(rotary, "config", None)) is not text:
            continue
        try:
            parts.rotaries[rotary] = angles = _angles_of(rotary)
            (kind,) = {each.kind for each in angles.values()}
        except _ODD as error:
            raise LocantError(
                f"{type(rotary).__name__} of {parts.name} computes angles in a way that is not known here: {error}."
            ) from error
        for module in modules[path.rpartition(".")[0]].modules():
            if not _is_rotary(module) and type(getattr(module, "config", parts.config)) is text:
                try:
                    found = _layouts_of(module, kind)
                    if found and (parts.users.setdefault(module, kind) != kind or is_replaced(module)):
                        raise ValueError("has been replaced by another tool; install Locant's positions first")
                except ValueError as error:
                    raise LocantError(f"The forward pass of {type(module).__name__} of {parts.name} {error}.") from None
                parts.layouts |= found
    if not parts.users:
        raise LocantError(f"{parts.name} has no rotary module, or no function that rotates queries and keys by one.")
    return parts


def _is_rotary(module: nn.Module) -> bool:
    return (
        any(word in type(module).__name__ for word in ("Rotary", "Rope"))
        and not any(rotations(method) for _, method in methods(type(module)))
        and "position_ids" in inspect.signature(type(module).forward).parameters
    )


@torch.no_grad()
def _angles_of(module: nn.Module) -> dict[str | None, LayerAngles]:
    """Ask a module of the same configuration, in float32 and without a text seen, what it computes."""
    if next(module.parameters(), None) is not None or is_replaced(module):
        raise ValueError("it has trained parameters, or another tool has replaced its forward pass")
    kind: Any = type(module)
    with torch.device("cpu"):
        fresh = kind(module.config)
        layers: list[str | None] = [None]
        if "layer_type" in inspect.signature(fresh.forward).parameters:
            layers = [layer for layer in fresh.layer_types if hasattr(fresh, f"{layer}_inv_freq")]
        return {layer: _layer_angles(fresh, layer) for layer in layers}


def _layer_angles(fresh: nn.Module, layer: str | None) -> LayerAngles:
    prefix, options = ("", {}) if layer is None else (f"{layer}_", {"layer_type": layer})

    def called(positions: Tensor) -> tuple[AngleKind, Tensor, Tensor]:
        return _of_pairs(fresh(torch.zeros(1, positions.shape[-1], 1), position_ids=positions, **options))

    texts = []
    for length in _LENGTHS:
        kind, _, cosine = called(torch.tensor([[0, length - 1]]))
        frequencies = getattr(fresh, f"{prefix}inv_freq").double()  # those of the text that was read last
        texts.append((float(cosine[0, 0, 0]), *frequencies.tolist()))
    axes = None
    for count in (2, 3, 4) if hasattr(fresh, "recomposition_frequencies") else ():
        try:
            along = [called(axis.view(count, 1, 1))[1][0, 0] for axis in torch.eye(count, dtype=torch.int64)]
            axes = tuple(torch.stack(along).abs().argmax(dim=0).tolist())
        except RuntimeError:
            continue
    return LayerAngles(kind, tuple(texts), axes)


def _of_pairs(found: Any) -> tuple[AngleKind, Tensor, Tensor]:
    """Return the kind, and the sines and cosines ``[..., n]`` of every pair, of what a rotary module returns."""
    if isinstance(found, Tensor) and found.is_complex():
        return "complex", found.imag, found.real
    cosine, sine = found
    count = sine.shape[-1] // 2
    if torch.equal(sine[..., :count], sine[..., count:]):
        return "halves", sine[..., :count], cosine[..., :count]
    if torch.equal(sine[..., 0::2], sine[..., 1::2]):
        return "neighbours", sine[..., 0::2], cosine[..., 0::2]
    return "single", sine, cosine


def as_returned(cosine: Tensor, sine: Tensor, kind: AngleKind) -> dict[str, Tensor]:
    """Return cosines and sines ``[..., n]`` as a rotary module of a kind returns them, by argument."""
    if kind == "complex":
        return {"freqs_cis": torch.complex(cosine, sine)}
    if kind == "halves":
        cosine, sine = (torch.cat((part, part), dim=-1) for part in (cosine, sine))
    elif kind == "neighbours":
        cosine, sine = (part.repeat_interleave(2, dim=-1) for part in (cosine, sine))
    return {"cos": cosine, "sin": sine}


def _layouts_of(module: nn.Module, kind: AngleKind) -> set[RotaryLayout]:
    """Return how a module pairs features where it rotates, nothing where it does not; raise ValueError for odd ones."""
    layouts = set()
    for _, method in methods(type(module)):
        found, inner = rotations(method), inspect.unwrap(method)
        if not found and {"cos", "sin"} <= {*inner.__code__.co_varnames}:
            raise ValueError("rotates in its own code, which cannot be replaced")
        for name, function in found.items():
            if (layout := layout_of(function, kind)[0]) is None:
                raise ValueError(f"rotates by '{name}' in a way not known here")
            layouts.add(layout)
    return layouts


def features_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the arguments that a function rotates: those before the angles."""
    names = tuple(inspect.signature(function).parameters)
    return names[: min(names.index(name) for name in ANGLES if name in names)]


@cache
def layout_of(function: Callable[..., Any], kind: AngleKind) -> tuple[RotaryLayout | None, bool]:
    """Find out how a function pairs features, by giving it one feature at each of some tokens.

    Returns:
        The layout, or ``None`` where it is neither of the two, and whether it rotates the first features of the heads
        of queries and keys ``[B, H, L, D]`` and does nothing else.
    """
    pairs, features = 4, features_of(function)
    layout: RotaryLayout | None = None
    is_plain = len(features) == 2
    for width in (2 * pairs, 2 * pairs + 4):
        angles, x = (0.3 * torch.arange(1, pairs + 1)).expand(1, width, pairs), torch.eye(width)[None, None]
        try:
            found = function(**dict.fromkeys(features, x), **as_returned(angles.cos(), angles.sin(), kind))
        except _ODD:  # where the head is wider than what is rotated, it is never given one
            continue
        turned = found[0] if isinstance(found, tuple) else found
        if width == 2 * pairs:
            mixed = turned.reshape(-1, width, width)[0].abs() > 0.01
            partners = [row for row in range(1, width) if torch.equal(mixed[row], mixed[0])]
            layout = "half" if partners == [pairs] else "interleaved" if partners == [1] else None
        ours = rotate_pairs(x, angles.sin()[:, None], angles.cos()[:, None], layout or "half")
        is_plain &= turned.shape == ours.shape and torch.allclose(turned, ours, atol=1e-5)
    return layout, is_plain
