"""Small checkpoints of any class of transformers with random weights, and logits of converted ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from locant.extension.inspect.model_class.small_model import quiet
from locant.extension.layouts.asked import ask_layout, checkpoint_class, typed_config
from locant.extension.layouts.proof import logits_of, read_in, token_ids
from locant.extension.load import quiet_transformers
from locant.rotary_configs.huggingface.pairing import LAYOUT_MARK

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
"""Entries that most classes have."""


def save_checkpoint(
    folder: Path, content: dict[str, Any], dtype: torch.dtype = torch.float32, shard: str = "50GB"
) -> Path:
    """Save a model of a config.json with random weights, norms and biases among them.

    Args:
        folder: Where to.
        content: The object in config.json.
        dtype: Of the weights.
        shard: Largest file.
    """
    config = typed_config(content)
    generator = torch.Generator().manual_seed(0)
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = checkpoint_class(content, config)(config)
        with torch.no_grad():
            for parameter in model.parameters():
                if not parameter.requires_grad:  # a table of positions, as RoFormer has one
                    continue
                if parameter.ndim == 1:
                    parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
                else:
                    parameter *= 4  # attention that looks at something
    with quiet_transformers():
        model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    return folder


def config_of(folder: Path) -> dict[str, Any]:
    """Return the content of a folder's config.json."""
    content: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return content


def logits(folder: Path, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return the logits of a checkpoint for random token ids, with pairs turned in the layout that it states.

    Args:
        folder: The checkpoint.
        dtype: What the model computes in.
    """
    content = config_of(folder)
    layout = content.pop(LAYOUT_MARK, None)
    config = typed_config(content)
    with quiet_transformers():
        model = checkpoint_class(content, config).from_pretrained(folder, config=config, dtype=dtype).eval()
    ids = token_ids(model)
    return logits_of(model, ids) if layout is None else read_in(model, ask_layout(content).layers, layout, ids)


def weight_bytes(folder: Path) -> dict[str, bytes]:
    """Return the content of a folder's files of weights."""
    return {file.name: file.read_bytes() for file in sorted(folder.glob("*.safetensors"))}
