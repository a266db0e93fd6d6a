"""A model exported as a page: its files, what is refused, and its program under Node."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import WORDS, tiny_model, tiny_tokenizers
from web_node import WebNode, has_web_engine, needs_node

from locant.app import export_web
from locant.app.web_page import quantize
from locant.cli import main
from locant.errors import ConfigError
from locant.kernels import web_engine
from locant.kernels.translation import supports
from locant.kernels.web_engine import engine_modules
from locant.models import Transformer
from locant.models.decoding_settings import DecodingSettings
from locant.models.model_folder import save_model_folder
from locant.translation import Translator
from locant.translation.lines import split_to_fit

needs_engine = pytest.mark.skipif(
    not has_web_engine(), reason="the engine for browsers is not built, and Zig is not installed (ziglang)"
)

SENTENCES = [" ".join(WORDS[(i * j + i) % len(WORDS)] for j in range(1, 2 + i % 9)) for i in range(40)]


def saved(folder: Path, **changes: object) -> Path:
    """A model folder whose model is random, and whose distributions are not even."""
    shape = {"d_model": 48, "d_ff": 80, "heads": 2, "encoder_layers": 2, "sharpness": 8.0}
    model = tiny_model(36, **{**shape, **changes})
    decoding = DecodingSettings(beam=3, max_length_extra=8)
    save_model_folder(folder, model, tiny_tokenizers(), decoding, source_language="de", target_language="en")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("model") / "run")


@pytest.fixture(scope="module")
def node() -> Iterator[WebNode]:
    with WebNode() as process:
        yield process


def translations(page: Path, node: WebNode) -> list[str]:
    node.ask("load", str(page))
    found: list[str] = node.ask("translate", {"sentences": SENTENCES})["translations"]
    return found


@needs_engine
@needs_node
@pytest.mark.skipif(not supports("int8"), reason="the processor has no fast int8")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "pre", "feed_forward": "swiglu", "tie_output": True, "share_embeddings": True},
        {"feed_forward": "gelu", "position": "learned", "position_options": {"max_positions": 64}, "d_model": 44},
        {"norm": "pre", "position": "rotary"},
    ],
    ids=["post", "pre", "learned", "rotary"],
)
def test_translations_are_those_of_the_native_engine(changes: dict[str, object], node: WebNode, tmp_path: Path) -> None:
    run, page = saved(tmp_path / "run", **changes), tmp_path / "page"
    export_web(run, page)
    native = Translator.from_pretrained(run, engine="compiled", compute_type="int8", device="cpu")
    assert translations(page, node) == native.translate(SENTENCES)
    # An empty text, white space, and a sentence that comes twice.
    some = ["", " \t", SENTENCES[3], SENTENCES[3]]
    assert node.ask("translate", {"sentences": some})["translations"] == native.translate(some)


@needs_engine
def test_nothing_else_is_relaxed_that_could_change_a_number() -> None:
    relaxed, plain = engine_modules()
    # The opcodes from 0x100 on, as they are written: relaxed_min, relaxed_max and the product of bytes with a sum.
    assert {found[1][0] for found in re.finditer(rb"\xfd([\x80-\x94])\x02", relaxed)} == {0x8D, 0x8E, 0x93}
    assert not re.search(rb"\xfd[\x80-\x94]\x02", plain)


@needs_engine
@needs_node
@pytest.mark.skipif(not supports("int8"), reason="the processor has no fast int8")
def test_a_sentence_that_is_longer_than_usual_is_cut_as_in_documents(node: WebNode, tmp_path: Path) -> None:
    run, page = saved(tmp_path / "run"), tmp_path / "page"
    config = json.loads((run / "config.json").read_text())
    config["decoding"]["usual_source_length"] = 12
    (run / "config.json").write_text(json.dumps(config))
    export_web(run, page)
    node.ask("load", str(page))
    long = ", ".join(text.rstrip(".") for text in SENTENCES[:6])
    (found,) = node.ask("translate", {"sentences": [long]})["translations"]
    native = Translator.from_pretrained(run, engine="compiled", compute_type="int8", device="cpu")
    assert found == native.translate_chunks([[long]], on_long="split", max_source_length=12).__next__()[0][0].text
    assert found != native.translate(long)


@needs_node
def test_the_first_module_is_taken_whose_products_are_exact(node: WebNode) -> None:
    def module(exact: int) -> str:
        code = bytes([0x41, exact, 0x0B])  # i32.const
        name = b"locant_exact"
        sections = (
            (1, b"\x01\x60\x00\x01\x7f"),  # a type: from nothing to i32
            (3, b"\x01\x00"),  # a function of it
            (7, b"\x01" + bytes([len(name)]) + name + b"\x00\x00"),
            (10, bytes([1, len(code) + 1, 0]) + code),
        )
        return base64.b64encode(
            b"\0asm\1\0\0\0" + b"".join(bytes([number, len(content)]) + content for number, content in sections)
        ).decode()

    unknown = base64.b64encode(b"\0asm\1\0\0\0\xff").decode()
    assert node.ask("exact", [module(0), module(2), module(1)]) == 2
    assert node.ask("exact", [unknown, module(0), module(1)]) == 1
    assert node.ask("exact", [module(0)]) == 0


@needs_node
@pytest.mark.parametrize(
    "text", ["One two. Three, four five.", "a, b; c. d " * 9, "无空格的很长的文本。" * 4, "x" * 50, " "]
)
def test_long_sentences_are_cut_where_locant_cuts_them(text: str, node: WebNode) -> None:
    for most in (3, 10, 17):
        assert node.ask("split", [text, most]) == split_to_fit(text, lambda part, most=most: len(part) <= most)


@needs_node
@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One is here. Two is there!\n\n  Three?  \r\nFour", ["One is here.", "Two is there!", "Three?", "Four"]),
        ("第一句。第二句！", ["第一句。", "第二句！"]),
        ("", []),
        ("\n \t\n", []),
    ],
)
def test_a_text_is_cut_into_sentences_and_what_is_between_them(text: str, sentences: list[str], node: WebNode) -> None:
    pieces = node.ask("cut", [text, "en"])
    assert "".join(piece["text"] for piece in pieces) == text
    assert [piece["text"] for piece in pieces if piece["translated"]] == sentences


@needs_engine
def test_the_page_runs_its_own_program_alone(run: Path, tmp_path: Path) -> None:
    notes = export_web(run, tmp_path / "page")
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert "index.html" in notes[0]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe-inline" not in policy[1]
    assert "unsafe-eval" not in policy[1].replace("wasm-unsafe-eval", "")
    for kind, pattern in (("script", r"<script>(.*?)</script>"), ("style", r"<style>(.*?)</style>")):
        (content,) = re.findall(pattern, page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in rules[f"{kind}-src"]
    assert not re.findall(r"(?:src|href)=[\"']?(?:https?:)?//", page)
    assert "{{" not in page
    about = json.loads(re.search(r'id="about">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    program = (tmp_path / "page" / "sw.js").read_text(encoding="utf-8")
    assert all((tmp_path / "page" / name).is_file() and name in program for name in about["files"])


def test_matrices_are_quantised_with_a_single_rounding() -> None:
    torch.manual_seed(1)
    matrix = torch.randn(200, 33)
    matrix[3] = 0
    weight, scale = quantize(matrix)
    largest = np.abs(matrix.numpy()).max(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.rint(matrix.numpy() * (np.float32(127) / largest)[:, None])
    assert np.array_equal(np.nan_to_num(expected), weight.numpy())
    assert np.array_equal(scale.numpy(), largest / np.float32(127))
    with pytest.raises(ConfigError, match="not finite"):
        quantize(torch.tensor([[1.0, float("nan")]]))


@needs_engine
def test_models_that_the_engine_cannot_run_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = saved(tmp_path / "run", position="alibi")
    assert main(["export", str(run), "--to", "web", "--output", str(tmp_path / "page")]) == 2
    said = capsys.readouterr().err
    assert "sinusoidal, learned" in said
    assert "ALiBi" in said
    assert not (tmp_path / "page").exists()


def test_without_the_engine_a_sentence_says_how_to_get_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(web_engine, "find_zig", lambda: None)
    monkeypatch.setattr(web_engine, "SOURCES", tmp_path / "web")
    with pytest.raises(ConfigError, match="pip install 'locant\\[web\\]'"):
        export_web(run, tmp_path / "page")
    assert not (tmp_path / "page").exists()


@needs_engine
def test_a_model_without_numbers_says_so(tmp_path: Path) -> None:
    model: Transformer = tiny_model(36)
    with torch.no_grad():
        model.output.weight[5, 0] = float("inf")
    save_model_folder(tmp_path / "run", model, tiny_tokenizers(), DecodingSettings())
    with pytest.raises(ConfigError, match="not finite"):
        export_web(tmp_path / "run", tmp_path / "page")
