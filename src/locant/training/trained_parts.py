"""What of a model is trained: parts, how fast each layer learns, and low-rank adapters by the library ``peft``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from locant.errors import ConfigError, nearest
from locant.lazy import require_package
from locant.models.architectures import build_model, require_transformer
from locant.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from locant.models.model_folder import skip_init
from locant.settings import Settings

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

    A part is a key of :data:`NAMED_PARTS`, or names of modules one below the other, as in ``encoder`` or
    ``decoder.layers.0`` or ``cross_attention.query``; ConfigError where the model has none.
    """
    match part:
        case "embeddings" | "norms":
            kind = nn.Embedding if part == "embeddings" else (nn.LayerNorm, nn.RMSNorm)
            found = [one for module in model.modules() if isinstance(module, kind) for one in module.parameters()]
        case "output":
            found = list(model.get_submodule("output").parameters())
        case "biases":
            found = [one for name, one in model.named_parameters() if name.endswith("bias")]
        case "positions":
            found = [one for name, one in model.named_parameters() if ".schemes." in name]
        case _:
            named = model.named_parameters(remove_duplicate=False)
            found = [one for name, one in named if f".{part}." in f".{name.rpartition('.')[0]}."]
    if found:
        ours = {id(parameter): name for name, parameter in model.named_parameters()}
        return {ours[id(parameter)] for parameter in found}
    if part in NAMED_PARTS:
        raise ConfigError(f"The model has no weights of '{part}' ({NAMED_PARTS[part]}); leave that part out.")
    modules = [name for name, module in model.named_modules() if any(True for _ in module.parameters())]
    words = {word for name in modules for word in name.split(".") if word and not word.isdigit()}
    known = [*NAMED_PARTS, *sorted(words - {*NAMED_PARTS, "norm", "layers", "residuals", "schemes"})]
    layers = [name for name in modules if _LAYER.fullmatch(f"{name}.")]
    raise ConfigError(
        f"The model has no part '{part}' to train or freeze.{nearest(part, [*known, *layers])} "
        f"Known: {', '.join(known)}{f', and layers such as {layers[0]}' if layers else ''}."
    )


def freeze(model: nn.Module, frozen: Sequence[str], only: Sequence[str] = ()) -> None:
    """Leave parts of a model, all of which is trained until now, as they are: they get no gradients.

    ``only`` names parts to train, where all others are to be frozen; ``frozen`` is taken from them. ConfigError where
    the model has no such part, or nothing is left to train.
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
    """Return the factor of each parameter's learning rate, by its name: lower layers learn more slowly.

    The last layer of each stack, norms behind it and an output that is not tied have 1; each layer below has ``decay``
    times the factor of the one above, and the embeddings ``decay`` times that of the lowest layer of all.

    Source: Howard and Ruder 2018, "Universal Language Model Fine-tuning for Text Classification", section 3.1.
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


class LoraSettings(Settings):
    """Low-rank adapters of linear maps.

    Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", arXiv:2106.09685, section 4: a matrix ``W``
    stays as it is, and ``(alpha / rank) B A`` is learned beside it and added to ``W`` in the end.

    Attributes:
        rank: Of the matrices ``A`` and ``B``.
        alpha: The product of the two is multiplied by ``alpha / rank``.
        dropout: Of what the adapters read.
        target_modules: Names of linear maps, or of modules that hold some.
    """

    rank: int = Field(default=8, ge=1)
    alpha: float = Field(default=16.0, gt=0)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    target_modules: tuple[str, ...] = Field(default=("self_attention", "cross_attention", "feed_forward"), min_length=1)


def require_peft() -> Any:
    """Return the library, or raise MissingExtraError."""
    return require_package("peft", "Fine-tuning with finetuning.lora")


def add_adapters(model: EncoderDecoder[Any], settings: LoraSettings, seed: int) -> None:
    """Put adapters beside linear maps of a Transformer, in place: the names of its parameters change.

    Adapters go where the weights are trained until now; afterwards nothing but the adapters is. ConfigError where the
    model is no Transformer, has no such modules, or all of them are frozen.
    """
    require_transformer(model, "LoRA")
    linear = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.startswith(("encoder.", "decoder."))
    ]
    chosen: list[str] = []
    for target in settings.target_modules:
        found = [name for name in linear if f".{target}." in f".{name}."]
        if not found:
            known = sorted({word for name in linear for word in name.split(".") if not word.isdigit()} - {"layers"})
            raise ConfigError(
                f"finetuning.lora.target_modules names '{target}', but no linear map of the layers is called so."
                f"{nearest(target, known)} Known: {', '.join(known)}."
            )
        chosen += found
    adapted = [name for name in dict.fromkeys(chosen) if model.get_submodule(name).weight.requires_grad]
    if not adapted:
        raise ConfigError("All modules that finetuning.lora.target_modules names are frozen by finetuning.freeze.")
    torch.manual_seed(seed)
    _adapted(model, settings, adapted)


def merged_weights(
    config: EncoderDecoderConfig, settings: LoraSettings, weights: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the weights of the plain model, on the CPU, in which the adapters are added to the matrices.

    ``weights`` are those of the model with adapters, by parameter name.
    """
    with skip_init():
        model = build_model(config)
    suffix = ".base_layer.weight"
    tuner = _adapted(model, settings, [name.removesuffix(suffix) for name in weights if name.endswith(suffix)])
    model.load_state_dict(dict(weights), strict=False)  # tied matrices are stored once
    plain = tuner.merge_and_unload()
    return {name: parameter.detach() for name, parameter in plain.named_parameters()}


def _adapted(model: nn.Module, settings: LoraSettings, names: list[str]) -> Any:
    peft = require_peft()
    config = peft.LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, lora_dropout=settings.dropout, target_modules=names, bias="none"
    )
    return peft.LoraModel(model, config, "default")
