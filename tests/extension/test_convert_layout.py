"""Checkpoints in the other rotary layout: logits, bytes, and what is refused."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from locant.cli import main
from locant.errors import CheckpointError, LocantError, UsageError
from locant.extension import load_model
from locant.extension.layouts.convert import convert_layout
from locant.extension.layouts.rows import ask_layout
from locant.extension.load import quiet_transformers
from locant.positions.rotary.rotation import layout_order

transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

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
WINDOWS = {"head_dim": 16, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8}
SHARED = {**WINDOWS, "global_head_dim": 32, "num_kv_shared_layers": 0, "attention_k_eq_v": True}
SHARED |= {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 64, "num_global_key_value_heads": 2}
LATENT = {"num_key_value_heads": 4, "q_lora_rank": 24, "kv_lora_rank": 20, "v_head_dim": 16, "first_k_dense_replace": 1}
LATENT |= {"qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2}
LATENT |= {"n_group": 1, "topk_group": 1, "moe_intermediate_size": 16}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {"head_dim": 16},
    "qwen2": {},  # biases
    "qwen3": {"head_dim": 32},  # norms of heads
    "mistral": {"head_dim": 16},
    "gemma2": {**WINDOWS, "query_pre_attn_scalar": 16},
    "gemma3_text": {**WINDOWS, "query_pre_attn_scalar": 16},  # norms of heads, two bases
    "phi3": {},  # all queries, all keys, all values in one weight
    "gpt_neox": {"rotary_pct": 0.5},  # queries, keys and values of each head together, a part of it rotated
    "olmo2": {},  # norms over all heads
    "glm": {"head_dim": 16, "attention_bias": True},  # neighbours, a part of each head
    "deepseek_v2": {**LATENT, "topk_method": "greedy"},  # neighbours, a weight of its own
    "deepseek_v3": LATENT,  # neighbours that the class makes halves of
    "qwen3_moe": {"head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
}


def save_checkpoint(folder: Path, content: dict[str, Any], dtype: torch.dtype = torch.float32, **options: Any) -> Path:
    """Save a model of a config.json with random weights, norms and biases among them."""
    config = transformers.CONFIG_MAPPING[content["model_type"]].from_dict(content)
    with torch.random.fork_rng(devices=[]), quiet_transformers(), torch.no_grad():
        torch.manual_seed(0)
        kind = (
            transformers.AutoModelForImageTextToText if "text_config" in content else transformers.AutoModelForCausalLM
        )
        model = kind.from_config(config)
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.2 * torch.randn(parameter.shape)
            else:
                parameter *= 4  # attention that looks at something
        model.to(dtype).save_pretrained(folder, **options)
    return folder


def small(name: str) -> dict[str, Any]:
    return {"model_type": name, **SMALL, **MODELS[name]}


def config_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return content


def weight_bytes(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.glob("*.safetensors"))}


@torch.no_grad()
def logits(folder: Path) -> torch.Tensor:
    """Return the logits that plain transformers computes."""
    with quiet_transformers():
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.randint(3, 64, (1, 19), generator=torch.Generator().manual_seed(1))
    result: torch.Tensor = model(input_ids=ids).logits
    return result


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp("llama") / "model", small("llama"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", MODELS)
def test_the_proof_holds_and_the_way_back_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path / "model", small(name))
    own = ask_layout(config_of(folder)).layout
    other = "half" if own == "interleaved" else "interleaved"
    proof = convert_layout(folder, tmp_path / "other", other).report.proof
    assert proof.converted < 1e-4 * proof.unturned
    assert weight_bytes(tmp_path / "other") != weight_bytes(folder)
    assert convert_layout(tmp_path / "other", tmp_path / "again", own).report.is_native
    assert weight_bytes(tmp_path / "again") == weight_bytes(folder)
    assert torch.equal(logits(tmp_path / "again"), logits(folder))
    back, first = config_of(tmp_path / "again"), config_of(folder)
    assert {key: back[key] for key in first} == first


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3_text", "phi3", "gpt_neox", "olmo2"])
def test_logits_with_a_class_that_pairs_neighbours(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The class of transformers, whose rotation takes neighbours for halves."""
    folder = save_checkpoint(tmp_path / "model", small(name))
    before = logits(folder)
    convert_layout(folder, tmp_path / "other", "interleaved")
    assert not torch.allclose(logits(tmp_path / "other"), before, atol=1e-2)
    module = importlib.import_module(
        f"transformers.models.{name.removesuffix('_text')}.modeling_{name.removesuffix('_text')}"
    )
    rotate = module.apply_rotary_pos_emb

    def of_neighbours(q: Any, k: Any, cos: Any, sin: Any, *args: Any, **kwargs: Any) -> Any:
        count = cos.shape[-1]
        order = layout_order(q.shape[-1], rotary_dim=count, source="interleaved", target="half")
        return rotate(q[..., order], k[..., order], cos, sin, *args, **kwargs)

    monkeypatch.setattr(module, "apply_rotary_pos_emb", of_neighbours)
    torch.testing.assert_close(logits(tmp_path / "other"), before, atol=1e-4, rtol=0)


def test_order_of_rows_is_that_of_transformers_own_conversion(llama: Path, tmp_path: Path) -> None:
    """Weights of Llama as published have neighbours; transformers' converter makes halves of them."""
    from transformers.core_model_loading import PermuteForRope

    convert_layout(llama, tmp_path / "other", "interleaved")
    halves = safetensors.load_file(llama / "model.safetensors")
    neighbours = safetensors.load_file(tmp_path / "other" / "model.safetensors")
    for name, heads in (("q_proj", 4), ("k_proj", 2)):
        key = f"model.layers.1.self_attn.{name}.weight"
        config = transformers.LlamaConfig(num_attention_heads=heads)
        (expected,) = PermuteForRope().convert({key: [neighbours[key]]}, [key], [key], config=config).values()
        assert torch.equal(expected, halves[key])
        assert not torch.equal(neighbours[key], halves[key])


def test_text_of_a_multimodal_model(tmp_path: Path) -> None:
    text = small("gemma3_text")
    vision = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision |= {"image_size": 28, "patch_size": 14, "model_type": "siglip_vision_model"}
    content = {"model_type": "gemma3", "text_config": text, "vision_config": vision, "mm_tokens_per_image": 4}
    folder = save_checkpoint(tmp_path / "model", content)
    report = convert_layout(folder, tmp_path / "other", "interleaved").report
    assert len(report.tensors) == 8
    assert not [name for name in report.tensors if "vision" in name]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_files_keep_their_shards_dtype_and_other_tensors(dtype: torch.dtype, tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path / "model", small("llama"), dtype, max_shard_size="20KB")
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


def refused(folder: Path, tmp_path: Path, error: type[LocantError], layout: str = "interleaved") -> None:
    with pytest.raises(error):
        convert_layout(folder, tmp_path / "out", layout)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".locant*"))


def copy_of(folder: Path, target: Path, **entries: Any) -> Path:
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    (target / "config.json").write_text(json.dumps(config_of(folder) | entries))
    return target


def test_what_is_no_plain_checkpoint(llama: Path, tmp_path: Path) -> None:
    refused(llama, tmp_path, UsageError, "half")
    refused(copy_of(llama, tmp_path / "gptq", quantization_config={"quant_method": "gptq"}), tmp_path, UsageError)
    folder = copy_of(llama, tmp_path / "adapter")
    (folder / "adapter_config.json").write_text("{}")
    refused(folder, tmp_path, UsageError)
    folder = copy_of(llama, tmp_path / "pickle")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, tmp_path, UsageError)
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(b"GGUF\x03\x00\x00\x00" + bytes(16))
    refused(gguf, tmp_path, UsageError)
    refused(copy_of(llama, tmp_path / "own", model_type="mine", auto_map={"AutoModel": "m.M"}), tmp_path, LocantError)
    refused(copy_of(llama, tmp_path / "strange", hidden_act="none such"), tmp_path, LocantError)


def test_files_that_are_not_those_of_the_class(llama: Path, tmp_path: Path) -> None:
    folder = copy_of(llama, tmp_path / "fewer", num_attention_heads=2, num_key_value_heads=1, head_dim=16)
    refused(folder, tmp_path, UsageError)
    name = "model.layers.1.self_attn.q_proj.weight"
    for number, change in enumerate((lambda each: {}, lambda each: {name: each.to(torch.int8)})):
        folder = copy_of(llama, tmp_path / f"changed-{number}")
        tensors = safetensors.load_file(folder / "model.safetensors")
        safetensors.save_file(change(tensors.pop(name)) | tensors, folder / "model.safetensors")
        refused(folder, tmp_path, UsageError)
    folder = copy_of(llama, tmp_path / "short")
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-4])
    refused(folder, tmp_path, UsageError)


@pytest.mark.parametrize(
    "content",
    [
        {"model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 1},  # no rotation
        {"model_type": "falcon", "alibi": False},  # attention in its own code
        {"model_type": "hunyuan_v1_dense", "head_dim": 16},  # norms after the rotation
        {"model_type": "gemma4_text", **SHARED},  # keys that are values as well
    ],
    ids=lambda content: content["model_type"],
)
def test_classes_that_are_refused(content: dict[str, Any], tmp_path: Path) -> None:
    refused(save_checkpoint(tmp_path / "model", SMALL | content), tmp_path, LocantError)


def test_nothing_is_left_of_an_interrupted_conversion(llama: Path, tmp_path: Path) -> None:
    def interrupt(share: float) -> None:
        if share > 0.3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert_layout(llama, tmp_path / "out", "interleaved", on_progress=interrupt)
    assert not list(tmp_path.iterdir())


def test_command(llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert-layout", str(llama), "--to", "interleaved", "-o", str(tmp_path / "out"), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["from"], data["to"], data["read_by_transformers"]) == ("half", "interleaved", False)
    assert data["tensors"]["model.layers.0.self_attn.k_proj.weight"]["blocks"] == [0, 16]
    assert config_of(tmp_path / "out")["locant_rotary_layout"] == "interleaved"
    with pytest.raises(UsageError):  # transformers would read it wrongly
        load_model(tmp_path / "out")
    assert main(["convert-layout", str(tmp_path / "out"), "--to", "half", "-o", str(tmp_path / "back")]) == 0
    assert (tmp_path / "back" / "README.md").read_text().count("## Rotary layout") == 1
    assert main(["convert-layout", str(llama), "--to", "half", "-o", str(tmp_path / "new")]) == 2


def test_output_that_exists_is_left_alone(llama: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(CheckpointError):
        convert_layout(llama, tmp_path / "out", "interleaved")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["mine"]


def test_layers_that_the_class_ignores_are_converted_as_well(llama: Path, tmp_path: Path) -> None:
    folder = copy_of(llama, tmp_path / "model")
    tensors = safetensors.load_file(folder / "model.safetensors")
    further = "model.layers.2.self_attn.q_proj.weight"
    tensors[further] = tensors["model.layers.1.self_attn.q_proj.weight"].clone()
    safetensors.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    assert further in convert_layout(folder, tmp_path / "other", "interleaved").report.tensors
    new = safetensors.load_file(tmp_path / "other" / "model.safetensors")
    assert torch.equal(new[further], new["model.layers.1.self_attn.q_proj.weight"])
