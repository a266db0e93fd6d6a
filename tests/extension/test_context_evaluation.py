"""A whole evaluation of a small model: numbers against plain transformers, records, resuming, report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from extend_models import save_model, save_tokenizer
from safetensors.torch import load_file, save_file

import locant.extension.evaluate.evaluation as evaluation_module
from locant.app import context_report, render_report, write_context_figures
from locant.cli import main
from locant.errors import LocantError, UsageError
from locant.extension.evaluate.documents import LongText
from locant.extension.evaluate.evaluation import EvaluationCallback, EvaluationSettings, evaluate_context
from locant.extension.evaluate.perplexity import PerplexitySettings
from locant.extension.extend.methods import apply_method
from locant.extension.load import load_config, load_model, load_tokenizer

transformers = pytest.importorskip("transformers")

TEXT = "".join(f"Word {chr(97 + index % 26)} and so on. " for index in range(400))
TEXTS = [LongText("text", TEXT)]
SETTINGS = EvaluationSettings(
    lengths=(64, 96, 128),
    perplexity=PerplexitySettings(metrics=("prefix", "sliding", "last"), stride=20, windows=3, last=30),
    documents=2,
    methods=("none", "dynamic"),
    target_length=128,
    chunk=50,
)
PREFIX = PerplexitySettings(metrics=("prefix",))


class _Heard(EvaluationCallback):
    def __init__(self) -> None:
        self.plans: list[tuple[int, int]] = []
        self.done: list[float] = []

    def on_plan(self, measurements: int, kept: int) -> None:
        self.plans.append((measurements, kept))

    def on_progress(self, done: float, what: str) -> None:
        assert what
        self.done.append(done)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = save_model(tmp_path_factory.mktemp("model"), "llama")
    save_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def evaluated(path: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], _Heard]:
    folder, heard = tmp_path_factory.mktemp("results"), _Heard()
    return folder, evaluate_context(path, folder, SETTINGS, texts=TEXTS, callback=heard), heard


def test_numbers_are_those_of_plain_transformers(path: Path, evaluated: Any) -> None:
    tokenizer, config = load_tokenizer(path), load_config(path)
    tokens = torch.tensor(tokenizer(TEXT, add_special_tokens=False).input_ids)
    starts = (0, len(tokens) // 2)

    def losses(method: str, start: int, length: int) -> torch.Tensor:
        model = load_model(path, config if method == "none" else apply_method(config, method, 128))
        with torch.no_grad():
            logits = model(tokens[None, start : start + length], use_cache=False).logits[0, :-1].double()
        return torch.nn.functional.cross_entropy(logits, tokens[start + 1 : start + length], reduction="none")

    found = {(row["method"], row["metric"], row["length"]): row["perplexity"] for row in evaluated[1]["perplexity"]}
    assert len(found) == 2 * 3 * 3
    for method in ("none", "dynamic"):
        for length in SETTINGS.lengths:
            prefix = [losses(method, start, length).mean().exp() for start in starts]
            assert found[method, "prefix", length] == pytest.approx(torch.stack(prefix).mean().item(), rel=1e-4)
            last = torch.cat([losses(method, start + 128 - length, length)[-30:] for start in starts])
            assert found[method, "last", length] == pytest.approx(last.mean().exp().item(), rel=1e-4)
            sliding = []
            for start in starts:
                sliding += [losses(method, start, length)]
                sliding += [losses(method, start + move, length)[-20:] for move in (20, 40)]
            assert found[method, "sliding", length] == pytest.approx(torch.cat(sliding).mean().exp().item(), rel=1e-4)


def test_results_and_progress(evaluated: Any) -> None:
    folder, results, heard = evaluated
    assert json.loads((folder / "results.json").read_text(encoding="utf-8")) == json.loads(json.dumps(results))
    assert results["trained_length"] == 64
    assert "/" not in results["model"]  # its name, not where it lies
    assert len(heard.plans) == 1
    assert heard.plans[0][1] == 0
    assert sorted(heard.done) == heard.done
    assert 0.99 < heard.done[-1] <= 1.0
    assert not list(folder.rglob("*.tmp"))


def test_what_is_measured_is_not_measured_again(path: Path, evaluated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, results, _ = evaluated
    with monkeypatch.context() as patched:
        patched.setattr(evaluation_module, "load_model", None)
        again = evaluate_context(path, folder, SETTINGS, texts=TEXTS, callback=(heard := _Heard()))
    assert again["perplexity"] == results["perplexity"]
    ((measurements, kept),) = heard.plans
    assert measurements == kept > 0
    # One record that got lost is the only one that is measured.
    lost = sorted((folder / "records").rglob("*.json"))[0]
    content = json.loads(lost.read_text())
    lost.unlink()
    evaluate_context(path, folder, SETTINGS, texts=TEXTS, callback=(heard := _Heard()))
    assert heard.plans == [(measurements, measurements - 1)]
    assert json.loads(lost.read_text())["nll"] == pytest.approx(content["nll"], rel=1e-5)
    lost.write_text("[]")
    with pytest.raises(LocantError, match=lost.name):
        evaluate_context(path, folder, SETTINGS, texts=TEXTS)


def test_an_interrupted_evaluation_goes_on(path: Path, tmp_path: Path) -> None:
    class Interrupting(_Heard):
        def on_progress(self, done: float, what: str) -> None:
            if done > 0.5:
                raise KeyboardInterrupt

    chosen: dict[str, Any] = {"lengths": (64,), "documents": 3, "perplexity": PREFIX.to_dict(), "texts": TEXTS}
    with pytest.raises(KeyboardInterrupt):
        evaluate_context(path, tmp_path, callback=Interrupting(), **chosen)
    evaluate_context(path, tmp_path, callback=(heard := _Heard()), **chosen)
    assert heard.plans == [(3, 1)]


def test_a_model_that_was_trained_on_is_measured_anew(path: Path, tmp_path: Path) -> None:
    settings, model = EvaluationSettings(lengths=(64,), documents=1, perplexity=PREFIX), tmp_path / "model"
    shutil.copytree(path, model)
    first = evaluate_context(model, tmp_path / "out", settings, texts=TEXTS)
    weights = load_file(model / "model.safetensors")
    save_file({name: 1.1 * weight for name, weight in weights.items()}, model / "model.safetensors", {"format": "pt"})
    second = evaluate_context(model, tmp_path / "out", settings, texts=TEXTS, callback=(heard := _Heard()))
    assert heard.plans == [(1, 0)]
    assert first["perplexity"][0]["perplexity"] != second["perplexity"][0]["perplexity"]


def test_by_default_lengths_double_up_to_the_model_s(path: Path, tmp_path: Path) -> None:
    results = evaluate_context(path, tmp_path, texts=TEXTS, documents=1, perplexity=PREFIX.to_dict())
    assert [row["length"] for row in results["perplexity"]] == [64]
    extended = {"methods": ["yarn"], "target_length": 4096, "documents": 1, "perplexity": PREFIX.to_dict()}
    results = evaluate_context(path, tmp_path, texts=[LongText("long", TEXT)], **extended)
    assert [row["length"] for row in results["perplexity"]] == [1024, 2048, 4096]


@pytest.mark.slow
def test_retrieval_tests_and_their_report(path: Path, tmp_path: Path) -> None:
    settings = EvaluationSettings(lengths=(1500,), tests=("passkey", "needle", "ruler"), depths=2, tries=2)
    results = evaluate_context(path, tmp_path, settings, texts=TEXTS)
    grid = {(row["test"], row["depth"]): row["tries"] for row in results["retrieval"]}
    assert grid == {
        **{("passkey", depth): 2 for depth in (0.0, 1.0)},
        **{("needle", depth): 1 for depth in (0.0, 1.0)},
        **{(task, None): 2 for task in ("multikey", "variable-tracking", "frequent-words")},
    }
    assert results["ruler"][0]["effective_length"] is None  # a random model knows nothing
    records = [json.loads(file.read_text()) for file in (tmp_path / "records").rglob("*.json")]
    assert len(records) == 12
    assert all(1350 < record["tokens"] <= 1490 for record in records)
    evaluate_context(path, tmp_path, settings, texts=TEXTS, callback=(heard := _Heard()))
    assert heard.plans == [(12, 12)]
    pytest.importorskip("matplotlib")
    assert [file.name for file in write_context_figures(results, tmp_path)] == ["passkey-none.png", "needle-none.png"]
    assert render_report(context_report(results)).count("<svg") == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"lengths": [8]},
        {"tests": ["passkeys"]},
        {"methods": ["yarn"]},
        {"target_length": 128},
        {"methods": ["yearn"], "target_length": 128},
        {"perplexity": {"last": 64}},
        {"documents": 0},
        {"docments": 1},
        {"texts": ["none.txt"]},
    ],
)
def test_wrong_usage(path: Path, changes: dict[str, Any], tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"lengths": [64], "perplexity": {"last": 16}, "texts": TEXTS}
    with pytest.raises(LocantError):
        evaluate_context(path, tmp_path / "out", **(chosen | changes))
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="file"):
        evaluate_context(path, tmp_path / "file", **chosen)


def test_the_command(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    arguments = ["evaluate-context", str(path), "--lengths", "64,96", "--text", str(tmp_path / "text.txt")]
    arguments += ["--last", "20", "--documents", "1", "--method", "none,yarn", "--to", "128", "--device", "cpu"]
    assert main([*arguments, "-o", str(tmp_path / "out")]) == 0
    assert "8 measurements" in capsys.readouterr().err
    written = {file.name for file in (tmp_path / "out").iterdir()}
    assert {"results.json", "report.html", "perplexity-prefix.png"} <= written
    assert main([*arguments, "-o", str(tmp_path / "out"), "--json"]) == 0
    out, err = capsys.readouterr()
    assert {row["method"] for row in json.loads(out)["perplexity"]} == {"none", "yarn"}
    assert "All 8 measurements are there already." in err
