"""``locant inspect`` as a user types it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from locant.cli import main

_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def _model(folder: Path, **entries: Any) -> str:
    content = {"model_type": "llama", "head_dim": 128, "rope_theta": 500000.0, "max_position_embeddings": 131072}
    (folder / "config.json").write_text(json.dumps(content | entries), encoding="utf-8")
    return str(folder)


def _words(text: str) -> str:
    return " ".join(text.split())


def test_a_model_without_rotary_positions_is_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": 768, "num_attention_heads": 12}')
    assert main(["inspect", str(tmp_path), "--without-class"]) == 0
    assert "note [no-rope]: " in capsys.readouterr().out
    assert main(["inspect", str(tmp_path), "--without-class", "--as", "vllm"]) == 1
    assert main(["inspect", str(tmp_path), "--without-class", "--figure", str(tmp_path / "x.png")]) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        (" ", "it is empty"),
        ('{"rope_theta": 1' + "0" * 5000 + "}", "it has a number of 5001 digits"),
    ],
)
def test_what_is_no_json_is_said_plainly(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(text)
    assert main(["inspect", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err


def test_everything_about_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["inspect", _model(tmp_path, rope_scaling=_LLAMA3)]) == 0
    out = capsys.readouterr().out
    assert "config.json, model type llama" in out
    assert "head of 128 features, 128 rotated (100%), layout half, declared for 131072 tokens" in out
    # A pair turns once within 8192 tokens where 2 pi base^(2i/128) is at most 8192: up to pair 34.
    assert math.floor(64 * math.log(8192 / (2 * math.pi)) / math.log(500000)) == 34
    assert "Pairs 35 to 63 never complete a turn within the trained 8192 tokens." in out
    assert "29-34 blended" in _words(out)
    assert "\nRead by LlamaModel of transformers " in out
    assert max(map(len, out.splitlines()[1:])) <= 120
    assert main(["inspect", str(tmp_path), "--without-class"]) == 0
    assert "\nRead by its entries alone.\nNot compared with the model's class: " in capsys.readouterr().out


def test_nothing_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", _model(tmp_path)]) == 0
    assert "Nothing was found wrong." in capsys.readouterr().out


def test_an_error_has_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = _model(tmp_path, rope_scaling=_LLAMA3 | {"original_max_position_embeddings": 131072})
    assert main(["inspect", model]) == 1
    assert "\nerror [original-is-extended]: " in capsys.readouterr().out
    assert main(["inspect", model, "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["findings"][0]["severity"], data["findings"][0]["code"]) == ("error", "original-is-extended")
    assert data["layers"]["all"]["scaling"]["original_length"] == 131072  # what the class computes with


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", _model(tmp_path, rope_scaling=_LLAMA3), "--json", "--as", "llamacpp"]) == 1
    data = json.loads(capsys.readouterr().out)
    layer = data["layers"]["all"]
    assert [(band["first_pair"], band["last_pair"], band["fate"]) for band in layer["bands"]] == [
        (0, 28, "kept"),
        (29, 34, "blended"),
        (35, 63, "interpolated"),
    ]
    assert layer["incomplete_pairs"] == list(range(35, 64))
    assert layer["frequencies"][0] == 1.0
    assert layer["frequencies"][63] == pytest.approx(500000.0 ** (-126 / 128) / 8)
    assert (data["declared_length"], data["model_type"], data["kind"]) == (131072, "llama", "huggingface")
    assert data["equivalent"]["setting"] is None
    assert "cannot express the scaling 'llama3'" in data["equivalent"]["error"]


def test_an_equivalent_stands_alone_on_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = _model(tmp_path, rope_scaling={"type": "yarn", "factor": 16.0, "original_max_position_embeddings": 8192})
    assert main(["inspect", model, "--as", "vllm"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["rope_scaling"]["factor"] == 16
    assert captured.err == ""
    assert main(["inspect", model, "--as", "llamacpp"]) == 0
    assert capsys.readouterr().out.startswith("--rope-freq-base 500000.0 --ctx-size 131072 --rope-scaling yarn")
    assert main(["inspect", model, "--as", "hf5"]) == 0
    assert json.loads(capsys.readouterr().out)["rope_parameters"]["original_max_position_embeddings"] == 8192
    assert main(["inspect", model, "--as", "ctranslate2"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("locant: error: ")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_figure(suffix: str, start: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "pictures" / f"bands.{suffix}"
    assert main(["inspect", _model(tmp_path, rope_scaling=_LLAMA3), "--json", "--figure", str(picture)]) == 0
    assert picture.read_bytes().startswith(start)
    captured = capsys.readouterr()
    assert json.loads(captured.out)["layers"]
    assert f"Wrote {picture}." in captured.err


def test_a_figure_that_cannot_be_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "bands.png"
    broken = _model(tmp_path, rope_scaling=_LLAMA3 | {"rope_type": "lama3"})
    assert main(["inspect", broken, "--figure", str(picture)]) == 1
    assert "Nothing can be drawn before the configuration is right" in capsys.readouterr().err
    assert not picture.exists()
    assert main(["inspect", _model(tmp_path), "--figure", str(tmp_path / "bands.jpeg")]) == 2
    assert "ends in .png, .svg, .pdf; got" in capsys.readouterr().err


def test_bad_usage_has_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path)]) == 2
    assert "config.json" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main(["inspect", str(tmp_path), "--as", "vlm"])
    assert caught.value.code == 2


def test_a_terminal_obeys_nothing_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;title\x07[bold]novel[/bold]\r"
    main(["inspect", _model(tmp_path, model_type=evil)])
    main(["inspect", _model(tmp_path, model_type="llama", rope_scaling={"type": evil}), "--as", "hf5"])
    captured = capsys.readouterr()
    assert not set("\x1b\x07\r") & set(captured.out + captured.err)
    assert "[bold]novel[/bold]" in captured.out


def test_a_configuration_is_read_without_torch(tmp_path: Path) -> None:
    # Importing torch takes longer than all of the rest.
    model = _model(tmp_path)
    code = "import sys; from locant.cli import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    for more in ([], ["--as", "llamacpp"], ["--json"]):
        command = [sys.executable, "-c", code, "inspect", model, "--without-class", *more]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ran.stdout.splitlines()[-1] == "False"


def test_overrides_of_vllm_are_read_on_top_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = _model(tmp_path)
    linear = '{"rope_scaling": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500000.0}}'
    assert main(["inspect", model, "--hf-overrides", linear, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["engine"] == "vLLM"
    assert data["layers"]["all"]["scaling"]["factor"] == 4
    for options in (["--hf-overrides", linear, "--llamacpp=-c 1"], ["--llamacpp=-c 1"]):  # which go with GGUF files
        assert main(["inspect", model, *options]) == 2


def test_axes_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Qwen2-VL-7B-Instruct."""
    rope = {"type": "mrope", "mrope_section": [16, 24, 24]}
    model = _model(tmp_path, model_type="qwen2_vl", rope_scaling=rope)
    assert main(["inspect", model, "--without-class"]) == 0
    assert "layers have several axes, of (16, 24, 24) pairs" in _words(capsys.readouterr().out)
    assert main(["inspect", model, "--without-class", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["multimodal"]["all"]["sections"] == [16, 24, 24]


def test_a_name_of_a_hundred_thousand_letters_floods_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "rope_" + "x" * 100_000
    main(["inspect", _model(tmp_path, **{name: 1.5, "layer_types": [name] * 32, "rope_scaling": {name: 2}})])
    main(["inspect", _model(tmp_path, model_type=name)])
    assert len(capsys.readouterr().out) < 10_000
