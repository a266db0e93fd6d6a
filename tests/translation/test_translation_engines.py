"""Choosing an engine for a model folder."""

import sys
from pathlib import Path

import pytest
import torch
from small_models import build
from with_kernels import needs_compiler

from locant.errors import CheckpointError, ConfigError, MissingExtraError, UsageError
from locant.kernels.library import Library
from locant.models import DecodingSettings
from locant.translation import CompiledEngine, PyTorchEngine, Translator, fastest_engine, load_translator, supports


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locant.translation.ctranslate2.cache_folder", lambda: tmp_path / "cache")


@pytest.fixture
def run(trained, joint, tmp_path):
    Translator(trained, joint, DecodingSettings(beam=4)).save_pretrained(tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("compute_type", ["bfloat16", "int8"])
@needs_compiler
def test_auto_takes_the_kernels_for_types_that_the_processor_has(run, pairs, compute_type):
    if not supports(compute_type):
        pytest.skip(f"this processor has no fast {compute_type} arithmetic")
    translator, engine = load_translator(run, engine="auto", device="cpu", compute_type=compute_type)
    assert engine == f"compiled kernels, {compute_type}"
    sources = [source for source, _ in pairs[:20]]
    ours, expected = translator.translate(sources), Translator.from_pretrained(run, device="cpu").translate(sources)
    # Rounded weights change some translations of so small a model, not most.
    assert sum(one == other for one, other in zip(ours, expected, strict=True)) >= 14


@needs_compiler
def test_auto_takes_the_fastest_that_can_and_says_why_not_elsewhere(run, joint, pairs, tmp_path, monkeypatch):
    translator, engine = load_translator(run, engine="auto", device="cpu")
    assert engine == "compiled kernels, float32"
    sources = [source for source, _ in pairs[:20]]
    assert translator.translate(sources) == Translator.from_pretrained(run, device="cpu").translate(sources)

    Translator(build(joint, position="alibi"), joint).save_pretrained(tmp_path / "alibi")
    translator, engine = load_translator(tmp_path / "alibi", engine="auto", device="cpu")
    assert translator.engine.name == "PyTorch"
    assert engine.startswith("PyTorch, because: Compiled translation knows positions that are added")
    assert "Export to CTranslate2 knows positions that are added" in engine
    for name in ("ctranslate2", "compiled"):
        with pytest.raises(ConfigError, match="positions that are added"):
            load_translator(tmp_path / "alibi", engine=name, device="cpu")
    with pytest.raises(
        ConfigError, match=r"No engine can translate this model in float32\. Compiled translation knows"
    ):
        load_translator(tmp_path / "alibi", engine="auto", device="cpu", compute_type="float32")


def test_auto_without_a_compiler_and_without_ctranslate2(run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("locant.translation.compiled.LIBRARY", Library())
    translator, engine = load_translator(run, engine="auto", device="cpu")
    assert translator.engine.name == "CTranslate2, float32"
    assert engine.startswith("CTranslate2, float32, because: C++ kernels need a C++ compiler")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    translator, engine = load_translator(run, engine="auto", device="cpu")
    assert translator.engine.name == "PyTorch"
    assert "need a C++ compiler" in engine
    assert "pip install 'locant[ctranslate2]'" in engine
    with pytest.raises(MissingExtraError, match="engine ctranslate2"):
        load_translator(run, engine="ctranslate2", device="cpu")


def test_wrong_requests_are_plain_messages(run, tmp_path):
    with pytest.raises(UsageError, match="goes with the engine"):
        load_translator(run, engine="pytorch", compute_type="int8")
    for engine in ("auto", "ctranslate2"):
        with pytest.raises(ConfigError, match="Did you mean 'int8'"):
            load_translator(run, engine=engine, device="cpu", compute_type="int9")
        with pytest.raises(CheckpointError, match="no model folder"):
            load_translator(tmp_path / "none", engine=engine, device="cpu")
    with pytest.raises(UsageError, match=r"Unknown engine 'compild'\. Did you mean 'compiled'"):
        load_translator(run, engine="compild")
    with pytest.raises(UsageError, match="the type of compiled is said by compute_type"):
        Translator.from_pretrained(run, engine="compiled", dtype=torch.bfloat16)


@needs_compiler
def test_a_translator_takes_any_engine(trained, joint, pairs):
    sources = [source for source, _ in pairs[:20]]
    expected = Translator(trained, joint).translate(sources)
    compiled = Translator(trained, joint, engine=CompiledEngine(trained))
    assert compiled.engine.name == "compiled kernels, float32"
    assert compiled.translate(sources) == expected
    assert fastest_engine(trained).name == "compiled kernels, float32"
    assert isinstance(fastest_engine(build(joint, position="alibi")), PyTorchEngine)
    with pytest.raises(ConfigError, match="Compiled translation is for the CPU, but the model is on meta"):
        CompiledEngine(build(joint).to("meta"))
