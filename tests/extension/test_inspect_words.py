"""Findings of an inspection: what they go by; and entries for other releases, which are read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from locant.errors import LocantError
from locant.extension.inspect.engine_configs import to_engine_config
from locant.extension.inspect.inspection import inspect_model
from locant.extension.inspect.model_class.ask import AskedClass, ask_class
from locant.extension.inspect.model_class.small_model import reduced_entries
from locant.extension.inspect.model_class.unasked import UnaskedClass
from locant.extension.inspect.result import Inspection

_SIZES: dict[str, Any] = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4}


def _inspected(folder: Path, content: dict[str, Any], *, ask_class: bool = False) -> Inspection:
    (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
    return inspect_model(folder, ask_class=ask_class)


@pytest.mark.parametrize(
    ("beside", "severity"),
    [
        ({}, "error"),
        ({"transformers_version": "5.24.1"}, "error"),
        ({"transformers_version": "4.51.3"}, "warning"),
        ({"auto_map": {"AutoConfig": "configuration_own.OwnConfig"}}, "warning"),
    ],
)
def test_a_file_that_its_class_refuses(beside: dict[str, Any], severity: str) -> None:
    refused = UnaskedClass("LlamaConfig", "5.24.0", "ValueError, no", refuses_the_file=True)
    finding = refused.finding({"model_type": "llama", **beside})
    assert finding is not None
    assert (finding.severity, finding.code) == (severity, "refused by the class")
    assert ("Release 4.51.3, by which it was written, may read it." in finding.message) is (
        beside.get("transformers_version") == "4.51.3"
    )


def test_findings_are_known_by_what_they_are_about(tmp_path: Path) -> None:
    still = {"model_type": "smollm3", **_SIZES, "no_rope_layers": [1, 0, 1, 1]}
    said = _inspected(tmp_path, still).as_data()["findings"]
    assert {each["code"] for each in said} >= {"layers without positions", "values of the class"}


def test_a_model_type_that_is_not_known_is_not_said_to_run_in_vllm(tmp_path: Path) -> None:
    said = _inspected(tmp_path, {"model_type": "novel", "hidden_size": 512, "num_attention_heads": 8}).findings
    assert not any("vLLM" in each.message for each in said)


class TestEntriesOfOtherReleases:
    """Entries are read back: they hold where the model's code reads the same from them."""

    @pytest.mark.parametrize("engine", ["hf4", "hf5"])
    def test_the_code_of_chatglm_reads_neither(self, engine: str, tmp_path: Path) -> None:
        chatglm = {"model_type": "chatglm", **_SIZES, "kv_channels": 64, "rope_ratio": 50}
        with pytest.raises(LocantError, match="for the model type 'chatglm'"):
            to_engine_config(_inspected(tmp_path, chatglm), engine)

    def test_a_class_that_takes_its_own_base(self, tmp_path: Path) -> None:
        groups = {
            name: {"rope_type": "default", "rope_theta": base}
            for name, base in (("full_attention", 7e5), ("sliding_attention", 2e4))
        }
        mellum = _inspected(tmp_path, {"model_type": "mellum", **_SIZES, "rope_parameters": groups})
        with pytest.raises(LocantError, match="transformers 4 cannot express"):
            to_engine_config(mellum, "hf4")
        written = to_engine_config(mellum, "hf5")
        assert isinstance(written, dict)
        assert {name: group["rope_theta"] for name, group in written["rope_parameters"].items()} == {
            "full_attention": 7e5,
            "sliding_attention": 2e4,
        }

    def test_bases_by_layer_have_no_groups(self, tmp_path: Path) -> None:
        granite = {"model_type": "granite_swa", **_SIZES, "layer_rope_theta": [10000, 0, 50000, 10000]}
        with pytest.raises(LocantError, match="transformers 5 cannot express"):
            to_engine_config(_inspected(tmp_path, granite), "hf5")

    def test_usual_models_have_both(self, tmp_path: Path) -> None:
        llama = _inspected(tmp_path, {"model_type": "llama", **_SIZES, "rope_theta": 5e5})
        for engine in ("hf4", "hf5"):
            assert isinstance(to_engine_config(llama, engine), dict)


class TestWithTheClass:
    """The class of transformers that is installed."""

    def test_nanochat(self, tmp_path: Path) -> None:
        pytest.importorskip("transformers")
        inspection = _inspected(tmp_path, {"model_type": "nanochat", **_SIZES}, ask_class=True)
        assert inspection.checked_against is not None
        codes = [each.code for each in inspection.findings if each.severity == "warning"]
        assert codes == ["turns backwards"]

    def test_layers_with_two_bases(self, tmp_path: Path) -> None:
        pytest.importorskip("transformers")
        granite = {"model_type": "granite_swa", **_SIZES, "layer_rope_theta": [10000, 0, 50000, 10000]}
        inspection = _inspected(tmp_path, granite, ask_class=True)
        assert inspection.checked_against is not None
        assert not [each for each in inspection.findings if each.severity != "note"]

    def test_grok_2_is_not_asked_of_another_class(self, tmp_path: Path) -> None:
        grok = {"model_type": "git", "architectures": ["Grok1ForCausalLM"], **_SIZES, "rope_theta": 208533496}
        inspection = _inspected(tmp_path, grok, ask_class=True)
        assert inspection.checked_against is None
        assert inspection.parsed is not None
        assert inspection.parsed.config.base == 208533496

    @pytest.mark.parametrize(
        ("name", "entries"),
        [
            (
                "hunyuan_v1_moe",
                {"head_dim": 64, "num_experts": 64, "moe_topk": [8] * 4, "moe_intermediate_size": [64] * 4},
            ),
            ("gemma3n_text", {"num_hidden_layers": 20, "num_kv_shared_layers": 10, "intermediate_size": [16384] * 20}),
        ],
    )
    def test_entries_for_each_layer_are_made_small(self, name: str, entries: dict[str, Any], tmp_path: Path) -> None:
        pytest.importorskip("transformers")
        inspection = _inspected(tmp_path, {"model_type": name, **_SIZES, **entries}, ask_class=True)
        assert inspection.not_compared is None
        assert inspection.checked_against is not None

    def test_the_decoder_of_two_stacks(self, tmp_path: Path) -> None:
        pytest.importorskip("transformers")
        stacks = {
            f"{name}_config": {"model_type": f"dia_{name}", **_SIZES, "head_dim": 64, "rope_theta": base}
            for name, base in (("encoder", 10000), ("decoder", 20000))
        }
        inspection = _inspected(tmp_path, {"model_type": "dia", **stacks}, ask_class=True)
        assert inspection.checked_against is not None
        assert inspection.checked_against.startswith("DiaDecoder")
        assert inspection.parsed is not None
        assert inspection.parsed.config.base == 20000

    def test_a_decoder_without_a_class_of_its_own(self, tmp_path: Path) -> None:
        """T5Gemma: what its decoder attends to of the encoder is not turned, and its layers alternate."""
        pytest.importorskip("transformers")
        stack = {**_SIZES, "num_key_value_heads": 4, "head_dim": 64, "model_type": "t5_gemma_module", "rope_theta": 1e4}
        t5gemma = {"model_type": "t5gemma", "encoder": stack | {"rope_theta": 2e4}, "decoder": stack}
        inspection = _inspected(tmp_path, t5gemma, ask_class=True)
        assert inspection.checked_against is not None
        assert inspection.parsed is not None
        assert inspection.parsed.config.base == 1e4
        assert {kind.layers for kind in inspection.parsed.layers} == {(0, 2), (1, 3)}
        assert not [each for each in inspection.findings if each.severity != "note"]

    def test_a_model_that_counts_its_heads_of_keys(self, tmp_path: Path) -> None:
        pytest.importorskip("transformers")
        jetmoe = {"model_type": "jetmoe", "hidden_size": 2048, "num_key_value_heads": 16, "kv_channels": 128}
        inspection = _inspected(tmp_path, jetmoe | {"num_hidden_layers": 12, "rope_theta": 1e4}, ask_class=True)
        assert (inspection.not_compared, inspection.findings) == (None, ())
        assert inspection.checked_against is not None

    def test_models_that_read_no_text_are_said_to(self, tmp_path: Path) -> None:
        pytest.importorskip("transformers")
        inspection = _inspected(tmp_path, {"model_type": "timesfm2_5", **_SIZES, "head_dim": 64}, ask_class=True)
        assert inspection.not_compared is not None
        assert inspection.not_compared.endswith("TimesFm2_5Model takes no text.")
        assert inspection.parsed is not None
        assert (inspection.parsed.config.layout, inspection.parsed.config.base) == ("half", 1e4)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "bare"), [("csm", "CsmBackboneModel"), ("llama4", "Llama4TextModel")])
def test_models_of_text_are_watched_without_the_parts_beside_it(name: str, bare: str) -> None:
    transformers = pytest.importorskip("transformers")
    asked = ask_class(transformers.CONFIG_MAPPING[name]().to_dict())
    assert isinstance(asked, AskedClass)
    assert asked.name == bare


def test_recurrences_are_made_narrow() -> None:
    """The layers of a recurrence decide nothing about the rotation of the others."""
    wide = {"linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128}
    wide |= {"linear_num_heads": 32, "linear_head_dim": 128}  # of Kimi, with which its class takes minutes
    small = reduced_entries({**wide, "hidden_size": 4096, "num_attention_heads": 16, "head_dim": 256})
    assert {name: small[name] for name in (*wide, "head_dim")} == {**dict.fromkeys(wide, 8), "head_dim": 256}


def test_a_small_model_rotates_as_many_features_as_the_formula_of_a_class_says_of_the_file() -> None:
    """CLVP rotates max(projection_dim // (2 * heads), 32) features (modeling_clvp.py)."""
    pytest.importorskip("transformers")
    file = {"model_type": "clvp_encoder", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    for width, rotated in ((256, 32), (384, 48)):
        content = {**file, "projection_dim": width, "intermediate_size": 512, "use_rotary_embedding": True}
        asked = ask_class(content)
        assert isinstance(asked, AskedClass)
        assert {each.rotation.rotary_dim for each in asked.layers if each.rotation is not None} == {rotated}


def test_parts_that_name_the_width_of_another_one_are_as_small_as_that() -> None:
    """BLT's encoder and decoder have hidden_size_global; a model in which they differ is built in full size."""
    part = {"model_type": "blt_local_encoder", "hidden_size": 1024, "num_attention_heads": 16}
    entries = {"encoder_config": {**part, "hidden_size_global": 2048}, "global_config": {**part, "hidden_size": 2048}}
    small = reduced_entries(entries)
    assert small["encoder_config"]["hidden_size_global"] == small["global_config"]["hidden_size"] == 256
