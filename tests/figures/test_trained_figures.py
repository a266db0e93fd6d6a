"""The figures of a trained model: what they draw, against the weights in the folder and formulas."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from locant.analysis import Scores
from locant.app import write_gallery
from locant.cli import main
from locant.errors import CheckpointError, ConfigError, DataError, LocantError, UsageError
from locant.figures import FIGURES, FigureData, draw_figure, write_figures
from locant.models import RNN, DecodingSettings, RNNConfig, Transformer, TransformerConfig, save_model_folder
from locant.text import BOS, EOS, TokenizerPair, TokenizerSettings, train_tokenizers
from locant.training import Evaluation
from locant.translation import Translator

WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "omicron",
    "sigma",
    "upsilon",
    "omega",
]
SENTENCES = [" ".join(WORDS[(i * j + j + i) % len(WORDS)] for j in range(1, 4 + i % 6)) for i in range(60)]
VOCABULARY, WIDTH = 36, 16
RunMaker = Callable[..., Path]


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    return train_tokenizers([(one, one) for one in SENTENCES], TokenizerSettings(vocab_size=VOCABULARY))


@pytest.fixture(scope="module")
def make_run(tmp_path_factory: pytest.TempPathFactory, tokenizers: TokenizerPair) -> RunMaker:
    def make(*, evaluated: bool = True, metrics: bool = True, **changes: Any) -> Path:
        folder = tmp_path_factory.mktemp("run")
        torch.manual_seed(5)
        size = {"source_vocab_size": VOCABULARY, "target_vocab_size": VOCABULARY, "d_model": WIDTH, "dropout": 0.0}
        if changes.get("architecture") == "rnn":
            model: Any = RNN(RNNConfig.parse({**size, "hidden_size": 8, **changes}))
        else:
            layers = {"encoder_layers": 2, "decoder_layers": 3, "d_ff": 24, "heads": 2}
            model = Transformer(TransformerConfig.parse({**size, **layers, **changes}))
        save_model_folder(folder, model, tokenizers, DecodingSettings(beam=1, max_length_extra=3))
        if evaluated:
            scores = Scores(1.0, "", 2.0, "", len(SENTENCES))
            evaluation = Evaluation("test", scores, scores, 1, 1.0, SENTENCES, SENTENCES, SENTENCES)
            (folder / "evaluation.test.json").write_text(json.dumps(asdict(evaluation)), encoding="utf-8")
        if metrics:
            rows: list[dict[str, Any]] = [
                {"kind": "training", "step": s, "nll": 9 - s / 10, "learning_rate": s * 1e-4, "tokens_per_second": 5.0}
                for s in (10, 20, 30)
            ]
            rows += [{"kind": "validation", "step": 30, "loss": 4.5, "bleu": 12.5, "chrf": None}]
            (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return folder

    return make


@pytest.fixture(scope="module")
def run(make_run: RunMaker) -> Path:
    return make_run()


def panels(drawn: FigureData) -> dict[str, Any]:
    return {axes.get_title(loc="left"): axes for axes in drawn.figure.axes if axes.get_title(loc="left")}


def test_steps_of_a_trained_layer(run: Path) -> None:
    text = "alpha beta gamma"
    drawn = draw_figure("attention-steps", run=run, text=text, stack="encoder", layer=2)
    weights = draw_figure("attention", run=run, text=text).data["Encoder: source to source"]
    for head in range(2):
        np.testing.assert_allclose(drawn.data[f"softmax, head {head + 1}"], weights[1, head], atol=1e-6)
    assert drawn.data["layer input"].shape == (weights.shape[-1], WIDTH)
    with pytest.raises(UsageError, match="The decoder has 3 layers; there is no layer 4"):
        draw_figure("attention-steps", run=run, text=text, layer=4)


def test_attention_of_a_held_out_sentence(run: Path, tokenizers: TokenizerPair) -> None:
    lengths = [len(ids) for ids in tokenizers.source.encode(SENTENCES)]
    chosen = next(length for length in lengths if 8 <= length <= 14)
    drawn = draw_figure("attention", run=run)
    assert drawn.data["Encoder: source to source"].shape == (2, 2, chosen + 1, chosen + 1)


def test_words_and_their_circles(run: Path) -> None:
    drawn = draw_figure("word-plus-position", run=run)
    weights = load_file(run / "model.safetensors")["target_embedding.weight"].astype(float) * math.sqrt(WIDTH)
    np.testing.assert_allclose(drawn.data["word norms"], np.linalg.norm(weights[4:], axis=1), rtol=1e-6)
    np.testing.assert_allclose(drawn.data["position norms"], math.sqrt(WIDTH / 2), rtol=1e-6)
    shown = panels(drawn)
    # Wavelengths of a width of 16: 6.3, 19.9, 62.8 ...; 62.8 is nearer to 40 than 19.9, as a ratio.
    for title, pair in (("Pair 0: 6.28 tokens per turn", 0), ("Pair 2: 62.8 tokens per turn", 2)):
        angles = np.arange(16) * 10000 ** (-2 * pair / WIDTH)
        circle = np.stack((np.sin(angles), np.cos(angles)), axis=1)
        np.testing.assert_allclose(
            drawn.data[f"places {title}"] - drawn.data[f"words {title}"][:, None], [circle] * 5, atol=1e-6
        )
        axes = shown[title]
        assert len(axes.collections) == len(axes.patches) == 5
        for places, patch in zip(axes.collections, axes.patches, strict=True):
            np.testing.assert_allclose(np.asarray(places.get_offsets()) - patch.center, circle, atol=1e-6)
            assert patch.radius == pytest.approx(1)
            gaps = np.abs(weights[:, [2 * pair, 2 * pair + 1]] - patch.center).max(1)
            assert gaps.min() < 1e-5  # the centre is the vector of a word
        assert axes.get_aspect() == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dialect", ["concatenated", "learned"])
def test_words_of_other_codes(make_run: RunMaker, dialect: str) -> None:
    if dialect == "learned":
        folder = make_run(position="learned", position_options={"max_positions": 12})
        drawn = draw_figure("word-plus-position", run=folder)
        table = load_file(folder / "model.safetensors")["encoder.schemes.0.weight"].astype(float)
        title = "Where positions differ most"
        plane = (drawn.data[f"places {title}"] - drawn.data[f"words {title}"][:, None])[0]
        values = np.linalg.svd(table - table.mean(0), compute_uv=False)
        centred = plane - plane.mean(0)
        np.testing.assert_allclose(np.linalg.svd(centred, compute_uv=False), values[:2], rtol=1e-5)
    else:
        folder = make_run(position_options={"dialect": "concatenated"})
        drawn = draw_figure("word-plus-position", run=folder)
        title = "Pair 0: 6.28 tokens per turn"
        positions = (drawn.data[f"places {title}"] - drawn.data[f"words {title}"][:, None])[0]
        np.testing.assert_allclose(positions, [(math.sin(p), math.cos(p)) for p in range(16)], atol=1e-6)


@pytest.mark.slow
def test_energy_of_words_by_pair(run: Path, make_run: RunMaker) -> None:
    drawn = draw_figure("word-energy", run=run)
    words = load_file(run / "model.safetensors")["target_embedding.weight"][4:].astype(float) * math.sqrt(WIDTH)
    energy = words.var(0)[::2] + words.var(0)[1::2]
    np.testing.assert_allclose(drawn.data["words"], energy, rtol=1e-5)
    turned = 49 * 10000.0 ** (-np.arange(8) / 8)
    inside = np.stack((turned > 1, (turned > 0.1) & (turned <= 1), turned <= 0.1))
    np.testing.assert_allclose(drawn.data["groups"][:, 0], inside.mean(1))
    np.testing.assert_allclose(drawn.data["groups"][:, 1], inside @ energy / energy.sum(), rtol=1e-5)
    folder = make_run(position_options={"dialect": "concatenated"})
    same = draw_figure("word-energy", run=folder).data["positions"]
    np.testing.assert_allclose(same, drawn.data["positions"], atol=1e-6)
    with pytest.raises(ConfigError, match="'learned', which adds no sinusoids"):
        draw_figure("word-energy", run=make_run(position="learned", position_options={"max_positions": 12}))


def test_probe(run: Path) -> None:
    drawn = draw_figure("probe", run=run)
    figure: Any = drawn.figure
    above, below = figure.axes[0], figure.axes[2]
    labels = [label.get_text() for label in below.get_xticklabels()]
    assert labels == ["words alone", "input", "layer 1", "layer 2"]
    lines = {line.get_label(): line.get_ydata() for line in above.lines}
    kept, cut = lines["with residual connections"], lines["without them"]
    assert kept[1] > kept[0] + 0.2
    np.testing.assert_allclose(cut[:2], kept[:2], atol=1e-9)  # nothing has been cut below the first layer
    assert cut[3] < kept[3]
    assert len(drawn.data) == 8


def test_what_a_trained_decoder_says(run: Path) -> None:
    drawn = draw_figure("teacher-forcing", run=run)
    data = {name.split(" ")[0]: values for name, values in drawn.data.items()}
    reads, says, chances = data["reads"].tolist(), data["says"].tolist(), data["chances"]
    assert reads[0] == "(begin)"
    assert (reads[1:], says[-1]) == (says[:-1], "(end)")
    # One token at a time with the cache, which sees nothing of what is still to be said.
    translator = Translator.from_pretrained(run, device="cpu")
    index = next(i for i, ids in enumerate(translator.tokenizers.target.encode(SENTENCES)) if 3 <= len(ids) <= 7)
    source, target = [*translator.tokenizers.source.encode([SENTENCES[index]])[0], EOS], [BOS]
    target += translator.tokenizers.target.encode([SENTENCES[index]])[0]
    model, expected = translator.model, []
    with torch.no_grad():
        lengths = torch.tensor([len(source)])
        cache = model.start(model.encode(torch.tensor([source]), lengths), lengths)
        for token, following in zip(target, [*target[1:], EOS], strict=True):
            expected.append(float(model.step(torch.tensor([[token]]), cache)[0, 0].softmax(-1)[following]))
    np.testing.assert_allclose(chances, expected, rtol=1e-4)


def test_biases_that_were_learned(make_run: RunMaker) -> None:
    folder = make_run(position="t5", evaluated=False, metrics=False)
    drawn = draw_figure("bias", run=folder, length=20)
    decoder = next(values for title, values in drawn.data.items() if title.startswith("t5, decoder"))
    table = next(v for name, v in load_file(folder / "model.safetensors").items() if name.startswith("decoder.schemes"))
    np.testing.assert_allclose(decoder[:, :16], table[:16].T, rtol=1e-6)  # 16 distances have a bucket each
    assert decoder.shape == (2, 20)
    assert all(axes.axison for axes in drawn.figure.axes)  # no panel is empty


@pytest.mark.slow
def test_all_of_a_run(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name, figure in FIGURES.items() if not figure.needs_run and name != "circle"]:
        monkeypatch.delitem(FIGURES, name)
    # In this process: those that a command starts, each of which imports everything anew, are tested with the command.
    monkeypatch.setattr("locant.runtime.granted_cores", lambda: 1)
    assert main(["figures", "--all", "--run", str(run), "--text", "alpha beta", "-o", str(tmp_path)]) == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"{name}.png" for name in FIGURES} | {"index.html", "errata.html"}
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'<h2 id="([^"]+)">', page) == list(FIGURES)
    assert f"locant figures probe --run {run} -o figures" in page


def test_what_a_run_lacks_is_left_out(make_run: RunMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name, figure in FIGURES.items() if not figure.needs_run]:
        monkeypatch.delitem(FIGURES, name)
    folder = make_run(position="rotary", evaluated=False, metrics=False)
    reasons: dict[str, LocantError] = {}
    write_gallery(tmp_path, run=folder, left_out=reasons.__setitem__)
    assert set(reasons) == {
        "training",
        "attention",
        "probe",
    }
    assert "holds no metrics" in str(reasons["training"])
    assert "locant evaluate" in str(reasons["probe"])
    assert {path.name for path in tmp_path.iterdir()} == {"word-plus-position.png", "index.html", "errata.html"}


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_words_that_rotary_positions_turn(make_run: RunMaker, layout: str) -> None:
    """Query of the first head as the weights give it, turned by the formula of RoPE."""
    folder = make_run(position="rotary", position_options={"layout": layout})
    data = draw_figure("word-plus-position", run=folder, text="alpha beta").data
    titles = [name.removeprefix("places ") for name in data if name.startswith("places ")]
    assert titles[0] == "Pair 0: 6.28 tokens per turn"
    for title, rate in zip(titles, (1.0, 0.1), strict=True):  # of 8 features the pair nearest to 40 tokens a turn
        turned = (data[f"words {title}"] @ [1, 1j])[:, None] * np.exp(1j * rate * np.arange(16))
        np.testing.assert_allclose(data[f"places {title}"] @ [1, 1j], turned, atol=1e-5)
    scores = data["scores"]
    assert scores.shape == (len(data[f"words {titles[0]}"]), 16)
    with pytest.raises(ConfigError, match="'t5'"):
        draw_figure("word-plus-position", run=make_run(position="t5"))


def test_the_figure_of_the_record() -> None:
    energy = draw_figure("word-energy", length=50).data
    turned = 49 * 10000.0 ** (-np.arange(0, 192, 2) / 192)
    fast = energy["words"][turned > 1].sum() / energy["words"].sum()
    assert energy["groups"][0].tolist()[:2] == pytest.approx([(turned > 1).mean(), fast])


@pytest.mark.parametrize("name", [name for name, figure in FIGURES.items() if figure.needs_run])
def test_without_a_run(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"The figure '{name}' shows a trained model; say which: --run FOLDER\."):
        write_figures([name], tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_mistakes(run: Path, make_run: RunMaker, tmp_path: Path) -> None:
    out = tmp_path / "none"
    with pytest.raises(CheckpointError, match="There is no model folder"):
        write_gallery(out, run=tmp_path / "nowhere")
    with pytest.raises(UsageError, match="--text belongs to the figures of a trained model"):
        write_gallery(out, text="alpha")
    with pytest.raises(DataError, match="tokens, of which at most 40 can be drawn"):
        write_figures(["attention"], out, options={"run": run, "text": " ".join(WORDS * 4)})
    with pytest.raises(DataError, match="--text is empty"):
        write_figures(["attention"], out, options={"run": run, "text": " "})
    with pytest.raises(ConfigError, match="'sinusoidal', which is no bias of the distance"):
        write_figures(["bias"], out, options={"run": run})
    with pytest.raises(ConfigError, match="needs a Transformer, but this model's architecture is rnn"):
        write_figures(["attention"], out, options={"run": make_run(architecture="rnn")})
    assert not out.exists()
