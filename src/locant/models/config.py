"""The configuration of a Transformer, and the presets."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from locant.errors import ConfigError, nearest
from locant.models.encoder_decoder import MOST_LAYERS, WIDEST, EncoderDecoderConfig
from locant.positions import AttentionShape, check_options
from locant.positions.registry import scheme_name

FeedForwardKind = Literal["relu", "gelu", "silu", "glu", "reglu", "geglu", "swiglu"]

Norm = Literal["post", "pre"]

SchemeName = Annotated[str, AfterValidator(scheme_name)]
"""A positional scheme, by any of its names; what is kept is the registered one."""


@dataclass(frozen=True, kw_only=True)
class BlockSettings:
    """What layers and stacks are built from; the fields mean what they mean in :class:`TransformerConfig`.

    Raises:
        ConfigError: The heads do not share the width, or the positional scheme cannot be built.
    """

    d_model: int
    d_ff: int
    heads: int
    dropout: float = 0.0
    attention_dropout: float = 0.0
    feed_forward_dropout: float = 0.0
    norm: Norm = "post"
    feed_forward: FeedForwardKind = "relu"
    position: str = "sinusoidal"
    position_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check what pairs of fields must fulfil."""
        if self.d_model % self.heads:
            raise ConfigError(f"d_model {self.d_model} is not a multiple of heads {self.heads}")
        check_options(self.position, self.attention_shape(causal=True), self.position_options)

    @classmethod
    def of(cls, config: BaseModel) -> Self:
        """Return the fields of a model's configuration that its layers are built from."""
        return cls(**{item.name: getattr(config, item.name) for item in fields(cls)})

    def attention_shape(self, *, causal: bool) -> AttentionShape:
        """Return the dimensions that a positional scheme is built for."""
        return AttentionShape(self.d_model, self.heads, causal)


class TransformerConfig(EncoderDecoderConfig):
    """Dimensions and choices of the encoder-decoder Transformer; the defaults are the paper's base model.

    Source of the names: Vaswani et al. 2017, Table 3 (``N``, ``d_model``, ``d_ff``, ``h``, ``P_drop``).
    """

    architecture: Literal["transformer"] = "transformer"
    encoder_layers: int = Field(6, ge=1, le=MOST_LAYERS)
    decoder_layers: int = Field(6, ge=1, le=MOST_LAYERS)
    d_model: int = Field(512, ge=1, le=WIDEST)
    d_ff: int = Field(2048, ge=1, le=WIDEST)
    heads: int = Field(8, ge=1, le=WIDEST)
    dropout: float = Field(0.1, ge=0, lt=1, description="After every sub-layer and on the embeddings (section 5.4)")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="On attention weights; not in the paper")
    feed_forward_dropout: float = Field(0.0, ge=0, lt=1, description="Inside the feed-forward; not in the paper")
    norm: Norm = Field("post", description="Layer norm after the residual (paper) or before")
    feed_forward: FeedForwardKind = "relu"
    position: SchemeName = "sinusoidal"
    position_options: dict[str, Any] = Field(default_factory=dict)
    share_embeddings: bool = Field(True, description="One embedding matrix for source and target (joint vocabulary)")
    tie_output: bool = Field(True, description="The output projection is the target embedding matrix")
    alignment_head: bool = Field(
        False, description="The first head of the last decoder layer but one has learned which words belong together"
    )
    start_is_padding: bool = Field(
        False, description="The token that starts the decoder is padding's twin, as in Marian, and is never predicted"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.blocks()
        if self.share_embeddings and self.source_vocab_size != self.target_vocab_size:
            raise ConfigError(
                f"share_embeddings needs one joint vocabulary, but source_vocab_size is {self.source_vocab_size} and "
                f"target_vocab_size is {self.target_vocab_size}"
            )
        return self

    def blocks(self) -> BlockSettings:
        """Return what the layers are built from."""
        return BlockSettings.of(self)


PRESETS: dict[str, dict[str, Any]] = {
    # The size of Wu et al. 2021 ("Good for Misconceived Reasons") for corpora of some ten thousand sentences.
    "tiny": {
        "encoder_layers": 4,
        "decoder_layers": 4,
        "d_model": 128,
        "d_ff": 256,
        "heads": 4,
        "dropout": 0.3,
    },
    "small": {
        "encoder_layers": 3,
        "decoder_layers": 3,
        "d_model": 256,
        "d_ff": 1024,
        "heads": 4,
        "dropout": 0.1,
    },
    # Vaswani et al. 2017, Table 3.
    "base": {
        "encoder_layers": 6,
        "decoder_layers": 6,
        "d_model": 512,
        "d_ff": 2048,
        "heads": 8,
        "dropout": 0.1,
    },
    "big": {
        "encoder_layers": 6,
        "decoder_layers": 6,
        "d_model": 1024,
        "d_ff": 4096,
        "heads": 16,
        "dropout": 0.3,
    },
}


def preset(name: str, **changes: Any) -> TransformerConfig:
    """Return the configuration of a preset, with changes.

    Args:
        name: ``tiny``, ``small``, ``base`` or ``big``.
        changes: Fields of :class:`TransformerConfig`; the vocabulary sizes are required.

    Raises:
        ConfigError: The preset or a field is unknown, or a value is out of range.

    Example:
        >>> preset("base", source_vocab_size=37000, target_vocab_size=37000).d_ff
        2048
    """
    if not isinstance(name, str) or name not in PRESETS:
        raise ConfigError(f"Unknown preset '{name}'.{nearest(str(name), PRESETS)} Known: {', '.join(PRESETS)}.")
    return TransformerConfig.parse({**PRESETS[name], **changes}, f"preset {name}")
