"""The modules of a Transformer with weight and bias, and what Hugging Face and CTranslate2 call them.

Export and import read the one table in the two directions; the kernels read the modules in its order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_LINEARS = (
    ("self_attention.query_key_value", "self_attn.q_proj self_attn.k_proj self_attn.v_proj", "self_attention/linear_0"),
    ("self_attention.output", "self_attn.out_proj", "self_attention/linear_1"),
    ("cross_attention.query", "encoder_attn.q_proj", "attention/linear_0"),
    ("cross_attention.key_value", "encoder_attn.k_proj encoder_attn.v_proj", "attention/linear_1"),
    ("cross_attention.output", "encoder_attn.out_proj", "attention/linear_2"),
    ("feed_forward.inner", "fc1", "ffn/linear_0 ffn/linear_0_noact"),
    ("feed_forward.outer", "fc2", "ffn/linear_1"),
)
_NORMS = (
    ("self_attn_layer_norm", "self_attention/layer_norm"),
    ("encoder_attn_layer_norm", "attention/layer_norm"),
    ("final_layer_norm", "ffn/layer_norm"),
)
"""Of the residuals of a layer, in their order. Of both tables the encoder has all but what speaks of the source."""


class ModuleNames(NamedTuple):
    """A module's name in a Locant model, and those of the modules whose rows it stacks."""

    locant: str
    huggingface: list[str]
    ctranslate2: list[str]

    @property
    def is_norm(self) -> bool:
        """Whether it is a layer norm."""
        return self.locant.endswith("norm")

    @property
    def writes(self) -> bool:
        """Whether its output is the residual stream, and not its input."""
        return self.locant.endswith(("norm", "output", "outer"))


def module_names(stack: str, layers: int, *, norm: str, gated: bool = False) -> Iterator[ModuleNames]:
    """Yield the modules of a stack.

    Args:
        stack: ``encoder`` or ``decoder``.
        layers: How many it has.
        norm: ``pre`` where it ends in a layer norm.
        gated: Whether the feed-forward has gates, which Hugging Face's has not.
    """
    linears = [row for row in _LINEARS if stack == "decoder" or not row[0].startswith("cross")]
    norms = [row for row in _NORMS if stack == "decoder" or not row[0].startswith("encoder")]
    for index in range(layers):
        own, hugging, other = f"{stack}.layers.{index}", f"model.{stack}.layers.{index}", f"{stack}/layer_{index}"
        rows = [*linears, *((f"residuals.{place}.norm", *names) for place, names in enumerate(norms))]
        for name, theirs, parts in rows:
            yield ModuleNames(
                f"{own}.{name}",
                [f"{hugging}.{part}" for part in theirs.split()],
                [f"{other}/{part}" for part in parts.split() if gated or not part.endswith("_noact")],
            )
    if norm == "pre":
        yield ModuleNames(f"{stack}.norm", [f"model.{stack}.layer_norm"], [f"{stack}/layer_norm"])
