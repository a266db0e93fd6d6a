"""The parts of a transformers model that tell queries and keys their positions: rotary modules, and who uses them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from locant.errors import LocantError
from locant.positions.huggingface import unrotated
from locant.positions.huggingface.forms import AngleKind, ModuleForm, module_form, rotation_form
from locant.positions.huggingface.served import is_replaced, locals_in, methods, rotations
from locant.positions.rotary.config import RotaryLayout


@dataclass(frozen=True)
class RotaryPart:
    """A rotary module of a model.

    Attributes:
        path: Where it is in the model.
        module: The module.
        fresh: One of the same class and configuration that has computed nothing yet, in float32 on the CPU.
        form: What it computes.
    """

    path: str
    module: nn.Module
    fresh: nn.Module
    form: ModuleForm


@dataclass(frozen=True)
class ModelParts:
    """What :func:`find_parts` finds.

    Attributes:
        name: Name of the model's class.
        config: Configuration of the part of the model that reads text, an object of transformers.
        rotaries: Its rotary modules.
        users: Modules that rotate by what these hand on, with how that is handed on.
        layouts: How they pair features.
    """

    name: str
    config: Any
    rotaries: tuple[RotaryPart, ...]
    users: tuple[tuple[nn.Module, AngleKind], ...]
    layouts: frozenset[RotaryLayout]

    @property
    def head_dim(self) -> int:
        """Features of a head."""
        latent = getattr(self.config, "qk_rope_head_dim", None)
        if latent:
            return int(latent + self.config.qk_nope_head_dim)
        stated = getattr(self.config, "head_dim", None)
        return int(stated or self.config.hidden_size // self.config.num_attention_heads)

    @property
    def layers(self) -> int:
        """Number of layers."""
        return int(self.config.num_hidden_layers)

    def require_unrotated(self) -> None:
        """Check that keys can be cached unrotated.

        Raises:
            LocantError: They cannot.
        """
        for part in self.rotaries:
            if part.form.axes:
                raise LocantError(
                    f"{self.name} has positions of several axes; schemes and frequencies that follow the length of the "
                    "text need one."
                )
        for module, _ in self.users:
            reason = unrotated.why_not(type(module))
            if reason:
                raise LocantError(
                    f"{type(module).__name__} of {self.name} {reason}; only plain rotation, with frequencies that do "
                    "not follow the length of the text, can be installed there."
                )


def find_parts(model: nn.Module) -> ModelParts:
    """Find the parts of a model that tell queries and keys their positions.

    Args:
        model: A model of transformers, or one around it.

    Raises:
        LocantError: There are none, or they are built in a way that is not known here; the message says which.
    """
    name, config = _text_config(model)
    modules = dict(model.named_modules())
    rotaries = tuple(
        _rotary_part(path, module, name)
        for path, module in modules.items()
        if _is_rotary(module) and type(getattr(module, "config", None)) is type(config)
    )
    if not rotaries:
        raise LocantError(f"{name} has no rotary module whose angles could be replaced.")
    users: dict[nn.Module, AngleKind] = {}
    layouts: set[RotaryLayout] = set()
    for part in rotaries:
        for module in modules[part.path.rpartition(".")[0]].modules():
            if _is_rotary(module) or type(getattr(module, "config", config)) is not type(config):
                continue
            found = _layouts(module, part.form.kind, name)
            layouts |= found
            if not found:
                continue
            if users.setdefault(module, part.form.kind) != part.form.kind or is_replaced(module):
                raise LocantError(
                    f"The forward pass of {type(module).__name__} in {name} has been replaced by another tool; install "
                    "Locant's positions first."
                )
    if not users:
        raise LocantError(f"{name} does not rotate queries and keys by a function that could be replaced.")
    return ModelParts(name, config, rotaries, tuple(users.items()), frozenset(layouts))


def _text_config(model: nn.Module) -> tuple[str, Any]:
    from transformers import PreTrainedModel

    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            return type(module).__name__, module.config.get_text_config()
    raise LocantError(f"{type(model).__name__} is no model of transformers and holds none.")


def _is_rotary(module: nn.Module) -> bool:
    return (
        any(word in type(module).__name__ for word in ("Rotary", "Rope"))
        and not any(rotations(method) for _, method in methods(type(module)))
        and "position_ids" in inspect.signature(type(module).forward).parameters
    )


def _rotary_part(path: str, module: nn.Module, name: str) -> RotaryPart:
    kind: Any = type(module)
    if next(module.parameters(), None) is not None:
        raise LocantError(f"{kind.__name__} of {name} has trained parameters, so its angles cannot be replaced.")
    if is_replaced(module):
        raise LocantError(f"The forward pass of {kind.__name__} in {name} has been replaced by another tool.")
    try:
        with torch.device("cpu"), torch.no_grad():
            fresh = kind(module.config)
            form = module_form(fresh)
    except (TypeError, ValueError, RuntimeError, KeyError, AttributeError) as error:
        raise LocantError(
            f"{kind.__name__} of {name} computes angles in a way that is not known here: {error}."
        ) from error
    return RotaryPart(path, module, fresh, form)


def _layouts(module: nn.Module, kind: AngleKind, name: str) -> set[RotaryLayout]:
    """Return how a module pairs features where it rotates; nothing where it does not."""
    layouts: set[RotaryLayout] = set()
    for _, method in methods(type(module)):
        found = rotations(method)
        if not found and {"cos", "sin"} <= locals_in(method):
            raise LocantError(f"{type(module).__name__} of {name} rotates in its own code, which cannot be replaced.")
        for each, function in found.items():
            form = rotation_form(function, kind)
            if form is None:
                raise LocantError(f"{type(module).__name__} of {name} rotates by '{each}' in a way not known here.")
            layouts.add(form.layout)
    return layouts
