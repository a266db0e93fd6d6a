"""Translators in forked processes, while another thread of the parent translates, and in other processes."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from small_models import build
from with_kernels import needs_compiler

from locant.models import DecodingSettings
from locant.text import TokenizerPair
from locant.translation import Translator

FORKS = """
import os, signal, sys, threading, time
import torch
from locant.errors import LocantError
from locant.translation import Translator

translator = Translator.from_pretrained(sys.argv[1], engine=sys.argv[2], device="cpu")
busy, texts = sys.argv[3] == "busy", sys.argv[4:]
expected = translator.translate(texts)
assert torch.get_num_threads() == 2
done = threading.Event()

def translate():
    while not done.is_set():
        translator.translate(texts)

thread = threading.Thread(target=translate)
if busy:
    thread.start()
codes = []
for number in range(2):
    time.sleep(0.1)
    child = os.fork()
    if not child:
        signal.alarm(300)
        try:
            same = translator.translate(texts) == expected and sys.argv[2] != "ctranslate2"
        except LocantError:
            same = sys.argv[2] == "ctranslate2"
        translator.align(texts[:1], expected[:1])
        sys.exit(0 if same else 1)
    codes.append(os.waitpid(child, 0)[1])
done.set()
if busy:
    thread.join()
assert codes == [0, 0], codes
"""

ENGINES = ["pytorch", pytest.param("compiled", marks=needs_compiler), "ctranslate2"]


@pytest.fixture
def folder(joint: TokenizerPair, tmp_path: Path) -> Path:
    """A model so wide that PyTorch uses its threads."""
    model = build(joint, d_model=256, d_ff=1024)
    Translator(model, joint, DecodingSettings(beam=2, max_length_extra=5)).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system with fork")
@pytest.mark.parametrize("when", ["busy", "idle"])
@pytest.mark.parametrize("engine", ENGINES)
def test_forked_processes_translate(
    folder: Path, engine: str, when: str, pairs: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of CTranslate2 say instead that they cannot."""
    settings = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2")
        settings |= {"XDG_CACHE_HOME": str(folder / "cache"), "LOCANT_KERNELS": "0"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    texts = [source for source, _ in pairs[:6]]
    run = subprocess.run([sys.executable, "-c", FORKS, folder, engine, when, *texts], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_copies_translate_as_the_translator_does(
    folder: Path, engine: str, pairs: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2")
        monkeypatch.setattr("locant.translation.ctranslate2.cache_folder", lambda: folder / "cache")
    texts = [source for source, _ in pairs[:5]]
    translator = Translator.from_pretrained(folder, engine=engine, device="cpu")
    expected = translator.translate(texts)
    for made in (pickle.loads(pickle.dumps(translator)), copy.deepcopy(translator)):
        assert made.engine.name == translator.engine.name
        assert made.translate(texts) == expected
