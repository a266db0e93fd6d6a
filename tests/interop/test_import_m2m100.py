"""Imported weights against ``M2M100ForConditionalGeneration``."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import M2M100Config, M2M100ForConditionalGeneration

from locant.interop.assembling import assemble
from locant.interop.huggingface import M2M100Config as OwnConfig
from locant.interop.huggingface import read_config, read_parts

LENGTHS = [7, 1, 12, 4]


def m2m100_folder(folder: Path, *, pickled: bool = False, **changes: object) -> M2M100ForConditionalGeneration:
    """Write a random model in which no parameter is 0 or 1."""
    torch.manual_seed(0)
    config = M2M100Config.from_dict(
        {
            "vocab_size": 50,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 1,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 40,
            "decoder_ffn_dim": 40,
            "max_position_embeddings": 64,
            "init_std": 0.2,
            **changes,
        }
    )
    model = M2M100ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "layer_norm" in name or "bias" in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    if pickled:
        (folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return model


def sources(pad: int, vocab_size: int, *, left: bool) -> tuple[Tensor, Tensor]:
    """Rows of different lengths, padded on one side, and their attention mask; no real token is the padding's."""
    draw = torch.Generator().manual_seed(1)
    ids, mask = torch.full((len(LENGTHS), 12), pad), torch.zeros(len(LENGTHS), 12, dtype=torch.long)
    for row, length in enumerate(LENGTHS):
        place = slice(12 - length, 12) if left else slice(length)
        tokens = torch.randint(0, vocab_size - 1, (length,), generator=draw)
        ids[row, place], mask[row, place] = tokens + (tokens >= pad), 1
    return ids, mask


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"pickled": True, "activation_function": "gelu"},
        {"scale_embedding": False, "activation_function": "swish"},
        {"tie_word_embeddings": False, "encoder_layers": 1, "decoder_layers": 3},
        {"pad_token_id": 0, "d_model": 30, "encoder_attention_heads": 3, "decoder_attention_heads": 3},
        {"pad_token_id": 9, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "vocab_size": 23},
        {"max_position_embeddings": 4},
    ],
    ids=str,
)
def test_logits_are_equal_whatever_the_padding(changes, tmp_path):
    other = m2m100_folder(tmp_path, **changes)
    config = read_config(tmp_path, OwnConfig)
    rows = [*range(config.vocab_size)]
    model = assemble(read_parts(tmp_path, config), rows, rows, "a model")
    pad, size = other.config.pad_token_id, other.config.vocab_size
    written, written_mask = sources(pad, size, left=False)
    right, mask = sources(pad, size, left=False)
    left, left_mask = sources(pad, size, left=True)
    rubbish = torch.where(mask.bool(), right, torch.randint_like(right, size))
    real = written_mask.bool()
    with torch.no_grad():
        found = model(rubbish, torch.tensor(LENGTHS), written.flip(0))[real.flip(0)]
        for ids, attention in ((right, mask), (left, left_mask)):
            expected = other(input_ids=ids, attention_mask=attention, decoder_input_ids=written.flip(0)).logits
            assert (found - expected[real.flip(0)]).abs().max() < 1e-4
    assert expected.std() > 0.1
    assert model.config.norm == "pre"
    assert model.config.position_options == {"dialect": "tensor2tensor", "start": pad + 1}
    assert model.config.tie_output == changes.get("scale_embedding", changes.get("tie_word_embeddings", True))
