"""The loss of predicting the next token in one pass over a long text, in memory that does not hold all logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

_TOKENS_AT_ONCE = 512
_PROBE = 8
_TOLERANCE = 1e-3


def next_token_loss(model: Any, tokens: Tensor) -> Tensor:
    """Return the mean negative log-likelihood of all tokens but the first, in nats; it can be differentiated.

    The text is one pass without cached keys, so that scalings that follow its length are meant as they were published.
    Logits of a vocabulary of 50,000 for 32,768 tokens would take 6 GB; they are computed and forgotten in parts, for
    models whose logits are the output layer's alone. Others (with a cap or a scale behind it) are run as a whole.

    Args:
        model: A causal language model of transformers.
        tokens: Ids ``[1, L]``, with ``L`` at least 2.
    """
    inputs, targets = tokens[:, :-1], tokens[0, 1:]
    head = model.get_output_embeddings()
    if head is None or not _is_plain(model, head, tokens[:, :_PROBE]):
        logits = model(input_ids=inputs, use_cache=False).logits[0]
        return functional.cross_entropy(logits.float(), targets)
    hidden: Any = _body(model)(input_ids=inputs, use_cache=False).last_hidden_state[0]
    total = hidden.new_zeros((), dtype=torch.float32)
    for part, wanted in zip(torch.split(hidden, _TOKENS_AT_ONCE), torch.split(targets, _TOKENS_AT_ONCE), strict=True):
        total = total + checkpoint(_part_loss, head, part, wanted, use_reentrant=False)
    return total / len(targets)


def _part_loss(head: Callable[[Tensor], Tensor], hidden: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(head(hidden).float(), targets, reduction="sum")


def _body(model: Any) -> Any:
    return model.get_decoder()


@torch.no_grad()
def _is_plain(model: Any, head: Any, tokens: Tensor) -> bool:
    """Whether the logits of a model are what its output layer makes of the last hidden states."""
    whole = model(input_ids=tokens, use_cache=False).logits.float()
    parts = head(_body(model)(input_ids=tokens, use_cache=False).last_hidden_state).float()
    return bool((whole - parts).abs().max() <= _TOLERANCE * whole.abs().max())
