"""The weights of a Transformer in the order in which the C++ kernel ``translation`` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.models.blocks import Decoder, Encoder
from locant.models.config import require_served
from locant.models.model_folder import skip_init
from locant.models.transformer import Transformer
from locant.positions import PositionScheme, Rotary, RotaryConfig
from locant.text.tokenizer import BOS, PAD
from locant.translation.module_names import module_names

# The number that transformer_layers.h gives an activation, and whether it gates.
_ACTIVATIONS = {
    "relu": (0, False),
    "gelu": (1, False),
    "silu": (2, False),
    "glu": (3, True),
    "reglu": (0, True),
    "geglu": (1, True),
    "swiglu": (2, True),
}


@dataclass(frozen=True)
class PositionCodes:
    """Codes of positions that are added to the embeddings of that many features, and the scheme that makes them."""

    scheme: PositionScheme
    width: int

    @property
    def most(self) -> int | None:
        """The most positions that there are; ``None`` for any number."""
        return self.scheme.max_positions

    def table(self, count: int) -> Tensor:
        """Return the codes of the first positions ``[count, E]``, float32.

        ConfigError where they are of another width, DataError where there are fewer.
        """
        codes = self.scheme.code(torch.arange(count, device="cpu"))
        if codes is None or codes.shape != (count, self.width):
            raise ConfigError(
                f"The positions of {type(self.scheme).__name__} are not codes of {self.width} features, the width of "
                "the model."
            )
        return _plain(codes)


@dataclass(frozen=True)
class PositionRotations:
    """Angles that depend on the position alone, by which queries and keys are rotated; ``most`` positions, if known."""

    config: RotaryConfig
    most: int | None

    def table(self, count: int) -> Tensor:
        """Return the sines of the pairs at the first positions and then their cosines ``[count, rotated]``, float32."""
        return _plain(torch.cat(Rotary.from_config(self.config).sine_cosine(torch.arange(count, device="cpu")), dim=-1))


Positions: TypeAlias = PositionCodes | PositionRotations | None


@dataclass(frozen=True)
class KernelWeights:
    """What the kernel is made from; all tensors are float32 and contiguous.

    Attributes:
        shape: The numbers of ``Shape`` in ``transformer_layers.h``, but for the precision.
        matrices: Of the linear layers ``[outputs, inputs]``, encoder first; after them the projection to the
            vocabulary.
        biases: Of the linear layers; the projection has none.
        norms: Scale and shift of each norm.
        embeddings: Of source and target ``[vocabulary, E]``; one object where they are the same.
        positions: Of source and target, ``None`` where there are none.
    """

    shape: tuple[int, ...]
    matrices: list[Tensor]
    biases: list[Tensor]
    norms: list[Tensor]
    embeddings: list[Tensor]
    positions: tuple[Positions, Positions]


def kernel_weights(model: Transformer, what: str, instead: str) -> KernelWeights:
    """Return what the kernel is made from.

    ``what`` wants it, the beginning of a sentence for messages; ``instead`` is a sentence on what a user can do else.

    Raises:
        ConfigError: The model has settings that the kernel does not know, its positions are neither added to the
            embeddings nor plain rotations, or a weight has not the shape that the configuration says.
    """
    config = model.config
    require_served(config, what, instead)
    with torch.device("meta"), skip_init():
        expected = {name: tensor.shape for name, tensor in Transformer(config).state_dict().items()}
    if expected != {name: tensor.shape for name, tensor in model.state_dict().items()}:
        raise ConfigError(
            f"{what} needs weights of the shapes that the model's configuration says, but the model has others. "
            f"{instead}"
        )
    positions = [stack_positions(stack, config.d_model, what, instead) for stack in (model.encoder, model.decoder)]
    # Both stacks are made from the same settings.
    rotation = positions[1] if isinstance(positions[1], PositionRotations) else None
    activation, gated = _ACTIVATIONS[config.feed_forward]
    shape = (
        config.encoder_layers,
        config.decoder_layers,
        config.d_model,
        config.d_ff,
        config.heads,
        config.source_vocab_size,
        config.target_vocab_size,
        int(config.norm == "pre"),
        activation,
        int(gated),
        PAD,
        BOS,
        rotation.table(1).shape[1] if rotation else 0,
        int(rotation is not None and rotation.config.layout == "interleaved"),
    )
    parts: list[tuple[bool, Any]] = [
        (module.is_norm, model.get_submodule(module.locant))
        for stack, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers))
        for module in module_names(stack, layers, norm=config.norm)
    ]
    linears, norms = ([part for is_norm, part in parts if is_norm == wanted] for wanted in (False, True))
    source = _plain(model.source_embedding.weight)
    tied = model.target_embedding.weight is model.source_embedding.weight
    return KernelWeights(
        shape,
        [*(_plain(linear.weight) for linear in linears), _plain(model.output.weight)],
        [_plain(linear.bias) for linear in linears],
        [_plain(part) for norm in norms for part in (norm.weight, norm.bias)],
        [source, source if tied else _plain(model.target_embedding.weight)],
        (positions[0], positions[1]),
    )


def stack_positions(stack: Encoder | Decoder, width: int, what: str, instead: str) -> Positions:
    """Return the positions of a stack that many features wide, ``None`` where it has none.

    The other arguments and errors are those of :func:`kernel_weights`.
    """
    scheme = stack.scheme(0)
    if not scheme.acts_on:
        return None
    if scheme.acts_on == {"embedding"} and scheme.code(torch.arange(1, device="cpu")) is not None:
        return PositionCodes(scheme, width)
    config = scheme.rotary_config
    if scheme.acts_on == {"queries+keys"} and config and not scheme.caches_unrotated_keys:
        return PositionRotations(config, scheme.max_positions)
    raise ConfigError(
        f"{what} knows positions that are added to all features of the embeddings (sinusoidal, learned) and rotations "
        f"that depend on nothing else (rotary), but this model's are {type(scheme).__name__}. {instead}"
    )


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().float().contiguous()
