"""Parts of a model: which are trained, which are frozen, and how fast each layer learns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from torch import nn

from locant.errors import ConfigError, nearest

NAMED_PARTS = {
    "embeddings": "the embeddings of source and target, and the output where it is tied to them",
    "output": "the projection to the vocabulary",
    "norms": "the layer norms",
    "biases": "the biases of all linear maps and norms",
    "positions": "what a positional scheme learns",
}
"""Parts by their meaning; every other part is named by modules: ``encoder``, ``decoder.layers.0``, ``feed_forward``."""

_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.")


def part_parameters(model: nn.Module, part: str) -> set[str]:
    """Return the names of the parameters of a part, under the names of ``model.named_parameters()``.

    Args:
        model: The model.
        part: A key of :data:`NAMED_PARTS`, or names of modules one below the other, as in ``encoder`` or
            ``decoder.layers.0`` or ``cross_attention.query``.

    Raises:
        ConfigError: The model has no such part.
    """
    ours = {id(parameter): name for name, parameter in model.named_parameters()}
    match part:
        case "embeddings":
            parameters = [one for module in _modules(model, nn.Embedding) for one in module.parameters()]
        case "output":
            parameters = list(model.get_submodule("output").parameters())
        case "norms":
            parameters = [one for module in _modules(model, nn.LayerNorm) for one in module.parameters()]
        case "biases":
            parameters = [one for name, one in model.named_parameters() if name.endswith("bias")]
        case "positions":
            parameters = [one for name, one in model.named_parameters() if ".schemes." in name]
        case _:
            parameters = [
                one
                for name, one in model.named_parameters(remove_duplicate=False)
                if f".{part}." in f".{name.rpartition('.')[0]}."
            ]
    if not parameters:
        if part in NAMED_PARTS:
            raise ConfigError(f"The model has no weights of '{part}' ({NAMED_PARTS[part]}); leave that part out.")
        known, layers = known_parts(model), _layers(model)
        raise ConfigError(
            f"The model has no part '{part}' to train or freeze.{nearest(part, [*known, *layers])} "
            f"Known: {', '.join(known)}{f', and layers such as {layers[0]}' if layers else ''}."
        )
    return {ours[id(parameter)] for parameter in parameters}


def known_parts(model: nn.Module) -> list[str]:
    """Return the parts of a model that can be named, single layers left out."""
    names = {
        word
        for name, _ in model.named_modules()
        for word in name.split(".")
        if word and not word.isdigit() and any(True for _ in model.get_submodule(name).parameters())
    }
    named = [
        part
        for part in NAMED_PARTS
        if part != "positions" or any(".schemes." in n for n, _ in model.named_parameters())
    ]
    return [*named, *sorted(names - {*NAMED_PARTS, "norm", "layers", "residuals", "schemes"})]


def _layers(model: nn.Module) -> list[str]:
    """Return the names of the layers of both stacks."""
    return list(
        dict.fromkeys(found[0].rstrip(".") for name, _ in model.named_parameters() if (found := _LAYER.match(name)))
    )


def _modules(model: nn.Module, kind: type[nn.Module]) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, kind)]


def freeze(model: nn.Module, frozen: Sequence[str], only: Sequence[str] = ()) -> None:
    """Leave parts of a model as they are: their parameters get no gradients.

    Args:
        model: The model; all its parameters are trained until now.
        frozen: Parts to freeze.
        only: Parts to train, where all others are to be frozen; ``frozen`` is taken from them.

    Raises:
        ConfigError: The model has no such part, or nothing is left to train.
    """
    names = {name for name, _ in model.named_parameters()}
    trained = set[str]().union(*(part_parameters(model, part) for part in only)) if only else names
    trained -= set[str]().union(*(part_parameters(model, part) for part in frozen))
    if not trained:
        alone = f" and finetuning.train_only is {', '.join(only)}" if only else ""
        raise ConfigError(
            f"Nothing is left to train: finetuning.freeze is {', '.join(frozen)}{alone}. Freeze fewer parts."
        )
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in trained)


def learning_rate_scales(model: nn.Module, decay: float) -> dict[str, float]:
    """Return the factor of each parameter's learning rate: lower layers learn more slowly.

    The last layer of each stack, norms behind it and an output that is not tied have 1; each layer below has ``decay``
    times the factor of the one above, and the embeddings ``decay`` times that of the lowest layer of all.

    Source: Howard and Ruder 2018, "Universal Language Model Fine-tuning for Text Classification", section 3.1.

    Args:
        model: An encoder-decoder model.
        decay: From above 0 to 1; 1 gives all the same.

    Returns:
        Factors by the names of ``model.named_parameters()``.
    """
    layers = {name: found for name, _ in model.named_parameters() if (found := _LAYER.match(name))}
    depth: dict[str, int] = {}
    for found in layers.values():
        depth[found[1]] = max(depth.get(found[1], 0), int(found[2]) + 1)
    deepest = max(depth.values(), default=0)
    lowest = part_parameters(model, "embeddings")

    def below_top(name: str) -> int:
        if name in lowest:
            return deepest
        found = layers.get(name)
        return depth[found[1]] - 1 - int(found[2]) if found else 0

    return {name: decay ** below_top(name) for name, _ in model.named_parameters()}
