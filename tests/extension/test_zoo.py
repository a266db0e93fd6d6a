"""Architectures of the installed transformers: what is read from config.json is what their classes do."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import transformers
from transformers import CONFIG_MAPPING
from zoo.architectures import architecture
from zoo.cases import WINDOWS
from zoo.facts import compact, facts_of
from zoo.left_out import layer_types
from zoo.page import as_json, page
from zoo.survey import verdicts
from zoo.windows import window_verdicts

from locant.positions.scaling.fields import Fields
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.model_types import from_facts
from locant.rotary_configs.huggingface.layers import layer_names

_RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"

# One of each kind; ``make zoo`` has them all.
_KINDS = [
    "llama",  # the plain case, with every scaling
    "gpt_neox",  # a part of the head
    "cohere2",  # neighbours; full attention without positions
    "smollm3",  # some layers without positions
    "llama4_text",
    "exaone4",
    "gemma3_text",  # a base for each layer type
    "olmo3",
    "gemma4_text",  # heads of two sizes, proportional
    "deepseek_v3",  # a separate rotated part
    "deepseek_v4",
    "granitemoehybrid",  # a switch, and state spaces
    "bamba",
    "esm",
    "roformer",
    "gptj",
    "jamba",  # no rotation
    "nemotron_h",
    "t5gemma2_decoder",  # attends to its own text and to another's in one
    "voxtral_realtime_text",  # layers that want more than hidden states
    "idefics",  # computes nothing without images
    "dia_decoder",  # several ids a token
    "dory",  # types of blocks, of which two are a layer
    "llava",  # a text part
    "qwen2_5_omni",
    "qwen2_5_vl_text",  # positions of several axes
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("model_type", _KINDS)
def test_config_json_is_read_as_the_class_computes_it(model_type: str) -> None:
    if model_type not in CONFIG_MAPPING:
        pytest.skip("not in this release")
    found = list(verdicts(architecture(model_type), range(2)))
    assert found
    # An odd part of a drawn head is what no configuration of pairs expresses.
    rest = [each for each in found if not (each.outcome == "refused" and "must be even" in each.reason)]
    assert {each.outcome for each in rest} <= {"right", "not built"}, [each.reason for each in found]
    assert any(each.outcome == "right" for each in found), [each.reason for each in found]
    record = json.loads((_RESULTS / "zoo.json").read_text(encoding="utf-8"))
    if record["transformers"] == transformers.__version__ and model_type not in record["not_reached"]:
        own = [each for each in record["verdicts"] if each["model_type"] == model_type and each["seed"] < 2]
        recorded = [each for each in own if not each["form"].startswith(WINDOWS)]
        assert [each.as_data() for each in found] == recorded


def test_windows_and_axes_are_compared() -> None:
    (found,) = verdicts(architecture("qwen2_5_vl_text"), range(1))
    assert (found.windows, found.axes) == (True, True)


def test_the_page_says_what_its_record_holds() -> None:
    text = (_RESULTS / "zoo.json").read_text(encoding="utf-8")
    record = json.loads(text)
    assert as_json(record) == text
    assert page(record) == (_RESULTS / "zoo.md").read_text(encoding="utf-8")
    assert not [each for each in record["verdicts"] if each["outcome"] == "wrong"]


def test_the_page_tells_windows_apart() -> None:
    record = json.loads((_RESULTS / "zoo.json").read_text(encoding="utf-8"))
    of_one = {"model_type": "mistral", "seed": 0, "rope_type": "default"}
    forms = [("sliding_window 3", "right"), ("sliding_window 0", "warned"), ("sliding_window left out", "wrong")]
    more = [{**of_one, "form": form, "outcome": outcome, "reason": "4096"} for form, outcome in forms]
    others = [each for each in record["verdicts"] if not each["form"].startswith(WINDOWS)]
    before, after = page({**record, "verdicts": others}), page({**record, "verdicts": [*others, *more]})
    sentence = "3 more files of 1 architectures with windows state"
    assert sentence not in before
    assert sentence in after
    assert set(before.splitlines()) < set(after.splitlines())  # counts of the other cases stay
    assert "(sliding_window left out, default): 4096" in after


@pytest.mark.sampled(2)
@pytest.mark.parametrize("model_type", ["mistral", "modernbert", "qwen2_moe", "qwen3_moe", "embedding_gemma2_text"])
def test_windows_of_any_size_are_those_of_the_masks(model_type: str) -> None:
    if model_type not in CONFIG_MAPPING:
        pytest.skip("not in this release")
    found = list(window_verdicts(architecture(model_type)))
    assert {each.outcome for each in found} <= {"right", "warned", "not built"}, [each.reason for each in found]
    assert any(each.form.endswith(" 3") and each.outcome == "right" for each in found)
    assert all(each.form.endswith((" 0", " -1")) for each in found if each.outcome == "warned")


_ALTERNATING = [
    *("afmoe", "bailing_hybrid", "cohere2", "cohere2_moe", "exaone4", "flint", "gemma3_text", "gemma4_text"),
    *("lara_mini", "llama4_text", "modernbert", "muse_glimmer_text", "muse_spark_text", "qwen3_next"),
]
"""Model types whose layers alternate: by their number alone, by an entry, from the front or from the back."""


@pytest.mark.parametrize("model_type", _ALTERNATING)
def test_layers_alternate_as_in_the_class_for_any_number_of_them(model_type: str) -> None:
    if model_type not in CONFIG_MAPPING:
        pytest.skip("not in this release")
    drawn, kind = random.Random(model_type), families.model_type(model_type)
    assert kind is not None
    period = [] if kind.period is None else [kind.period[0]]
    for _ in range(8):
        content = {"num_hidden_layers": drawn.randint(2, 40), **{name: drawn.randint(1, 7) for name in period[:1]}}
        content = content if drawn.random() < 0.7 else {"num_hidden_layers": content["num_hidden_layers"]}
        types = layer_types(architecture(model_type).config_class(**content))
        assert list(layer_names(Fields(content, "config.json"), kind)) == types, content


@pytest.mark.sampled(1)
@pytest.mark.parametrize("model_type", ["falcon", "glm4_moe_lite", "bamba", "voxtral", "muse_spark_text", "dory"])
def test_what_a_class_makes_of_entries_is_on_record(model_type: str) -> None:
    """Names that only the class reads, numbers that no entry changes, and what a whole gives its text part."""
    if model_type not in CONFIG_MAPPING:
        pytest.skip("not in this release")
    facts = facts_of(architecture(model_type))
    assert facts is not None
    assert families.model_type(model_type) == from_facts(model_type, json.loads(json.dumps(compact(facts))))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("model_type", ["mistral", "phi", "cohere", "modernbert"])
def test_facts_are_those_of_the_installed_class(model_type: str) -> None:
    facts = facts_of(architecture(model_type))
    assert facts is not None
    known = families.model_type(model_type)
    assert known == from_facts(model_type, json.loads(json.dumps(compact(facts))))
