"""Whole numbers with which a class refuses a file, though the same number with a fraction is what it takes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from zoo.float_fields import PATH, float_fields_of_all

from locant.extension import inspect_model
from locant.extension.inspect.model_class.small_model import quiet
from locant.rotary_configs.classes.float_fields import whole_numbers_for_floats


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            {"model_type": "dbrx", "ffn_config": {"moe_normalize_expert_weights": 1}},
            "moe_normalize_expert_weights is 1 in ffn_config of config.json, a whole number: the class of 'dbrx'",
        ),
        ({"model_type": "gemma2", "final_logit_softcapping": 30}, "final_logit_softcapping is 30 in config.json"),
        ({"model_type": "bert", "layer_norm_eps": 1}, "layer_norm_eps is 1 in config.json"),
        (
            {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "rms_norm_eps": 0}},
            "rms_norm_eps is 0 in text_config of config.json",
        ),
    ],
)
def test_a_whole_number_is_told_with_which_a_class_refuses_a_file(
    content: dict[str, Any], said: str, tmp_path: Path
) -> None:
    config_class = pytest.importorskip("transformers").CONFIG_MAPPING[content["model_type"]]
    as_written = json.dumps(content)
    for stated, is_refused in ((as_written, True), (re.sub(r"(\d+)}", r"\1.0}", as_written), False)):
        if is_refused:
            with quiet(), pytest.raises(Exception, match="Validation error"):
                config_class.from_dict(json.loads(stated))
        else:
            with quiet():
                config_class.from_dict(json.loads(stated))
        (tmp_path / "config.json").write_text(stated, encoding="utf-8")
        found = inspect_model(tmp_path, ask_class=False).findings
        assert any(said in each.message for each in found) is is_refused


def test_code_of_its_own_takes_what_it_likes() -> None:
    content = {"model_type": "gemma2", "final_logit_softcapping": 30}
    assert [*whole_numbers_for_floats(content)]
    assert not [*whole_numbers_for_floats({**content, "auto_map": {"AutoConfig": "a.B"}})]
    assert not [*whole_numbers_for_floats({**content, "model_type": "llama"})]


def test_a_group_that_the_class_passes_over_may_hold_what_it_likes() -> None:
    part = {"model_type": "gemma3_text", "rms_norm_eps": 0}
    with quiet():
        pytest.importorskip("transformers").CONFIG_MAPPING["gemma3"].from_dict({"base_config": part})
    assert not [*whole_numbers_for_floats({"model_type": "gemma3", "base_config": part})]
    assert [*whole_numbers_for_floats({"model_type": "gemma3", "text_config": part})]


def test_the_fields_are_those_of_the_installed_release() -> None:
    transformers = pytest.importorskip("transformers")
    stored = json.loads(PATH.read_text(encoding="utf-8"))
    found = float_fields_of_all(every=9)
    parts = all(stored["parts"].get(whole) == parts for whole, parts in found["parts"].items())
    fields = all({*names} <= {*stored["fields"].get(field, ())} for field, names in found["fields"].items())
    assert (parts and fields) or transformers.__version__ < "5.24"
