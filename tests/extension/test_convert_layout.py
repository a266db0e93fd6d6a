"""Checkpoints in the other rotary layout: logits, bytes, and what is refused."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch
from layout_checkpoints import SMALL, config_of, logits, save_checkpoint, weight_bytes
from zoo.architectures import architecture
from zoo.layouts import as_json, conversions, page

from locant.cli import main
from locant.errors import CheckpointError, LocantError, UsageError
from locant.extension import convert_layout, inspect_model, load_model
from locant.extension.layouts.asked import typed_config

transformers = pytest.importorskip("transformers")

safetensors = pytest.importorskip("safetensors.torch")

MODELS: dict[str, dict[str, Any]] = {
    "llama": {"head_dim": 16},
    "qwen2": {},  # biases
    "qwen3": {"head_dim": 32},  # norms of heads
    "gpt_neox": {"rotary_pct": 0.5},  # queries, keys and values of each head together, a part of it rotated
    "phi3": {},  # all queries, all keys, all values
    "falcon": {"new_decoder_architecture": True, "num_kv_heads": 2, "alibi": False},  # by groups of heads
    "gptj": {"n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 64, "rotary_dim": 8},
    "codegen": {"n_embd": 128, "n_head": 8, "n_layer": 2, "n_positions": 64, "rotary_dim": 8, "n_ctx": 64},
    "glm": {"head_dim": 16, "attention_bias": True},
    "cohere2": {"head_dim": 16, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8},
    "hunyuan_v1_dense": {"head_dim": 16},  # norms after the rotation
    "olmo2": {},  # norms over all heads
    "modernbert": {"num_key_value_heads": None, "global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 2},
    "deepseek_v3": {
        "num_key_value_heads": 4,
        "q_lora_rank": 24,
        "kv_lora_rank": 20,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "moe_intermediate_size": 16,
        "first_k_dense_replace": 1,
    },
}


def content_of(name: str) -> dict[str, Any]:
    entries = {key: value for key, value in (SMALL | MODELS[name]).items() if value is not None}
    return {"model_type": name, **entries}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MODELS)
def test_logits_stay_and_the_way_back_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path / "model", content_of(name))
    before = logits(folder)
    parsed = inspect_model(folder, ask_class=False).parsed
    assert parsed is not None
    layout = next(iter(parsed.configs.values())).layout
    other = "half" if layout == "interleaved" else "interleaved"
    converted = convert_layout(folder, tmp_path / "other", other)
    assert weight_bytes(tmp_path / "other") != weight_bytes(folder)
    torch.testing.assert_close(logits(tmp_path / "other"), before, atol=2e-4, rtol=0)
    assert converted.report.proof.converted < 1e-3 * converted.report.proof.unturned
    read = inspect_model(tmp_path / "other", ask_class=False).parsed
    assert read is not None
    assert {config.layout for config in read.configs.values()} == {other}
    convert_layout(tmp_path / "other", tmp_path / "again", layout)
    assert weight_bytes(tmp_path / "again") == weight_bytes(folder)
    back, first = config_of(tmp_path / "again"), config_of(folder)
    assert {key: back[key] for key in first} == first
    assert set(back) - set(first) <= {"rope_interleave"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("architecture_name", "refusal"),
    [
        ("gemma4_text", ""),  # heads of two sizes
        ("llama4_text", ""),  # layers that do not rotate
        ("llava", ""),  # the text part of a multimodal model
        ("embedding_gemma2_text", ""),  # layers that make much of what rounding changes
        ("deepseek_v4", "its values are not those of before"),  # keys are values as well
        ("mistral_large4_text", "by a number that is learned with its weights"),
    ],
)
def test_architectures_of_the_zoo(architecture_name: str, refusal: str) -> None:
    """One of each kind; ``make zoo-layouts`` has them all."""
    (found,) = conversions(architecture(architecture_name), [0])
    assert found.outcome == ("refused" if refusal else "converted"), found
    assert refusal in found.reason


def test_keys_that_are_values_too_are_refused(tmp_path: Path) -> None:
    """Gemma 4 with attention_k_eq_v: layers of full attention take their values from the projection of the keys."""
    entries = {"head_dim": 16, "global_head_dim": 32, "layer_types": ["sliding_attention", "full_attention"]}
    entries |= {"num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 64}
    content = {"model_type": "gemma4_text", **SMALL, **entries, "sliding_window": 8, "num_global_key_value_heads": 2}
    folder = save_checkpoint(tmp_path / "model", content | {"attention_k_eq_v": True})
    with pytest.raises(LocantError, match="Keys are values there as well"):
        convert_layout(folder, tmp_path / "other", "interleaved")
    assert not (tmp_path / "other").exists()


def test_order_of_rows_is_that_of_transformers_own_conversion(tmp_path: Path) -> None:
    """Weights of Llama as published have neighbours; transformers' converter makes halves of them."""
    from transformers.core_model_loading import PermuteForRope

    folder = save_checkpoint(tmp_path / "model", content_of("llama"))
    convert_layout(folder, tmp_path / "other", "interleaved")
    halves = safetensors.load_file(folder / "model.safetensors")
    neighbours = safetensors.load_file(tmp_path / "other" / "model.safetensors")
    for name, heads in (("q_proj", 4), ("k_proj", 2)):
        key = f"model.layers.1.self_attn.{name}.weight"
        config = transformers.LlamaConfig(num_attention_heads=heads)
        (expected,) = PermuteForRope().convert({key: [neighbours[key]]}, [key], [key], config=config).values()
        assert torch.equal(expected, halves[key])
        assert not torch.equal(neighbours[key], halves[key])


def test_converted_weights_in_another_class_that_pairs_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Llama with the rotation of Cohere, which pairs neighbours."""
    from transformers.models.cohere import modeling_cohere
    from transformers.models.llama import modeling_llama

    folder = save_checkpoint(tmp_path / "model", content_of("llama"))
    before = logits(folder)
    convert_layout(folder, tmp_path / "other", "interleaved")
    monkeypatch.setattr(modeling_llama, "LlamaRotaryEmbedding", modeling_cohere.CohereRotaryEmbedding)
    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", modeling_cohere.apply_rotary_pos_emb)
    model = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "other").eval()
    from locant.extension.layouts.proof import logits_of, token_ids

    torch.testing.assert_close(logits_of(model, token_ids(model)), before, atol=1e-4, rtol=0)


def test_switch_of_the_class_is_set(tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path / "model", content_of("deepseek_v3"))
    converted = convert_layout(folder, tmp_path / "other", "half", verify=True)
    assert converted.report.switch == ("rope_interleave", False)
    assert config_of(tmp_path / "other")["rope_interleave"] is False
    assert "locant_rotary_layout" not in config_of(tmp_path / "other")
    assert converted.report.verified is not None
    assert converted.report.verified.converted < 1e-4 < converted.report.verified.unturned


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_files_keep_their_shards_dtype_and_other_tensors(dtype: torch.dtype, tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path / "model", content_of("llama"), dtype, shard="20KB")
    (folder / "consolidated.safetensors").write_bytes(b"the same weights for other software")
    index = (folder / "model.safetensors.index.json").read_bytes()
    converted = convert_layout(folder, tmp_path / "other", "interleaved")
    out = tmp_path / "other"
    assert (out / "model.safetensors.index.json").read_bytes() == index
    assert not (out / "consolidated.safetensors").exists(), "its rows are not known"
    names = [file.name for file in sorted(folder.glob("model-*.safetensors"))]
    assert len(names) > 2
    linked = 0
    for name in names:
        old, new = safetensors.load_file(folder / name), safetensors.load_file(out / name)
        linked += (out / name).samefile(folder / name)
        for key in old:
            assert new[key].dtype == dtype
            assert torch.equal(old[key], new[key]) is (key not in converted.report.tensors)
    assert linked, "files without rotated rows are linked"


def test_one_tensor_is_in_memory_at_a_time(tmp_path: Path) -> None:
    from locant.extension.layouts.rows import RotatedRows
    from locant.extension.layouts.stored import copy_converted, stored_tensors

    size = 1 << 20
    tensors = {f"{index}": torch.randn(512, size // 512) for index in range(6)}
    safetensors.save_file(tensors, tmp_path / "all.safetensors")
    stored = stored_tensors([tmp_path / "all.safetensors"])
    rows = {name: RotatedRows(0, 512, tuple(range(0, 512, 64)), 64, "half") for name in tensors}
    del tensors
    tracemalloc.start()
    try:
        copy_converted(tmp_path / "all.safetensors", tmp_path / "out", stored, rows, "interleaved")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * 4 * size


def refused(folder: Path, tmp_path: Path, layout: str = "interleaved") -> str:
    with pytest.raises(LocantError) as caught:
        convert_layout(folder, tmp_path / "out", layout)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))
    return str(caught.value)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp("llama") / "model", content_of("llama"))


def copy_of(folder: Path, target: Path, **entries: Any) -> Path:
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    (target / "config.json").write_text(json.dumps(config_of(folder) | entries))
    return target


def test_the_layout_that_is_there_already(llama: Path, tmp_path: Path) -> None:
    assert "has the layout 'half' already" in refused(llama, tmp_path, "half")


def test_quantized_weights(llama: Path, tmp_path: Path) -> None:
    folder = copy_of(llama, tmp_path / "model", quantization_config={"quant_method": "gptq"})
    assert "the weights are quantized" in refused(folder, tmp_path)
    folder = copy_of(llama, tmp_path / "int8")
    tensors = safetensors.load_file(folder / "model.safetensors")
    name = "model.layers.0.self_attn.k_proj.weight"
    safetensors.save_file(tensors | {name: tensors[name].to(torch.int8)}, folder / "model.safetensors")
    assert f"'{name}' in model.safetensors holds I8 numbers" in refused(folder, tmp_path)


def test_adapters_pickles_gguf_and_own_code(llama: Path, tmp_path: Path) -> None:
    folder = copy_of(llama, tmp_path / "adapter")
    (folder / "adapter_config.json").write_text("{}")
    assert "holds an adapter" in refused(folder, tmp_path)
    folder = copy_of(llama, tmp_path / "pickle")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "a pickle" in refused(folder, tmp_path)
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(b"GGUF\x03\x00\x00\x00" + bytes(16))
    assert "is a GGUF file" in refused(gguf, tmp_path)
    own = copy_of(llama, tmp_path / "own", model_type="mine", auto_map={"AutoModel": "mine.Mine"})
    assert "no class for the model type 'mine'" in refused(own, tmp_path)
    assert "code of its own, which is never run" in refused(own, tmp_path)


def test_models_without_rotation_or_without_rows_of_their_own(tmp_path: Path) -> None:
    plain = {"model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 1, "vocab_size": 64}
    assert "does not rotate" in refused(save_checkpoint(tmp_path / "gpt2", plain), tmp_path)


def test_a_class_that_fails(llama: Path, tmp_path: Path) -> None:
    folder = copy_of(llama, tmp_path / "model", hidden_act="none such")
    assert "of transformers makes no model of this config.json" in refused(folder, tmp_path)
    glm = {"model_type": "glm4v_text", **SMALL, "head_dim": 16, "partial_rotary_factor": 1.0}
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 1]}
    folder = copy_of(llama, tmp_path / "glm", **glm, rope_parameters=rope, architectures=None)
    assert "failed while it was asked" in refused(folder, tmp_path)


def test_infinite_numbers_as_transformers_writes_them() -> None:
    limits = [0.0, {"__float__": "Infinity"}]
    assert typed_config({"model_type": "falcon_h1", "time_step_limit": limits}).time_step_limit[1] == float("inf")


def test_tensors_of_another_shape_or_none(llama: Path, tmp_path: Path) -> None:
    folder = copy_of(llama, tmp_path / "fewer", num_attention_heads=2, num_key_value_heads=1, head_dim=16)
    assert "by config.json, axis 0 should have 32 rows" in refused(folder, tmp_path)
    folder = copy_of(llama, tmp_path / "lacking")
    tensors = safetensors.load_file(folder / "model.safetensors")
    del tensors["model.layers.1.self_attn.q_proj.weight"]
    safetensors.save_file(tensors, folder / "model.safetensors")
    assert "model.layers.1.self_attn.q_proj.weight" in refused(folder, tmp_path)
    folder = copy_of(llama, tmp_path / "short")
    raw = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(raw[:-4])
    assert "no whole safetensors file" in refused(folder, tmp_path)


def test_output_that_exists_is_left_alone(llama: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(CheckpointError, match="already exists"):
        convert_layout(llama, tmp_path / "out", "interleaved")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["mine"]


def test_nothing_is_left_of_an_interrupted_conversion(llama: Path, tmp_path: Path) -> None:
    def interrupt(share: float) -> None:
        if share > 0.3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert_layout(llama, tmp_path / "out", "interleaved", on_progress=interrupt)
    assert not list(tmp_path.iterdir())


def test_transformers_is_not_given_weights_that_it_would_read_wrongly(llama: Path, tmp_path: Path) -> None:
    convert_layout(llama, tmp_path / "out", "interleaved")
    with pytest.raises(UsageError, match="would read wrongly"):
        load_model(tmp_path / "out")
    findings = inspect_model(tmp_path / "out").findings
    assert any("were converted to the layout 'interleaved'" in finding.message for finding in findings)


def test_command(llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert-layout", str(llama), "--to", "interleaved", "-o", str(tmp_path / "out"), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["from"] == "half"
    assert data["to"] == "interleaved"
    assert data["read_by_transformers"] is False
    assert data["tensors"]["model.layers.0.self_attn.k_proj.weight"]["blocks"] == [0, 16]
    assert "mlx-lm" in data["readers"]
    card = (tmp_path / "out" / "README.md").read_text()
    assert "paired as neighbours" in card
    assert main(["convert-layout", str(tmp_path / "out"), "--to", "half", "-o", str(tmp_path / "back")]) == 0
    said = capsys.readouterr().out
    assert "reads it: that is its own layout" in said
    assert (tmp_path / "back" / "README.md").read_text().count("## Rotary layout") == 1
    assert main(["convert-layout", str(llama), "--to", "half", "-o", str(tmp_path / "new")]) == 2


def test_the_page_about_all_architectures_says_what_its_record_holds() -> None:
    results = Path(__file__).resolve().parents[2] / "docs" / "results"
    text = (results / "layouts.json").read_text(encoding="utf-8")
    record = json.loads(text)
    assert as_json(record) == text
    assert page(record) == (results / "layouts.md").read_text(encoding="utf-8")
    assert not [each for each in record["conversions"] if each["outcome"] == "different"]
