"""The weights of a Transformer under the names of Hugging Face's Marian, and the order of its features.

Marian adds a *concatenated* sinusoid to the embeddings (all sines, then all cosines), the paper an *interleaved* one.
Both hold the same numbers in another order, ``concatenated = P interleaved`` for a permutation ``P``, and a
Transformer does not mind the order of its features as long as all parts agree on it. With ``x' = P x`` for every
vector of the residual stream::

    embedding            P (e sqrt(E) + pe) = (P e) sqrt(E) + P pe        columns of the embeddings
    reads  (q, k, v, W1) W x + b     = (W P^T) x' + b                     columns of the weight
    writes (output, W2)  P (W y + b) = (P W) y + P b                      rows of weight and bias
    layer norm           P (g * n(x) + b) = (P g) * n(x') + P b           mean and variance know no order
    logits               W x         = (W P^T) x'                         columns of the output matrix

so a model trained with the paper's order becomes one of Marian's order whose logits are the same sums in another
order of their terms: equal but for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from locant.transformer import TransformerConfig


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
