"""A whole evaluation of a small model: numbers against plain transformers, records, resuming, report, command line."""

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
import locant.extension.evaluate.prefill as prefill
from locant.app import context_report, render_report, write_context_figures
from locant.cli import main
from locant.cli.arguments import parse_length
from locant.errors import LocantError, UsageError
from locant.extension.evaluate.documents import LongText
from locant.extension.evaluate.evaluation import EvaluationSettings, evaluate_context
from locant.extension.evaluate.meter import EvaluationCallback
from locant.extension.evaluate.perplexity import PerplexitySettings
from locant.extension.extend.methods import apply_method
from locant.extension.load import load_config, load_model, load_tokenizer
from locant.positions.huggingface import install

transformers = pytest.importorskip("transformers")

TEXT = "".join(f"Word {chr(97 + index % 26)} and so on. " for index in range(400))
SETTINGS = EvaluationSettings(
    lengths=(64, 96, 128),
    perplexity=PerplexitySettings(metrics=("prefix", "sliding", "last"), stride=20, windows=3, last=30),
    documents=2,
    methods=("none", "dynamic"),
    target_length=128,
    chunk=50,
)


class _Heard(EvaluationCallback):
    def __init__(self) -> None:
        self.plans: list[tuple[int, int]] = []
        self.done: list[float] = []

    def on_plan(self, measurements: int, kept: int, seconds: float) -> None:
        assert seconds >= 0
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
    return folder, evaluate_context(path, folder, SETTINGS, texts=[LongText("text", TEXT)], callback=heard), heard


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


def test_what_is_measured_is_not_measured_again(
    path: Path, evaluated: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder, results, _ = evaluated

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the model was loaded")

    with monkeypatch.context() as patched:
        patched.setattr(evaluation_module, "load_model", refuse)
        again = evaluate_context(path, folder, SETTINGS, texts=[LongText("text", TEXT)], callback=(heard := _Heard()))
    assert again["perplexity"] == results["perplexity"]
    ((measurements, kept),) = heard.plans
    assert measurements == kept > 0
    # One record that got lost is the only one that is measured.
    lost = sorted((folder / "records").rglob("*.json"))[0]
    content = json.loads(lost.read_text())
    lost.unlink()
    evaluate_context(path, folder, SETTINGS, texts=[LongText("text", TEXT)], callback=(heard := _Heard()))
    assert heard.plans == [(measurements, measurements - 1)]
    assert json.loads(lost.read_text())["nll"] == pytest.approx(content["nll"], rel=1e-5)


def test_an_interrupted_evaluation_goes_on(path: Path, tmp_path: Path) -> None:
    settings = EvaluationSettings(lengths=(64,), documents=3, perplexity=PerplexitySettings(metrics=("prefix",)))

    class Interrupting(_Heard):
        def on_progress(self, done: float, what: str) -> None:
            if done > 0.5:
                raise KeyboardInterrupt

    texts = [LongText("text", TEXT)]
    with pytest.raises(KeyboardInterrupt):
        evaluate_context(path, tmp_path, settings, texts=texts, callback=Interrupting())
    evaluate_context(path, tmp_path, settings, texts=texts, callback=(heard := _Heard()))
    assert heard.plans == [(3, 1)]


def test_a_model_that_was_trained_on_is_measured_anew(path: Path, tmp_path: Path) -> None:
    settings = EvaluationSettings(lengths=(64,), documents=1, perplexity=PerplexitySettings(metrics=("prefix",)))
    model, texts = tmp_path / "model", [LongText("text", TEXT)]
    shutil.copytree(path, model)
    first = evaluate_context(model, tmp_path / "out", settings, texts=texts)
    weights = load_file(model / "model.safetensors")
    save_file({name: 1.1 * weight for name, weight in weights.items()}, model / "model.safetensors", {"format": "pt"})
    second = evaluate_context(model, tmp_path / "out", settings, texts=texts, callback=(heard := _Heard()))
    assert heard.plans == [(1, 0)]
    assert first["perplexity"][0]["perplexity"] != second["perplexity"][0]["perplexity"]


@pytest.mark.slow
def test_retrieval_tests_and_their_report(path: Path, tmp_path: Path) -> None:
    settings = EvaluationSettings(lengths=(1500,), tests=("passkey", "needle", "ruler"), depths=2, tries=2)
    results = evaluate_context(path, tmp_path, settings, texts=[LongText("text", TEXT)])
    grid = {(row["test"], row["depth"]): row["tries"] for row in results["retrieval"]}
    assert grid == {
        ("passkey", 0.0): 2,
        ("passkey", 1.0): 2,
        ("needle", 0.0): 1,
        ("needle", 1.0): 1,
        ("multikey", None): 2,
        ("variable-tracking", None): 2,
        ("frequent-words", None): 2,
    }
    assert results["ruler"][0]["effective_length"] is None  # a random model knows nothing
    records = [json.loads(file.read_text()) for file in (tmp_path / "records").rglob("*.json")]
    assert len(records) == 12
    assert all(1350 < record["tokens"] <= 1490 for record in records)
    pytest.importorskip("matplotlib")
    assert [file.name for file in write_context_figures(results, tmp_path)] == ["passkey-none.png", "needle-none.png"]
    page = render_report(context_report(results))
    assert "first run of digits" in page
    assert page.count("<svg") == 2


def test_the_command(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    arguments = ["evaluate-context", str(path), "--lengths", "64,96", "--text", str(tmp_path / "text.txt")]
    arguments += ["--last", "20", "--documents", "1", "--method", "none,yarn", "--to", "128", "--device", "cpu"]
    assert main([*arguments, "-o", str(tmp_path / "out")]) == 0
    out, err = capsys.readouterr()
    assert "exp of the mean negative log likelihood of tokens 2 to L" in " ".join(out.split())
    assert "8 measurements; about" in err
    assert {"results.json", "report.html", "perplexity-prefix.png"} <= {
        file.name for file in (tmp_path / "out").iterdir()
    }
    assert main([*arguments, "-o", str(tmp_path / "out"), "--json"]) == 0
    out, err = capsys.readouterr()
    assert {row["method"] for row in json.loads(out)["perplexity"]} == {"none", "yarn"}
    assert "All 8 measurements are there already." in err


@pytest.mark.slow
def test_the_command_measures_by_locant_s_rotation(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Any] = []

    def noting(model: Any, *rest: Any) -> Any:
        served.append(model)
        return install(model, *rest)

    monkeypatch.setattr(prefill, "install", noting)
    (tmp_path / "text.txt").write_text(TEXT)
    arguments = ["evaluate-context", str(path), "--lengths", "64,96", "--text", str(tmp_path / "text.txt"), "--json"]
    arguments += ["--last", "20", "--documents", "1", "--method", "none,dynamic", "--to", "128", "--device", "cpu"]
    found = {}
    for exact in ([], ["--exact"], ["--exact"]):
        assert main([*arguments, *exact, "-o", str(tmp_path / "out")]) == 0
        out, err = capsys.readouterr()
        results = json.loads(out)
        assert results["settings"]["exact"] is bool(exact)
        assert bool(served) is bool(exact)
        # Those of transformers' own rotation are kept apart, and what is measured is not measured again.
        assert ("are there already" in err) is (bool(exact) in found)
        found[bool(exact)] = [row["perplexity"] for row in results["perplexity"]]
    assert found[True] == pytest.approx(found[False], rel=1e-4)


def test_a_model_that_cannot_be_measured_exactly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "model"
    config = transformers.GPTJConfig(n_embd=32, n_layer=1, n_head=2, rotary_dim=8, vocab_size=64, n_positions=128)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    save_tokenizer(folder)
    (tmp_path / "text.txt").write_text(TEXT)
    arguments = [
        "evaluate-context",
        str(folder),
        "--lengths",
        "64",
        "--text",
        str(tmp_path / "text.txt"),
        "--last",
        "20",
    ]
    assert main([*arguments, "--exact", "-o", str(tmp_path / "out"), "--device", "cpu"]) == 1
    assert "has no rotary module whose angles could be replaced" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lengths", "2m"], "'2m' is no length in tokens. Write 8192 or 8k"),
        (["--lengths", "8"], "at least 64 tokens"),
        (["--tests", "passkeys"], "Unknown test 'passkeys'. Did you mean 'passkey'?"),
        (["--method", "yarn"], "Say how far the method extends the model: --to LENGTH."),
        (["--to", "128"], "Say by which method the model is extended"),
        (["--method", "yearn", "--to", "128"], "Unknown method 'yearn'. Did you mean 'yarn'?"),
        (["--needle", "x"], "needs all three: --needle, --question and --expect"),
        (["--lengths", "64", "--last", "64"], "below the shortest length, 64; got 64"),
        (["--text", "none.txt"], "none.txt does not exist"),
        (["--documents", "0"], "documents must be at least 1"),
    ],
)
def test_wrong_usage(
    path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code = main(["evaluate-context", str(path), "--last", "16", "-o", str(tmp_path / "out"), *arguments])
    assert code == (1 if "exist" in message else 2)
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_lengths() -> None:
    assert [parse_length(text) for text in ("2k", "12K", "300")] == [2048, 12288, 300]
    with pytest.raises(UsageError):
        parse_length("0")


def test_models_that_cannot_be_loaded(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model", "llama")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UsageError, match=r"in a pickle \(pytorch_model\.bin\), which can execute code"):
        load_model(folder)
    (folder / "pytorch_model.bin").rename(folder / "weights")
    with pytest.raises(UsageError, match="holds no weights"):
        load_model(folder)
    (folder / "model.safetensors").write_bytes((folder / "weights").read_bytes()[:2000])
    with pytest.raises(LocantError, match="is no whole safetensors file"):
        load_model(folder)
    content = json.loads((folder / "config.json").read_text())
    (folder / "model.safetensors").write_bytes((folder / "weights").read_bytes())
    with pytest.raises(LocantError, match=r"lacks \d+ weights of the model"):
        load_model(folder, content | {"num_hidden_layers": 3})
    own = content | {"model_type": "mine", "auto_map": {"AutoConfig": "code.MyConfig"}}
    with pytest.raises(UsageError, match=r"'mine'.*code of its own, which is never run"):
        load_model(folder, own)
    index = {"weight_map": {"lm_head.weight": "../elsewhere.bin"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UsageError, match=r"'\.\./elsewhere\.bin', which is no safetensors file"):
        load_model(folder)
