"""The configuration of a Transformer, and the presets."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from itertools import cycle, islice
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from locant.errors import ConfigError, nearest
from locant.models.encoder_decoder import MOST_LAYERS, WIDEST, EncoderDecoderConfig
from locant.positions import SCHEMES, AttentionShape, check_options
from locant.positions.registry import scheme_name
from locant.settings import Settings

FeedForwardKind = Literal["relu", "gelu", "gelu_tanh", "silu", "glu", "reglu", "geglu", "geglu_tanh", "swiglu"]

Norm = Literal["post", "pre", "both", "output"]
NormKind = Literal["layer", "rms"]
HeadNorm = Literal["none", "head", "all"]

SchemeName = Annotated[str, AfterValidator(scheme_name)]
"""A positional scheme, by any of its names; what is kept is the registered one."""


class LayerKind(Settings):
    """What layers of a pattern have of their own: how they tell positions, and how far they see."""

    position: SchemeName
    position_options: dict[str, Any] = Field(default_factory=dict)
    window: int | None = Field(
        None, ge=1, description="Causal layers alone: a token sees itself and the window - 1 tokens before it"
    )


class BlockOptions(Settings):
    """What today's models have otherwise than the paper's; every default is the paper's."""

    kv_heads: int | None = Field(
        None, ge=1, le=WIDEST, description="Heads of keys and values, each for several of queries; as many unless given"
    )
    head_size: int | None = Field(None, ge=1, le=WIDEST, description="Features of a head; d_model / heads unless given")
    qk_norm: HeadNorm = Field(
        "none", description="Norm of queries and keys: of each head (Qwen 3, Gemma 3) or over all (OLMo 3)"
    )
    norm_kind: NormKind = Field("layer", description="Layer norm or RMSNorm")
    norm_epsilon: float = Field(1e-5, gt=0, description="Added to the variance in every norm")
    bias: bool = Field(True, description="Whether linear maps and layer norms have biases")


class LayerPattern(Settings):
    """Positional schemes that differ by layer."""

    pattern: str | None = Field(
        None, min_length=1, description="A letter for each layer, repeated to the last: LLLG; in place of position"
    )
    kinds: dict[str, LayerKind] = Field(
        default_factory=dict, description="What each letter of the pattern is: position, position_options, window"
    )

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if self.pattern and (given := sorted({"position", "position_options"} & self.model_fields_set)):
            raise ConfigError(f"{given[0]} is said by the kinds where there is a pattern; leave it out")
        return self

    @model_serializer(mode="wrap")
    def _without_position(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = serialise(self)
        if self.pattern:
            data = {key: value for key, value in data.items() if key not in ("position", "position_options")}
        return data

    @property
    def positions(self) -> str:
        """The positional schemes in a few words: ``rotary``, or ``LLLG (L rotary, G none)``."""
        kinds = ", ".join(f"{letter} {kind.position}" for letter, kind in self.kinds.items())
        return f"{self.pattern} ({kinds})" if self.pattern else str(getattr(self, "position", ""))

    def with_positions(self, where: str = "configuration", **positions: Any) -> Self:
        """Return the configuration with other values of position, position_options, pattern and kinds, and no more.

        Raises:
            ConfigError: They do not fit, or a scheme cannot be built; ``where`` names them.
        """
        told = {"position", "position_options", *LayerPattern.model_fields}
        return self.parse({**{k: v for k, v in self.to_dict().items() if k not in told}, **positions}, where)


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
    pattern: str | None = None
    kinds: dict[str, LayerKind] = field(default_factory=dict)
    kv_heads: int | None = None
    head_size: int | None = None
    qk_norm: HeadNorm = "none"
    norm_kind: NormKind = "layer"
    norm_epsilon: float = 1e-5
    bias: bool = True
    parallel: bool = False

    def __post_init__(self) -> None:
        """Check what pairs of fields must fulfil."""
        if self.head_size is None and self.d_model % self.heads:
            raise ConfigError(f"d_model {self.d_model} is not a multiple of heads {self.heads}")
        if self.heads % self.key_heads:
            raise ConfigError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        if unknown := sorted(set(self.pattern or "") - self.kinds.keys()):
            raise ConfigError(
                f"pattern {self.pattern} has '{unknown[0]}', and kinds does not say what that is; add it there"
            )
        if unused := sorted(self.kinds.keys() - set(self.pattern or "")):
            raise ConfigError(f"kinds has '{unused[0]}', but no letter of pattern is that; leave it out")

    @classmethod
    def of(cls, config: BaseModel) -> Self:
        """Return the fields of a model's configuration that its layers are built from."""
        return cls(**{item.name: getattr(config, item.name) for item in fields(cls) if hasattr(config, item.name)})

    @property
    def key_heads(self) -> int:
        """Heads of keys and values."""
        return self.kv_heads or self.heads

    @property
    def head_features(self) -> int:
        """Features of a head."""
        return self.head_size or self.d_model // self.heads

    def attention_shape(self, *, causal: bool) -> AttentionShape:
        """Return the dimensions that a positional scheme is built for."""
        return AttentionShape(self.d_model, self.heads, causal, self.head_size, self.kv_heads)

    def kinds_of_layers(self, layers: int, *, causal: bool) -> list[LayerKind]:
        """Return the kind of each layer of a stack; layers of a kind have the same object.

        Raises:
            ConfigError: A positional scheme cannot be built for such a stack, or the pattern does not fit it.
        """
        if self.pattern is None:
            kinds = {"": LayerKind.model_construct(position=self.position, position_options=self.position_options)}
            pattern = [""]
        else:
            kinds, pattern = self.kinds, list(self.pattern)
            if len(pattern) > layers:
                raise ConfigError(
                    f"pattern {self.pattern} names {len(pattern)} layers, but a stack has {layers}; shorten it"
                )
        for kind in kinds.values():
            check_options(kind.position, self.attention_shape(causal=causal), kind.position_options)
            if kind.window and not causal:
                raise ConfigError(
                    "a window is for causal attention, and an encoder sees both sides; leave it out of the kinds"
                )
        told = [kind for kind in kinds.values() if "embedding" in SCHEMES[kind.position].acts_on]
        for kind in told[1:]:
            if (kind.position, kind.position_options) != (told[0].position, told[0].position_options):
                raise ConfigError(
                    f"kinds have two schemes that act on the embedding, {told[0].position} and {kind.position}, but "
                    "there is one embedding; give both kinds the same one"
                )
        return [kinds[letter] for letter in islice(cycle(pattern), layers)]


class TransformerConfig(LayerPattern, BlockOptions, EncoderDecoderConfig):
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
    norm: Norm = Field(
        "post",
        description="Norm after the residual (paper), before the sub-layer, on both sides of it, or on its output",
    )
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
        self.blocks().kinds_of_layers(self.encoder_layers, causal=False)
        self.blocks().kinds_of_layers(self.decoder_layers, causal=True)
        if self.share_embeddings and self.source_vocab_size != self.target_vocab_size:
            raise ConfigError(
                f"share_embeddings needs one joint vocabulary, but source_vocab_size is {self.source_vocab_size} and "
                f"target_vocab_size is {self.target_vocab_size}"
            )
        return self

    def blocks(self) -> BlockSettings:
        """Return what the layers are built from."""
        return BlockSettings.of(self)


_SERVED_VALUES = {
    "norm": ("post", "pre"),
    "feed_forward": ("relu", "gelu", "silu", "glu", "reglu", "geglu", "swiglu"),
}
_SERVED_FIELDS = (
    TransformerConfig.model_fields.keys() - BlockOptions.model_fields.keys() - LayerPattern.model_fields.keys()
)
"""What every engine and every export reads, or refuses itself; of any other field they know the default alone."""


def unserved(config: TransformerConfig) -> dict[str, Any]:
    """Return the settings that only PyTorch and graphs of ONNX know, each with the value that others know."""
    found = {}
    for name, item in TransformerConfig.model_fields.items():
        default = item.get_default(call_default_factory=True)
        known = _SERVED_VALUES.get(name, () if name in _SERVED_FIELDS else (default,))
        if known and getattr(config, name) not in known:
            found[name] = default
    return found


def require_served(config: TransformerConfig, what: str, instead: str) -> None:
    """Check that a model has no settings which PyTorch and graphs of ONNX alone know.

    Args:
        config: Of the model.
        what: What would read it: the beginning of a sentence, such as "Export to CTranslate2".
        instead: What a user can do else: a sentence.

    Raises:
        ConfigError: It has some; all are named.
    """
    if found := unserved(config):
        told = ", ".join(f"{name} {getattr(config, name)}" for name in found if name != "kinds")
        raise ConfigError(f"{what} takes no model with {told}, which PyTorch and ONNX alone compute. {instead}")


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
