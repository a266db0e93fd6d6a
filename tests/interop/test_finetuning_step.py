"""One step of fine-tuning against Hugging Face transformers: loss, gradients and the norm of the gradient."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from test_import_m2m100 import m2m100_folder
from test_import_marian import files_of, marian_folder
from test_multilingual import m2m100_files, nllb_files
from transformers import MarianTokenizer
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.trainer_pt_utils import LabelSmoother

from locant.interop import import_model
from locant.interop.huggingface import M2M100Config, MarianConfig, modules, read_config
from locant.interop.m2m100 import read_multilingual
from locant.interop.marian import read_sides
from locant.models import load_model_folder
from locant.text import BOS, collate, write_cache
from locant.text.cache import Encoder
from locant.text.pairs import memory_blocks
from locant.training import TranslatorLoss

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


class Peer:
    """A random model of transformers in a folder, and its batch of some pairs."""

    def __init__(self, kind: str, folder: Path, pairs: list[tuple[str, str]], used: list[tuple[str, str]]) -> None:
        texts, references = (list(side) for side in zip(*used, strict=True))
        self.kind, self.folder = kind, folder
        self.languages: dict[str, str] = {}
        if kind.startswith("marian"):
            folder.mkdir()
            files = files_of(pairs, "unigram")
            pieces = list(json.loads(files["vocab.json"]))
            pieces[2:2] = ["▁ka", "lo"]  # every piece has a row
            if kind == "marian, a group of languages":  # whose tokens stand before the source
                pieces[-1:-1] = [">>deu<<", ">>fra<<"]
                texts = [f">>fra<< {text}" for text in texts]
                self.languages = {"target_language": "fra"}
            files["vocab.json"] = json.dumps({piece: row for row, piece in enumerate(pieces)}).encode()
            changes = {
                "marian": {},
                "marian, a group of languages": {},
                "marian with a bias": {"bias": True},
                "marian, nothing tied": {"tie_word_embeddings": False, "activation_function": "relu"},
            }
            self.model = marian_folder(folder, files, **changes[kind])
            tokenizer = MarianTokenizer(*(str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")))
        else:
            files, codes = {
                "m2m100": (lambda: m2m100_files(folder, pairs, joint=True), ("en", "fr")),
                "nllb": (lambda: nllb_files(folder, pairs), ("eng_Latn", "fra_Latn")),
            }[kind]
            tokenizer = files()
            size = max(tokenizer.convert_tokens_to_ids(["__zu__", "<mask>", "zho_Hans"])) + 9
            self.model = m2m100_folder(folder, vocab_size=size)
            tokenizer.src_lang, tokenizer.tgt_lang = codes
            self.languages = dict(zip(("source_language", "target_language"), codes, strict=True))
        config = self.model.config
        if kind.startswith("marian"):
            sides = read_sides(folder, read_config(folder, MarianConfig))
        else:
            sides = read_multilingual(folder, read_config(folder, M2M100Config))
        self.rows = torch.tensor(sides[0].rows), torch.tensor(sides[1].rows)
        self.batch = tokenizer(texts, text_target=references, return_tensors="pt", padding=True)
        self.batch["labels"] = self.batch["labels"].masked_fill(self.batch["labels"] == config.pad_token_id, -100)

    def loss(self, smoothing: float) -> torch.Tensor:
        """As Trainer computes it."""
        output = self.model(**self.batch)
        if not smoothing:
            return output.loss
        return LabelSmoother(smoothing)(Seq2SeqLMOutput(logits=output.logits), self.batch["labels"])


KINDS = ["marian", "marian, a group of languages", "marian with a bias", "marian, nothing tied", "m2m100", "nllb"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradients_are_those_of_transformers(kind, smoothing, pairs, tmp_path):
    used = pairs[:11]
    peer = Peer(kind, tmp_path / "peer", pairs, used)
    expected = peer.loss(smoothing)
    expected.backward()

    import_model(peer.folder, tmp_path / "run")
    found = load_model_folder(tmp_path / "run", device="cpu")
    prefixes = found.tokenizers.prefixes(peer.languages.get("source_language"), peer.languages.get("target_language"))
    cache = write_cache([memory_blocks(used)], Encoder(found.tokenizers, 64, [prefixes]), tmp_path / "cache")
    batch = collate(cache, np.arange(len(used)))
    loss = TranslatorLoss(found.model, smoothing, torch.float32)(batch)[0] / batch.target_tokens
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-4)

    model, theirs = found.model, dict(peer.model.named_parameters())
    compared = set()
    folded = f"decoder.layers.{model.config.decoder_layers - 1}.residuals.2.norm"
    for module in modules(model.config):
        for part in ("weight", "bias"):
            if kind == "marian with a bias" and module.locant == folded:
                continue  # The bias is folded into this norm and the output, whose gradients are then of other things.
            ours = model.get_parameter(f"{module.locant}.{part}").grad.chunk(len(module.huggingface))
            for name, gradient in zip(module.huggingface, ours, strict=True):
                torch.testing.assert_close(gradient, theirs[f"{name}.{part}"].grad, atol=1e-4, rtol=0)
                assert gradient.abs().max() > 1e-4 or name.endswith("k_proj")  # Softmax does not see a bias of keys.
                compared.add(f"{name}.{part}")
    # The sinusoids are never trained.
    rest = {name: one.grad for name, one in theirs.items() if name not in compared and one.grad is not None}
    if kind == "marian with a bias":
        return
    # Transformers never trains the embedding of its padding, which starts Marian's decoder.
    read = model.target_embedding.weight.grad.clone()
    if kind.startswith("marian"):
        read[BOS] = 0

    def by_row(side: int, gradient: torch.Tensor) -> torch.Tensor:
        return torch.zeros(peer.model.config.vocab_size, gradient.shape[1]).index_add(0, peer.rows[side], gradient)

    source, target = by_row(0, model.source_embedding.weight.grad), by_row(1, read)
    if kind == "marian, nothing tied":
        expected_rows = {
            "model.encoder.embed_tokens.weight": source,
            "model.decoder.embed_tokens.weight": target,
            "lm_head.weight": by_row(1, model.output.weight.grad),
        }
    else:
        assert model.config.tie_output
        shared = target if model.source_embedding is model.target_embedding else source + target
        expected_rows = {"model.shared.weight": shared}
    assert rest.keys() == expected_rows.keys()
    for name, gradient in expected_rows.items():
        torch.testing.assert_close(gradient, rest[name], atol=1e-4, rtol=0)
