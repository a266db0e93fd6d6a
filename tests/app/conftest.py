"""What the tests of pages share: a browser, and a small trained model."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from locant.models import DecodingSettings, Transformer, TransformerConfig
from locant.text import TokenizerSettings, train_tokenizers
from locant.translation import Translator

WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "red": "rot"}
ENGLISH = [" ".join(list(WORDS)[(i * j + j) % 5] for j in range(1, 3 + i % 6)) for i in range(60)]
PAIRS = [(sentence, " ".join(WORDS[word] for word in sentence.split())) for sentence in ENGLISH]
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def translator() -> Translator:
    tokenizers = train_tokenizers(PAIRS, TokenizerSettings(vocab_size=26))
    size = tokenizers.source.vocab_size
    torch.manual_seed(1)
    config = {
        "source_vocab_size": size,
        "target_vocab_size": size,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "d_model": 16,
        "d_ff": 32,
        "heads": 2,
        "tie_output": False,
    }
    model = Transformer(TransformerConfig.parse(config)).eval()
    with torch.no_grad():
        model.output.weight.mul_(3)
    return Translator(model, tokenizers, DecodingSettings(beam=3, max_length_extra=4))


@pytest.fixture(scope="session")
def model_folder(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "model"
    translator.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")  # two at once cannot be driven
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    driver = pytest.importorskip("playwright.sync_api", reason="Playwright, which drives a browser, is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium was found; install it or name one in CHROMIUM")
    with driver.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
