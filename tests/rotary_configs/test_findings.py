"""Every finding of the registry: found where it belongs, and not where all is right."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from published import CONFIGS, GGUF

from locant.positions import DynamicNTK, Llama3, LongRoPE, RotaryConfig, YaRN
from locant.rotary_configs.case import Case, Idle
from locant.rotary_configs.config_json import read_huggingface
from locant.rotary_configs.findings import RULES, find
from locant.rotary_configs.gguf import read_gguf
from locant.rotary_configs.reading import UNREADABLE, LayerType, NoRotaryPositionsError, ParsedConfig
from locant.rotary_configs.vocabulary import text_config_path

_CLASS = "LlamaModel of transformers 5.24.0"
_PLAIN = RotaryConfig(head_dim=128, base=500000.0, max_length=8192)
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}
_LONGROPE = {"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 8192}


def _reading(*configs, assumed=(), multimodal=None, without=()):
    names = ["all"] if len(configs) == 1 else [f"type {number}" for number in range(len(configs))]
    layers = [LayerType(name, (index,), name) for index, name in enumerate(names)]
    layers += [LayerType("without", tuple(without), None)] if without else []
    return ParsedConfig(dict(zip(names, configs, strict=True)), multimodal or {}, tuple(layers), _CLASS, tuple(assumed))


def _asked(content, *configs, **fields):
    """A file of which the class was asked."""
    reading = fields.pop("reading", None) or _reading(*(configs or (_PLAIN,)))
    fields = {"class_name": _CLASS, "declared": content.get("max_position_embeddings"), **fields}
    return Case("huggingface", {"model_type": "llama", **content}, reading=reading, **fields)


def _unasked(content, *configs, **fields):
    return replace(_asked(content, *configs, **fields), class_name=None)


def _scaled(group, declared=32768, name="rope_scaling", **beside):
    return _asked({name: group, "max_position_embeddings": declared, "rope_theta": 500000.0, **beside})


def _with_scaling(scaling):
    return _asked({}, replace(_PLAIN, scaling=scaling))


def _gguf(metadata, tensors=(), architecture="llama"):
    content = {"general.architecture": architecture, **metadata}
    return Case("gguf", content, reading=_reading(_PLAIN), tensors=tensors)


def _longrope(short, long):
    return LongRoPE(short_factors=[short] * 64, long_factors=[long] * 64, original_length=4096, factor=8.0)


_BASE = {"llama.rope.freq_base": 500000.0}
_LLAMA31 = {**_BASE, "llama.context_length": 131072}
_HALVES = _reading(_PLAIN, assumed=("pairing of halves",))
_IDLE = Idle("rope_scaling.finetuned", True, False)
_SECTIONS = {"rope_type": "default", "mrope_section": [16, 24, 24]}

EXAMPLES = {  # where it is found, and where it is not
    "class-refuses": (_unasked({}, refusal="LlamaConfig refuses the file."), _asked({})),
    "cannot-be-read": (Case("huggingface", {}, unreadable="'factor' is missing."), _asked({})),
    "no-rope": (Case("huggingface", {}, no_rope="The model has ALiBi."), _asked({})),
    "class-said": (
        _asked({}, said=("`rope_parameters`'s beta_fast field must be greater than beta_slow",)),
        _asked({}),
    ),
    "misspelt": (
        _asked({"rope_tetha": 5e5}, idle=(Idle("rope_tetha", 5e5, False),)),
        _asked({"rope_tetha": 5e5}),  # the class reads it
    ),
    "override-beside-text-config": (
        _asked({"text_config": {}}, path=("text_config",), idle=(Idle("rope_scaling", _YARN, False),)),
        _asked({"text_config": {}}, path=("text_config",)),
    ),
    "override-drops": (_asked({}, dropped=(("rope_parameters.rope_theta", 1e6),)), _asked({})),
    "form-of-another-release": (
        _asked({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}),
        _asked({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}),
    ),
    "original-missing": (
        _scaled({"rope_type": "yarn", "factor": 4.0}),
        _scaled({"rope_type": "yarn", "factor": 4.0}, original_max_position_embeddings=8192),
    ),
    "original-is-extended": (_scaled(_YARN, declared=4096), _scaled(_YARN, declared=8192)),
    "lengths-disagree": (_scaled(_YARN, declared=16384), _scaled(_LONGROPE)),
    "factor-below-one": (_scaled({**_YARN, "factor": 0.25}), _scaled({**_YARN, "factor": 1})),
    "served-length": (
        _asked({"max_position_embeddings": 8192}, served=32768),
        _asked({"max_position_embeddings": 8192}, served=8192),
    ),
    "attention-scale-differs": (
        _with_scaling(YaRN(factor=4, original_length=8192, attention_factor=1.0)),
        _with_scaling(YaRN(factor=4, original_length=8192)),
    ),
    "score-scale": (
        _scaled({**_YARN, "mscale": 1.0, "mscale_all_dim": 1.0}, qk_rope_head_dim=64),
        _scaled(_YARN, qk_rope_head_dim=64),
    ),
    "layers-differ": (_asked({}, _PLAIN, replace(_PLAIN, base=1e4)), _asked({})),
    "layers-without-rope": (_asked({}, reading=_reading(_PLAIN, without=(3, 7))), _asked({})),
    "dynamic-cached-keys": (_with_scaling(DynamicNTK(factor=2, original_length=4096)), _asked({})),
    "dynamic-in-vllm": (_with_scaling(DynamicNTK(factor=2, original_length=4096)), _asked({})),
    "longrope-switch": (_with_scaling(_longrope(1.0, 2.0)), _with_scaling(_longrope(2.0, 2.0))),
    "axes-do-not-add-up": (_scaled({**_SECTIONS, "mrope_section": [16, 24]}), _scaled(_SECTIONS)),
    "unusual-number": (_asked({"rope_theta": 1000}), _asked({"rope_theta": 10000})),
    "unknown-model-type": (_unasked({"model_type": "no_such_model"}), _asked({"model_type": "no_such_model"})),
    "pairing-assumed": (_unasked({"model_type": "no_such_model"}, reading=_HALVES), _unasked({}, reading=_HALVES)),
    "assumed": (_unasked({}, reading=_HALVES), _unasked({"model_type": "no_such_model"}, reading=_HALVES)),
    "partial-factor-ignored": (_unasked({"partial_rotary_factor": 0.5}), _unasked({"partial_rotary_factor": 1.0})),
    "repeated-key": (_asked({}, repeated=("rope_theta",)), _asked({})),
    "gguf-base-missing": (_gguf({}), _gguf(_BASE)),
    "gguf-factors-missing": (_gguf(_LLAMA31), _gguf(_LLAMA31, ("rope_freqs.weight",))),
    "gguf-key-of-another-architecture": (_gguf(_BASE, architecture="qwen2"), _gguf(_BASE)),
    "entry-without-effect": (_asked({}, idle=(_IDLE,)), _asked({})),
}


def _codes(case):
    return [each.code for each in find(case)]


@pytest.mark.parametrize("code", RULES)
def test_each_is_found_where_it_belongs_and_nowhere_else(code):
    guilty, innocent = EXAMPLES[code]
    found = next(each for each in find(guilty) if each.code == code)
    assert found.message
    assert found.remedy
    assert code not in _codes(innocent)


def test_each_has_a_public_report_and_a_reason():
    assert EXAMPLES.keys() == RULES.keys()
    for rule in RULES.values():
        assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", rule.report)
        assert rule.reason.endswith(".")
        assert "\n" not in rule.reason


def test_the_page_has_the_table_of_the_registry():
    page = Path(__file__).parents[2] / "docs" / "findings.md"
    rows = [
        f"| `{code}` | {rule.severity} | {rule.reason} | [{rule.report.split('/')[4]} "
        f"{rule.report.rpartition('/')[2]}]({rule.report}) |"
        for code, rule in RULES.items()
    ]
    order = ("error", "warning", "note")
    rows.sort(key=lambda row: (order.index(row.split(" | ")[1]), row))
    assert "\n".join(rows) in page.read_text(encoding="utf-8")


def test_errors_come_first_and_each_is_said_once():
    case = _scaled({"rope_type": "yarn", "factor": 0.5, "attn_factor": 0.8, "rope_theta": 1000.0})
    case = replace(case, idle=(Idle("rope_scaling.attn_factor", 0.8, False),), repeated=("factor", "factor"))
    found = find(case)
    assert [each.severity for each in found] == sorted((each.severity for each in found), key=list(_ORDER).index)
    assert "entry-without-effect" not in _codes(case)  # what is more is said of that entry
    assert [each.entry for each in found if each.code == "attention-scale-differs"] == ["rope_scaling.attn_factor"]
    assert _codes(case).count("repeated-key") == 1


_ORDER = ("error", "warning", "note")


def test_a_finding_names_its_entry_and_layer_type_as_the_file_has_them():
    groups = {"full_attention": {**_YARN, "factor": 0.5}, "sliding_attention": {"rope_type": "default"}}
    content = {"text_config": {"rope_parameters": groups}}
    (found,) = [each for each in find(Case("huggingface", content, ("text_config",))) if each.severity == "error"]
    assert found.entry == "text_config.rope_parameters.full_attention.factor"
    assert found.layer == "full_attention"


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("original_max_position_embedding", 8192, "original_max_position_embeddings"),
        ("rop_scaling", {}, "rope_scaling"),
        ("RoPE_theta", 5e5, "rope_theta"),
        ("head_dims", 64, "head_dim"),
        ("partial_rotery_factor", 0.5, "partial_rotary_factor"),
    ],
)
def test_a_misspelt_entry_is_told_with_the_right_one(name, value, meant):
    (found,) = [each for each in find(_unasked({name: value})) if each.code == "misspelt"]
    assert found.entry == name
    assert f"'{meant}'" in found.remedy


@pytest.mark.parametrize("name", ["use_sliding_window", "num_key_value_heads", "vision_hidden_size", "x" * 100_000])
def test_entries_of_other_things_are_not_taken_for_misspelt(name):
    assert "misspelt" not in _codes(_unasked({name: 1}))


def test_lengths_by_the_conventions_of_published_models_agree():
    for declared in (8192, 32768):  # of Qwen 2.5, which keeps the original length, and of DeepSeek
        assert not {"lengths-disagree", "original-is-extended"} & {*_codes(_scaled(_YARN, declared))}
    assert "original-is-extended" in _codes(_scaled(_LLAMA3, declared=8192))
    assert "lengths-disagree" not in _codes(_scaled(_LLAMA3, declared=131072))  # Llama 3.1's own


def test_llama3_and_longrope_of_a_gguf_need_factors():
    scaled = replace(
        _gguf(_LLAMA31),
        reading=_reading(
            replace(
                _PLAIN, scaling=Llama3(factor=8, original_length=8192, low_frequency_factor=1, high_frequency_factor=4)
            )
        ),
    )
    assert "gguf-factors-missing" not in _codes(replace(scaled, tensors=("rope_freqs.weight",)))
    phi = {"phi3.rope.scaling.type": "longrope", "phi3.rope.freq_base": 1e4}
    assert "gguf-factors-missing" in _codes(_gguf(phi, architecture="phi3"))


def _published():
    for name, each in CONFIGS.items():
        yield name, each["config"], None
    for name, each in GGUF.items():
        yield name, each["metadata"], "gguf"


_ERRORS_OF_PUBLISHED = {  # of files that are as their publishers have them
    ("EAGLE-3 draft for Llama-3-70B", "original-is-extended"),  # both lengths are 4096
    ("Hymba-1.5B", "misspelt"),
}


def test_published_files_have_no_errors_but_those_that_are_known():
    """By their entries alone; a file that cannot be read says so."""
    found = set()
    for name, content, kind in _published():
        try:
            if kind == "gguf":
                case = Case("gguf", content, reading=read_gguf(content), tensors=("rope_freqs.weight",))
            else:
                length = content.get("max_position_embeddings")
                case = Case("huggingface", content, text_config_path(content), declared=length)
                case = replace(case, reading=read_huggingface(content))
        except NoRotaryPositionsError:
            continue
        except UNREADABLE:
            continue
        found |= {(name, each.code) for each in find(case) if each.severity == "error"}
    assert found <= _ERRORS_OF_PUBLISHED
