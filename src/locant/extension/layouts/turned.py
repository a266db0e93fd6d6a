"""A model of transformers whose attention rotates by Locant, with features paired in either layout."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import MethodType
from typing import TYPE_CHECKING, Any

import torch

from locant.errors import LocantError
from locant.extension.layouts.rows import RotatingLayer
from locant.positions.huggingface.served import methods, rotations, with_globals
from locant.positions.rotary.config import RotaryLayout
from locant.positions.rotary.rotary import Rotary
from locant.positions.rotary.rotation import rotate_pairs

if TYPE_CHECKING:
    from torch import Tensor, nn

_ROTATION = re.compile(r"apply_.*(rot|rope)")
_ANGLES = ("cos", "sin", "freqs", "sinusoidal_pos", "position")


@contextmanager
def turned_by_locant(
    model: nn.Module, layers: Sequence[RotatingLayer], layout: RotaryLayout, length: int
) -> Iterator[None]:
    """Let layers of a model rotate queries and keys by Locant within the block.

    The functions by which the class rotates are replaced in the layers' own modules; everything else is the class's.

    Args:
        model: A model of transformers.
        layers: The layers that rotate.
        layout: How features are paired in their weights.
        length: Tokens of the texts that it reads, from position 0.

    Raises:
        LocantError: A layer rotates in a way that has no function of its own.
    """
    replaced: list[tuple[nn.Module, str]] = []
    tables: dict[Any, tuple[Tensor, Tensor]] = {}
    try:
        for layer in layers:
            if layer.config not in tables:
                tables[layer.config] = Rotary.from_config(layer.config).sine_cosine(torch.arange(length))
            turn = _Turn(layer, layout, *tables[layer.config])
            for module, name, function in _rotating(model, layer, turn):
                replaced.append((module, name))
                module.__dict__[name] = function
        yield
    finally:
        for module, name in replaced:
            module.__dict__.pop(name, None)


def _rotating(model: nn.Module, layer: RotatingLayer, turn: _Turn) -> Iterator[tuple[nn.Module, str, Any]]:
    """Yield the modules and methods in which a layer rotates, with what shall take their place."""
    own = model.get_submodule(layer.name)
    inner = [module for name, module in own.named_modules() if name]
    outer = [module for name, module in model.named_modules() if layer.scope and layer.name.startswith(f"{name}.")]
    for candidates in ([own], inner, outer):
        found = [each for module in candidates for each in _methods(module, turn)]
        if found:
            yield from found
            return
    raise LocantError(
        f"{type(own).__name__} rotates queries and keys in its own code, which cannot be told to pair them otherwise; "
        "so the weights cannot be shown to be right, and none are written."
    )


def _methods(module: nn.Module, turn: _Turn) -> Iterator[tuple[nn.Module, str, Any]]:
    for name, method in methods(type(module)):
        functions = {each: turn.like(function) for each, function in rotations(method).items()}
        if functions:
            yield module, name, MethodType(with_globals(method, functions), module)
    for kind in type(module).__mro__:
        for name, member in vars(kind).items():
            if isinstance(member, staticmethod) and _ROTATION.match(name):
                yield module, name, turn.like(member.__func__)


class _Turn:
    """The rotation of one layer, in the form of the functions of transformers."""

    def __init__(self, layer: RotatingLayer, layout: RotaryLayout, sine: Tensor, cosine: Tensor) -> None:
        self.layer, self.layout, self.sine, self.cosine = layer, layout, sine, cosine

    def like(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is called like another one, and rotates the features that are given to it."""
        names = list(inspect.signature(function).parameters)

        def rotate(*args: Any, **kwargs: Any) -> Any:
            theirs = function(*args, **kwargs)
            given = dict(zip(names, args, strict=False)) | kwargs
            features = [value for name, value in given.items() if not name.startswith(_ANGLES) and self._is_head(value)]
            turned = iter([self.of(each) for each in features])
            if isinstance(theirs, tuple | list):
                return tuple(None if each is None else next(turned) for each in theirs)
            return next(turned)

        return rotate

    def _is_head(self, value: Any) -> bool:
        return (
            isinstance(value, torch.Tensor)
            and value.ndim == 4
            and value.is_floating_point()
            and value.shape[-1] in (self.layer.rotary_dim, self.layer.head_dim)
        )

    def of(self, x: Tensor) -> Tensor:
        """Return rotated features ``[B, H, L, D]`` or ``[B, L, H, D]``, of whole heads or of their rotated part."""
        count, length = self.layer.rotary_dim, self.sine.shape[0]
        swapped = x.shape[2] != length
        x = x.transpose(1, 2) if swapped else x
        first = 0 if x.shape[-1] == count else self.layer.first
        part = rotate_pairs(x[..., first : first + count], self.sine, self.cosine, self.layout)
        x = torch.cat((x[..., :first], part, x[..., first + count :]), dim=-1)
        return x.transpose(1, 2) if swapped else x
