"""A CTranslate2 Transformer, the file ``model.bin``, as the parts of a Locant model.

CTranslate2 has more kinds of Transformer than Locant; what cannot be expressed is refused by the name of its variable.
The file is little-endian: the format's version, the kind of model and its revision, variables (name, shape, type,
values), then other names of variables. Source of the format, the names and the defaults:
https://github.com/OpenNMT/CTranslate2, ``model_spec.py``, ``src/models/model.cc``, ``src/models/transformer.cc``,
``src/layers/transformer.cc`` and ``src/layers/attention.cc``.
"""

from __future__ import annotations

import io
import math
import struct
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from locant.errors import CheckpointError, ConfigError
from locant.interop.assembling import Parts, sinusoid_of, stacked
from locant.translation.ctranslate2 import ACTIVATIONS, value_names
from locant.translation.module_names import module_names

_TYPES = (torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)
"""Types of values by their number in the file."""
_VERSIONS = range(4, 7)
"""Of the format; before 4 it did not say the types."""
_HEADS = {"TransformerSpec": 8, "TransformerBase": 8, "TransformerBig": 16}
"""Kinds of models, and their heads where the weights do not say how many."""
_REVISIONS = range(2, 8)
_SINUSOIDS: tuple[dict[str, Any], ...] = (
    {"dialect": "paper"},
    {"dialect": "concatenated"},
    {"dialect": "tensor2tensor", "start": 1},
    {"dialect": "tensor2tensor", "start": 2},
    {"dialect": "tensor2tensor"},
)
_OWN_SINUSOID = _SINUSOIDS[2]
"""What CTranslate2 computes where the weights hold no positions."""

_HARMLESS = {
    *("alignment_layer", "alignment_heads", "embeddings_merge", "alibi_use_positive_positions", "scale_alibi"),
    *("unk_token", "bos_token", "eos_token", "with_source_bos", "with_source_eos", "with_target_bos"),
    "user_decoder_start_tokens",
}
"""What says nothing about a translation, by the last part of its name."""
_ABSENT = ("alibi", "multi_query_attention")  # and where these are 0


@dataclass
class CTranslate2Weights:
    """The content of ``model.bin``.

    Attributes:
        kind: What CTranslate2 calls this kind of model.
        version: Of the format.
        revision: Of the names of the variables.
        variables: Values by name, float32, but attributes (scalars and texts) as they are; those with several names
            are there under each. Weights of int8 and int16 are multiplied out.
        quantized: The types among the weights that hold less than float32.
    """

    kind: str
    version: int
    revision: int
    variables: dict[str, Tensor] = field(default_factory=dict)
    quantized: set[str] = field(default_factory=set)


def read_weights(content: bytes, what: str) -> CTranslate2Weights:
    """Return what a ``model.bin`` holds.

    Args:
        content: Of the file.
        what: Its name in messages.

    Raises:
        CheckpointError: It is damaged, or of a version that is not known.
    """
    file = io.BytesIO(content)

    def number(form: str = "I") -> int:
        return int(struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))[0])

    def text() -> str:
        return file.read(number("H")).removesuffix(b"\0").decode("utf-8")

    def variable() -> Tensor:
        shape = [number() for _ in range(number("B"))]
        kind = _TYPES[number("B")]
        return torch.frombuffer(bytearray(file.read(number())), dtype=kind).reshape(shape)

    try:
        version = number()
        if version not in _VERSIONS:
            raise CheckpointError(
                f"{what} has version {version} of CTranslate2's format; versions {_VERSIONS[0]} to {_VERSIONS[-1]} are "
                "read. Convert the model again with a newer CTranslate2."
            )
        found = CTranslate2Weights(text(), version, number())
        stored: dict[str, Tensor] = {}
        for _ in range(number()):
            name = text()
            stored[name] = variable()
        aliases = {text(): text() for _ in range(number())}
        if file.read(1):
            raise ValueError("more follows its end")
        for name, tensor in stored.items():
            if name.endswith("_scale") and name.removesuffix("_scale") in stored:
                continue
            if name.endswith("weight") and tensor.dtype != torch.float32:
                found.quantized.add(str(tensor.dtype).removeprefix("torch."))
            tensor = tensor.float() if tensor.is_floating_point() else tensor
            if (scale := stored.get(f"{name}_scale")) is not None:
                # Integers are the weights times a scale for each row, or for all.
                tensor = tensor / (scale[:, None] if scale.ndim else scale).float()
            found.variables[name] = tensor
        found.variables |= {alias: found.variables[name] for alias, name in aliases.items()}
    except (struct.error, ValueError, KeyError, IndexError, RuntimeError) as error:
        raise CheckpointError(f"{what} is damaged: {error}") from None
    return found


class _Variables:
    """The variables of a model, of which those that nobody asked for are refused in the end."""

    def __init__(self, weights: CTranslate2Weights, what: str) -> None:
        self._left = dict(weights.variables)
        self._shared: set[str] = set()
        self._what = what

    def optional(self, name: str) -> Tensor | None:
        return self._left.pop(name, None)

    def take(self, *names: str) -> Tensor:
        """Take a variable by the first of its names that is there."""
        name = next((name for name in names if name in self._left), names[-1])
        if name not in self._left:
            raise CheckpointError(f"{self._what} lacks the variable '{name}'.")
        return self._left.pop(name).float()

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
            if not (name in self._shared or last in _HARMLESS or (last in _ABSENT and not value.any())):
                raise ConfigError(
                    f"{self._what} holds '{name}', which Locant's Transformer does not have, so the model cannot be "
                    "imported."
                )


def read_transformer(weights: CTranslate2Weights, what: str) -> tuple[Parts, bool, int | None]:
    """Return a model.

    Args:
        weights: As they are stored.
        what: The file, for messages.

    Returns:
        Its parts, whether the decoder reads zeros before its first token, whatever that is, and the rows of the tables
        of positions, ``None`` where there is no end.

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
    source = left.take("encoder/embeddings_0/weight", "encoder/embeddings/weight")
    if left.has("encoder/embeddings_1/"):
        raise ConfigError(f"{what} reads several features of each source token; Locant reads the tokens alone.")
    target, output = left.take("decoder/embeddings/weight"), left.take("decoder/projection/weight")
    width = source.shape[1]
    state: dict[str, Tensor] = {}
    options: dict[str, Any] = {"d_model": width}
    scales, rows = [], []
    for stack in ("encoder", "decoder"):
        layers = 0
        while left.has(f"{stack}/layer_{layers}/"):
            layers += 1
        if not layers:
            raise CheckpointError(f"{what} holds no layers of the {stack}.")
        own, scale, table = _stack_options(left, weights, stack, layers, width, what)
        for name, value in own.items():
            if options.setdefault(name, value) != value:
                raise ConfigError(
                    f"The model's {name.replace('_', ' ')} is {options[name]} in the encoder but {value} in the "
                    "decoder; Locant has one for both."
                )
        options[f"{stack}_layers"] = layers
        gated = ACTIVATIONS[own["feed_forward"]][1]
        for module in module_names(stack, layers, norm=own["norm"], gated=gated):
            weight, bias = value_names(module)
            matrices = [left.take(f"{name}/{weight}") for name in module.ctranslate2]
            # A linear map without bias has zeros.
            added = [left.optional(f"{name}/{bias}") for name in module.ctranslate2]
            biases = [
                torch.zeros(matrix.shape[:1]) if one is None else one
                for matrix, one in zip(matrices, added, strict=True)
            ]
            state[f"{module.locant}.weight"] = stacked(matrices, what)
            state[f"{module.locant}.bias"] = stacked(biases, what)
        # Locant multiplies embeddings by sqrt(E) whatever the model.
        scales.append(scale / math.sqrt(width))
        rows += [] if table is None else [table]
    options["d_ff"] = state["encoder.layers.0.feed_forward.outer.weight"].shape[-1]
    output_bias = left.optional("decoder/projection/bias")
    zero_start = bool(left.number("decoder/start_from_zero_embedding", 0))
    left.end()
    source, target = (
        matrix if scale == 1 else matrix * scale for matrix, scale in zip((source, target), scales, strict=True)
    )
    output_bias = torch.zeros(len(output)) if output_bias is None else output_bias.float()
    if output_bias.shape != (len(output),) or len(target) != len(output):
        raise CheckpointError(f"{what} is damaged: embeddings, projection and its bias differ in their rows.")
    return Parts(options, source, target, output, output_bias, state.__getitem__), zero_start, min(rows, default=None)


def _stack_options(
    left: _Variables, weights: CTranslate2Weights, stack: str, layers: int, width: int, what: str
) -> tuple[dict[str, Any], float, int | None]:
    """Return what a stack says of the configuration, the factor of its embeddings, and its number of positions."""
    activation = int(left.number(f"{stack}/activation", 0))
    gated = left.has(f"{stack}/layer_0/ffn/linear_0_noact/")
    kind = next((name for name, each in ACTIVATIONS.items() if each == (activation, gated)), None)
    if kind is None:
        raise ConfigError(
            f"The activation of the model in {what} has CTranslate2's number {activation}, which Locant's feed-forward "
            f"does not have{' with gates' if gated else ''}."
        )
    scale = left.optional(f"{stack}/scale_embeddings")
    older = left.optional(f"{stack}/embeddings/multiply_by_sqrt_depth")
    scale = older if scale is None else scale
    factor = math.sqrt(width)
    if scale is not None and scale.numel() == 1 and not (scale.dtype == torch.int8 and bool(scale)):
        factor = 1.0 if scale.dtype == torch.int8 else float(scale)
    heads = int(left.number(f"{stack}/num_heads", _HEADS[weights.kind]))
    rotation = _rotation(left, stack, layers, width // max(1, heads), what)
    table = left.optional(f"{stack}/position_encodings/encodings")
    plain = _OWN_SINUSOID if table is None or rotation else sinusoid_of(table.float(), _SINUSOIDS)
    if plain is None:
        raise ConfigError(
            f"The positions of the {stack} in {what} are no sinusoid of Vaswani et al. 2017, fairseq or tensor2tensor, "
            "and no rotation; models with other positions cannot be imported."
        )
    options = {
        "norm": "pre" if left.number(f"{stack}/pre_norm", 1) else "post",
        "heads": heads,
        "feed_forward": kind,
        "position": "rotary" if rotation else "sinusoidal",
        "position_options": rotation or plain,
    }
    return options, factor, None if table is None or not table.ndim else len(table)


def _rotation(left: _Variables, stack: str, layers: int, head_dim: int, what: str) -> dict[str, Any] | None:
    """Return the options of Locant's rotary positions that a stack has, ``None`` where it does not rotate."""
    found = [left.attributes(f"{stack}/layer_{index}/self_attention/rotary_") for index in range(layers)]
    values = found[0]
    if any(other != values for other in found):
        raise ConfigError(f"The layers of the {stack} in {what} rotate differently; Locant has one rotation for all.")
    if "rotary_dim" not in values:
        return None
    if values.get("rotary_scaling_type", -1) != -1:
        raise ConfigError(
            f"The rotary positions of the {stack} in {what} have a scaling; models with one cannot be imported."
        )
    return {
        "base": values.get("rotary_base", 10000.0),
        "rotary_dim": values["rotary_dim"] or head_dim,  # 0 means the whole head
        "layout": "interleaved" if values.get("rotary_interleave", 1) else "half",
    }
