"""Reading long texts with a model of transformers, chunk by chunk, with cached keys and values.

Memory grows with the length of the text, not with its square: a chunk of ``C`` tokens sees ``[C, L]`` scores at most,
and logits exist for one chunk at a time. Keys and values lie in buffers of the final size, so that nothing is copied
when a chunk is added.

A text has one defined answer, however it is cut into chunks: where the rotary frequencies follow the length of the text
(``dynamic``, LongRoPE), all its tokens are turned by those of its whole length, as transformers turns them in one pass
without cached keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from locant.extension.chunk_attention import chunk_attention

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CHUNK = 512
"""Tokens read at once."""

_FOLLOWS_LENGTH = ("dynamic", "longrope")
_ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}


class PreallocatedLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Cached keys and values of one layer in buffers ``[B, H, size, D]``, of which the first tokens are in use.

    Args:
        size: Tokens there is room for.
    """

    def __init__(self, size: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.size = size
        self._buffers: tuple[Tensor, Tensor] | None = None
        self._used = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Make the buffers, which have the shapes and dtypes of the first chunk."""
        self.dtype, self.device = key_states.dtype, key_states.device
        shapes = ((*states.shape[:2], self.size, states.shape[3]) for states in (key_states, value_states))
        keys, values = (key_states.new_empty(shape) for shape in shapes)
        self._buffers = (keys, values)
        self.is_initialized = True
        self.shorten(0)

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Add a chunk, and return views of all keys and values so far."""
        if self._buffers is None:
            self.lazy_initialization(key_states, value_states)
        assert self._buffers is not None
        keys, values = self._buffers
        start, end = self._used, self._used + key_states.shape[-2]
        keys[:, :, start:end] = key_states
        values[:, :, start:end] = value_states
        self.shorten(end)
        return keys[:, :, :end], values[:, :, :end]

    def shorten(self, length: int) -> None:
        """Keep the first tokens alone in use."""
        self._used = length
        if self._buffers is not None:
            self.keys, self.values = (buffer[:, :, :length] for buffer in self._buffers)


def new_cache(model: PreTrainedModel, size: int) -> Cache:
    """Return an empty cache for texts of up to ``size`` tokens.

    A model with layers that are no attention (state spaces, convolutions) has transformers' own cache, which cannot be
    shortened.
    """
    config = model.config.get_text_config()
    if set(getattr(config, "layer_types", None) or ()) <= _ATTENTION:
        return Cache(layers=[PreallocatedLayer(size) for _ in range(config.num_hidden_layers)])
    return DynamicCache(config=config)


def follows_length(model: PreTrainedModel) -> bool:
    """Whether a model's rotary frequencies depend on the length of the text."""
    return any(_follows_length(module) for module in model.modules())


def _follows_length(module: nn.Module) -> bool:
    kinds = getattr(module, "rope_type", None)
    return any(
        isinstance(kind, str) and any(name in kind for name in _FOLLOWS_LENGTH)
        for kind in (kinds.values() if isinstance(kinds, dict) else (kinds,))
    )


@contextmanager
def fixed_length(model: PreTrainedModel, length: int) -> Iterator[None]:
    """Within the block, frequencies that follow the length of the text are those of ``length`` tokens."""
    with ExitStack() as stack:
        for module in model.modules():
            if _follows_length(module):
                stack.enter_context(_fixed(module, length))
        yield


@contextmanager
def _fixed(module: nn.Module, length: int) -> Iterator[None]:
    original: Callable[..., tuple[Tensor, Tensor]] = module.forward
    tables: dict[str | None, tuple[Tensor, Tensor]] = {}

    def forward(x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> tuple[Tensor, Tensor]:
        if layer_type not in tables:
            layer = {} if layer_type is None else {"layer_type": layer_type}
            positions = torch.arange(length, device=x.device)[None]
            original(x, positions[:, :1], **layer)  # a short text makes it forget longer ones that it has read
            tables[layer_type] = original(x, positions, **layer)
        cosine, sine = tables[layer_type]
        return cosine[0, position_ids], sine[0, position_ids]

    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        del module.__dict__["forward"]


@torch.inference_mode()
def token_losses(
    model: PreTrainedModel,
    tokens: Tensor,
    *,
    scored_from: int = 1,
    chunk: int = CHUNK,
    on_chunk: Callable[[int], None] | None = None,
) -> Tensor:
    """Return the negative log likelihood of each token, given all tokens before it.

    Args:
        model: A causal language model.
        tokens: Token ids ``[L]``.
        scored_from: Index of the first token whose loss is wanted; at least 1.
        chunk: Tokens read at once; the result does not depend on it beyond rounding.
        on_chunk: Called after every chunk with the number of tokens read so far.

    Returns:
        Losses ``[L - scored_from]`` in nats, float32, on the CPU.
    """
    tokens = tokens.to(model.device)
    count = len(tokens) - 1  # nothing is predicted from the last token
    parts: list[Tensor] = []
    with fixed_length(model, len(tokens)), chunk_attention(model):
        cache = new_cache(model, count)
        for start in range(0, count, chunk):
            end = min(start + chunk, count)
            wanted = min(end + 1 - scored_from, end - start)
            logits = model(
                tokens[None, start:end], past_key_values=cache, use_cache=True, logits_to_keep=max(wanted, 1)
            ).logits[0]
            if wanted > 0:
                targets = tokens[end + 1 - wanted : end + 1]
                parts.append(functional.cross_entropy(logits.float(), targets, reduction="none").cpu())
            if on_chunk is not None:
                on_chunk(end)
    return torch.cat(parts)


class Answerer:
    """Continues prompts greedily; what a prompt has in common with the one before it is not read again.

    Args:
        model: A causal language model.
        length: Tokens of the longest prompt and its answer together. Frequencies that follow the length of the text are
            those of this length, for every prompt.
        stop: Ids of tokens that end an answer.
        chunk: Tokens read at once.
    """

    def __init__(self, model: PreTrainedModel, length: int, *, stop: Sequence[int] = (), chunk: int = CHUNK) -> None:
        self.model, self.length, self.stop, self.chunk = model, length, frozenset(stop), chunk
        self._cache = new_cache(model, length)
        self._read: list[int] = []

    @torch.inference_mode()
    def answer(self, prompt: Sequence[int], count: int, on_chunk: Callable[[int], None] | None = None) -> list[int]:
        """Return the most probable next tokens, one after the other, up to one that ends the answer.

        Args:
            prompt: Token ids.
            count: Tokens of the answer at most.
            on_chunk: Called after every chunk of the prompt with the number of its tokens read so far.
        """
        tokens = list(prompt)
        self._keep(tokens)
        answer: list[int] = []
        with fixed_length(self.model, self.length), chunk_attention(self.model):
            while len(answer) < count:
                logits = self._continue(tokens, on_chunk)
                token = int(logits.argmax())
                if token in self.stop:
                    break
                answer.append(token)
                tokens.append(token)
        return answer

    def _keep(self, tokens: list[int]) -> None:
        """Shorten the cache to what it has in common with a prompt, whose last token is always read."""
        pairs = zip(self._read, tokens[:-1], strict=False)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        layers = [layer for layer in self._cache.layers if isinstance(layer, PreallocatedLayer)]
        if len(layers) == len(self._cache.layers):
            for layer in layers:
                layer.shorten(common)
        elif common < len(self._read):
            self._cache, common = new_cache(self.model, self.length), 0
        self._read = tokens[:common]

    def _continue(self, tokens: list[int], on_chunk: Callable[[int], None] | None) -> Tensor:
        logits = torch.empty(0)
        while len(self._read) < len(tokens):
            part = tokens[len(self._read) : len(self._read) + self.chunk]
            ids = torch.tensor([part], device=self.model.device)
            logits = self.model(ids, past_key_values=self._cache, use_cache=True, logits_to_keep=1).logits[0, -1]
            self._read += part
            if on_chunk is not None:
                on_chunk(len(self._read))
        return logits
