"""Contenders of the translation task: a Transformer with each scheme, or the recurrent model it replaced."""

from __future__ import annotations

from typing import Any

import torch

from locant.errors import ConfigError, nearest
from locant.lab.contenders import check_scheme, position_fields, split_contender
from locant.lab.models import share_weights
from locant.transformer import (
    EncoderDecoder,
    RNNConfig,
    Transformer,
    TransformerConfig,
    build_model,
    count_parameters,
)

RECURRENT = "rnn"
"""The contender that is no scheme: additive attention between recurrent networks (Bahdanau et al. 2015)."""

_OWN_OPTIONS = ("cell", "encoder_layers", "decoder_layers", "hidden_size", "dropout")


def is_recurrent(contender: str) -> bool:
    """Whether a contender is the recurrent model."""
    return split_contender(contender)[0] == RECURRENT


def check_translator(contender: str) -> None:
    """Raise ConfigError, naming the nearest known one, unless name and options are a scheme's or ``rnn``'s."""
    name, options = split_contender(contender)
    if name != RECURRENT:
        check_scheme(contender)
        return
    for option in options:
        if option not in _OWN_OPTIONS:
            raise ConfigError(
                f"The contender '{RECURRENT}' has no option '{option}'.{nearest(option, _OWN_OPTIONS)} "
                f"Known: {', '.join(_OWN_OPTIONS)}."
            )
    RNNConfig.parse({"source_vocab_size": 1, "target_vocab_size": 1, **options}, contender)


def build_translator(
    contender: str, base: TransformerConfig, seed: int, *, trained: int, longest: int
) -> EncoderDecoder[Any]:
    """Return an untrained model whose weights are those of every other contender wherever shapes allow.

    Args:
        contender: Name and options of a scheme, or ``rnn``. The recurrent model has the parameters of the Transformer
            without positions in number, by its ``hidden_size``, unless that is given.
        base: The Transformer; its positions do not count.
        seed: Of the initial weights.
        trained: Longest training sentence, in tokens.
        longest: Longest test sentence or translation, in tokens.

    Raises:
        ConfigError: The scheme cannot be built for these dimensions.
    """
    without = base.model_copy(update={"position": "none", "position_options": {}})
    torch.manual_seed(seed)
    if is_recurrent(contender):
        return build_model(_recurrent(without, split_contender(contender)[1]))
    plain = Transformer(without)
    position = position_fields(contender, head_dim=base.d_model // base.heads, trained=trained, longest=longest)
    model = Transformer(TransformerConfig.parse({**without.to_dict(), **position}, contender))
    share_weights(plain, model)
    return model


def _recurrent(transformer: TransformerConfig, options: dict[str, Any]) -> RNNConfig:
    shared = ("source_vocab_size", "target_vocab_size", "d_model", "dropout", "share_embeddings", "tie_output")
    fields = {**{name: getattr(transformer, name) for name in shared}, **options}
    if "hidden_size" in options:
        return RNNConfig.parse(fields, RECURRENT)
    wanted = _size(transformer)
    low, high = 1, 2  # the largest hidden size that does not exceed the Transformer lies from low to below high
    while _size(RNNConfig.parse({**fields, "hidden_size": high}, RECURRENT)) <= wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _size(RNNConfig.parse({**fields, "hidden_size": middle}, RECURRENT)) <= wanted:
            low = middle
        else:
            high = middle
    return RNNConfig.parse({**fields, "hidden_size": low}, RECURRENT)


def _size(config: TransformerConfig | RNNConfig) -> int:
    with torch.device("meta"):
        return count_parameters(build_model(config))
