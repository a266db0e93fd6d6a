"""Logits before and after a conversion: of the class as it is, and with pairs turned in the other layout."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from locant.errors import LocantError
from locant.extension.asked.turn import Turn
from locant.extension.asked.watch import heard
from locant.extension.layouts.rows import AskedLayout
from locant.positions.rotary.config import RotaryLayout
from locant.positions.rotary.rotation import layout_order, rotate_pairs

ROUNDING = 1e-3
"""The most that logits may differ by, of the largest logit and of what turning the wrong pairs makes of them."""

_TOKENS, _VOCABULARY = 29, 64
_RANK = 4
_LARGEST = 1 << 22  # numbers of a parameter that is no linear layer's
_ATTENTION = "locant_turned"


@dataclass(frozen=True)
class LayoutProof:
    """How far logits of random tokens and weights are apart before and after a conversion: their largest difference.

    Attributes:
        tokens: How many tokens were read.
        largest: The largest logit before.
        rotation: Before, with the class's rotation undone and made again by Locant: what rounding makes.
        converted: After, with pairs turned in the new layout.
        unturned: After, but with pairs turned in the old layout, which is wrong.
    """

    tokens: int
    largest: float
    rotation: float
    converted: float
    unturned: float


def prove(asked: AskedLayout, source: RotaryLayout, target: RotaryLayout) -> LayoutProof:
    """Compare logits before and after a conversion of random weights, and make sure that only rounding changes them.

    Args:
        asked: The class; its model gets the weights.
        source: Layout of the weights.
        target: Layout that they should have.

    Raises:
        LocantError: Logits differ by more, or other pairs cannot be turned in the attention of the class.
    """
    model = _filled(asked.model)
    before, by_locant = _logits(model, asked, source), _logits(model, asked, source, by_class=False)
    for name, rows in asked.rows.items():
        owner, _, last = name.rpartition(".")
        module = model.get_submodule(owner)
        tensor = module.left if isinstance(module, _ThinLinear) and last == "weight" else getattr(module, last)
        index = torch.arange(rows.size)
        for start in rows.starts:
            index[start : start + rows.count] = start + layout_order(rows.count, source=source, target=target)
        tensor.copy_(tensor.index_select(rows.axis, index))
    others = by_locant, _logits(model, asked, target), _logits(model, asked, source)
    differences = [float((before - each).abs().max()) for each in others]
    proof = LayoutProof(len(before), float(before.abs().max()), *differences)
    if not max(proof.rotation, proof.converted) <= ROUNDING * min(proof.unturned, proof.largest):  # nor NaN
        raise LocantError(
            f"The converted weights of {asked.name} were tried and are not equivalent: logits differ by up to "
            f"{proof.converted:.1e}, with wrong pairs by {proof.unturned:.1e}. Nothing was written."
        )
    return proof


class _ThinLinear(nn.Module):
    """A linear layer ``[rows, columns]`` whose weight is a product of two thin matrices of random numbers."""

    def __init__(self, rows: int, columns: int, bias: Tensor | None) -> None:
        super().__init__()
        self.left = nn.Parameter(torch.randn(rows, _RANK) / _RANK**0.5, requires_grad=False)
        self.right = nn.Parameter(torch.randn(columns, _RANK) / columns**0.5, requires_grad=False)
        self.bias = bias

    @property
    def weight(self) -> Tensor:
        """The whole weight ``[rows, columns]``, for classes that multiply with it themselves."""
        return self.left @ self.right.T

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to ``[..., columns]``."""
        return nn.functional.linear(x @ self.right, self.left, self.bias)


def _filled(model: nn.Module) -> nn.Module:
    """Give a model random numbers in place of none: thin matrices to linear layers, at most 64 rows to embeddings.

    So its attention has its own sizes in little memory. Modules with other large parameters, those of experts, hand on
    what they are given.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for parent in list(model.modules()):
            for name, child in list(parent.named_children()):
                if isinstance(child, nn.Linear) and type(child).forward is nn.Linear.forward:
                    setattr(parent, name, _ThinLinear(child.out_features, child.in_features, child.bias))
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                module.padding_idx = None
            for name, parameter in module.named_parameters(recurse=False):
                shape = parameter[:_VOCABULARY].shape if isinstance(module, nn.Embedding) else parameter.shape
                if parameter.is_meta and math.prod(shape) > _LARGEST:
                    module.forward = lambda x, *_, **__: x
                elif parameter.is_meta:
                    numbers = torch.randn(shape)
                    if len(shape) == 1:
                        numbers = 0.2 * numbers + (1 if name == "weight" else 0)
                    elif len(shape) > 2:
                        numbers /= shape[-1] ** 0.5
                    setattr(module, name, nn.Parameter(numbers, requires_grad=False))
    return model


@torch.no_grad()
def _logits(model: Any, asked: AskedLayout, layout: RotaryLayout, *, by_class: bool = True) -> Tensor:
    """Return the logits ``[L, V]`` of random tokens, or last hidden states, of weights that are paired in a layout."""
    accepted = inspect.signature(model.forward).parameters
    words = min(_VOCABULARY, len(model.get_input_embeddings().weight))
    ids = torch.randint(3, words, (1, _TOKENS), generator=torch.Generator().manual_seed(0))
    given = {"input_ids": ids, "decoder_input_ids": ids, "use_cache": False}
    with heard(), nullcontext() if by_class and layout == asked.layout else _turning(model, asked, layout):
        output = model(**{name: value for name, value in given.items() if name in accepted})
    result: Tensor = output[0] if getattr(output, "logits", None) is None else output.logits
    return result[0].float()


@contextmanager
def _turning(model: Any, asked: AskedLayout, layout: RotaryLayout) -> Iterator[None]:
    """Let attention undo the rotation of its class, and rotate pairs of another layout by Locant."""
    from transformers import AttentionInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

    turns = {model.get_submodule(name): _turn(turn, asked.layout, layout) for name, turn in asked.turns.items()}
    left = set(turns)

    def attention(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **options: Any) -> Any:
        if module in turns:
            left.discard(module)
            query, key = turns[module](query), turns[module](key)
        return sys.modules[type(module).__module__].eager_attention_forward(module, query, key, value, mask, **options)

    AttentionInterface.register(_ATTENTION, attention)
    AttentionMaskInterface.register(_ATTENTION, ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    before = model.config._attn_implementation
    model.set_attn_implementation(_ATTENTION)
    try:
        yield
    finally:
        model.set_attn_implementation(before)
    if left:
        raise LocantError(f"{asked.name} computes attention in its own code, where other pairs cannot be tried.")


def _turn(turn: Turn, own: RotaryLayout, layout: RotaryLayout) -> Callable[[Tensor], Tensor]:
    """Return what makes of queries or keys ``[B, H, L, D]`` that a class has rotated such of weights in a layout."""
    there, first, stop = turn.layout or own, turn.first, turn.first + turn.rotary_dim
    # The class may reorder rows before it rotates, as if they were in its own layout.
    back = layout_order(turn.rotary_dim, source=there, target=own)
    angles = torch.arange(_TOKENS, dtype=torch.float64)[:, None] * torch.tensor(turn.frequencies, dtype=torch.float64)

    def turned(x: Tensor) -> Tensor:
        part = rotate_pairs(x[..., first:stop], -angles.sin(), angles.cos(), there)[..., back]
        return torch.cat((x[..., :first], rotate_pairs(part, angles.sin(), angles.cos(), layout), x[..., stop:]), -1)

    return turned
