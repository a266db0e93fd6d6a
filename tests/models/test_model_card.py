"""The card of a model, from the records of its run and from nothing else."""

import base64
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import torch
import yaml

from locant.errors import ConfigError, LocantError, MissingExtraError
from locant.models import DecodingSettings, Transformer, TransformerConfig
from locant.models.hub import local_folder
from locant.models.model_card import weights_digest
from locant.text import TokenizerSettings, train_tokenizers
from locant.translation import Translator

LINES = ["one two three", "four five six", "two one", "six five four three", "three three one two"] * 8
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
SCORES = {"bleu": 31.25, "bleu_signature": SIGNATURE, "chrf": 55.5, "chrf_signature": "nc:6|version:2.6.0", "n": 467}


@pytest.fixture
def translator():
    tokenizers = train_tokenizers([(line, line.upper()) for line in LINES], TokenizerSettings(vocab_size=40))
    torch.manual_seed(0)
    sizes = {"source_vocab_size": 40, "target_vocab_size": 40, "d_model": 16, "d_ff": 16, "heads": 2}
    model = Transformer(TransformerConfig.parse({**sizes, "encoder_layers": 1, "decoder_layers": 1}))
    decoding = DecodingSettings(beam=1, usual_source_length=61)
    return Translator(model, tokenizers, decoding, source_language="en", target_language="de")


@pytest.fixture
def run(translator, tmp_path):
    """A folder with the records that training and evaluation write."""
    folder = tmp_path / "run"
    translator.save_pretrained(folder)
    (folder / "README.md").unlink()
    data = {
        "corpus": "Captions",
        "description": "Local files in /home/somebody/secret.",
        "licence": "CC BY 4.0",
        "cleaning": {"total": 1200, "removed": {"duplicate": 190, "too long": 0}, "kept": 1010},
        "train_pairs": 1010,
        "valid_pairs": 20,
        "test_pairs": 30,
        "train_tokens": {"source": 12345, "target": 23456},
        "parameters": 4321,
    }
    (folder / "data.json").write_text(json.dumps(data))
    (folder / "recipe.yaml").write_text("corpus: {kind: files}")
    rows = '{"kind": "training", "step": 1, "seconds": 1}\n{"kind": "validation", "step": 700, "seconds": 600}\n'
    (folder / "metrics.jsonl").write_text(f'{rows}{{"kind": "average", "step": 700}}\n{{"kind": "trai')
    (folder / "environment.json").write_text(json.dumps({"processor": "A Processor", "cuda": None, "command": ["x"]}))
    evaluation = {"name": "Captions, test split", "beam": 4, "scores": SCORES, "copy_scores": {**SCORES, "bleu": 1.0}}
    saved = {**evaluation, "weights": weights_digest(folder), "sources": ["secret sentence"]}
    (folder / "evaluation.test.json").write_text(json.dumps(saved))
    return folder


def test_the_card_tells_what_the_run_recorded(run, tmp_path):
    Translator.from_pretrained(run, device="cpu").save_pretrained(tmp_path / "saved")
    card = (tmp_path / "saved" / "README.md").read_text()
    about = yaml.safe_load(card.split("---")[1])
    assert about["language"] == ["en", "de"]
    assert about["pipeline_tag"] == "translation"
    for said in (
        "1,010 for training",
        "190 duplicate",
        "Training text: CC BY 4.0.",
        "| 31.25 | 1.00 |",
        SIGNATURE.replace("|", "\\|"),
        "700 updates in 10.0 minutes on A Processor",
        "sentences of en into de",
        "seldom seen more than 61 tokens",
    ):
        assert said in card
    published = card + (tmp_path / "saved" / "records.json").read_text()
    assert "somebody" not in published
    assert "secret" not in published


def test_scores_of_other_weights_are_not_claimed(run, tmp_path):
    translator = Translator.from_pretrained(run, device="cpu")
    with torch.no_grad():
        translator.model.target_embedding.weight.add_(1)
    translator.save_pretrained(tmp_path / "saved")
    card = (tmp_path / "saved" / "README.md").read_text()
    assert "31.25" not in card
    assert "not of these weights" in card


def test_nothing_is_invented_where_nothing_is_recorded(translator, tmp_path):
    translator.save_pretrained(tmp_path / "saved")
    card = (tmp_path / "saved" / "README.md").read_text()
    assert "The training data is not recorded." in card
    assert "Scores of these weights are not recorded" in card
    assert "The licence of the training text is not recorded." in card
    assert "license" not in yaml.safe_load(card.split("---")[1])


def test_a_card_that_somebody_wrote_is_kept(run, tmp_path):
    (run / "README.md").write_text("# Mine\n")
    Translator.from_pretrained(run, device="cpu").save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved" / "README.md").read_text() == "# Mine\n"
    assert "CC BY 4.0" in (tmp_path / "saved" / "records.json").read_text()


def test_a_push_without_a_token_or_a_network_is_explained(translator, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub, "get_token", lambda: None)
    with pytest.raises(ConfigError, match="no access token"):
        translator.push_to_hub("somebody/model")
    real = hub.HfApi
    # Nothing listens on port 9 of this machine.
    monkeypatch.setattr(hub, "HfApi", lambda token: real(token=token, endpoint="http://127.0.0.1:9"))
    with pytest.raises(LocantError, match="cannot be reached"):
        translator.push_to_hub("somebody/model", token="hf_x")
    with pytest.raises(ConfigError, match="no name of a repository"):
        translator.push_to_hub("some/body/model", token="hf_x")


class FakeHub(BaseHTTPRequestHandler):
    """What a Hub answers to a client that creates a repository and commits small files; keeps what it was sent."""

    requests: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        type(self).requests.append((self.path, body))
        place = f"http://{self.headers['Host']}/somebody/model"
        if self.headers.get("Authorization") != "Bearer hf_right":
            self._answer(403, {"error": "This token may not write."})
        elif self.path.endswith("/repos/create"):
            self._answer(200, {"url": place, "id": "1", "name": "somebody/model"})
        elif "/preupload/" in self.path:
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None}
                for file in json.loads(body)["files"]
            ]
            self._answer(200, {"files": files})
        elif "/commit/" in self.path:
            self._answer(200, {"success": True, "commitOid": "0" * 40, "commitUrl": f"{place}/commit/{'0' * 40}"})
        else:
            self._answer(200, {})

    def do_GET(self) -> None:
        type(self).requests.append((self.path, b""))
        self._answer(200, {"id": "somebody/model", "sha": "0" * 40, "siblings": []})

    def _answer(self, code: int, content: dict[str, object]) -> None:
        data = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        pass


def test_a_push_sends_the_model_folder_and_its_card(run, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    FakeHub.requests = []
    server = HTTPServer(("127.0.0.1", 0), FakeHub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(hub.constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    translator = Translator.from_pretrained(run, device="cpu")
    try:
        with pytest.raises(ConfigError, match="refused somebody/model"):
            translator.push_to_hub("somebody/model", token="hf_wrong")
        assert translator.push_to_hub("somebody/model", token="hf_right", private=True).endswith("somebody/model")
    finally:
        server.shutdown()
        server.server_close()
    *_, created = [json.loads(body) for path, body in FakeHub.requests if path.endswith("/repos/create")]
    assert created.get("visibility") == "private" or created.get("private") is True
    *_, commit = [body for path, body in FakeHub.requests if "/commit/" in path]
    lines = [json.loads(line) for line in commit.decode().splitlines()]
    sent = {
        line["value"]["path"]: base64.b64decode(line["value"]["content"]) for line in lines if line["key"] == "file"
    }
    assert set(sent) == {
        "README.md",
        "config.json",
        "model.safetensors",
        "records.json",
        "tokenizer.joint.model",
        "tokenizer.json",
    }
    assert b"Training text: CC BY 4.0." in sent["README.md"]
    assert sent["model.safetensors"] == (run / "model.safetensors").read_bytes()


def test_names_on_the_hub(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    asked = []

    def download(repository, **options):
        asked.append((repository, options["revision"]))
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", download)
    assert local_folder("hf://somebody/model") == tmp_path
    assert local_folder("hf:/somebody/model@v1") == tmp_path  # what pathlib makes of it
    assert asked == [("somebody/model", None), ("somebody/model", "v1")]
    assert str(local_folder("runs/model")) == "runs/model"
    with pytest.raises(ConfigError, match="Write hf://user/model"):
        local_folder("hf://model")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match="locant\\[hub\\]"):
        local_folder("hf://somebody/model")
