"""Small random models of several families, built from the entries that published configurations have."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")

_SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 64,
    "max_position_embeddings": 64,
    "head_dim": 16,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.0, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5],
    "long_factor": [1.0, 1.1, 1.3, 1.7, 2.0, 2.5, 3.0, 4.0],
    "original_max_position_embeddings": 32,
}
_WINDOW = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"rope_theta": 1000.0},
    "llama-new": {"model_type": "llama", "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}},
    "qwen2": {"rope_theta": 1e6},
    "qwen3": {"rope_theta": 1e6},
    "mistral": {"rope_theta": 1e6, "sliding_window": None},
    "gemma": {"rope_theta": 1000.0},
    "gemma2": {"rope_theta": 1000.0, **_WINDOW},
    "gemma3": {"model_type": "gemma3_text", "rope_theta": 1e6, "rope_local_base_freq": 100.0, **_WINDOW},
    "gemma3-new": {
        "model_type": "gemma3_text",
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        },
        **_WINDOW,
    },
    "gpt_neox": {"rotary_pct": 0.5, "rotary_emb_base": 1000.0, "head_dim": None, "num_key_value_heads": None},
    "cohere": {"rope_theta": 1000.0, "head_dim": None},
    "phi3": {"rope_theta": 1000.0, "original_max_position_embeddings": 64},
    "phi3-longrope": {
        "model_type": "phi3",
        "rope_theta": 1000.0,
        "original_max_position_embeddings": 32,
        "rope_scaling": _LONGROPE | {"rope_type": None, "original_max_position_embeddings": None, "type": "longrope"},
    },
    "llama-3.1": {
        "model_type": "llama",
        "rope_theta": 5e5,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    },
    "qwen2-yarn": {
        "model_type": "qwen2",
        "rope_theta": 1e6,
        "rope_scaling": {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32},
    },
}


def config_of(family: str) -> dict[str, Any]:
    """Return the content of config.json, in the form in which such models were published."""
    entries = _SIZES | {"model_type": family} | FAMILIES[family]
    content = {key: value for key, value in entries.items() if value is not None}
    scaling = content.get("rope_scaling")
    if scaling:
        content["rope_scaling"] = {key: value for key, value in scaling.items() if value is not None}
    return content


def save_model(folder: Path, family: str) -> Path:
    """Save a random model whose attention is far from even, so that a wrong angle shows in the logits."""
    content = config_of(family)
    typed = transformers.CONFIG_MAPPING[content["model_type"]].from_dict(json.loads(json.dumps(content)))
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(typed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(std=0.2)
    model.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(content))
    return folder


def save_tokenizer(folder: Path) -> None:
    """Save a tokenizer of letters beside a model of 64 tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["<pad>", "<s>", "</s>", "<unk>", *string.ascii_letters, " ", ".", "\n"]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", model_max_length=64
    ).save_pretrained(folder)
