"""Low-rank adapters of linear maps, by the library ``peft``.

Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", arXiv:2106.09685: a matrix ``W`` stays as it is,
and ``(alpha / rank) B A`` is learned beside it and added to ``W`` in the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field
from torch import Tensor, nn

from locant.errors import ConfigError, MissingExtraError, nearest
from locant.models.architectures import build_model, require_transformer
from locant.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from locant.models.model_folder import skip_init
from locant.settings import Settings

_STACKS = ("encoder.", "decoder.")


class LoraSettings(Settings):
    """Low-rank adapters; see Hu et al. 2021, section 4.

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
    """Return the library.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import peft
    except ImportError:
        raise MissingExtraError("Fine-tuning with finetuning.lora", "peft", "finetune") from None
    return peft


def add_adapters(model: EncoderDecoder[Any], settings: LoraSettings, seed: int) -> None:
    """Put adapters beside linear maps of a Transformer, in place.

    Adapters go where the weights are trained until now; afterwards nothing but the adapters is.

    Args:
        model: The model; the names of its parameters change.
        settings: Rank, scale and where.
        seed: Of their initial weights.

    Raises:
        ConfigError: The model is no Transformer, has no such modules, or all of them are frozen.
        MissingExtraError: peft is not installed.
    """
    import torch

    require_transformer(model, "LoRA")
    linear = [
        name for name, module in model.named_modules() if isinstance(module, nn.Linear) and name.startswith(_STACKS)
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
    """Return the weights of the plain model, in which the adapters are added to the matrices.

    Args:
        config: Of the model.
        settings: Those of the adapters.
        weights: Of the model with adapters, by parameter name.

    Returns:
        Weights by the parameter names of a model without adapters, on the CPU.
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
