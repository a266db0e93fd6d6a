"""Schemes that act where queries meet keys: keys are cached unrotated, and get their positions in the attention.

So it is for frequencies that follow the length of the text, for rotations that depend on the query, and for what is
added to the scores. Every cached key carries its position with it, as digits in four further features: whatever is done
to a cache (beams, left padding, cropping, static buffers), positions stay with their keys.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from locant.errors import LocantError
from locant.positions.huggingface.parts import features_of
from locant.positions.huggingface.served import methods, rotations, with_globals
from locant.positions.scheme import PositionScheme

_DIGITS = 4
_DIGIT = 8  # bits: every floating dtype of two bytes holds integers of this many exactly
_INTERFACES = "ALL_ATTENTION_FUNCTIONS"
_POSITIONED = "locant_positioned"
_SCORES_AT_ONCE = 1 << 24  # of the queries that are attended at once where a scheme has a bias: 64 MB in float32


@dataclass
class Schemes:
    """The schemes of a model, which a rotary module returns with the positions.

    Attributes:
        shared: By layer type, the scheme that all layers share; ``None`` is that of modules without layer types.
        each: The scheme of every layer, where each has one of its own.
        is_pair: Whether the rotary module returns a pair, and not one tensor.
    """

    shared: Mapping[str | None, PositionScheme]
    each: Sequence[PositionScheme]
    is_pair: bool

    def result(self, x: Tensor, positions: Tensor, layer: str | None) -> Any:
        """Return positions and scheme for the layers, in the place of angles."""
        del x
        scheme = self.shared[layer]
        positions = scheme.drawn(_common(positions))
        positioned = _Positioned(positions, scheme, self.each)
        return (positioned, positioned) if self.is_pair else positioned


@dataclass
class _Positioned:
    """Positions of the tokens, ``[L]`` or ``[B, L]``, and the scheme: of a forward pass, and of each of its layers."""

    positions: Tensor
    scheme: PositionScheme
    each: Sequence[PositionScheme] = ()
    key_positions: Tensor | None = None
    rotated_features: int = 0  # of a head, as the class gives them to its rotation; 0 where it does not rotate

    def to(self, *_: Any, **__: Any) -> _Positioned:
        """Return itself: positions are moved where they are used."""
        return self


def is_served(original: type[nn.Module]) -> bool:
    """Return whether an attention class can leave rotation to transformers' attention interface."""
    for _, method in methods(original):
        if found := rotations(method):
            inner: Any = inspect.unwrap(method)
            names, parameters = list(inner.__code__.co_names), inspect.signature(inner).parameters
            if _INTERFACES not in names or "position_embeddings" not in parameters:
                return False
            after = names[max(map(names.index, found)) : names.index(_INTERFACES)]
            if parameters.keys().isdisjoint({"kwargs"}) or any("norm" in name for name in after):
                return False
    return True


def attending(original: type[nn.Module], option: None) -> dict[str, Any]:
    """Return the rotating methods of an attention, with functions that do not and an attention function that does."""
    del option
    members = {}
    for name, method in methods(original):
        if found := rotations(method):
            inner: Any = inspect.unwrap(method)
            functions: dict[str, Any] = {each: _not_rotating(function) for each, function in found.items()}
            functions[_INTERFACES] = _Interfaces(inner.__globals__[_INTERFACES])
            members[name] = _with_positions(with_globals(method, functions))
    return members


def _not_rotating(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is called like one that rotates, notes that it was, and rotates nothing."""
    parameters, features = inspect.signature(function).parameters, features_of(function)
    names = tuple(parameters)

    def note(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False)) | kwargs
        query, *key = (given.get(name) for name in features)
        given[names[len(features)]].rotated_features = query.shape[-1]  # type: ignore[union-attr]
        if not key or (key[0] is None and parameters[features[1]].default is None):
            return query
        return query, key[0]

    return note


def _with_positions(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a forward pass of attention whose attention function and cache know all positions."""
    names = tuple(inspect.signature(method).parameters)

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        kwargs.update(zip(names[1:], args, strict=False))
        given = kwargs.get("position_embeddings")
        positioned = given[0] if isinstance(given, tuple) else given
        if not isinstance(positioned, _Positioned):
            return method(self, **kwargs)
        scheme = positioned.each[int(self.layer_idx)] if len(positioned.each) else positioned.scheme  # type: ignore[arg-type]
        call = _Positioned(positioned.positions, scheme)
        kwargs["position_embeddings"] = (call, call) if isinstance(given, tuple) else call
        for name, value in kwargs.items():  # a cache, whose name differs between classes and releases
            if callable(getattr(value, "update", None)) and callable(getattr(value, "get_seq_length", None)):
                kwargs[name] = _PositionedCache(value, call)
        return method(self, **kwargs, **{_POSITIONED: call})

    forward.__wrapped__ = method  # type: ignore[attr-defined]
    return forward


class _PositionedCache:
    """A cache of transformers in the eyes of one layer, in which every key has its position with it."""

    def __init__(self, cache: Any, call: _Positioned) -> None:
        self._cache, self._call = cache, call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *args: Any, **kwargs: Any) -> Any:
        """Add keys and values, and return all of them."""
        call, size = self._call, key.shape[-1]
        if not call.rotated_features:
            return self._cache.update(key, value, layer_idx, *args, **kwargs)
        layer = next(iter(getattr(self._cache, "layers", ())[layer_idx : layer_idx + 1]), None)
        held = getattr(layer, "keys", None)
        if "Quantized" in type(layer).__name__:
            raise LocantError(
                "A quantized cache would round the positions that are cached with unrotated keys. Use a dynamic or a "
                "static cache, or a configuration whose frequencies do not follow the length of the text."
            )
        if isinstance(held, Tensor) and held.numel() and held.shape[-1] != size + _DIGITS:
            raise LocantError(
                f"The cache has keys of {held.shape[-1]} features, not {size + _DIGITS} with their positions: it was "
                "filled or made before Locant's positions were installed. Begin with an empty one."
            )
        positions = call.positions.to(key.device).expand(key.shape[0], -1) + 1  # 0 where nothing has been written yet
        digits = [(positions >> (_DIGIT * place)) & ((1 << _DIGIT) - 1) for place in range(_DIGITS)]
        carried = torch.stack(digits, dim=-1).to(key.dtype).unsqueeze(1).expand(*key.shape[:3], _DIGITS)
        keys, values = self._cache.update(torch.cat((key, carried), dim=-1), value, layer_idx, *args, **kwargs)
        found = keys[:, 0, :, size:].long()
        numbers = sum(found[..., place] << (_DIGIT * place) for place in range(_DIGITS))
        # Room behind the last key has a later position, so that a scheme that counts keys finds it behind every query.
        call.key_positions = torch.where(numbers > 0, numbers - 1, positions.amax())
        return keys[..., :size], values


class _Interfaces:
    """transformers' attention functions in the eyes of a served class."""

    def __init__(self, interfaces: Any) -> None:
        self._interfaces = interfaces

    def get_interface(self, name: str, default: Callable[..., Any]) -> Callable[..., Any]:
        """Return the attention function of a name, with positions; eager attention in the place of FlexAttention."""
        return partial(_attend, default if "flex" in name else self._interfaces.get_interface(name, default))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._interfaces, name)


def _attend(
    function: Callable[..., Any],
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any = None,
    **kwargs: Any,
) -> Any:
    """Attend by one of transformers' attention functions, with queries, keys and scores that know their positions."""
    call: _Positioned | None = kwargs.pop(_POSITIONED, None)
    queries, keys = query.shape[2], key.shape[2]
    if mask is not None and not isinstance(mask, Tensor):
        from torch.nn.attention.flex_attention import create_mask  # takes long to import

        dense = create_mask(mask.mask_mod, query.shape[0], 1, queries, keys, device=str(query.device))
        mask = _added(dense, query.dtype)
    if call is None or not call.rotated_features:
        return function(module, query, key, value, mask, **kwargs)
    scheme, at, name = call.scheme, call.positions.to(query.device), getattr(function, "__name__", "")
    keys_at = at if call.key_positions is None else _common(call.key_positions)
    if keys_at.shape[-1] != keys:
        raise LocantError(
            f"{type(module).__name__} attends to {keys} keys, of which {keys_at.shape[-1]} have positions: "
            "it takes keys from elsewhere. Read without a cache."
        )
    if call.rotated_features < query.shape[-1] and hasattr(module.config, "qk_rope_head_dim"):
        # The rotated features of latent attention are the last of a head, and those of schemes the first.
        query, key = (x.roll(call.rotated_features, dims=-1) for x in (query, key))
    blocks, has_bias = scheme.query_blocks(at), "scores" in scheme.acts_on
    if "flash" in name and (has_bias or len(blocks) > 1):
        raise LocantError("Flash attention takes neither biases nor dense masks. Load the model with sdpa or eager.")
    if has_bias:
        # Schemes count on scores that are divided by the root of the size.
        factor = (kwargs.get("scaling") or query.shape[-1] ** -0.5) * query.shape[-1] ** 0.5
        query = query if abs(factor - 1) < 1e-9 else query * factor
        kwargs["scaling"] = query.shape[-1] ** -0.5
        size = max(1, _SCORES_AT_ONCE // max(1, query.shape[0] * query.shape[1] * keys))
        blocks = [slice(i, min(i + size, run.stop)) for run in blocks for i in range(run.start, run.stop, size)]
    is_causal = mask is None and queries > 1 and bool(kwargs.get("is_causal", getattr(module, "is_causal", True)))
    needs_mask = is_causal and (has_bias or len(blocks) > 1 or "eager" in name)
    parts = []
    for block in blocks or [slice(0, queries)]:
        q, q_at, seen, allowed, given = query[:, :, block], at[..., block], keys, mask, kwargs
        if needs_mask:
            # Without a mask the first query sees the first key alone: a static cache has room behind the last ones.
            seen = min(block.stop, keys)
            index = torch.arange(queries, device=q.device)[block].unsqueeze(1)
            allowed = _added((torch.arange(seen, device=q.device) <= index)[None, None], q.dtype)
        elif mask is not None and mask.dim() == 4:
            allowed = mask[:, :, block if mask.shape[2] > 1 else slice(None), :keys]
        k, v, k_at = key[:, :, :seen], value[:, :, :seen], keys_at[..., :seen]
        if has_bias:
            heads = k.repeat_interleave(q.shape[1] // k.shape[1], 1) if scheme.bias_reads_content else k[:, :1]
            bias = scheme.score_bias(q, heads.expand(-1, q.shape[1], -1, -1), q_at, k_at)
            if bias is not None:
                bias = bias.to(q.dtype).expand(-1, q.shape[1], -1, -1)
                if allowed is not None and allowed.dtype == torch.bool:
                    allowed = _added(allowed, q.dtype)
                allowed = bias if allowed is None else allowed + bias
        turned_q, turned_k = scheme.rotate(q, k, q_at, k_at)
        if (wider := turned_q.shape[-1] / q.shape[-1]) != 1:  # schemes count on scores divided by the root of that size
            given = {**kwargs, "scaling": (kwargs.get("scaling") or q.shape[-1] ** -0.5) * wider**-0.5}
        parts.append(function(module, turned_q, turned_k, v, allowed, **given))
    if len(parts) == 1:
        return parts[0]
    weights = None if parts[0][1] is None else torch.cat([part[1] for part in parts], dim=2)
    return torch.cat([part[0] for part in parts], dim=1), weights


def _added(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask of the keys that are seen as what is added to scores."""
    return torch.zeros_like(seen, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)


def _common(positions: Tensor) -> Tensor:
    """Return positions ``[B, L]`` as ``[L]`` where all rows are the same, if that can be seen at no cost."""
    if positions.dim() == 2 and positions.shape[0] == 1:
        return positions[0]
    if positions.dim() != 2 or positions.device.type != "cpu" or torch.compiler.is_compiling():
        return positions
    return positions[0] if bool((positions == positions[:1]).all()) else positions
