"""The class of transformers is asked what it makes of a config.json."""

from __future__ import annotations

import builtins
import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from transformers import CONFIG_MAPPING

from locant.extension import Inspection, inspect_model
from locant.extension.inspect.model_class import small_model
from locant.extension.inspect.model_class.ask import AskedClass, ask_class
from locant.extension.inspect.model_class.compare import compare_with_class
from locant.extension.inspect.model_class.observe import ObservedLayer, Recorder, observe
from locant.extension.inspect.model_class.rotation import MeasuredRotation
from locant.extension.inspect.model_class.small_model import build
from locant.extension.inspect.model_class.turning_axes import axes_of_class
from locant.extension.inspect.model_class.unasked import UnaskedClass, failure_of_file
from locant.positions.rotary.config import RotaryConfig
from locant.rotary_configs.base import LayerType, NoRotaryPositionsError, ParsedConfig
from locant.rotary_configs.classes import families
from locant.rotary_configs.huggingface import layer_windows
from locant.rotary_configs.huggingface.reading import read_huggingface

_WIDE = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 4, "max_position_embeddings": 8192}


def _inspected(folder: Path, **content: Any) -> Inspection:
    (folder / "config.json").write_text(json.dumps(_WIDE | content), encoding="utf-8")
    return inspect_model(folder)


def _said(inspection: Inspection, severity: str) -> list[str]:
    return [finding.message for finding in inspection.findings if finding.severity == severity]


def test_a_right_reading_agrees_with_the_class(tmp_path: Path) -> None:
    inspection = _inspected(tmp_path, model_type="cohere2", rope_theta=50000.0)
    assert str(inspection.checked_against).startswith("Cohere2Model of transformers ")
    assert not _said(inspection, "warning")
    assert inspection.as_data()["layer_types"][1]["layers"] == (3,)


def test_angles_of_more_than_half_a_turn_are_those_that_they_were_read_to_be(tmp_path: Path) -> None:
    """A pair that turns by 4 radians a token cannot be told from one that turns back by 2 pi - 4, nor need it be."""
    scaling = {"rope_type": "linear", "factor": 0.25}
    inspection = _inspected(tmp_path, model_type="llama", rope_scaling=scaling)
    assert inspection.checked_against is not None
    said = " ".join(each.message for each in inspection.findings)
    assert "backwards" not in said
    assert "something else than the file says" not in said


def test_pairs_that_a_file_turns_backwards_are_so_in_the_class(tmp_path: Path) -> None:
    """A factor below 0 in the file, and not a class that turns its pairs by minus the angle."""
    rope = {"rope_type": "linear", "factor": -4.0, "rope_theta": 1e4}
    inspection = _inspected(tmp_path, model_type="llama", rope_parameters=rope)
    assert str(inspection.checked_against).startswith("LlamaModel of transformers ")
    assert not [each for each in _said(inspection, "warning") if "the class of" in each or "does something" in each]
    assert "below 0, which turns all pairs backwards" in _said(inspection, "error")[0]


def test_a_disagreement_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The class of GPT-NeoX passes over a rope_theta beside no group; without knowing that the reading is another."""
    known = families.model_type("gpt_neox")
    assert known is not None
    monkeypatch.setattr(families, "model_type", lambda _: replace(known, keeps_its_base=False))
    inspection = _inspected(tmp_path, model_type="gpt_neox", rope_theta=500000.0, rotary_pct=0.25)
    (warning,) = _said(inspection, "warning")
    assert "does something else than the file says in layers 0, 1, 2, 3: 0." in warning
    assert "(by the file: pair 1 turns by " in warning
    assert inspection.parsed is not None
    assert inspection.parsed.config.base == 10000


_DECIDED = [
    pytest.param(
        {"model_type": "falcon", "n_embed": 512, "num_attention_heads": 8, "num_hidden_layers": 4},
        {"all": (64, 64, 10000)},
        [("all", (0, 1, 2, 3), None)],
        id="a head size under a name that only the class reads",
    ),
    pytest.param(
        {"model_type": "modernbert-decoder", "num_hidden_layers": 4, "rope_theta": 20000.0},
        {"sliding_attention": (64, 64, 10000), "full_attention": (64, 64, 160000)},
        [("full_attention", (0, 3), None), ("sliding_attention", (1, 2), 64)],
        id="a base that the class passes over",
    ),
    pytest.param(
        {"model_type": "voxtral", "text_config": {"model_type": "llama", "num_hidden_layers": 2}},
        {"all": (128, 128, 100000000)},
        [("all", (0, 1), None)],
        id="a base that a class gives its text part",
    ),
]


@pytest.mark.parametrize(("content", "configs", "layers"), _DECIDED)
def test_what_the_file_leaves_out_is_what_the_class_has(
    tmp_path: Path, content: dict[str, Any], configs: dict[str, Any], layers: list[Any]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
    inspection = inspect_model(tmp_path)
    assert inspection.parsed is not None
    read = {key: (each.head_dim, each.rotary_dim, each.base) for key, each in inspection.parsed.configs.items()}
    assert read == configs
    assert [(each.name, each.layers, each.window) for each in inspection.parsed.layers] == layers


def test_types_of_layers_that_the_file_leaves_out_are_those_of_the_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without knowing how layers alternate, the reading is that of layers which are all the same."""
    known = families.model_type("cohere2")
    assert known is not None
    monkeypatch.setattr(families, "model_type", lambda _: replace(known, layer_types=()))
    inspection = _inspected(tmp_path, model_type="cohere2", rope_theta=50000.0, sliding_window=64)
    assert inspection.parsed is not None
    assert [(each.name, each.layers, each.config, each.window) for each in inspection.parsed.layers] == [
        ("sliding_attention", (0, 1, 2), "all", 64),
        ("full_attention", (3,), None, None),
    ]
    notes = _said(inspection, "note")
    assert any(
        "decides what the file leaves out in layer 3: does not rotate (by the file alone: rotates)" in each
        for each in notes
    )
    assert sum("has no positions" in each for each in notes) == 1
    assert not any("by the class" in each for each in _said(inspection, "warning"))


def test_code_beside_the_file_is_the_measure_and_not_the_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = families.model_type("gpt_neox")
    assert known is not None
    monkeypatch.setattr(families, "model_type", lambda _: replace(known, keeps_its_base=False))
    own = {"auto_map": {"AutoModel": "modeling_own.Model"}}
    inspection = _inspected(tmp_path, model_type="gpt_neox", rope_theta=500000.0, rotary_pct=0.25, **own)
    assert inspection.parsed is not None
    assert inspection.parsed.config.base == 500000
    assert any("does something else than the file says" in each for each in _said(inspection, "warning"))


@pytest.mark.parametrize("place", [(), ("vision_config",), ("text_config",)])
def test_more_layers_than_any_model_has_are_refused_before_a_class_is_asked(
    place: tuple[str, ...], tmp_path: Path
) -> None:
    content: dict[str, Any] = {"num_hidden_layers": 10**12}
    for name in place:
        content = {name: content}
    inspection = _inspected(tmp_path, model_type="qwen2", rope_theta=1e6, **content)
    assert "num_hidden_layers in config.json is 1000000000000; 10000 is the most here" in _said(inspection, "error")[0]


def _unknown(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    known = families.model_type
    monkeypatch.setattr(families, "model_type", lambda name: None if name in names else known(name))


def test_an_unknown_model_type_is_read_from_its_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _unknown(monkeypatch, "cohere2")
    inspection = _inspected(tmp_path, model_type="cohere2", rope_theta=50000.0)
    assert inspection.parsed is not None
    assert inspection.parsed.config.layout == "interleaved"
    assert inspection.parsed.layers_without() == ("Layer 3 has no positions.",)
    assert any(
        "'cohere2' is not known here; what its class does was read from" in each for each in _said(inspection, "note")
    )
    assert not _said(inspection, "warning")


def test_axes_of_an_unknown_model_type_are_those_of_its_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """modeling_qwen3_vl.py turns pairs by the three axes in turn; mrope_interleaved is not stated."""
    _unknown(monkeypatch, "qwen3_vl_text")
    rope = {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [24, 20, 20]}
    inspection = _inspected(tmp_path, model_type="qwen3_vl_text", head_dim=128, rope_parameters=rope)
    assert inspection.parsed is not None
    axis_of_pair = inspection.parsed.multimodal["all"]["axis_of_pair"]
    assert axis_of_pair[:6] == (0, 1, 2, 0, 1, 2)
    assert axis_of_pair[-4:] == (0, 0, 0, 0)


@pytest.mark.sampled(1)
@pytest.mark.skipif("dory" not in CONFIG_MAPPING, reason="not in this release")
@pytest.mark.parametrize("blocks", [16, 72])
@pytest.mark.parametrize("is_known", [True, False])
def test_blocks_of_attention_and_mlp_are_one_layer_as_in_the_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int, is_known: bool
) -> None:
    """configuration_dory.py: a file lists them apart, each pair is one layer; the first 48 blocks alone are refused."""
    _unknown(monkeypatch, *(() if is_known else ("dory",)))
    layers = blocks // 2
    content = {
        "num_hidden_layers": blocks,
        **dict.fromkeys(("n_input_layers", "n_output_layers"), 4),
        "n_recurrent_layers": blocks - 8,
        "layer_types": [*["sliding_attention", "mlp"] * 3, "full_attention", "mlp"] * (layers // 4),
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            "full_attention": {"rope_type": "default", "rope_theta": 1e7},
        },
    }
    inspection = _inspected(tmp_path, model_type="dory", sliding_window=1024, **content)
    assert str(inspection.checked_against).startswith("DoryModel of transformers ")
    assert inspection.parsed is not None
    assert {kind.name: kind.layers for kind in inspection.parsed.layers} == {
        "sliding_attention": tuple(index for index in range(layers) if index % 4 != 3),
        "full_attention": tuple(range(3, layers, 4)),
    }
    assert not _said(inspection, "warning")


def test_windows_are_those_of_the_masks_of_the_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever size was read; masks are asked about tokens far beyond those of the small model."""
    monkeypatch.setattr(layer_windows, "tokens_of", lambda *_: 999)
    content = {"model_type": "gemma2", "num_hidden_layers": 4, "head_dim": 16, "sliding_window": 70_000}
    (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
    inspection = inspect_model(tmp_path)
    assert inspection.parsed is not None
    assert [kind.window for kind in inspection.parsed.layers] == [70_000, None]
    said = [each.message for each in inspection.findings if each.severity == "warning"]
    assert any("layers 0, 2: a window of 70000 tokens (by the file: a window of 999 tokens)" in each for each in said)


def test_nobody_knows_a_novel_model_type(tmp_path: Path) -> None:
    inspection = _inspected(tmp_path, model_type="novel", rope_theta=50000.0)
    assert inspection.checked_against is None
    assert any("halves are assumed" in each for each in _said(inspection, "warning"))


@pytest.mark.parametrize(
    ("name", "meant"), [("privacy_filter", "openai_privacy_filter"), ("qwen_3", "qwen3"), ("novel", None)]
)
def test_a_model_type_of_nobody_is_told_first(tmp_path: Path, name: str, meant: str | None) -> None:
    for asks in (True, False):
        (tmp_path / "config.json").write_text(json.dumps({**_WIDE, "model_type": name, "rope_thata": 1e4}))
        first, *others = (each.message for each in inspect_model(tmp_path, ask_class=asks).findings)
        assert first.startswith(f"transformers 5.24 has no class of the model type '{name}'")
        assert (f"Did you mean '{meant}'?" in first) is (meant is not None)
        assert any("rope_thata" in each for each in others)
    coded = {"auto_map": {"AutoConfig": "configuration_novel.NovelConfig"}}
    for file in ({"model_type": name, **coded}, {"model_type": "llama"}, {"model_type": "vit"}, {}):
        found = _inspected(tmp_path, **file, rope_theta=1e4).findings
        assert not any("has no class of the model type" in each.message for each in found)


def test_absurd_sizes_are_not_built(tmp_path: Path) -> None:
    """The class of GPT-J makes a table of all positions while it is built."""
    sizes = {"n_embd": 64, "n_head": 4, "n_layer": 2, "rotary_dim": 8}
    usual = _inspected(tmp_path, model_type="gptj", **sizes)
    assert usual.checked_against is not None
    absurd = _inspected(tmp_path, model_type="gptj", **sizes, max_position_embeddings=10**12)
    assert absurd.checked_against is None
    assert str(absurd.not_compared).startswith("The file could not be compared with GPTJModel of transformers ")
    assert absurd.as_data()["not_compared"] == absurd.not_compared
    assert absurd.parsed is not None
    assert absurd.parsed.config.frequencies() == usual.parsed.config.frequencies()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "entries",
    [
        {"rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]}},
        {"rope_parameters": {"rope_theta": None}},
        {"partial_rotary_factor": 0.5, "rope_scaling": {"type": "linear", "factor": 2.0}},
    ],
)
def test_entries_with_which_a_class_fails_are_a_warning(tmp_path: Path, entries: dict[str, Any]) -> None:
    """Neither is where the code of another project reads the file."""
    sizes = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2}
    failing = _inspected(tmp_path, model_type="llama", **sizes, **entries)
    assert any("LlamaModel of transformers" in each and "raises" in each for each in _said(failing, "warning"))
    assert failing.checked_against is None
    assert "could not be compared with LlamaModel" in str(failing.not_compared)
    own = _inspected(tmp_path, model_type="llama", **sizes, **entries, auto_map={"AutoConfig": "configuration_own.Own"})
    assert not any("raises" in each for each in _said(own, "warning"))
    assert own.not_compared is not None


def test_numbers_of_the_small_model_are_not_told_as_the_file_s() -> None:
    """DiffLlama wants an even number of heads of keys; small models of its file have one."""
    sizes = {"hidden_size": 256, "num_attention_heads": 16, "num_key_value_heads": 4, "num_hidden_layers": 2}
    asked = ask_class({"model_type": "diffllama", **sizes})
    assert isinstance(asked, AskedClass)
    odd = ask_class({"model_type": "diffllama", **sizes, "num_key_value_heads": 1})
    assert isinstance(odd, UnaskedClass)
    assert odd.fails_with_the_file
    config = CONFIG_MAPPING["diffllama"](**sizes)
    assert failure_of_file(config, [ValueError("wants 2 heads of keys, got 1")]) is None
    config.num_key_value_heads = 1
    with pytest.raises(ValueError, match="got 1") as seen:
        build(copy.deepcopy(config))
    config.num_key_value_heads = 3
    assert "got 3" in str(failure_of_file(config, [TypeError(), seen.value]))
    assert failure_of_file(config, [TypeError(), ValueError()]) is None


def test_layers_beyond_those_of_any_model_are_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def build_watched(config: Any) -> Any:
        made.append(config.num_hidden_layers)
        return build(config)

    monkeypatch.setattr(small_model, "build", build_watched)
    sizes = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 10_000}
    failing = ask_class({"model_type": "llama", **sizes, "rope_parameters": {"rope_theta": None}})
    assert isinstance(failing, UnaskedClass)
    assert not failing.fails_with_the_file
    assert max(made) == 48


def test_a_small_configuration_that_is_refused_is_not_told_as_the_file_s(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2}
    monkeypatch.setattr(small_model, "reduced_entries", lambda *_, **__: {"hidden_size": "small"})
    refused = ask_class({"model_type": "llama", **sizes})
    assert isinstance(refused, UnaskedClass)
    assert not refused.fails_with_the_file


def test_what_a_part_lacks_alone_is_not_told_of_the_whole(tmp_path: Path) -> None:
    """The class of T5Gemma 2 gives its decoder the share of dropout, without which that makes no model."""
    sizes = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
    part = {**sizes, "head_dim": 64, "sliding_window": 16}
    inspection = _inspected(tmp_path, model_type="t5gemma2", encoder={"text_config": part}, decoder=part)
    assert not any("computes no text" in each for each in _said(inspection, "warning"))


def test_what_a_part_lacks_alone_is_no_entry_of_its_file(tmp_path: Path) -> None:
    """T5Gemma2Config hands its parts dropout_rate; no whole of Qwen 3 Omni hands its talker a size of experts."""
    sizes = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
    alone = _inspected(tmp_path, model_type="t5gemma2_text", **sizes, head_dim=64)
    assert not any("with the entries of this file" in each for each in _said(alone, "warning"))
    assert alone.not_compared is not None
    talker = _inspected(tmp_path, model_type="qwen3_omni_moe_talker_text", **sizes)
    assert any("'shared_expert_intermediate_size', with the entries" in each for each in _said(talker, "warning"))


def test_axes_of_a_class_that_takes_embeddings_alone() -> None:
    """Qwen3OmniMoeTalkerModel has no embeddings of a text; its rotation is the thinker's, with sections of the file."""
    from transformers.models.qwen3_omni_moe.configuration_qwen3_omni_moe import Qwen3OmniMoeTalkerTextConfig

    sizes = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
    experts = {
        "shared_expert_intermediate_size": 32,
        "moe_intermediate_size": 32,
        "num_experts": 4,
        "num_experts_per_tok": 2,
    }
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [12, 10, 10]}
    config = Qwen3OmniMoeTalkerTextConfig(**sizes, **experts, rope_parameters=rope)
    config.shared_expert_intermediate_size = 32
    model = build(config)
    seen = axes_of_class(model, observe(model, range(0, 40, 8)))
    assert seen == {"sections": [12, 10, 10], "order": "alternating"}
    read = read_huggingface({"model_type": "qwen3_omni_moe_talker_text", **sizes, "rope_parameters": rope})
    axes = read.multimodal["all"]["axis_of_pair"]
    assert [axes.count(axis) for axis in range(3)] == [12, 10, 10]
    assert not any("mrope_section" in each.message for each in read.findings)


def test_the_class_fails_where_it_is_left_no_size_of_heads(tmp_path: Path) -> None:
    """Ministral's multiplies by its head_dim, which is null by default."""
    sizes = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2}
    failing = _inspected(tmp_path, model_type="ministral", **sizes)
    assert any("MinistralModel of transformers" in each and "raises" in each for each in _said(failing, "warning"))
    right = _inspected(tmp_path, model_type="ministral", **sizes, head_dim=64)
    assert right.checked_against is not None
    assert not _said(right, "warning")


def test_a_class_whose_heads_differ_by_layer_is_asked(tmp_path: Path) -> None:
    """Transformers raises where one head_dim is asked for."""
    experts = {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32}
    inspection = _inspected(tmp_path, model_type="diffusion_gemma_text", num_key_value_heads=8, **experts)
    assert inspection.checked_against is not None


@pytest.mark.slow
def test_a_flat_file_with_which_the_class_of_a_whole_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """GLM-4V takes three axes for all features of a head, where the file has no text part."""
    flat = {"model_type": "glm4v", "partial_rotary_factor": 0.5, **_WIDE, "rope_theta": 1e4}
    inspection = _inspected(tmp_path, **flat, rope_scaling={"type": "default", "mrope_section": [8, 12, 12]})
    assert any("Glm4vTextModel of transformers" in each and "raises" in each for each in _said(inspection, "warning"))
    assert not caplog.records  # of what PyTorch tried


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("entries", "severity", "said"),
    [
        ({"model_type": "mpt", "attn_config": {"attn_type": "grouped_query_attention"}}, "error", "MptConfig raises"),
        ({"model_type": "whisper", "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "error", "refuses this file"),
    ],
)
def test_the_class_of_a_file_without_rotary_positions_is_asked_as_well(
    tmp_path: Path, entries: dict[str, Any], severity: str, said: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(entries), encoding="utf-8")
    assert any(said in each for each in _said(inspect_model(tmp_path), severity))
    assert not any(said in each for each in _said(inspect_model(tmp_path, ask_class=False), severity))
    plain = {"model_type": entries["model_type"]}
    (tmp_path / "config.json").write_text(json.dumps(plain), encoding="utf-8")
    assert [each.severity for each in inspect_model(tmp_path).findings] == ["note"]


def test_a_class_that_rotates_against_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def still(*_: Any) -> None:
        raise NoRotaryPositionsError("It stands still.")

    monkeypatch.setattr("locant.extension.inspect.inspection.read_source", still)
    inspection = _inspected(tmp_path, model_type="llama", head_dim=64, num_hidden_layers=2)
    assert any("rotates 64 of 64 features in layers 0, 1, though" in each for each in _said(inspection, "warning"))


def test_a_class_with_a_product_of_its_own_is_watched(tmp_path: Path) -> None:
    """GPT-NeoX Japanese multiplies queries and keys by torch.baddbmm."""
    inspection = _inspected(tmp_path, model_type="gpt_neox_japanese", rotary_emb_base=20000)
    assert str(inspection.checked_against).startswith("GPTNeoXJapaneseModel of transformers ")
    assert inspection.parsed is not None
    assert inspection.parsed.config.base == 20000


def test_a_class_whose_attention_cannot_be_watched_is_not_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it rotates must not be denied."""
    monkeypatch.setattr(f"{Recorder.__module__}._PRODUCTS", ())
    inspection = _inspected(tmp_path, model_type="gpt_neox_japanese", rotary_emb_base=10000)
    assert inspection.checked_against is None
    assert inspection.parsed is not None
    assert inspection.parsed.config.base == 10000


def test_layers_that_did_nothing_with_a_text_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of Mllama that attend to an image; without knowing its list they are read as rotating."""
    entries = {"model_type": "mllama_text_model", "cross_attention_layers": [1, 2]}
    assert not _said(_inspected(tmp_path, **entries), "warning")
    monkeypatch.setattr("locant.rotary_configs.huggingface.layers._LISTED_LAYERS", frozenset())
    inspection = _inspected(tmp_path, **entries)
    said = "in layers 1, 2: does not attend to the text (by the file alone: rotates). What the class does is shown."
    assert any(said in each for each in _said(inspection, "note"))
    assert inspection.parsed is not None
    assert inspection.parsed.layers_without() == ("Layers 1, 2 have no positions.",)


def test_a_file_that_the_class_refuses_is_an_error(tmp_path: Path) -> None:
    """configuration_mistral3.py: a scaling beside text_config makes it look for a length that only that part has."""
    text = {"model_type": "mistral", "head_dim": 128, **_WIDE}
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
    refused = {"model_type": "mistral3", "text_config": text, "rope_scaling": scaling}
    (tmp_path / "config.json").write_text(json.dumps(refused), encoding="utf-8")
    said = "refuses this file: Mistral3Config raises AttributeError"
    assert any(said in each for each in _said(inspect_model(tmp_path), "error"))
    # Code of its own may read it.
    (tmp_path / "config.json").write_text(json.dumps(refused | {"auto_map": {"AutoConfig": "a.B"}}), encoding="utf-8")
    assert any(said in each for each in _said(inspect_model(tmp_path), "warning"))


def test_pairs_that_one_layer_does_not_show_are_no_difference() -> None:
    """The last pair of GLM-4 turns by 3e-7 a token; a layer whose weights for it are small does not show it."""
    config = RotaryConfig(head_dim=8, base=1e7)
    parsed = ParsedConfig({"all": config}, layers=(LayerType("all", (0, 1), "all"),))
    frequencies = tuple(float(each) for each in config.frequencies())
    precisions = (1e-6,) * 4

    def seen(index: int, pairs: int) -> ObservedLayer:
        rotation = MeasuredRotation(8, 0, 2 * pairs, "half", frequencies[:pairs], precisions[:pairs])
        return ObservedLayer(f"layers.{index}", index, rotation, "half", 1.0)

    length = 600
    assert 1e-4 < frequencies[3] * length < 1e-2 < frequencies[2] * length
    assert not compare_with_class(parsed, [seen(0, 4), seen(1, 3)], length)
    (difference,) = compare_with_class(parsed, [seen(0, 3), seen(1, 3)], length)
    assert (difference.subject, difference.layers) == ("features", (0, 1))
    (difference,) = compare_with_class(parsed, [seen(0, 4), seen(1, 2)], length)
    assert (difference.subject, difference.layers) == ("features", (1,))


def test_what_a_class_fails_with_is_not_compared_in_json_either(tmp_path: Path) -> None:
    inspection = _inspected(tmp_path, model_type="llama", rope_parameters={"rope_type": None, "rope_theta": 1e4})
    assert any("with the entries of this file" in each for each in _said(inspection, "warning"))
    assert "could not be compared" in inspection.as_data()["not_compared"]


def test_a_transformers_whose_import_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, *args: Any, **options: Any) -> Any:
        if name == "transformers":
            raise AttributeError("module 'torch' has no attribute 'uint7'")
        return importing(name, *args, **options)

    importing = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", broken)
    inspection = _inspected(tmp_path, model_type="llama", rope_theta=5e5)
    assert inspection.parsed is not None
    assert inspection.parsed.config.base == 5e5
    assert inspection.not_compared == (
        "The file could not be compared with the class of 'llama' in transformers: its import raises AttributeError, "
        "module 'torch' has no attribute 'uint7'."
    )


def test_a_file_of_mistral_with_types_of_layers_is_compared_with_ministral(tmp_path: Path) -> None:
    """AutoConfig takes such a file for one of Ministral, whose layers have the window by their types."""
    types = ["full_attention", "sliding_attention"]
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2}
    file = {"model_type": "mistral", "layer_types": types, "sliding_window": 8, "rope_theta": 1e6, **sizes}
    (tmp_path / "config.json").write_text(json.dumps(file), encoding="utf-8")
    found = inspect_model(tmp_path)
    assert [each.window for each in found.parsed.layers] == [None, 8]
    said = " ".join(each.message for each in found.findings)
    assert "takes it for 'ministral'" in said
    assert "does something else" not in said


def test_a_class_whose_text_part_has_another_name_in_the_file_is_asked(tmp_path: Path) -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "unlimited_ocr", "language_config": sizes}))
    assert str(inspect_model(tmp_path).checked_against).startswith("UnlimitedOcrTextModel")


def test_a_default_file_of_heads_with_an_odd_share_is_read_as_its_class(tmp_path: Path) -> None:
    """Glm4MoeConfig has 96 heads in 4096 features, 42 for each, of which half are 21."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "glm4_moe"}), encoding="utf-8")
    found = inspect_model(tmp_path)
    assert str(found.checked_against).startswith("Glm4MoeModel")
    assert found.parsed is not None
    assert (found.parsed.config.head_dim, found.parsed.config.rotary_dim) == (42, 22)
    assert not any("does something else" in each.message for each in found.findings)


def test_a_window_that_is_no_field_of_the_configuration_counts(tmp_path: Path) -> None:
    """ModernBERT's decoder takes ``sliding_window`` as an attribute beside the field that it makes it of."""
    entries = {"model_type": "modernbert-decoder", "sliding_window": 32, "global_attn_every_n_layers": 2}
    inspection = _inspected(tmp_path, **entries)
    assert inspection.checked_against is not None
    assert inspection.parsed is not None
    assert {each.window for each in inspection.parsed.layers} == {None, 32}
    assert not [each for each in _said(inspection, "warning") if "something else than the file says" in each]


def test_a_class_that_reads_sound_is_asked(tmp_path: Path) -> None:
    heads = {"encoder_num_attention_heads": 8, "decoder_num_attention_heads": 8, "hidden_size": 288}
    inspection = _inspected(tmp_path, model_type="moonshine", **heads)
    assert str(inspection.checked_against).startswith("MoonshineModel of transformers ")
