"""A Locant model of the parts of another program's, and its output bias, which Locant does not have, folded exactly.

Others add a bias ``b [V]`` to their logits. The output reads what the last layer norm writes::

    h = g * n + beta        with  sum_i n_i = 0, because a layer norm takes the mean away

so with ``u_i = 1 / g_i`` the sum ``u . h = sum_i beta_i / g_i`` is the same number for every input. Nothing but the
output reads this norm, so its shift is free: ``beta' = beta + t g`` gives ``h' = h + t g`` and
``u . h' = sum_i beta_i / g_i + t E =: s``, a constant that ``t`` keeps away from 0. Then::

    W' = W + a u^T,   a = (b - t W g) / s     =>     W' h' = W h + t W g + a s = W h + b

The output matrix is then no longer that of the embeddings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from locant.errors import CheckpointError, ConfigError
from locant.models.config import TransformerConfig
from locant.models.model_folder import skip_init
from locant.models.transformer import Transformer
from locant.positions.embeddings.sinusoidal import sinusoid_table
from locant.text.tokenizer import BOS, PAD

_GREATEST_CONDITION = 100.0
"""Rounding errors of the bias are at most this many times those of float32."""

FOLDED = "The bias of the logits was folded into the output matrix, which is now apart from the embeddings."


@dataclass(frozen=True)
class Parts:
    """What another program's model is made of, its rows as they are there.

    Attributes:
        options: Of Locant's configuration, without the vocabularies.
        source: Embedding ``[V_source, E]``, float32, as it is before it is multiplied with ``sqrt(E)``.
        target: ``[V_target, E]``.
        output: ``[V_target, E]``.
        bias: Of the output, ``[V_target]``; ``-inf`` for what is never written.
        weight: Returns every other weight by its name in a Locant model; raises CheckpointError where it is missing.
    """

    options: dict[str, Any]
    source: Tensor
    target: Tensor
    output: Tensor
    bias: Tensor
    weight: Callable[[str], Tensor]


def assemble(parts: Parts, source_rows: list[int], target_rows: list[int], what: str) -> Transformer:
    """Return the Locant model with the same logits, in evaluation mode, float32, on the CPU.

    Args:
        parts: Of the other model.
        source_rows: Its row of each of Locant's source ids.
        target_rows: Likewise of the target.
        what: The file, for messages.

    Raises:
        ConfigError: Locant cannot express the model, tokens that it may write have no finite bias, or a bias cannot be
            folded into the output.
        CheckpointError: A weight is missing, or has another shape than the others ask for.
    """
    source, bias = parts.source[source_rows], parts.bias[target_rows].clone()
    same = parts.target is parts.source and target_rows == source_rows
    target = source if same else parts.target[target_rows]
    output = target if parts.output is parts.target else parts.output[target_rows]
    # Locant never writes these two, whatever their bias.
    bias[[index for index in (PAD, BOS) if bias[index] == -torch.inf]] = 0.0
    if not bool(bias.isfinite().all()):
        raise ConfigError(f"{what} never writes some tokens of its vocabulary, which Locant cannot keep a model from.")
    has_bias = bool((bias != 0).any())
    config = TransformerConfig.parse(
        {
            **parts.options,
            "source_vocab_size": len(source),
            "target_vocab_size": len(target),
            "share_embeddings": torch.equal(source, target),
            "tie_output": not has_bias and torch.equal(target, output),
            "start_is_padding": target_rows[PAD] == target_rows[BOS],
        },
        what,
    )
    ready: dict[str, Tensor] = {}
    if has_bias:
        last = f"decoder.layers.{config.decoder_layers - 1}.residuals.2.norm"
        norm = "decoder.norm" if config.norm == "pre" else last
        gain = ready[f"{norm}.weight"] = parts.weight(f"{norm}.weight")
        output, ready[f"{norm}.bias"] = fold_bias(output, bias, gain, parts.weight(f"{norm}.bias"))
    ready |= {"source_embedding.weight": source, "target_embedding.weight": target, "output.weight": output}
    with skip_init():
        model = Transformer(config).eval()
    for name, own in model.state_dict().items():
        found = ready[name] if name in ready else parts.weight(name)
        if own.shape != found.shape:
            raise CheckpointError(
                f"{what} and its weights do not fit each other: {name} is {' x '.join(map(str, found.shape))}, and "
                f"{' x '.join(map(str, own.shape))} was expected."
            )
        own.copy_(found)
    return model


def sinusoid_of(table: Tensor, candidates: Iterable[dict[str, Any]], atol: float = 2e-3) -> dict[str, Any] | None:
    """Return the options of Locant's sinusoid that gives a table ``[rows, E]``, ``None`` where none of them does.

    Args:
        table: For the positions from 0 on.
        candidates: Options.
        atol: Tables that were computed or stored in half precision are off by the default.
    """
    for options in candidates if table.ndim == 2 and not table.shape[1] % 2 else ():
        positions = torch.arange(len(table)) + options.get("start", 0)
        if torch.allclose(table, sinusoid_table(positions, table.shape[1], dialect=options["dialect"]), atol=atol):
            return options
    return None


def stacked(tensors: list[Tensor], what: str) -> Tensor:
    """Return the rows of several tensors in one, float32.

    Raises:
        CheckpointError: They are not of one width.
    """
    if len({(tensor.ndim, tensor.shape[1:]) for tensor in tensors}) > 1 or not tensors[0].ndim:
        raise CheckpointError(f"The weights of {what} are damaged: their shapes do not fit each other.")
    return torch.cat([tensor.float() for tensor in tensors])


def fold_bias(output: Tensor, bias: Tensor, gain: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """Return the output matrix and the shift of the last layer norm that make a bias unnecessary.

    Args:
        output: ``W [V, E]``.
        bias: ``b [V]``.
        gain: ``g [E]`` of the last layer norm.
        shift: ``beta [E]`` of the last layer norm.

    Returns:
        ``W' [V, E]`` and ``beta' [E]``, float32, computed in float64.

    Raises:
        ConfigError: A gain is so close to 0 that the fold would not be exact in float32.
    """
    w, b, g, beta = (tensor.double() for tensor in (output, bias, gain, shift))
    ratio = beta / g
    t = 1.0 if ratio.sum() >= 0 else -1.0
    s = ratio.sum() + t * len(g)
    # Every term of u . h' against their sum; n_i is of size 1.
    condition = float((1 + (ratio + t).abs()).sum() / s.abs())
    if not condition <= _GREATEST_CONDITION:
        raise ConfigError(
            "The model adds a bias to its logits, which Locant folds into the output matrix; but the last layer norm "
            "has gains so close to 0 that this would not be exact. The model cannot be imported."
        )
    a = (b - t * (w @ g)) / s
    return (w + torch.outer(a, 1 / g)).float(), (beta + t * g).float()
