"""Reading long texts with a model of transformers, chunk by chunk, with cached keys and values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.cache_utils import Cache, DynamicCache

from locant.positions.huggingface import install
from locant.positions.scaling import DynamicNTK

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}


def follows_length(module: nn.Module) -> bool:
    """Whether rotary frequencies of a model, or of one of its modules, depend on the length of the text."""
    kinds = [getattr(each, "rope_type", None) for each in module.modules()]
    names = [name for kind in kinds for name in (kind.values() if isinstance(kind, dict) else (kind,))]
    return any(isinstance(name, str) and ("dynamic" in name or "longrope" in name) for name in names)


@contextmanager
def _fixed_length(model: PreTrainedModel, length: int, *, exact: bool) -> Iterator[None]:
    """Within the block, frequencies that follow the length of the text are those of ``length`` tokens."""
    with ExitStack() as stack:
        if exact:
            with install(model) as installed:  # asks the class for its frequencies
                configs = installed.configs
            fixed = {}
            for layer, config in configs.items():
                scaling = config.scaling
                if isinstance(scaling, DynamicNTK):
                    scaling = replace(scaling, length_step=1)  # install counts in 256
                fixed[layer] = replace(config, scaling=scaling.fixed_for(length), max_length=None)
            stack.enter_context(install(model, fixed))
        else:
            for module in model.modules():
                if hasattr(module, "rope_type") and follows_length(module):
                    stack.enter_context(_fixed(module, length))
        yield


@contextmanager
def _fixed(module: nn.Module, length: int) -> Iterator[None]:
    """Within the block, a rotary module looks positions up in the table of one text."""
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


class Reader:
    """A model that reads long texts: memory grows with their length, not with its square.

    Args:
        model: A causal language model.
        chunk: Tokens read at once; no result depends on it beyond rounding.
        exact: Whether Locant's rotation takes the place of the model's own.
    """

    def __init__(self, model: PreTrainedModel, *, chunk: int = 512, exact: bool = False) -> None:
        self.model, self.chunk, self.exact = model, chunk, exact
        is_named_cache = "cache" in inspect.signature(model.forward).parameters  # since transformers 5.24
        self._name = "cache" if is_named_cache else "past_key_values"
        self._text = model.config.get_text_config()
        # State spaces and convolutions cannot forget the end of what they have read.
        self._can_forget = set(getattr(self._text, "layer_types", None) or ()) <= _ATTENTION
        self._cache, self._read, self._length = self._new_cache(), list[int](), 0

    @torch.inference_mode()
    def losses(self, tokens: Tensor, scored_from: int = 1, on_chunk: Callable[[int], None] | None = None) -> Tensor:
        """Return the negative log likelihood of each token, given all tokens before it.

        Args:
            tokens: Token ids ``[L]``.
            scored_from: Index of the first token whose loss is wanted; at least 1.
            on_chunk: Called after every chunk with the number of tokens read so far.

        Returns:
            Losses ``[L - scored_from]`` in nats, float32, on the CPU.
        """
        tokens = tokens.to(self.model.device)
        count, cache = len(tokens) - 1, self._new_cache()  # nothing is predicted from the last token
        parts: list[Tensor] = []
        with _fixed_length(self.model, len(tokens), exact=self.exact):
            for start in range(0, count, self.chunk):
                end = min(start + self.chunk, count)
                wanted = min(end + 1 - scored_from, end - start)
                logits = self._logits(tokens[start:end], cache, max(wanted, 1))
                if wanted > 0:
                    targets = tokens[end + 1 - wanted : end + 1]
                    parts.append(functional.cross_entropy(logits.float(), targets, reduction="none").cpu())
                if on_chunk is not None:
                    on_chunk(end)
        return torch.cat(parts)

    @torch.inference_mode()
    def answer(
        self,
        prompt: Sequence[int],
        count: int,
        *,
        length: int,
        stop: Container[int] = (),
        on_chunk: Callable[[int], None] | None = None,
    ) -> list[int]:
        """Return the most probable next tokens, one after the other, up to one that ends the answer.

        What a prompt has in common with the one before it is not read again.

        Args:
            prompt: Token ids.
            count: Tokens of the answer at most.
            length: Length of the text in tokens whose frequencies are those of the model, where they follow it.
            stop: Ids of tokens that end an answer.
            on_chunk: Called after every chunk of the prompt with the number of its tokens read so far.
        """
        tokens = list(prompt)
        pairs = zip(self._read, tokens[:-1], strict=False)  # the last token is always read
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if length != self._length or (common < len(self._read) and not self._can_forget):
            self._cache, common = self._new_cache(), 0
        elif common < len(self._read):
            self._cache.crop(common - len(self._read))
        self._read, self._length = tokens[:common], length
        with _fixed_length(self.model, length, exact=self.exact):
            while len(tokens) < len(prompt) + count:
                logits = torch.empty(0)
                while len(self._read) < len(tokens):
                    part = tokens[len(self._read) : len(self._read) + self.chunk]
                    logits = self._logits(torch.tensor(part, device=self.model.device), self._cache, 1)
                    self._read += part
                    if on_chunk is not None:
                        on_chunk(len(self._read))
                token = int(logits[-1].argmax())
                if token in stop:
                    break
                tokens.append(token)
        return tokens[len(prompt) :]

    def _new_cache(self) -> Cache:
        # Without the configuration, layers of sliding attention keep all keys, and can forget as well.
        return DynamicCache() if self._can_forget else DynamicCache(config=self._text)

    def _logits(self, tokens: Tensor, cache: Cache, count: int) -> Tensor:
        """Read tokens ``[C]``, and return the last rows of logits ``[count, V]``."""
        options = {self._name: cache, "use_cache": True, "logits_to_keep": count}
        logits: Tensor = self.model(tokens[None], **options).logits[0]
        return logits
