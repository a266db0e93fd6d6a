"""A model of transformers watched at its attention: the queries and keys of every layer, rotated as the class does."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from locant.extension.inspect.model_class.inputs import more_inputs, text_inputs
from locant.extension.inspect.model_class.masks import SeenMask, make_mask, recorder_of_masks
from locant.extension.inspect.model_class.rotation import MeasuredRotation, measure_rotation

if TYPE_CHECKING:
    from torch import Tensor, nn

    from locant.positions.rotary.config import RotaryLayout

ATTENTION = "locant_observed"
WARM_UP = 4
"""Tokens at position 0 before the others, by which short convolutions see the same everywhere."""


@dataclass(frozen=True)
class ObservedLayer:
    """The attention of one layer.

    Attributes:
        name: Name of its module.
        layer: Index of the layer, from 0, in its stack.
        rotation: What it does to queries and keys; ``None`` where it does not rotate.
        layout: How the features of its projections are paired, before the class permutes them.
        scale: What multiplies cosine and sine; ``None`` where it cannot be told.
        window: Tokens that it looks back over, where it says so.
        mask: Its mask, where that was asked for and seen.
    """

    name: str
    layer: int | None
    rotation: MeasuredRotation | None
    layout: RotaryLayout | None
    scale: float | None
    window: int | None = None
    mask: SeenMask | None = None


@dataclass
class AttentionCall:
    """What one attention module attends with.

    Attributes:
        name: Its name.
        query: Rotated queries, ``[1, H, L, D]``.
        key: Rotated keys, ``[1, G, L, D]``.
        value: Values ``[1, G, L, V]``; ``None`` where the class multiplies them itself.
        window: Tokens that it looks back over, where it says so.
        produced: What the modules inside it gave out.
    """

    name: str
    query: Tensor
    key: Tensor
    value: Tensor | None
    window: int | None
    produced: list[Tensor]


@dataclass
class Recorder(TorchFunctionMode):
    """What happens inside attention modules during one pass."""

    model: nn.Module
    length: int
    level: set[str]
    calls: dict[str, AttentionCall] = field(default_factory=dict)
    stack: list[str] = field(default_factory=list)
    produced: dict[str, list[Tensor]] = field(default_factory=dict)
    amplitudes: list[tuple[Tensor, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record the product of queries and keys of classes that compute their own attention."""
        del types
        if func in _PRODUCTS and len(args) >= 2 and self.stack:
            a, b = args[0], args[1]
            if func is torch.baddbmm:  # batch and heads in one dimension
                a, b = args[1][None], args[2][None]
            if func is torch.nn.functional.scaled_dot_product_attention:
                b = b.transpose(-1, -2)
            if (
                a.ndim == b.ndim == 4
                and a.shape[-2] == b.shape[-1] == self.length
                and a.shape[-1] == b.shape[-2] != self.length
            ):
                self.record(self.stack[-1], a, b.transpose(-1, -2), None, None)
        return func(*args, **(kwargs or {}))

    def record(self, name: str, query: Tensor, key: Tensor, value: Tensor | None, window: int | None) -> None:
        """Keep what an attention module attends with, the first time.

        Some classes attend to their own text and to another in one; the keys of their own come first.
        """
        if name not in self.calls and query.shape[-2] == self.length <= key.shape[-2]:
            key = key[..., : self.length, :]
            value = None if value is None else value[..., : self.length, :]
            produced = [
                each
                for inner, made in self.produced.items()
                if inner.startswith(name)
                for each in made
                if each.ndim > 2 and each.shape[:2] == (1, self.length)
            ]
            self.calls[name] = AttentionCall(name, query, key, value, window, produced)


_PRODUCTS = (
    torch.matmul,
    torch.Tensor.matmul,
    torch.Tensor.__matmul__,
    torch.baddbmm,
    torch.nn.functional.scaled_dot_product_attention,
)


def _attention(module: Any, query: Tensor, key: Tensor, value: Tensor, *args: Any, **options: Any) -> Any:
    masks = recorder_of_masks()
    if masks is not None:
        masks.keep(module, args[0] if args else options.get("attention_mask"))
    for recorder, names in _current[-1:]:
        window = options.get("sliding_window") or getattr(module, "sliding_window", None)
        recorder.record(names.get(id(module), ""), query, key, value, window if isinstance(window, int) else None)
    batch, heads, length, _ = query.shape
    return query.new_zeros(batch, length, heads, value.shape[-1]), None


_current: list[tuple[Recorder, dict[int, str]]] = []


def register() -> None:
    """Make the observing attention known to transformers, under :data:`ATTENTION`."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(ATTENTION, _attention)
    AttentionMaskInterface.register(ATTENTION, make_mask)


@torch.no_grad()
def observe(model: nn.Module, positions: Sequence[int], inputs: dict[str, Any] | None = None) -> list[ObservedLayer]:
    """Run a small model twice and return what its attention layers rotate.

    All tokens are the same, and every attention layer is given the same hidden state at every position, so that
    queries differ by their positions alone.

    Args:
        model: A model on the CPU.
        positions: Rising numbers from 0, 1 on, where the class takes positions; otherwise tokens in a row.
        inputs: Arguments of the model; by default those of a text.

    Returns:
        The layers in the order in which they compute.

    Raises:
        LookupError: The model has a rotary module, but no attention whose queries and keys could be seen.
    """
    recorder, rows = watch(model, positions, inputs)
    kinds = " ".join(type(module).__name__ for module in model.modules())
    if not recorder.calls and "Rotary" in kinds and "Attention" in kinds:
        raise LookupError(f"the attention of {type(model).__name__} cannot be watched")
    skipped = WARM_UP if rows[WARM_UP] == 0 else 0
    calls = _of_their_own_text(list(recorder.calls.values()))
    return [_observed(call, recorder, rows[skipped:], skipped) for call in calls]


def _of_their_own_text(calls: list[AttentionCall]) -> list[AttentionCall]:
    """Return the calls without those of cross-attention in layers that attend to their own text as well."""
    own = {_layer_of(call.name) for call in calls if "cross" not in call.name}
    return [call for call in calls if "cross" not in call.name or _layer_of(call.name) not in own]


def attending_layers(model: nn.Module) -> Iterator[int]:
    """Yield the indices of the layers of a model that have an attention, whether or not it computes with a text."""
    for name, module in model.named_modules():
        if "ttention" in type(module).__name__ and (index := _layer_of(name)) is not None:
            yield index


def _layer_of(name: str) -> int | None:
    """Return the index of the layer that a module stands in, by its name."""
    found = re.search(r"(?:^|\.)(\d+)(?=\.|$)", name)
    return None if found is None else int(found[1])


def watch(
    model: nn.Module, positions: Sequence[int], inputs: dict[str, Any] | None = None
) -> tuple[Recorder, list[int]]:
    """Run a small model twice and return what its attention modules attended with, and at which positions.

    Arguments are those of :func:`observe`; gradients are kept where they are asked for. The first positions are 0.
    """
    register()
    accepted = inspect.signature(model.forward).parameters
    rows = [0] * WARM_UP + list(positions)
    if "position_ids" not in accepted:
        rows = list(range(len(rows)))
    counted = list(range(len(rows)))  # a table of learned positions may be shorter
    refused: Exception | None = None
    plain = ((each, text_inputs(accepted, each, part)) for each, part in ((rows, None), (counted, None), (rows, model)))
    more = ((each, given) for each in (rows, counted) for given in more_inputs(model, each))
    for tried, given in ((rows, inputs),) if inputs else itertools.chain(plain, more):
        if not given:
            continue
        try:
            first = _run(model, given, len(tried), set())
        except (IndexError, RuntimeError, ValueError, TypeError, AttributeError) as error:
            refused = refused or error
            continue
        return _run(model, given, len(tried), set(first.calls)), tried
    raise refused or LookupError(f"{type(model).__name__} takes no text")


def _run(model: nn.Module, inputs: dict[str, Any], length: int, level: set[str]) -> Recorder:
    recorder = Recorder(model, length, level)
    names = {id(module): name for name, module in model.named_modules()}
    handles = []
    for name, module in model.named_modules():
        handles += _hooks(recorder, name, module)
    _current.append((recorder, names))
    try:
        with recorder:
            model(**inputs)
    finally:
        _current.pop()
        for handle in handles:
            handle.remove()
    return recorder


def _hooks(recorder: Recorder, name: str, module: nn.Module) -> list[Any]:
    is_rotary = any(word in type(module).__name__ for word in ("Rotary", "Rope", "RoPE"))

    def enter(module: nn.Module, args: Any, kwargs: Any) -> Any:
        if "ttention" in type(module).__name__:
            recorder.stack.append(name)
        if name not in recorder.level:
            return None
        args = list(args)
        for index, value in enumerate(args):
            if _is_hidden(value, recorder.length):
                args[index] = value[:, :1].expand_as(value).clone()
                return tuple(args), kwargs
        for key in ("hidden_states", "hidden_state", "x", "query", "query_states", "inputs"):
            if _is_hidden(kwargs.get(key), recorder.length):
                kwargs = {**kwargs, key: kwargs[key][:, :1].expand_as(kwargs[key]).clone()}
                break
        return tuple(args), kwargs

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        if recorder.stack and recorder.stack[-1] == name:
            recorder.stack.pop()
        if is_rotary:
            recorder.amplitudes += _amplitudes(output)
        elif isinstance(output, torch.Tensor) and output.is_floating_point():
            recorder.produced.setdefault(name, []).append(output.detach())

    # The output of every module inside an attention module is where its projections may be found.
    return [
        module.register_forward_pre_hook(enter, with_kwargs=True),
        module.register_forward_hook(leave, always_call=True),
    ]


def _is_hidden(value: Any, length: int) -> bool:
    return (
        isinstance(value, torch.Tensor) and value.is_floating_point() and value.ndim == 3 and value.shape[1] == length
    )


def _amplitudes(output: Any) -> Iterator[tuple[Tensor, float]]:
    """Yield the length of the hands that a rotary module returns, with their angles' cosines."""
    if isinstance(output, torch.Tensor) and output.is_complex():
        yield output.real, float(output.abs().amax())
    elif isinstance(output, tuple | list) and len(output) == 2:
        cosine, sine = output
        if isinstance(cosine, torch.Tensor) and isinstance(sine, torch.Tensor) and cosine.shape == sine.shape:
            yield cosine, float((cosine.double().square() + sine.double().square()).sqrt().amax())


def _observed(call: AttentionCall, recorder: Recorder, positions: Sequence[int], skipped: int) -> ObservedLayer:
    layer = _layer_of(call.name)
    # Some classes scale queries by their position; keys are only turned.
    moved = call.query if not call.key.any() else call.key
    rotation = measure_rotation(moved[0, :, skipped:], positions)
    if rotation is not None and rotation.layout is None:
        # The class may count positions itself.
        counted = measure_rotation(moved[0], range(moved.shape[-2]))
        if counted is not None and counted.layout is not None:
            rotation, skipped = counted, 0
    if rotation is None:
        return ObservedLayer(call.name, layer, None, None, None, call.window)
    layout, scale = rotation.layout, None
    for vectors in (call.key, call.query):
        found = _before(vectors[0, :, skipped:], rotation, [each[:, skipped:] for each in call.produced])
        if found is not None and layout is not None:
            layout, scale = found
            break
    known = sorted({round(amplitude, 6) for _, amplitude in recorder.amplitudes})
    if scale is None or not any(abs(scale / each - 1) < 1e-4 for each in known):
        scale = known[0] if len(known) == 1 else None  # keys may be scaled otherwise as well
    return ObservedLayer(call.name, layer, rotation, layout, scale, call.window)


def _before(
    vectors: Tensor, rotation: MeasuredRotation, produced: list[Tensor]
) -> tuple[RotaryLayout | None, float] | None:
    """Return the layout in what a projection or norm produced, and by how much it was scaled since.

    At position 0 nothing is turned: the rotated features are those of the projection, perhaps in another order.
    """
    block = vectors[0, 0, rotation.first : rotation.first + rotation.rotary_dim].double()
    count = len(block)
    wanted, order = block.abs().sort()
    for tensor in reversed(produced):
        if 0 in tensor.shape or tensor.ndim < 3 or tensor.shape[0] != 1:
            continue
        row = tensor[0, 0].double().flatten()
        if len(row) < count:
            continue
        windows = row.unfold(0, count, 1)
        found, places = windows.abs().sort(dim=-1)
        scales = wanted.norm() / found.norm(dim=-1).clamp_min(1e-30)
        errors = (found * scales[:, None] - wanted).abs().amax(-1) / wanted.norm()
        best = int(errors.argmin())
        if errors[best] > 1e-5:
            continue
        place = torch.empty(count, dtype=torch.long)
        place[order] = places[best]
        half = count // 2
        if rotation.layout == "half":
            first, second = place[:half], place[half:]
        else:
            first, second = place[0::2], place[1::2]
        if bool(((second - first) == half).all()):
            return "half", float(scales[best])
        if bool(((second - first) == 1).all()) and bool((first % 2 == 0).all()):
            return "interleaved", float(scales[best])
        return None, float(scales[best])
    return None
