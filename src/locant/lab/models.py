"""Models of the lab: small language models that differ in nothing but their positional scheme."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from pydantic import Field
from torch import nn

from locant.lab.contenders import position_fields
from locant.positions import PositionScheme
from locant.settings import Settings
from locant.transformer import LanguageModel, LanguageModelConfig, count_parameters
from locant.transformer.config import FeedForwardKind


class ModelSettings(Settings):
    """Dimensions of the decoder-only model; the fields mean what they mean in ``LanguageModelConfig``."""

    layers: int = Field(4, ge=1)
    d_model: int = Field(128, ge=1)
    d_ff: int = Field(512, ge=1)
    heads: int = Field(4, ge=1)
    dropout: float = Field(0.0, ge=0, lt=1)
    feed_forward: FeedForwardKind = "gelu"

    def config(self, contender: str, vocab_size: int, *, trained: int, longest: int) -> LanguageModelConfig:
        """Return the configuration of the model with a scheme fitted to lengths in tokens.

        Raises:
            ConfigError: The scheme cannot be built for these dimensions.
        """
        position = position_fields(contender, head_dim=self.d_model // self.heads, trained=trained, longest=longest)
        return LanguageModelConfig.parse({"vocab_size": vocab_size, **self.to_dict(), **position}, contender)


def build_fairly(config: LanguageModelConfig, seed: int) -> LanguageModel:
    """Return a model whose initial weights are those of the model without positions wherever shapes allow.

    A scheme with parameters of its own draws random numbers too; without this all weights drawn later would differ.
    """
    torch.manual_seed(seed)
    plain = LanguageModel(config.model_copy(update={"position": "none", "position_options": {}}))
    model = LanguageModel(config)
    share_weights(plain, model)
    return model


def share_weights(plain: nn.Module, model: nn.Module) -> None:
    """Copy the weights that two models have in common, by name and shape, from the first to the second."""
    own = model.state_dict()
    with torch.no_grad():
        for name, weight in plain.state_dict().items():
            if name in own and own[name].shape == weight.shape:
                own[name].copy_(weight)


def weights_outside_schemes(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the weights that belong to no positional scheme, by name."""
    schemes = tuple(f"{name}." for name, module in model.named_modules() if isinstance(module, PositionScheme))
    return {name: weight for name, weight in model.named_parameters() if not name.startswith(schemes)}


def initial_facts(model: nn.Module) -> dict[str, Any]:
    """Return the fields of :class:`~locant.lab.task.Outcome` that describe an untrained model."""
    shared = weights_outside_schemes(model)
    digest = hashlib.sha256()
    for name, weight in sorted(shared.items()):
        digest.update(f"{name} {tuple(weight.shape)}".encode() + weight.detach().to("cpu").numpy().tobytes())
    parameters = count_parameters(model)
    return {
        "parameters": parameters,
        "scheme_parameters": parameters - sum(weight.numel() for weight in shared.values()),
        "initial_weights": digest.hexdigest(),
    }
