"""Locant's rotation in the place of the one that a transformers model has, to compare the two.

What is the same is the weights and everything else of the model; what differs is where angles come from and how pairs
are turned. A scaling that follows the length of the text (dynamic, LongRoPE) is compared for one forward pass over a
whole text without cached keys, by a model that has read nothing before: only then does transformers turn all tokens by
the frequencies of that text's length. With cached keys, earlier keys keep the frequencies of the shorter text; and once
a model with 'dynamic' has read a long text, it reads those of between the original and that length by the frequencies
of the longest so far.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from torch import Tensor

from locant.errors import LocantError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.rotary.rotary import Rotary
from locant.rotary_configs.base import ALL_LAYERS

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_APPLY = "apply_rotary_pos_emb"


@contextmanager
def locant_rotation(model: PreTrainedModel, configs: Mapping[str, RotaryConfig]) -> Iterator[None]:
    """Within the block, a model of transformers turns queries and keys by Locant's rotation instead of its own.

    Args:
        model: A model whose rotary module gives cosine and sine to ``apply_rotary_pos_emb``, as the language models of
            transformers 5 have it.
        configs: Its rotary configurations by layer type, as :func:`~locant.rotary_configs.read_huggingface` returns
            them.

    Raises:
        LocantError: The model's class is built otherwise.

    Example:
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> import torch
        >>> config = LlamaConfig(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        ...                      num_key_value_heads=1, vocab_size=8)
        >>> model, tokens = LlamaForCausalLM(config).eval(), torch.arange(8)[None]
        >>> with torch.no_grad():
        ...     theirs = model(tokens).logits
        ...     with locant_rotation(model, {"all": RotaryConfig(head_dim=8)}):
        ...         ours = model(tokens).logits
        >>> bool((theirs - ours).abs().max() < 1e-5)
        True
    """
    schemes = {layer: Rotary.from_config(config) for layer, config in configs.items()}
    modules = [module for module in model.modules() if type(module).__name__.endswith("RotaryEmbedding")]
    files = {sys.modules[type(module).__module__] for module in modules}
    if not modules or not all(hasattr(file, _APPLY) for file in files):
        raise LocantError(f"{type(model).__name__} has no rotary module that could be replaced.")
    with ExitStack() as stack:
        for module in modules:
            module.__dict__["forward"] = _handing_on(schemes)
            stack.callback(module.__dict__.pop, "forward")
        for file in files:
            original = getattr(file, _APPLY)
            stack.callback(setattr, file, _APPLY, original)
            setattr(file, _APPLY, _rotate)
        yield


def _handing_on(schemes: Mapping[str, Rotary]) -> Callable[..., tuple[Tensor, Rotary]]:
    """Return a forward pass that hands on positions and scheme where a rotary module hands on cosine and sine."""

    def forward(x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> tuple[Tensor, Rotary]:
        del x
        return position_ids, schemes.get(layer_type or ALL_LAYERS) or schemes[ALL_LAYERS]

    return forward


def _rotate(q: Tensor, k: Tensor, positions: Tensor, scheme: Rotary, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
    return scheme.rotate(q, k, positions, positions)
