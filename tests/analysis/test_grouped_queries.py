"""A model whose heads share keys shows what the same model shows whose heads have copies of them."""

from __future__ import annotations

import pytest
import torch

from locant.analysis.attention_steps import attention_steps
from locant.analysis.introspection import introspect
from locant.models import Transformer, TransformerConfig

SIZES = {"source_vocab_size": 30, "target_vocab_size": 30, "encoder_layers": 2, "decoder_layers": 2}
SIZES |= {"d_model": 16, "d_ff": 24, "heads": 4}
SOURCE, TARGET = [3, 4, 5, 6, 7], [1, 3, 4, 5]


@pytest.mark.parametrize("position", ["rotary", "shaw", "cope"])
def test_heads_that_share_keys(position: str) -> None:
    torch.manual_seed(0)
    few = Transformer(TransformerConfig.parse({**SIZES, "kv_heads": 2, "position": position})).eval()
    many = Transformer(TransformerConfig.parse({**SIZES, "position": position})).eval()
    copied = few.state_dict()
    for name, weight in copied.items():
        if "key_value" in name:
            heads = weight[-16:].unflatten(0, (4, 4))  # two of keys, two of values
            copied[name] = torch.cat((weight[:-16], heads.repeat_interleave(2, 0).flatten(0, 1)))
    many.load_state_dict(copied)
    ours, theirs = (introspect(model, SOURCE, TARGET) for model in (few, many))
    for kind in ("encoder_attention", "decoder_attention", "cross_attention"):
        torch.testing.assert_close(getattr(ours, kind), getattr(theirs, kind))
    for stack in ("encoder", "decoder"):
        one, other = (attention_steps(model, SOURCE, TARGET, stack=stack, layer=1) for model in (few, many))
        for step in ("k", "v", "scaled", "weights", "contexts", "output"):
            torch.testing.assert_close(getattr(one, step), getattr(other, step))
    ids, lengths = torch.tensor([SOURCE]), torch.tensor([len(SOURCE)])
    one, other = (model.alignment_weights(ids, lengths, torch.tensor([TARGET])) for model in (few, many))
    torch.testing.assert_close(one, other)
