"""Attention weights and hidden states of every layer while a model reads one sentence pair.

The numbers are the model's own: its modules run unchanged and are watched from outside, whatever positional scheme
they use.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from locant.errors import DataError
from locant.models.attention import CrossAttention, SelfAttention
from locant.models.blocks import Decoder, Encoder, Residual
from locant.models.transformer import Transformer
from locant.positions import attend
from locant.text.tokenizer_pair import PLAIN, Prefixes, TokenizerPair


@dataclass(frozen=True)
class StackStates:
    """Hidden states of one stack, float32.

    Attributes:
        words: Token embeddings as the stack receives them (times ``sqrt(E)``), ``[B, L, E]``.
        layers: What the first layer receives (the words with their positions), then the output of every layer, each
            ``[B, L, E]``. The norm at the end of a pre-norm stack has not been applied.
    """

    words: Tensor
    layers: tuple[Tensor, ...]


@dataclass(frozen=True)
class Introspection:
    """What happens inside a model at one sentence pair; every tensor is float32 on the CPU.

    Attributes:
        encoder: Hidden states ``[S, E]``.
        decoder: Hidden states ``[T, E]``.
        encoder_attention: For every layer weights ``[H, S, S]``; each row (a query) sums to 1.
        decoder_attention: For every layer weights ``[H, T, T]``; keys after the query have weight 0.
        cross_attention: For every layer weights ``[H, T, S]``.
    """

    encoder: StackStates
    decoder: StackStates
    encoder_attention: tuple[Tensor, ...]
    decoder_attention: tuple[Tensor, ...]
    cross_attention: tuple[Tensor, ...]


@dataclass(frozen=True)
class TokenPair:
    """A sentence pair as a model reads it.

    Attributes:
        source: Source ids, as the model reads them: closed by EOS, but for some imported ones.
        target: Target ids, opened by BOS, or what else the decoder reads first.
        source_tokens: Tokens of the source ids, to be read by people; ``▁`` represents a space.
        target_tokens: Tokens of the target ids.
    """

    source: list[int]
    target: list[int]
    source_tokens: list[str]
    target_tokens: list[str]


def token_pair(tokenizers: TokenizerPair, source: str, target: str, prefixes: Prefixes = PLAIN) -> TokenPair:
    """Tokenise a sentence pair for :func:`introspect`.

    Args:
        tokenizers: Of the model.
        source: A sentence.
        target: Its translation, by the model or by people.
        prefixes: What is before the two, see :attr:`locant.translation.Translator.prefixes`.
    """
    source_ids = [*prefixes.source, *tokenizers.source.encode([source])[0], *tokenizers.source_end]
    target_ids = [*prefixes.target, *tokenizers.target.encode([target])[0]]
    return TokenPair(
        source_ids,
        target_ids,
        [tokenizers.source.token(index) for index in source_ids],
        [tokenizers.target.token(index) for index in target_ids],
    )


def introspect(model: Transformer, source: Sequence[int], target: Sequence[int]) -> Introspection:
    """Run a model on one sentence pair and return its attention weights and hidden states.

    The weights are those that the model's own attention applies: attention is linear in the values, so that with the
    columns of the identity matrix in place of the values it gives the weights themselves.

    Args:
        model: The model; runs in evaluation mode on the device where it is.
        source: Source ids ``[S]`` as the model reads them, usually closed by EOS.
        target: Target ids ``[T]`` as the decoder reads them, opened by BOS.

    Raises:
        DataError: A side is empty, longer than the model's positions, or has an id outside the vocabulary.

    Example::

        pair = token_pair(translator.tokenizers, "Good morning!", "Guten Morgen!")
        seen = introspect(translator.model, pair.source, pair.target)
        seen.cross_attention[-1][0]  # last layer, first head: one row for every target token
    """
    device = model.target_embedding.weight.device
    rows = torch.tensor([list(source)], device=device), torch.tensor([list(target)], device=device)
    with _watching(model.encoder) as encoder, _watching(model.decoder) as decoder:
        run_without_gradients(model, rows[0], torch.tensor([len(source)], device=device), rows[1])
    return Introspection(
        StackStates(encoder.words[0], tuple(state[0] for state in encoder.states)),
        StackStates(decoder.words[0], tuple(state[0] for state in decoder.states)),
        encoder_attention=tuple(encoder.attention),
        decoder_attention=tuple(decoder.attention),
        cross_attention=tuple(decoder.cross),
    )


def hidden_states(
    model: Transformer, source: Tensor, source_lengths: Tensor, target: Tensor, *, residuals: bool = True
) -> tuple[StackStates, StackStates]:
    """Run a model on a batch and return the hidden states of its encoder and decoder.

    Args:
        model: The model; runs in evaluation mode.
        source: Source ids ``[B, S]``, padded on the right, on the model's device.
        source_lengths: Number of real tokens of each row, ``[B]``.
        target: Target ids ``[B, T]``.
        residuals: Whether the residual connections are in place. Without them every sub-layer passes on only what it
            computes, ``LayerNorm(Sublayer(x))`` with post-norm and ``Sublayer(LayerNorm(x))`` with pre-norm.

    Returns:
        States ``[B, S, E]`` and ``[B, T, E]``, on the CPU; columns beyond a row's length hold nothing of meaning.

    Raises:
        DataError: A side is empty, longer than the model's positions, or has an id outside the vocabulary.
    """
    with ExitStack() as stack:
        encoder = stack.enter_context(_watching(model.encoder, weights=False))
        decoder = stack.enter_context(_watching(model.decoder, weights=False))
        if not residuals:
            for module in model.modules():
                if isinstance(module, Residual):
                    stack.callback(module.register_forward_hook(_drop_residual).remove)
        run_without_gradients(model, source, source_lengths, target)
    return StackStates(encoder.words, tuple(encoder.states)), StackStates(decoder.words, tuple(decoder.states))


def run_without_gradients(model: Transformer, source: Tensor, source_lengths: Tensor, target: Tensor) -> None:
    """Run a model in evaluation mode without gradients; arguments and errors as in :func:`hidden_states`."""
    config, known = model.config, model.max_positions
    for side, ids, size in (("source", source, config.source_vocab_size), ("target", target, config.target_vocab_size)):
        if ids.shape[1] == 0:
            raise DataError(f"The {side} sentence is empty; there is nothing to look at.")
        if known and ids.shape[1] > known:
            raise DataError(f"The {side} sentence has {ids.shape[1]} tokens, but the model knows {known} positions.")
        if int(ids.min()) < 0 or int(ids.max()) >= size:
            raise DataError(f"The {side} sentence has an id outside the vocabulary of {size} tokens.")
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            model.hidden(source, source_lengths, target)
    finally:
        model.train(training)


@dataclass
class _Watched:
    """What hooks have seen of one stack; weights are those of the first row of the batch."""

    words: Tensor = field(default_factory=lambda: torch.empty(0))
    states: list[Tensor] = field(default_factory=list)
    attention: list[Tensor] = field(default_factory=list)
    cross: list[Tensor] = field(default_factory=list)


@contextmanager
def _watching(stack: Encoder | Decoder, *, weights: bool = True) -> Iterator[_Watched]:
    """Watch a stack's next pass."""
    seen = _Watched()

    def enters(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        seen.words = _kept(arguments[0])

    def enters_layer(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        if module is stack.layers[0]:
            seen.states.append(_kept(arguments[0]))

    def leaves_layer(module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        seen.states.append(_kept(output))

    def attends(module: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any], output: Tensor) -> None:
        given = inspect.signature(module.forward).bind(*arguments, **keywords).arguments
        if isinstance(module, SelfAttention):
            plan = given["plan"]
            q, k, _ = module.project(given["x"])
            state = plan.prepare(given["x"])
            q, k = plan.rotate(q, k, state)
            seen.attention.append(_weights(k, lambda v: plan.attend(q, k, v, state)))
        elif isinstance(module, CrossAttention):
            q, k = module.queries(given["x"]), given["keys_and_values"][0]
            seen.cross.append(_weights(k, lambda v: attend(q, k, v, given["mask"])))

    with ExitStack() as hooks:
        hooks.callback(stack.register_forward_pre_hook(enters).remove)
        for layer in stack.layers:
            hooks.callback(layer.register_forward_pre_hook(enters_layer).remove)
            hooks.callback(layer.register_forward_hook(leaves_layer).remove)
            if weights:
                for module in layer.children():
                    hooks.callback(module.register_forward_hook(attends, with_kwargs=True).remove)
        yield seen


def _weights(k: Tensor, attention: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the weights ``[H, Q, K]`` of the first row, taking as many columns at once as a head has features."""
    batch, heads, keys, dim = k.shape
    identity = nn.functional.pad(torch.eye(keys, dtype=k.dtype, device=k.device), (0, -keys % dim))
    parts = torch.split(identity, dim, dim=1)
    columns = [attention(part.expand(batch, heads, -1, -1).contiguous()) for part in parts]
    return _kept(torch.cat(columns, dim=-1)[0, ..., :keys])


def _drop_residual(module: Residual, arguments: tuple[Any, ...], output: Tensor) -> Tensor:
    """Return what a sub-layer passes on where ``x [B, L, E]`` is not added to what it computes."""
    alone: Tensor = module.branch(*arguments)
    return alone


def _kept(x: Tensor) -> Tensor:
    return x.detach().float().cpu()
