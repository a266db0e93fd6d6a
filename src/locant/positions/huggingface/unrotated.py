"""Schemes that act where queries meet keys: keys are cached as they are, and told their positions in the attention.

So it is for frequencies that follow the length of the text, for rotations that depend on the query, and for what is
added to the scores. Every cached key carries its position with it, as digits in four further features: whatever is done
to a cache (beams, left padding, cropping, static buffers), positions stay with their keys.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from locant.errors import LocantError
from locant.positions.huggingface.blocks import Block, block_mask, query_blocks, with_bias
from locant.positions.huggingface.served import methods, rotations, with_globals
from locant.positions.scheme import PositionScheme

STATE = "locant_schemes"
"""Attribute of a served rotary module, no part of its state dict: its :class:`Schemes`."""

_DIGITS = 4
_DIGIT = 8  # bits: every floating dtype of two bytes holds whole numbers of so many exactly
_INTERFACES = "ALL_ATTENTION_FUNCTIONS"
_TOLD = "locant_told"


@dataclass
class Schemes:
    """The schemes of a model.

    Attributes:
        shared: By layer type, the scheme that all layers share; ``None`` is that of modules without layer types.
        each: The scheme of every layer, where each has one of its own.
    """

    shared: dict[str | None, PositionScheme]
    each: Sequence[PositionScheme] | nn.ModuleList = ()


@dataclass
class Told:
    """What the rotary module hands on to the layers of one forward pass.

    Attributes:
        positions: Integer positions ``[L]`` or ``[B, L]`` of the tokens.
        scheme: The scheme that layers share.
        each: The scheme of every layer, where each has one of its own.
    """

    positions: Tensor
    scheme: PositionScheme
    each: Sequence[PositionScheme] | nn.ModuleList

    def to(self, *_: Any, **__: Any) -> Told:
        """Return itself: positions are moved where they are used."""
        return self

    def scheme_of(self, module: nn.Module) -> PositionScheme:
        """Return the scheme of a layer."""
        if not len(self.each):
            return self.scheme
        scheme = self.each[int(module.layer_idx)]  # type: ignore[arg-type]
        assert isinstance(scheme, PositionScheme)
        return scheme


class _Call:
    """One forward pass of one layer's attention."""

    def __init__(self, told: Told, scheme: PositionScheme) -> None:
        self.positions = told.positions
        self.scheme = scheme
        self.key_positions: Tensor | None = None
        self.rotated_features = 0  # of a head, as the class gives them to its rotation; 0 where it does not rotate

    def to(self, *_: Any, **__: Any) -> _Call:
        return self


@dataclass(frozen=True)
class HandingOnServing:
    """A rotary module that hands on positions and schemes in the place of angles.

    Attributes:
        is_pair: Whether the original hands on a pair, and not one tensor.
    """

    is_pair: bool

    def members(self, original: type[nn.Module]) -> dict[str, Any]:
        """Return the forward pass."""
        del original
        is_pair = self.is_pair

        def forward(self: nn.Module, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
            schemes: Schemes = getattr(self, STATE)
            positions = _common(position_ids)
            scheme = schemes.shared[layer_type]
            scheme.embed(x, positions)  # a scheme that draws positions draws them here, once for all layers
            told = Told(positions, scheme, schemes.each)
            return (told, told) if is_pair else told

        return {"forward": forward}


@dataclass(frozen=True)
class AttendingServing:
    """An attention module that leaves rotation to the attention function."""

    def members(self, original: type[nn.Module]) -> dict[str, Any]:
        """Return the methods that rotate, with functions that do not, and an attention function that does."""
        replaced: dict[str, Any] = {}
        for name, method in methods(original):
            if found := rotations(method):
                functions = {each: _noting(function) for each, function in found.items()}
                interfaces = _Interfaces(inspect.unwrap(method).__globals__[_INTERFACES])
                replaced[name] = _attending(with_globals(method, {**functions, _INTERFACES: interfaces}))
        return replaced


def why_not(original: type[nn.Module]) -> str | None:
    """Return why an attention class cannot leave rotation to the attention function, or ``None``."""
    for _, method in methods(original):
        if not rotations(method):
            continue
        inner = inspect.unwrap(method)
        names = list(inner.__code__.co_names)
        parameters = inspect.signature(inner).parameters
        if _INTERFACES not in names or not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return "computes its attention without transformers' attention interface"
        if "position_embeddings" not in parameters:
            return "asks its rotary module inside the attention"
        after = names[max(names.index(name) for name in rotations(method)) : names.index(_INTERFACES)]
        if any("norm" in name for name in after):
            return "normalises queries and keys after rotating them"
    return None


def _noting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is called like one that rotates, notes that it was, and rotates nothing."""
    parameters = inspect.signature(function).parameters
    names = tuple(parameters)
    first = min(names.index(name) for name in ("cos", "sin", "freqs_cis") if name in names)
    keys_are_optional = parameters[names[first - 1]].default is None

    def note(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False))
        given.update(kwargs)
        call: _Call = given[names[first]]
        call.rotated_features = given[names[0]].shape[-1]
        if first == 1 or (keys_are_optional and given.get(names[1]) is None):
            return given[names[0]]
        return given[names[0]], given.get(names[1])

    return note


def _attending(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a forward pass of attention whose attention function knows all positions."""
    names = tuple(inspect.signature(method).parameters)
    place = names.index("position_embeddings") - 1  # without self

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        given = args[place] if len(args) > place else kwargs.get("position_embeddings")
        told = given[0] if isinstance(given, tuple) else given
        if not isinstance(told, Told):
            return method(self, *args, **kwargs)
        call = _Call(told, told.scheme_of(self))
        kwargs.update(zip(names[1:], args, strict=False))
        kwargs["position_embeddings"] = (call, call) if isinstance(given, tuple) else call
        for name, value in kwargs.items():
            if _is_cache(value):
                kwargs[name] = _PositionedCache(value, call)
        return method(self, **kwargs, **{_TOLD: call})

    forward.__wrapped__ = method  # type: ignore[attr-defined]
    return forward


def _is_cache(value: object) -> bool:
    """Return whether an argument is a cache of keys and values: its name differs between classes and releases."""
    return callable(getattr(value, "update", None)) and callable(getattr(value, "get_seq_length", None))


class _PositionedCache:
    """A cache of transformers in the eyes of one layer, in which every key has its position with it."""

    def __init__(self, cache: Any, call: _Call) -> None:
        self._cache, self._call = cache, call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Add keys and values, and return all of them."""
        call = self._call
        if not call.rotated_features:
            return self._cache.update(key, value, layer_idx, *args, **kwargs)
        _require_room(self._cache, layer_idx, key.shape[-1] + _DIGITS)
        positions = call.positions.to(key.device).expand(key.shape[0], -1)
        digits = [(positions >> (_DIGIT * place)) & ((1 << _DIGIT) - 1) for place in range(_DIGITS)]
        carried = torch.stack(digits, dim=-1).to(key.dtype).unsqueeze(1).expand(*key.shape[:3], _DIGITS)
        keys, values = self._cache.update(torch.cat((key, carried), dim=-1), value, layer_idx, *args, **kwargs)
        size = keys.shape[-1] - _DIGITS
        found = keys[:, 0, :, size:].long()
        call.key_positions = sum(found[..., place] << (_DIGIT * place) for place in range(_DIGITS))
        return keys[..., :size], values


def _require_room(cache: Any, layer_idx: int, width: int) -> None:
    """Raise LocantError where a cache holds keys of another width already, or would round positions."""
    layers = getattr(cache, "layers", ())
    if layer_idx >= len(layers):
        return
    layer = layers[layer_idx]
    if "Quantized" in type(layer).__name__:
        raise LocantError(
            "A quantized cache would round the positions that are cached with unrotated keys. Use a dynamic or a "
            "static cache, or a configuration whose frequencies do not follow the length of the text."
        )
    keys = getattr(layer, "keys", None)
    if isinstance(keys, Tensor) and keys.numel() and keys.shape[-1] != width:
        raise LocantError(
            f"The cache has keys of {keys.shape[-1]} features, but unrotated ones with their positions have {width}: "
            "it was filled or made before Locant's positions were installed. Begin with an empty one."
        )


class _Interfaces:
    """transformers' attention functions in the eyes of a served class."""

    def __init__(self, interfaces: Any) -> None:
        self._interfaces = interfaces

    def get_interface(self, name: str, default: Callable[..., Any]) -> Callable[..., Any]:
        """Return the attention function of a name, with positions."""
        return partial(_attend, self._interfaces.get_interface(name, default))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._interfaces, name)


def _attend(
    function: Callable[..., Any],
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any = None,
    **kwargs: Any,
) -> Any:
    """Attend by one of transformers' attention functions, with queries, keys and scores that know their positions."""
    call: _Call | None = kwargs.pop(_TOLD, None)
    if call is None or not call.rotated_features:
        return function(module, query, key, value, attention_mask, **kwargs)
    scheme, at = call.scheme, call.positions.to(query.device)
    keys_at = at if call.key_positions is None else _common(call.key_positions)
    if keys_at.shape[-1] != key.shape[2]:
        raise LocantError(
            f"{type(module).__name__} attends to {key.shape[2]} keys, of which {keys_at.shape[-1]} have told where "
            "they stand: it takes keys from elsewhere. Read without a cache."
        )
    if call.rotated_features < query.shape[-1] and hasattr(module.config, "qk_rope_head_dim"):
        # The rotated features of latent attention are the last of a head, and those of schemes the first.
        query, key = (x.roll(call.rotated_features, dims=-1) for x in (query, key))
    if "scores" in scheme.acts_on:
        size = query.shape[-1]
        # Schemes count on scores that are divided by the root of the size.
        factor = (kwargs.get("scaling") or size**-0.5) * size**0.5
        query = query if abs(factor - 1) < 1e-9 else query * factor
        kwargs["scaling"] = size**-0.5
    is_causal = bool(kwargs.get("is_causal", getattr(module, "is_causal", True)))
    blocks = query_blocks(scheme, at, query.shape[0] * query.shape[1] * key.shape[2])
    parts = [
        _attend_block(
            function, module, query, key, value, attention_mask, scheme, at, keys_at, block, is_causal, kwargs
        )
        for block in blocks
    ]
    if len(parts) == 1:
        return parts[0]
    weights = None if parts[0][1] is None else torch.cat([part[1] for part in parts], dim=2)
    return torch.cat([part[0] for part in parts], dim=1), weights


def _attend_block(
    function: Callable[..., Any],
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    scheme: PositionScheme,
    at: Tensor,
    keys_at: Tensor,
    block: Block,
    is_causal: bool,
    kwargs: dict[str, Any],
) -> Any:
    mask, seen = block_mask(mask, block, query.shape[2], key.shape[2], is_causal, query)
    query, at = query[:, :, block.start : block.stop], at[..., block.start : block.stop]
    key, value, keys_at = key[:, :, :seen], value[:, :, :seen], keys_at[..., :seen]
    if "scores" in scheme.acts_on:
        groups = query.shape[1] // key.shape[1]
        every = (
            key.repeat_interleave(groups, 1)
            if scheme.bias_reads_keys
            else key[:, :1].expand(-1, query.shape[1], -1, -1)
        )
        bias = scheme.score_bias(query, every, at, keys_at)
        if bias is not None:
            mask, kwargs = with_bias(function, mask, bias, query, key, is_causal, kwargs)
    query, key = scheme.rotate(query, key, at, keys_at)
    return function(module, query, key, value, mask, **kwargs)


def _common(positions: Tensor) -> Tensor:
    """Return positions ``[B, L]`` as ``[L]`` where all rows are the same, as far as that can be told at no cost."""
    if positions.dim() == 2 and positions.shape[0] == 1:
        return positions[0]
    if positions.dim() != 2 or positions.device.type != "cpu" or torch.compiler.is_compiling():
        return positions
    return positions[0] if bool((positions == positions[:1]).all()) else positions
