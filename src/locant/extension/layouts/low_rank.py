"""A model of a class of transformers at its real heads and layers, whose linear layers have weights of low rank.

What decides which rows of a weight become which features of a head is all there: heads, their sizes, fused and grouped
projections. The memory is that of the layers' outputs, not that of their weights.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from locant.extension.inspect.model_class.small_model import build_watched, entries_of, reduced_entries

_RANK = 4
_LARGE = 1 << 16  # numbers of a matrix that is not made at once
_LARGEST = 1 << 28  # numbers that the model may hold in all
_JITTER = 0.1


class LowRankLinear(nn.Module):
    """A linear layer whose weight is a product of two thin matrices.

    Args:
        linear: The layer whose sizes and bias it has; its weight is not looked at.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.left = nn.Parameter(torch.randn(self.out_features, _RANK) / _RANK**0.5)
        self.right = nn.Parameter(torch.randn(self.in_features, _RANK) / max(1, self.in_features) ** 0.5)
        self.bias = None if linear.bias is None else nn.Parameter(torch.zeros(self.out_features))

    @property
    def weight(self) -> Tensor:
        """The whole weight ``[out, in]``, for classes that multiply with it themselves."""
        return self.left @ self.right.T

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to ``[..., in]``."""
        y = (x @ self.right) @ self.left.T
        return y if self.bias is None else y + self.bias


class _LargeOnMeta(TorchFunctionMode):
    """Makes large empty matrices without memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        options = dict(kwargs or {})
        if func is torch.empty:
            sizes = args[0] if len(args) == 1 and isinstance(args[0], tuple | list | torch.Size) else args
            sizes = options.get("size", sizes)
            if len(sizes) == 2 and int(sizes[0]) * int(sizes[1]) > _LARGE:
                options["device"] = "meta"
        return func(*args, **options)


def low_rank_config(config: Any) -> Any:
    """Return a configuration with all heads, their sizes and all layers, and everything else small.

    Args:
        config: A configuration of transformers.
    """
    entries = entries_of(config)
    return type(config)(**copy.deepcopy(_with_ranks(reduced_entries(entries, heads=None), entries)))


def _with_ranks(small: dict[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """Give latent projections their sizes again: rotated features may stand behind them in one weight."""
    for name, value in entries.items():
        if isinstance(value, Mapping) and isinstance(small.get(name), Mapping):
            small[name] = _with_ranks(dict(small[name]), value)
        elif isinstance(name, str) and name.endswith("lora_rank"):
            small[name] = value
    return small


def build_low_rank(found: type[Any], config: Any) -> nn.Module:
    """Return a model with random weights whose attention can be watched.

    Args:
        found: A class of transformers.
        config: From :func:`low_rank_config`; it is changed.

    Raises:
        MemoryError: The model would be too large even so.
        Exception: Whatever the class raises for a configuration that it cannot compute.
    """
    return build_watched(config, lambda: _built(found, config))


def _built(found: type[Any], config: Any) -> nn.Module:
    from transformers import PreTrainedModel

    with _LargeOnMeta():
        model: nn.Module = found(config)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and type(child).forward is nn.Linear.forward:
                setattr(parent, name, LowRankLinear(child))
    if sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers())) > _LARGEST:
        raise MemoryError(f"{found.__name__} of this configuration is too large to be tried.")
    owner: Any = model
    with torch.no_grad():
        for module in model.modules():  # parts come after the model that they belong to
            owner = module if isinstance(module, PreTrainedModel) else owner
            on_meta = [name for name, each in module.named_parameters(recurse=False) if each.is_meta]
            for name in on_meta:
                shape = getattr(module, name).shape
                setattr(module, name, nn.Parameter(torch.randn(shape) / shape[-1] ** 0.5))
            if on_meta:
                owner._init_weights(module)
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.is_floating_point())  # some classes keep corrections out of training
    return model.eval().float()


def tell_features_apart(model: nn.Module) -> None:
    """Give norms and biases random numbers, so that no two features are alike."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1 and parameter.is_floating_point():
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=_JITTER)
