"""Folders that `locant extend` writes: their logits in plain transformers, their files, and what is refused.

For scalings that follow the length of the text (dynamic, LongRoPE) logits are those of one pass over the whole text
without cached keys, by a model that has read nothing before.
"""

from __future__ import annotations

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from extend_models import FAMILIES, config_of, save_model, save_tokenizer

import locant.extension.extend.extend as extend_module
from locant.cli import main
from locant.errors import CheckpointError, ConfigError, DataError, LocantError, UsageError
from locant.extension.extend.extend import extend_model
from locant.extension.extend.methods import TRACE, apply_method, extension_methods, read_by_class
from locant.positions.huggingface import install
from locant.rotary_configs.config_json import read_huggingface

transformers = pytest.importorskip("transformers")

TRAINED, TARGET = 64, 160
TOLERANCE = 1e-4
SCALED = {"phi3-longrope": ["longrope"], "llama-3.1": ["longrope"], "qwen2-yarn": ["yarn", "longrope"]}


def methods_of(family: str) -> list[str]:
    possible = {**SCALED, "phi3": ["ntk", "longrope"]}
    return possible.get(family, [method for method in extension_methods() if method != "drope"])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {family: save_model(tmp_path_factory.mktemp(family) / "model", family) for family in FAMILIES}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = save_model(tmp_path / "model", "llama")
    save_tokenizer(folder)
    return folder


def logits(folder: Path, length: int, *, ours: bool = False) -> torch.Tensor:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokens = torch.randint(3, 64, (1, length), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        if not ours:
            return model(tokens, use_cache=False).logits
        configs = read_huggingface(json.loads((folder / "config.json").read_text())).configs
        fixed = {
            layer: replace(config, scaling=config.scaling.fixed_for(length), max_length=None)
            for layer, config in configs.items()
        }
        with install(model, fixed):
            return model(tokens, use_cache=False).logits


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("family", "method"), [(family, method) for family in FAMILIES for method in methods_of(family)]
)
def test_logits_in_plain_transformers(folders: dict[str, Path], tmp_path: Path, family: str, method: str) -> None:
    extended = extend_model(folders[family], tmp_path / "out", TARGET, method=method)
    assert (extended.report.method, extended.report.instead_of) == (method, "")
    for length in (TRAINED - 20, TARGET):
        theirs = logits(extended.path, length)
        torch.testing.assert_close(theirs, logits(extended.path, length, ours=True), rtol=0, atol=TOLERANCE)
        # The scaling matters: without it the logits are others, except where short texts are left alone.
        changed = (theirs - logits(folders[family], length)).abs().max()
        assert changed > 100 * TOLERANCE or (length < TRAINED and method in ("dynamic", "longrope"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", [*SCALED, "phi3"])
def test_where_the_method_cannot_be_expressed_another_is_taken(
    folders: dict[str, Path], tmp_path: Path, family: str
) -> None:
    extended = extend_model(folders[family], tmp_path / "out", TARGET, method="linear")
    assert (extended.report.method, extended.report.instead_of) == ("longrope", "linear")
    assert extended.report.why_instead in (extended.path / "README.md").read_text()
    with pytest.raises(ConfigError):
        apply_method(config_of("llama-3.1"), "linear", TARGET)


def test_a_model_with_axes(tmp_path: Path) -> None:
    text = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    text |= {"num_key_value_heads": 1, "vocab_size": 64, "max_position_embeddings": TRAINED}
    text |= {"rope_theta": 1e4, "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}}
    vision = {"depth": 1, "embed_dim": 16, "hidden_size": 32, "num_heads": 2}
    config = transformers.Qwen2VLConfig(text_config=text, vision_config=vision)
    transformers.Qwen2VLForConditionalGeneration(config).save_pretrained(tmp_path / "model")
    content = {"model_type": "qwen2_vl", **text, "vision_config": vision}  # as such models were published
    (tmp_path / "model" / "config.json").write_text(json.dumps(content))
    folder = extend_model(tmp_path / "model", tmp_path / "out", TARGET).path
    read = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    rotary = read.model.language_model.rotary_emb
    plain = read_huggingface(apply_method({**config_of("qwen2"), "rope_theta": 1e4}, "yarn", TARGET)).config
    assert rotary.inv_freq.tolist() == pytest.approx([float(each) for each in plain.frequencies()], rel=1e-6)
    assert read.config.get_text_config().rope_parameters["mrope_section"] == [2, 3, 3]


def test_what_the_class_would_compute_otherwise_is_not_written(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(content: Any) -> Any:
        return read_by_class({**content, "rope_theta": 500.0 if content.get(TRACE) else content["rope_theta"]})

    monkeypatch.setattr(extend_module, "read_by_class", other)
    with pytest.raises(ConfigError):
        extend_model(model, tmp_path / "out", TARGET)
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


def edit(path: Path, **entries: Any) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | entries))


def test_weights_are_linked_and_the_rest_is_copied(model: Path, tmp_path: Path) -> None:
    before = {file.name: file.read_bytes() for file in model.iterdir()}
    out = extend_model(model, tmp_path / "out", TARGET).path
    assert (out / "model.safetensors").samefile(model / "model.safetensors")
    assert not (out / "tokenizer.json").samefile(model / "tokenizer.json")
    assert (out / "tokenizer.json").read_bytes() == before["tokenizer.json"]
    assert {file.name: file.read_bytes() for file in model.iterdir()} == before, "the model itself is untouched"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model", "out"]


def test_stated_lengths_follow(model: Path, tmp_path: Path) -> None:
    edit(model / "generation_config.json", max_length=64, temperature=0.5)
    out = extend_model(model, tmp_path / "out", TARGET).path
    settings = json.loads((model / "generation_config.json").read_text())
    assert json.loads((out / "generation_config.json").read_text()) == settings | {"max_length": TARGET}
    assert transformers.AutoTokenizer.from_pretrained(out).model_max_length == TARGET
    config = transformers.AutoConfig.from_pretrained(out)
    assert (config.max_position_embeddings, config.rope_parameters["rope_type"]) == (TARGET, "yarn")


def test_code_and_pickles_are_not_passed_on(model: Path, tmp_path: Path) -> None:
    edit(model / "config.json", auto_map={"AutoModelForCausalLM": "modeling.Evil"})
    names = {"modeling.py", "training_args.bin", "old.pt", ".hidden"}
    for name in names:
        (model / name).write_text("raise SystemExit")
    out = extend_model(model, tmp_path / "out", TARGET).path
    assert not names & {file.name for file in out.iterdir()}
    assert "auto_map" not in json.loads((out / "config.json").read_text())
    edit(model / "config.json", model_type="unheard_of")
    with pytest.raises(UsageError):
        extend_model(model, tmp_path / "other", TARGET)
    assert not (tmp_path / "other").exists()


def test_what_was_done_is_kept_by_transformers(model: Path, tmp_path: Path) -> None:
    out = extend_model(model, tmp_path / "out", TARGET, method="ntk").path
    saved = tmp_path / "saved"
    transformers.AutoModelForCausalLM.from_pretrained(out).save_pretrained(saved)
    save_tokenizer(saved)
    again = json.loads((extend_model(saved, tmp_path / "again", 320, method="ntk").path / "config.json").read_text())
    base = again.get("rope_theta") or again["rope_parameters"]["rope_theta"]
    assert base == pytest.approx(1000.0 * 5 ** (16 / 14)), "from the base before the first extension"
    assert again[TRACE]["before"]["max_position_embeddings"] == TRAINED


def test_a_full_disk_leaves_nothing(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", full)
        with pytest.raises(CheckpointError):
            extend_model(model, tmp_path / "out", TARGET)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0))  # type: ignore[attr-defined]
    with pytest.raises(CheckpointError):
        extend_model(model, tmp_path / "out", TARGET)
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


def test_auto_measures_and_takes_the_best(model: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 10)
    said: list[Any] = []
    extended = extend_model(model, tmp_path / "out", TARGET, method="auto", texts=[text], on_measured=said.append)
    report = extended.report
    assert [each.method for each in said] == ["none", "linear", "ntk", "yarn", "longrope"]
    assert list(report.measurements) == said
    assert report.lengths == (TRAINED, TARGET)
    best = min(each.long for each in said[1:])
    near = [each for each in said[1:] if each.long <= 1.01 * best]
    assert report.method == min(near, key=lambda each: each.short).method
    # What was measured is what the saved model does.
    saved = transformers.AutoModelForCausalLM.from_pretrained(extended.path).eval()
    ids = transformers.AutoTokenizer.from_pretrained(extended.path)(text.read_text())["input_ids"][:TARGET]
    with torch.no_grad():
        tokens = torch.tensor([ids])
        loss = saved(tokens, labels=tokens, use_cache=False).loss.item()
    measured = next(each for each in said if each.method == report.method)
    assert torch.tensor(measured.long).log().item() == pytest.approx(loss, rel=1e-4)
    assert f"{measured.short:.3f} | {measured.long:.3f}" in (extended.path / "README.md").read_text()
    text.write_text("short")
    with pytest.raises(DataError):
        extend_model(model, tmp_path / "other", TARGET, method="auto", texts=[text])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--to", "32"],
        ["--to", "160", "--steps", "3"],
        ["--to", "160", "--text", "x"],
        ["--to", "160", "--finetune", "x"],
        ["--to", "160", "--finetune", "x", "--steps", "1", "--full", "--rank", "3"],
        ["--to", "160", "--device", "abacus"],
    ],
)
def test_mistakes_on_the_command_line(model: Path, tmp_path: Path, arguments: list[str]) -> None:
    assert main(["extend", str(model), "-o", str(tmp_path / "out"), *arguments]) == 2
    assert not (tmp_path / "out").exists()


def test_the_command(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["extend", str(model), "--to", "1k", "-o", str(out)]) == 0
    assert "model from 64 to 1024 tokens by yarn" in capsys.readouterr().out
    assert main(["extend", str(tmp_path / "nothing"), "--to", "1k", "-o", str(tmp_path / "no")]) == 2


def test_links_of_the_hubs_cache_are_followed(model: Path, tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    (model / "model.safetensors").rename(blob)
    (model / "model.safetensors").symlink_to(blob)
    out = extend_model(model, tmp_path / "out", TARGET).path
    assert not (out / "model.safetensors").is_symlink()
    assert (out / "model.safetensors").samefile(blob)


def test_the_model_card_keeps_what_it_said(model: Path, tmp_path: Path) -> None:
    (model / "README.md").write_text("---\nlicense: mit\n---\n# Tiny\nWords.\n")
    first = extend_model(model, tmp_path / "out", TARGET, method="ntk").path
    card = (first / "README.md").read_text()
    assert card.startswith("---\nlicense: mit\n---\n# Tiny\nWords.\n")
    assert "`ntk`" in card
    again = (extend_model(first, tmp_path / "again", 320).path / "README.md").read_text()
    assert again.count("## Extended context") == 1
    assert "`ntk`" not in again


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "generation_config.json"])
@pytest.mark.parametrize("text", ["{", "[1]"])
def test_damaged_json(model: Path, tmp_path: Path, name: str, text: str) -> None:
    (model / name).write_text(text)
    with pytest.raises(LocantError, match=name):
        extend_model(model, tmp_path / "out", TARGET)
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


def test_what_cannot_be_written_so(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        extend_model(model, tmp_path / "out", TARGET, format="gguf")
    with pytest.raises(ConfigError):
        extend_model(model, tmp_path / "out", TRAINED)
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with pytest.raises(UsageError, match="pickle"):
        extend_model(model, tmp_path / "out", TARGET)
    assert [each.name for each in tmp_path.iterdir()] == ["model"]
