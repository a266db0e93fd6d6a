"""An output bias, folded exactly into a model that has none.

Marian adds a bias ``b [V]`` to its logits, Locant does not. The output reads what the last layer norm writes::

    h = g * n + beta        with  sum_i n_i = 0, because a layer norm takes the mean away

so with ``u_i = 1 / g_i`` the sum ``u . h = sum_i beta_i / g_i`` is the same number for every input. Nothing but the
output reads this norm, so its shift is free: ``beta' = beta + t g`` gives ``h' = h + t g`` and
``u . h' = sum_i beta_i / g_i + t E =: s``, a constant that ``t`` keeps away from 0. Then::

    W' = W + a u^T,   a = (b - t W g) / s     =>     W' h' = W h + t W g + a s = W h + b

The output matrix is then no longer that of the embeddings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.models.config import TransformerConfig

_GREATEST_CONDITION = 100.0
"""Rounding errors of the bias are at most this many times those of float32."""


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
            "The model adds a bias to its logits (final_logits_bias), which Locant folds into the output matrix; but "
            "the last layer norm has gains so close to 0 that this would not be exact. The model cannot be imported."
        )
    a = (b - t * (w @ g)) / s
    return (w + torch.outer(a, 1 / g)).float(), (beta + t * g).float()


@dataclass(frozen=True)
class Module:
    """A module with weight and bias.

    Attributes:
        locant: Its name in a Locant model.
        marian: The names of the Marian modules whose rows it stacks.
        stream: Whether its input (``reads``) or its output (``writes``) is the residual stream.
    """

    locant: str
    marian: tuple[str, ...]
    stream: Literal["reads", "writes"]


def modules(config: TransformerConfig) -> Iterator[Module]:
    """Yield every module with weight and bias; the embeddings and the output are not among them.

    Args:
        config: Says how many layers there are, and whether each stack ends in a layer norm (pre-norm, as in M2M-100).
    """
    for stack, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for index in range(layers):
            own, other = f"{stack}.layers.{index}", f"model.{stack}.layers.{index}"
            queries = tuple(f"{other}.self_attn.{name}_proj" for name in "qkv")
            yield Module(f"{own}.self_attention.query_key_value", queries, "reads")
            yield Module(f"{own}.self_attention.output", (f"{other}.self_attn.out_proj",), "writes")
            norms = ["self_attn_layer_norm", "final_layer_norm"]
            if stack == "decoder":
                yield Module(f"{own}.cross_attention.query", (f"{other}.encoder_attn.q_proj",), "reads")
                keys = tuple(f"{other}.encoder_attn.{name}_proj" for name in "kv")
                yield Module(f"{own}.cross_attention.key_value", keys, "reads")
                yield Module(f"{own}.cross_attention.output", (f"{other}.encoder_attn.out_proj",), "writes")
                norms.insert(1, "encoder_attn_layer_norm")
            yield Module(f"{own}.feed_forward.inner", (f"{other}.fc1",), "reads")
            yield Module(f"{own}.feed_forward.outer", (f"{other}.fc2",), "writes")
            for place, norm in enumerate(norms):
                yield Module(f"{own}.residuals.{place}.norm", (f"{other}.{norm}",), "writes")
        if config.norm == "pre":
            yield Module(f"{stack}.norm", (f"model.{stack}.layer_norm",), "writes")


def concatenated_order(dim: int) -> Tensor:
    """Return the permutation ``[E]``: the feature of the paper's order that stands at each place of Marian's."""
    return torch.cat((torch.arange(0, dim, 2), torch.arange(1, dim, 2)))


def to_marian(state: Mapping[str, Tensor], config: TransformerConfig, order: Tensor | None) -> dict[str, Tensor]:
    """Return the weights of a Locant model under Marian's names.

    Args:
        state: The model's ``state_dict``.
        config: Its configuration.
        order: The features' new order ``[E]``, or ``None`` to leave them as they are.

    Returns:
        A tensor for each Marian name; matrices that Marian ties are there once.
    """
    features = torch.arange(config.d_model) if order is None else order
    found: dict[str, Tensor] = {}
    for module in modules(config):
        weight, bias = state[f"{module.locant}.weight"], state[f"{module.locant}.bias"]
        if module.stream == "reads":
            weight = weight[:, features]
        else:
            weight, bias = weight[features], bias[features]
        for name, rows, values in zip(
            module.marian, weight.chunk(len(module.marian)), bias.chunk(len(module.marian)), strict=True
        ):
            found[f"{name}.weight"], found[f"{name}.bias"] = rows, values
    source, target, output = (
        state[f"{name}.weight"][:, features] for name in ("source_embedding", "target_embedding", "output")
    )
    if config.share_embeddings:
        found["model.shared.weight"] = target
    if not (config.share_embeddings and config.tie_output):
        # Where Marian does not tie all three, it ties nothing to the shared matrix and wants copies.
        found["model.encoder.embed_tokens.weight"] = source.clone()
        found["model.decoder.embed_tokens.weight"] = target.clone()
    if not config.tie_output:
        found["lm_head.weight"] = output
    found["final_logits_bias"] = torch.zeros(1, config.target_vocab_size)
    return found


def from_marian(weights: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """Return the weights of Locant's modules from Marian's; embeddings and output are not among them.

    Args:
        weights: A tensor for each Marian name.
        config: The configuration of the Locant model.

    Raises:
        KeyError: A name is missing.
    """
    return {
        f"{module.locant}.{part}": torch.cat([weights[f"{name}.{part}"] for name in module.marian])
        for module in modules(config)
        for part in ("weight", "bias")
    }
