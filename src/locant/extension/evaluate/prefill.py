"""Reading long texts with a model of transformers, chunk by chunk, with cached keys and values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from locant.positions.huggingface import install
from locant.rotary_configs import read_huggingface

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_NAME = "locant_chunk"
_KERNEL = "_scaled_dot_product_flash_attention_for_cpu"


def attend_chunk(query: Tensor, key: Tensor, value: Tensor, scale: float | None = None) -> Tensor:
    """Attend causally, the last key belonging to the last query.

    Args:
        query: ``[B, H, C, D]``.
        key: ``[B, G, L, D]``, where ``G`` divides ``H`` and ``L`` is at least ``C``.
        value: ``[B, G, L, D]``.
        scale: Of the scores; ``D ** -0.5`` by default.

    Returns:
        ``[B, H, C, D]``.
    """
    batch, heads, count, dim = query.shape
    groups, past = key.shape[1], key.shape[2] - count
    kernel = getattr(torch.ops.aten, _KERNEL)
    own = (states[:, :, past:].repeat_interleave(heads // groups, 1) for states in (key, value))
    out, log_sum = kernel(query, *own, 0.0, True, scale=scale)
    if past:
        # All query heads of a group are rows of one: causality does not matter before the chunk.
        rows = query.reshape(batch, groups, heads // groups * count, dim)
        earlier, earlier_sum = kernel(rows, key[:, :, :past], value[:, :, :past], 0.0, False, scale=scale)
        share = torch.sigmoid(earlier_sum.reshape(batch, heads, count) - log_sum).to(out.dtype)
        out = torch.lerp(out, earlier.reshape(query.shape), share[..., None])
    return out


@contextmanager
def chunk_attention(model: PreTrainedModel) -> Iterator[None]:
    """Within the block, a model attends by :func:`attend_chunk` where that means the same as its own attention."""
    if not _fits(model):
        yield
        return
    AttentionInterface.register(_NAME, _forward)
    AttentionMaskInterface.register(_NAME, _no_mask)
    model.set_attn_implementation(_NAME)
    try:
        yield
    finally:
        model.set_attn_implementation("sdpa")


def _fits(model: PreTrainedModel) -> bool:
    """Whether all layers attend to everything before, with heads of one size, through transformers' interface."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    is_full = (
        set(kinds) == {"full_attention"}
        if kinds
        else not any(getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size"))
    )
    is_plain = not any(getattr(config, name, None) for name in ("kv_lora_rank", "attn_logit_softcapping"))
    return (
        is_full
        and is_plain
        and model.device.type == "cpu"
        and model.config._attn_implementation == "sdpa"
        and bool(getattr(model, "_supports_attention_backend", False))
        and hasattr(torch.ops.aten, _KERNEL)
    )


def _forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    del module, attention_mask
    return attend_chunk(query, key, value, scaling).transpose(1, 2).contiguous(), None


def _no_mask(*_: Any, **__: Any) -> None:
    return None


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


def _cache_argument(model: PreTrainedModel, cache: Cache) -> dict[str, Cache]:
    """Return a cache under the name of a model's argument for it: ``cache`` since transformers 5.24."""
    is_named_cache = "cache" in inspect.signature(model.forward).parameters
    return {"cache" if is_named_cache else "past_key_values": cache}


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
def fixed_length(model: PreTrainedModel, length: int, *, exact: bool = False) -> Iterator[None]:
    """Within the block, frequencies that follow the length of the text are those of ``length`` tokens.

    Args:
        model: A causal language model.
        length: In tokens.
        exact: Whether Locant's rotation takes the place of the model's own.
    """
    with ExitStack() as stack:
        if exact:
            configs = read_huggingface(model.config.get_text_config().to_dict()).configs
            fixed = {
                layer: replace(config, scaling=config.scaling.fixed_for(length), max_length=None)
                for layer, config in configs.items()
            }
            with install(model):  # compares what is read with what the class computes
                pass
            stack.enter_context(install(model, fixed))
            yield
            return
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
    exact: bool = False,
    on_chunk: Callable[[int], None] | None = None,
) -> Tensor:
    """Return the negative log likelihood of each token, given all tokens before it.

    Args:
        model: A causal language model.
        tokens: Token ids ``[L]``.
        scored_from: Index of the first token whose loss is wanted; at least 1.
        chunk: Tokens read at once; the result does not depend on it beyond rounding.
        exact: Whether Locant's rotation takes the place of the model's own.
        on_chunk: Called after every chunk with the number of tokens read so far.

    Returns:
        Losses ``[L - scored_from]`` in nats, float32, on the CPU.
    """
    tokens = tokens.to(model.device)
    count = len(tokens) - 1  # nothing is predicted from the last token
    parts: list[Tensor] = []
    with fixed_length(model, len(tokens), exact=exact), chunk_attention(model):
        argument = _cache_argument(model, new_cache(model, count))
        for start in range(0, count, chunk):
            end = min(start + chunk, count)
            wanted = min(end + 1 - scored_from, end - start)
            logits = model(tokens[None, start:end], **argument, use_cache=True, logits_to_keep=max(wanted, 1)).logits[0]
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
        exact: Whether Locant's rotation takes the place of the model's own.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        length: int,
        *,
        stop: Sequence[int] = (),
        chunk: int = CHUNK,
        exact: bool = False,
    ) -> None:
        self.model, self.length, self.stop = model, length, frozenset(stop)
        self.chunk, self.exact = chunk, exact
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
        with fixed_length(self.model, self.length, exact=self.exact), chunk_attention(self.model):
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
            argument = _cache_argument(self.model, self._cache)
            logits = self.model(ids, **argument, use_cache=True, logits_to_keep=1).logits[0, -1]
            self._read += part
            if on_chunk is not None:
                on_chunk(len(self._read))
        return logits
