"""Folders that `locant extend` writes, and what it refuses before it writes anything."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from extend_models import save_model, save_tokenizer

from locant.cli import main
from locant.errors import CheckpointError, LocantError, UsageError
from locant.extension.extend.extend import extend_model
from locant.extension.extend.methods import TRACE

transformers = pytest.importorskip("transformers")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = save_model(tmp_path / "model", "llama")
    save_tokenizer(folder)
    return folder


def edit(path: Path, **entries: Any) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | entries))


def test_weights_are_linked_and_the_rest_is_copied(model: Path, tmp_path: Path) -> None:
    before = {file.name: file.read_bytes() for file in model.iterdir()}
    out = extend_model(model, tmp_path / "out", 160).path
    assert (out / "model.safetensors").samefile(model / "model.safetensors")
    assert not (out / "tokenizer.json").samefile(model / "tokenizer.json")
    assert (out / "tokenizer.json").read_bytes() == before["tokenizer.json"]
    assert {file.name: file.read_bytes() for file in model.iterdir()} == before, "the model itself is untouched"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model", "out"]


def test_weights_are_copied_where_they_cannot_be_linked(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "another device")

    monkeypatch.setattr(os, "link", refuse)
    out = extend_model(model, tmp_path / "out", 160).path
    assert (out / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()


def test_links_of_the_hubs_cache_are_followed(model: Path, tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    (model / "model.safetensors").rename(blob)
    (model / "model.safetensors").symlink_to(blob)
    out = extend_model(model, tmp_path / "out", 160).path
    assert not (out / "model.safetensors").is_symlink()
    assert (out / "model.safetensors").samefile(blob)


def test_stated_lengths_follow(model: Path, tmp_path: Path) -> None:
    edit(model / "generation_config.json", max_length=64, temperature=0.5)
    out = extend_model(model, tmp_path / "out", 160).path
    assert json.loads((out / "generation_config.json").read_text()) == json.loads(
        (model / "generation_config.json").read_text()
    ) | {"max_length": 160}
    assert transformers.AutoTokenizer.from_pretrained(out).model_max_length == 160
    config = transformers.AutoConfig.from_pretrained(out)
    assert (config.max_position_embeddings, config.rope_parameters["rope_type"]) == (160, "yarn")


def test_code_and_pickles_are_not_passed_on(model: Path, tmp_path: Path) -> None:
    edit(model / "config.json", auto_map={"AutoModelForCausalLM": "modeling.Evil"})
    for name in ("modeling.py", "training_args.bin", "old.pt", ".hidden"):
        (model / name).write_text("raise SystemExit")
    out = extend_model(model, tmp_path / "out", 160).path
    assert not {"modeling.py", "training_args.bin", "old.pt", ".hidden"} & {file.name for file in out.iterdir()}
    assert "auto_map" not in json.loads((out / "config.json").read_text())


def test_the_model_card_keeps_what_it_said(model: Path, tmp_path: Path) -> None:
    (model / "README.md").write_text("---\nlicense: mit\n---\n# Tiny\nWords.\n")
    first = extend_model(model, tmp_path / "out", 160, method="ntk").path
    card = (first / "README.md").read_text()
    assert card.startswith("---\nlicense: mit\n---\n# Tiny\nWords.\n")
    for said in ("from 64 to 160", "`ntk`", "weights are unchanged", "scaling none", "base 1000,"):
        assert said in card
    again = (extend_model(first, tmp_path / "again", 320).path / "README.md").read_text()
    assert again.count("## Extended context") == 1
    assert "from 64 to 320" in again
    assert "`ntk`" not in again


def test_what_was_done_is_kept_by_transformers(model: Path, tmp_path: Path) -> None:
    out = extend_model(model, tmp_path / "out", 160, method="ntk").path
    saved = tmp_path / "saved"
    transformers.AutoModelForCausalLM.from_pretrained(out).save_pretrained(saved)
    save_tokenizer(saved)
    again = json.loads((extend_model(saved, tmp_path / "again", 320, method="ntk").path / "config.json").read_text())
    assert again["rope_theta"] == pytest.approx(1000.0 * 5 ** (16 / 14)), "from the base before the first extension"
    assert again[TRACE]["before"]["max_position_embeddings"] == 64


def test_an_output_that_exists(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious").write_text("x")
    with pytest.raises(CheckpointError, match="already exists"):
        extend_model(model, out, 160)
    (out / "precious").unlink()
    assert extend_model(model, out, 160).path == out, "an empty folder is no harm"


def test_a_full_disk_leaves_nothing(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(CheckpointError, match="disk is full"):
        extend_model(model, tmp_path / "out", 160)
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


def test_too_little_room_for_a_copy_is_said_beforehand(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0))  # type: ignore[attr-defined]
    with pytest.raises(CheckpointError, match="disk is full"):
        extend_model(model, tmp_path / "out", 160)
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


def test_pickles_are_refused(model: Path, tmp_path: Path) -> None:
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with pytest.raises(UsageError, match="pickle"):
        extend_model(model, tmp_path / "out", 160)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "generation_config.json"])
@pytest.mark.parametrize("text", ["{", "[1]"])
def test_damaged_json(model: Path, tmp_path: Path, name: str, text: str) -> None:
    (model / name).write_text(text)
    with pytest.raises(LocantError, match=name):
        extend_model(model, tmp_path / "out", 160)
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


def test_a_model_type_that_needs_code_of_its_own(model: Path, tmp_path: Path) -> None:
    edit(model / "config.json", model_type="unheard_of", auto_map={"AutoConfig": "configuration.Evil"})
    (model / "configuration.py").write_text("raise SystemExit('was run')")
    with pytest.raises(UsageError, match="'unheard_of' needs code of its own"):
        extend_model(model, tmp_path / "out", 160)


def test_gguf_is_not_made_of_a_folder(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="convert_hf_to_gguf"):
        extend_model(model, tmp_path / "out", 160, format="gguf")


def test_auto_measures_and_takes_the_best(model: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 10)
    said = []
    extended = extend_model(model, tmp_path / "out", 160, method="auto", texts=[text], on_measured=said.append)
    report = extended.report
    assert [each.method for each in said] == ["none", "linear", "ntk", "yarn", "longrope"]
    assert list(report.measurements) == said
    assert report.lengths == (64, 160)
    best = min(each.long for each in said[1:])
    near = [each for each in said[1:] if each.long <= 1.01 * best]
    assert report.method == min(near, key=lambda each: each.short).method
    # What was measured is what the saved model does.
    import torch

    saved = transformers.AutoModelForCausalLM.from_pretrained(extended.path).eval()
    ids = transformers.AutoTokenizer.from_pretrained(extended.path)(text.read_text())["input_ids"][:160]
    with torch.no_grad():
        tokens = torch.tensor([ids])
        loss = saved(tokens, labels=tokens, use_cache=False).loss.item()
    measured = next(each for each in said if each.method == report.method)
    assert torch.tensor(measured.long).log().item() == pytest.approx(loss, rel=1e-4)
    assert (
        f"| {report.method} | {measured.short:.3f} | {measured.long:.3f} |" in (extended.path / "README.md").read_text()
    )


def test_auto_needs_a_text_beyond_the_original_length(model: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("short")
    with pytest.raises(LocantError, match=r"5 tokens; at least\s+65"):
        extend_model(model, tmp_path / "out", 160, method="auto", texts=[text])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "32"], "64 tokens already"),
        (["--to", "160", "--steps", "3"], "--steps goes with --finetune"),
        (["--to", "160", "--text", "x"], "--method auto only"),
        (["--to", "160", "--finetune", "x"], "needs --steps"),
        (["--to", "160", "--finetune", "x", "--steps", "1", "--full", "--rank", "3"], "LoRA's"),
        (["--to", "160", "--device", "abacus"], "device 'abacus'"),
    ],
)
def test_mistakes_on_the_command_line(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["extend", str(model), "-o", str(tmp_path / "out"), *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_command(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["extend", str(model), "--to", "1k", "-o", str(out)]) == 0
    assert "model from 64 to 1024 tokens by yarn" in capsys.readouterr().out
    assert main(["extend", str(tmp_path / "nothing"), "--to", "1k", "-o", str(tmp_path / "no")]) == 2
    assert "There is no" in capsys.readouterr().err
