"""Which entries about positions classes of transformers read, by their code."""

from __future__ import annotations

import json

import pytest
from zoo.reads import PATH, reads_of

from locant.rotary_configs.classes.reads import is_of_positions, read_by_class, read_for_nothing
from locant.rotary_configs.layer_patterns import layers_in_words


def test_what_classes_read_is_that_of_the_installed_release() -> None:
    transformers = pytest.importorskip("transformers")
    stored = {name: each for each in json.loads(PATH.read_text(encoding="utf-8")) for name in each.pop("of")}
    found = {name: reads_of(transformers.CONFIG_MAPPING[name]) for name in sorted(stored)[::40]}
    assert {name: reads for name, reads in found.items() if reads != stored[name]} == {} or (
        transformers.__version__ < "5.24"
    )


@pytest.mark.parametrize(
    ("model_type", "read", "unread"),
    [
        ("llama", "head_dim", "use_sliding_window"),
        ("qwen2", "max_window_layers", "rotary_dim"),
        ("minimax_m2", "rotary_dim", "attn_type_list"),  # convert_rope_params_to_dict of its configuration
        ("mimo_v2_flash", "sliding_window_size", "hybrid_layer_pattern"),
        ("whisper", "max_source_positions", "position_embedding_type"),
        ("recurrent_gemma", "attention_window_size", "rope_local_base_freq"),  # read as sliding_window
        ("openai_privacy_filter", "sliding_window", "initial_context_length"),
    ],
)
def test_a_class_reads_what_its_code_mentions(model_type: str, read: str, unread: str) -> None:
    found = read_by_class(model_type)
    assert found is not None
    assert read in found
    assert unread not in found
    assert is_of_positions(unread)
    assert read_by_class("no such type") is None


def test_what_another_entry_takes_away_is_not_read() -> None:
    """Wav2Vec2ConformerEncoder makes the module that reads it where positions are relative alone."""
    for kind, is_read in (("rotary", False), ("relative", True)):
        found = read_by_class("wav2vec2-conformer", {"position_embeddings_type": kind})
        assert found is not None
        assert ("max_source_positions" in found) is is_read


def test_modules_that_a_class_makes_and_never_uses() -> None:
    """Wav2Vec2ConformerEncoder makes ``pos_conv_embed``, and calls it nowhere; Wav2Vec2Encoder does."""
    assert read_for_nothing("wav2vec2-conformer") == {"num_conv_pos_embeddings", "num_conv_pos_embedding_groups"}
    assert not read_for_nothing("wav2vec2")


@pytest.mark.parametrize(
    "name", ["v_head_dim", "vision_rope", "pad_token_id", "max_position_embeddings", "moe_layer_period"]
)
def test_names_that_are_about_something_else(name: str) -> None:
    assert not is_of_positions(name)


@pytest.mark.parametrize(
    ("indices", "count", "words"),
    [
        ([5, 11], 12, "every 6th layer"),
        ([5, 11, 16], 17, "every 6th layer and the last"),
        ([0, 5, 11, 17], 20, "every 6th layer and the first"),
        ([0, 3, 6, 9], 10, "every 3rd layer from the first on"),
        ([0, 2, 4], 12, "every 2nd layer from 0 to 4"),
        ([0, 5], 8, "layers 0, 5"),
        ([0], 4, "the first layer"),
        ([3], 4, "the last layer"),
        ([0, 3], 4, "the first layer and the last"),
        ([2, 3], 4, "the last 2 layers"),
        ([10, 21, 32], 33, "every 11th layer"),
        ([1, 4, 5], 9, "layers 1, 4, 5"),
    ],
)
def test_layers_in_words(indices: list[int], count: int, words: str) -> None:
    assert layers_in_words(indices, count) == words
