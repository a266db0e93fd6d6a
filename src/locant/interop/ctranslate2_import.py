"""A CTranslate2 Transformer as a Locant model: configuration and weights.

CTranslate2 has more kinds of Transformer than Locant; what cannot be expressed is refused by the name of its variable.
Source of the names and defaults: https://github.com/OpenNMT/CTranslate2, ``src/layers/transformer.cc``,
``src/layers/attention.cc`` and ``src/models/transformer.cc``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from locant.errors import CheckpointError, ConfigError
from locant.interop.ctranslate2_weights import CTranslate2Weights
from locant.interop.marian_weights import fold_bias
from locant.models.config import TransformerConfig
from locant.models.model_folder import skip_init
from locant.models.transformer import Transformer
from locant.positions import RotaryConfig
from locant.positions.embeddings.sinusoidal import sinusoid_table
from locant.positions.scaling import Unscaled
from locant.rotary_configs import read_ctranslate2
from locant.text.tokenizer import BOS, PAD

_HEADS = {"TransformerSpec": 8, "TransformerBase": 8, "TransformerBig": 16}
"""Kinds of models, and their heads where the weights do not say how many."""
_REVISIONS = range(2, 8)
_ACTIVATIONS = {0: "relu", 2: "silu", 3: "gelu"}
_GATED = {0: "reglu", 2: "swiglu", 3: "geglu", 6: "glu"}
_ACTIVATION_NAMES = ("ReLU", "GELU by tanh", "SiLU", "GELU", "GELU by sigmoid", "tanh", "sigmoid")
_SINUSOIDS: tuple[dict[str, Any], ...] = (
    {"dialect": "paper"},
    {"dialect": "concatenated"},
    {"dialect": "tensor2tensor", "start": 1},
    {"dialect": "tensor2tensor", "start": 2},
    {"dialect": "tensor2tensor"},
)
_OWN_SINUSOID = _SINUSOIDS[2]
"""What CTranslate2 computes where the weights hold no positions."""

# What says nothing about a translation, by the last part of its name, and what it may be otherwise.
_HARMLESS = {
    "alignment_layer": None,
    "alignment_heads": None,
    "embeddings_merge": None,
    "alibi_use_positive_positions": None,
    "scale_alibi": None,
    "alibi": 0,
    "multi_query_attention": 0,
    "unk_token": None,
    "bos_token": None,
    "eos_token": None,
    "with_source_bos": None,
    "with_source_eos": None,
    "with_target_bos": None,
    "user_decoder_start_tokens": None,
}


@dataclass(frozen=True)
class Rows:
    """Where the special tokens of a CTranslate2 model stand in its vocabularies.

    Attributes:
        source: The row of each of Locant's source ids.
        target: Likewise of the target.
    """

    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class ReadTransformer:
    """A CTranslate2 Transformer whose weights are named, before its rows are put in another order.

    Attributes:
        options: Of Locant's configuration, without the vocabularies.
        state: Weights by their names in a Locant model, without embeddings and output.
        source_embedding: ``[V_source, E]``, as the model adds it to positions but for the factor of ``sqrt(E)``.
        target_embedding: ``[V_target, E]``.
        output: ``[V_target, E]``.
        bias: Of the output, ``[V_target]``; ``-inf`` for what is never written.
        zero_start: Whether the decoder reads zeros before its first token, whatever that is.
        positions: Rows of the tables of positions, or ``None`` where there is no end.
    """

    options: dict[str, Any]
    state: dict[str, Tensor]
    source_embedding: Tensor
    target_embedding: Tensor
    output: Tensor
    bias: Tensor
    zero_start: bool
    positions: int | None


class _Variables:
    """The variables of a model, of which those that nobody asked for are refused in the end."""

    def __init__(self, weights: CTranslate2Weights, what: str) -> None:
        self._left = dict(weights.variables)
        self._shared: set[str] = set()
        self._what = what

    def optional(self, name: str) -> Tensor | None:
        return self._left.pop(name, None)

    def take(self, name: str) -> Tensor:
        found = self.optional(name)
        if found is None:
            raise CheckpointError(f"{self._what} lacks the variable '{name}'.")
        return found.float()

    def number(self, name: str, default: float) -> float:
        """Return an attribute of a stack; older models have one for both, without the stack's name."""
        shared = name.partition("/")[2]
        self._shared.add(shared)
        values = [one for one in (self.optional(name), self._left.get(shared)) if one is not None and one.numel() == 1]
        return float(values[0]) if values else default

    def attributes(self, prefix: str) -> dict[str, Any]:
        """Take the attributes whose names begin so, as plain values, by the last part of their names."""
        names = [name for name in self._left if name.startswith(prefix)]
        return {name.rpartition("/")[2]: self._left.pop(name).tolist() for name in names}

    def has(self, prefix: str) -> bool:
        return any(name.startswith(prefix) for name in self._left)

    def end(self) -> None:
        for name, value in sorted(self._left.items()):
            last = name.rpartition("/")[2]
            allowed = _HARMLESS.get(last, math.nan)
            if name in self._shared or allowed is None or (value.numel() == 1 and float(value) == allowed):
                continue
            raise ConfigError(
                f"{self._what} holds '{name}', which Locant's Transformer does not have, so the model cannot be "
                "imported."
            )


def read_transformer(weights: CTranslate2Weights, what: str) -> ReadTransformer:
    """Return the parts of a model.

    Args:
        weights: As they are stored.
        what: The file, for messages.

    Raises:
        ConfigError: Locant cannot express the model; the message says why.
        CheckpointError: A variable is missing.
    """
    if weights.kind not in _HEADS or weights.revision not in _REVISIONS:
        raise ConfigError(
            f"{what} holds a model of the kind {weights.kind}, revision {weights.revision}; TransformerSpec of the "
            f"revisions {_REVISIONS[0]} to {_REVISIONS[-1]} can be imported."
        )
    left = _Variables(weights, what)
    source = left.optional("encoder/embeddings_0/weight")
    source = (left.take("encoder/embeddings/weight") if source is None else source).float()
    if left.has("encoder/embeddings_1/"):
        raise ConfigError(f"{what} reads several features of each source token; Locant reads the tokens alone.")
    target, output = left.take("decoder/embeddings/weight"), left.take("decoder/projection/weight")
    width = source.shape[-1]
    state: dict[str, Tensor] = {}
    about: dict[str, list[Any]] = {}
    layers = {}
    for stack in ("encoder", "decoder"):
        layers[stack] = sum(left.has(f"{stack}/layer_{index}/") for index in range(_most_layers(weights, stack)))
        if not layers[stack]:
            raise CheckpointError(f"{what} holds no layers of the {stack}.")
        own = _stack_options(left, weights, stack, width, what)
        for name, value in own.items():
            about.setdefault(name, []).append(value)
        for index in range(layers[stack]):
            _read_layer(left, state, stack, index, gated=own["feed_forward"] in _GATED.values())
        if own["norm"] == "pre":
            _read_norm(left, state, f"{stack}/layer_norm", f"{stack}.norm")
    scales = about.pop("scale")
    positions = about.pop("positions")
    for name, (first, second) in about.items():
        if first != second:
            raise ConfigError(
                f"The model's {name.replace('_', ' ')} is {first} in the encoder but {second} in the decoder; Locant "
                "has one for both."
            )
    inner = state["encoder.layers.0.feed_forward.outer.weight"].shape[-1]
    bias = left.optional("decoder/projection/bias")
    zero_start = bool(left.number("decoder/start_from_zero_embedding", 0))
    left.end()
    options = {
        **{name: values[0] for name, values in about.items()},
        "encoder_layers": layers["encoder"],
        "decoder_layers": layers["decoder"],
        "d_model": width,
        "d_ff": inner,
    }
    # Locant multiplies embeddings by sqrt(E) whatever the model.
    root = math.sqrt(width)
    return ReadTransformer(
        options,
        state,
        source if scales[0] == root else source * (scales[0] / root),
        target if scales[1] == root else target * (scales[1] / root),
        output,
        torch.zeros(len(output)) if bias is None else bias.float(),
        zero_start,
        min((rows for rows in positions if rows is not None), default=None),
    )


def build_transformer(read: ReadTransformer, rows: Rows, what: str) -> Transformer:
    """Return the Locant model with the same logits.

    Args:
        read: The parts of the model.
        rows: Its row of each of Locant's ids.
        what: The file, for messages.

    Raises:
        ConfigError: Tokens that Locant may write have no finite bias, or a bias cannot be folded into the output.
        CheckpointError: A weight has another shape than the others ask for.
    """
    source, target = read.source_embedding[rows.source], read.target_embedding[rows.target]
    output, bias = read.output[rows.target], read.bias[rows.target].clone()
    # Locant never writes these two, whatever their bias.
    silent = [index for index in (PAD, BOS) if bias[index] == -torch.inf]
    bias[silent] = 0.0
    if not bool(bias.isfinite().all()):
        raise ConfigError(f"{what} never writes some tokens of its vocabulary, which Locant cannot keep a model from.")
    has_bias = bool((bias != 0).any())
    config = TransformerConfig.parse(
        {
            **read.options,
            "source_vocab_size": len(source),
            "target_vocab_size": len(target),
            "share_embeddings": torch.equal(source, target),
            "tie_output": not has_bias and torch.equal(target, output),
            "start_is_padding": rows.target[PAD] == rows.target[BOS],
        },
        what,
    )
    state = dict(read.state)
    if has_bias:
        last = f"decoder.layers.{config.decoder_layers - 1}.residuals.2.norm"
        norm = "decoder.norm" if config.norm == "pre" else last
        output, state[f"{norm}.bias"] = fold_bias(output, bias, state[f"{norm}.weight"], state[f"{norm}.bias"])
    state |= {"source_embedding.weight": source, "target_embedding.weight": target, "output.weight": output}
    with skip_init():
        model = Transformer(config).eval()
    for name, own in model.state_dict().items():
        if name not in state or own.shape != state[name].shape:
            found = " x ".join(map(str, state[name].shape)) if name in state else "absent"
            raise CheckpointError(
                f"{what} is damaged: {name} should be {' x '.join(map(str, own.shape))} and is {found}."
            )
    model.load_state_dict(state)
    return model


def _most_layers(weights: CTranslate2Weights, stack: str) -> int:
    return 1 + sum(name.startswith(f"{stack}/layer_") for name in weights.variables)


def _stack_options(left: _Variables, weights: CTranslate2Weights, stack: str, width: int, what: str) -> dict[str, Any]:
    """Return what a stack says of the configuration, the factor of its embeddings, and its number of positions."""
    activation = int(left.number(f"{stack}/activation", 0))
    gated = left.has(f"{stack}/layer_0/ffn/linear_0_noact/")
    kinds = _GATED if gated else _ACTIVATIONS
    if activation not in kinds:
        named = _ACTIVATION_NAMES[activation] if activation < len(_ACTIVATION_NAMES) else str(activation)
        raise ConfigError(
            f"The activation of the model in {what} is {named}, which Locant's feed-forward does not have"
            f"{' with gates' if gated else ''}."
        )
    scale = left.optional(f"{stack}/scale_embeddings")
    if scale is None:
        scale = left.optional(f"{stack}/embeddings/multiply_by_sqrt_depth")
    if scale is None or (scale.dtype == torch.int8 and bool(scale)):
        factor = math.sqrt(width)
    else:
        factor = 1.0 if scale.dtype == torch.int8 else float(scale)
    heads = int(left.number(f"{stack}/num_heads", _HEADS[weights.kind]))
    rotation = _rotation(left, stack, width // heads, what)
    encodings = left.optional(f"{stack}/position_encodings/encodings")
    if rotation is None:
        options = _OWN_SINUSOID if encodings is None else _sinusoid(encodings.float(), stack, what)
    else:
        options = rotation
    return {
        "norm": "pre" if left.number(f"{stack}/pre_norm", 1) else "post",
        "heads": heads,
        "feed_forward": kinds[activation],
        "position": "sinusoidal" if rotation is None else "rotary",
        "position_options": options,
        "scale": factor,
        "positions": None if encodings is None else len(encodings),
    }


def _rotation(left: _Variables, stack: str, head_dim: int, what: str) -> dict[str, Any] | None:
    """Return the options of Locant's rotary positions that a stack has, ``None`` where it does not rotate."""
    found: list[RotaryConfig | None] = []
    while left.has(f"{stack}/layer_{len(found)}/"):
        values = left.attributes(f"{stack}/layer_{len(found)}/self_attention/rotary_")
        if "rotary_interleave" in values:
            values["rotary_interleave"] = bool(values["rotary_interleave"])  # the file has a number for it
        found.append(read_ctranslate2(values, head_dim).config if "rotary_dim" in values else None)
    config = found[0] if found else None
    if any(other != config for other in found):
        raise ConfigError(f"The layers of the {stack} in {what} rotate differently; Locant has one rotation for all.")
    if config is None:
        return None
    if not isinstance(config.scaling, Unscaled):
        raise ConfigError(
            f"The rotary positions of the {stack} in {what} have the scaling '{config.scaling.name}'; models with one "
            "cannot be imported."
        )
    return {"base": config.base, "rotary_dim": config.rotary_dim, "layout": config.layout}


def _sinusoid(table: Tensor, stack: str, what: str) -> dict[str, Any]:
    """Return the options of Locant's sinusoid that gives a table ``[rows, E]``."""
    if table.ndim == 2:
        for options in _SINUSOIDS:
            positions = torch.arange(len(table)) + options.get("start", 0)
            expected = sinusoid_table(positions, table.shape[1], dialect=options["dialect"])
            # Tables that were computed or stored in half precision are off by that much.
            if torch.allclose(table, expected, atol=2e-3):
                return options
    raise ConfigError(
        f"The positions of the {stack} in {what} are no sinusoid of Vaswani et al. 2017, fairseq or tensor2tensor, and "
        "no rotation; models with other positions cannot be imported."
    )


def _read_norm(left: _Variables, state: dict[str, Tensor], name: str, own: str) -> None:
    state[f"{own}.weight"], state[f"{own}.bias"] = left.take(f"{name}/gamma"), left.take(f"{name}/beta")


def _read_linear(left: _Variables, state: dict[str, Tensor], names: list[str], own: str) -> None:
    """Read a linear map, or several whose rows are stacked; one without bias has zeros."""
    weights = [left.take(f"{name}/weight") for name in names]
    biases = [left.optional(f"{name}/bias") for name in names]
    state[f"{own}.weight"] = torch.cat(weights)
    state[f"{own}.bias"] = torch.cat(
        [torch.zeros(len(w)) if b is None else b.float() for w, b in zip(weights, biases, strict=True)]
    )


def _read_layer(left: _Variables, state: dict[str, Tensor], stack: str, index: int, *, gated: bool) -> None:
    part, own = f"{stack}/layer_{index}", f"{stack}.layers.{index}"
    sublayers = ["self_attention", *(["attention"] if stack == "decoder" else []), "ffn"]
    for place, name in enumerate(sublayers):
        _read_norm(left, state, f"{part}/{name}/layer_norm", f"{own}.residuals.{place}.norm")
    _read_linear(left, state, [f"{part}/self_attention/linear_0"], f"{own}.self_attention.query_key_value")
    _read_linear(left, state, [f"{part}/self_attention/linear_1"], f"{own}.self_attention.output")
    if stack == "decoder":
        for number, name in enumerate(("query", "key_value", "output")):
            _read_linear(left, state, [f"{part}/attention/linear_{number}"], f"{own}.cross_attention.{name}")
    inner = [f"{part}/ffn/linear_0", *([f"{part}/ffn/linear_0_noact"] if gated else [])]
    _read_linear(left, state, inner, f"{own}.feed_forward.inner")
    _read_linear(left, state, [f"{part}/ffn/linear_1"], f"{own}.feed_forward.outer")
