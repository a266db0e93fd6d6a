"""Rotary positions of vision towers, next to the rotary modules of transformers."""

from __future__ import annotations

import pytest

from locant.errors import ConfigError
from locant.rotary_configs import read_huggingface, read_vision
from locant.rotary_configs.vision import vision_types


@pytest.mark.slow
def test_every_tower_is_read_as_its_class_computes_it() -> None:
    """Tables of angles of all classes with axial positions; three of them, of masks over video, are not towers."""
    pytest.importorskip("transformers")
    from zoo.vision import judge, towers

    found = {tower.model_type: tower for tower in towers()}
    assert set(found) - set(vision_types()) <= {"edgetam_video", "sam2_video", "sam3_tracker_video"}
    wrong = {(name, seed): judge(found[name], seed) for name in vision_types() if name in found for seed in range(2)}
    assert len(wrong) > 40
    assert not {key: reason for key, reason in wrong.items() if reason}


def test_a_tower_within_a_file_of_release_4() -> None:
    """Qwen2-VL-7B-Instruct: the vision part has no type of its own there."""
    content = {"model_type": "qwen2_vl", "vision_config": {"depth": 32, "embed_dim": 1280, "num_heads": 16}}
    tower = read_vision(content)
    assert tower is not None
    assert (tower.head_dim, tower.layout, tower.axis_of_pair) == (80, "half", (0,) * 20 + (1,) * 20)
    assert tower.frequencies[20:22] == pytest.approx([1.0, 10000 ** (-2 / 40)])


def test_pixtral_deals_out_the_frequencies_of_a_whole_head() -> None:
    """modeling_pixtral.py: inv_freq[0::2] for rows and inv_freq[1::2] for columns."""
    tower = read_vision({"vision_config": {"model_type": "pixtral", "head_dim": 64, "rope_theta": 10000.0}})
    assert tower is not None
    assert (tower.frequencies[0], tower.frequencies[16]) == pytest.approx((1.0, 10000 ** (-2 / 64)))


def test_a_tower_is_not_read_as_text() -> None:
    with pytest.raises(ConfigError, match="'pixtral' is a vision tower: it has no rotary positions of a text"):
        read_huggingface({"model_type": "pixtral", "head_dim": 64, "rope_theta": 10000.0})


def test_models_without_a_tower_have_none() -> None:
    assert read_vision({"model_type": "llama", "head_dim": 128}) is None
    assert read_vision({"model_type": "llava", "vision_config": {"model_type": "clip_vision_model"}}) is None


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"head_dim": 2}, "2 axes cannot share in pairs"),
        ({"embed_dim": 30, "num_heads": 16}, "that its number of heads .16. divides"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "'axial' alone"),
        ({"rope_parameters": {"rope_theta": -1.0}}, "rope_theta"),
    ],
)
def test_what_no_tower_can_be_is_refused(part: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_vision({"vision_config": {"model_type": "qwen2_vl_vision", **part}})
