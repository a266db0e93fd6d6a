"""Imported models against ``MarianMTModel`` and ``MarianTokenizer``."""

import io
import json
import pickle
import random
from pathlib import Path

import pytest
import sentencepiece
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from transformers import MarianConfig, MarianMTModel, MarianTokenizer
from transformers_peer import require_same

from locant.cli import main
from locant.errors import CheckpointError, ConfigError
from locant.interop import export_huggingface, import_model
from locant.interop.assembling import fold_bias
from locant.interop.huggingface import MarianConfig as OwnConfig
from locant.interop.huggingface import read_config
from locant.interop.marian import read_sides
from locant.models import load_model_folder
from locant.translation import Translator, load_translator

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

SENTENCES = ["kalo mir", "ka", "tenbu shi grano üm", "☃☃ quidy ☃zap", "ﬁ kalo\u3000mir"]


def sentencepiece_model(texts: list[str], algorithm: str) -> bytes:
    """A model as OPUS-MT has them: SentencePiece's own ids and normalisation."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=60, model_type=algorithm, minloglevel=4
    )
    return model.getvalue()


def files_of(pairs: list[tuple[str, str]], algorithm: str) -> dict[str, bytes]:
    """The tokenizer files of a folder; vocab.json has an order of its own, and no row for two of the pieces."""
    models = [sentencepiece_model([pair[side] for pair in pairs], algorithm) for side in (0, 1)]
    pieces = dict.fromkeys(
        processor.id_to_piece(index)
        for processor in (sentencepiece.SentencePieceProcessor(model_proto=model) for model in models)
        for index in range(3, 60)
    )
    shuffled = random.Random(0).sample(list(pieces), len(pieces))
    rows = ["</s>", "<unk>", *(piece for piece in shuffled if piece not in ("▁ka", "lo")), "<pad>"]
    vocab = {piece: row for row, piece in enumerate(rows)}
    return {"source.spm": models[0], "target.spm": models[1], "vocab.json": json.dumps(vocab).encode()}


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def tokenizer_files(request, pairs) -> dict[str, bytes]:
    return files_of(pairs, request.param)


def marian_folder(
    folder: Path, files: dict[str, bytes], *, bias: bool = False, pickled: bool = False, **changes: object
) -> MarianMTModel:
    """Write a random model, in which no parameter is 0 or 1, and its tokenizer."""
    torch.manual_seed(0)
    size = len(json.loads(files["vocab.json"]))
    config = MarianConfig.from_dict(
        {
            "vocab_size": size,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 1,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 40,
            "decoder_ffn_dim": 40,
            "pad_token_id": size - 1,
            "decoder_start_token_id": size - 1,
            "scale_embedding": True,
            "max_position_embeddings": 64,
            "init_std": 0.2,
            **changes,
        }
    )
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "layer_norm" in name or "bias" in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
        if bias:
            model.final_logits_bias.copy_(3 * torch.randn(1, size))
    model.save_pretrained(folder)
    if pickled:
        (folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return model


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "changes",
    [
        {"activation_function": "relu"},
        {"activation_function": "gelu", "tie_word_embeddings": False},
        {"activation_function": "swish", "share_encoder_decoder_embeddings": False},
        {"scale_embedding": False},
        {"bias": True, "pickled": True},
        {"bias": True, "tie_word_embeddings": False, "share_encoder_decoder_embeddings": False},
        {"pickled": True, "decoder_start_token_id": 5},
    ],
    ids=str,
)
def test_logits_ids_and_translations_are_equal(changes, tokenizer_files, tmp_path):
    other = marian_folder(tmp_path / "marian", tokenizer_files, **changes)
    spm, vocab = ([str(tmp_path / "marian" / name) for name in names] for names in (tokenizer_files, ["vocab.json"]))
    tokenizer = MarianTokenizer(*spm[:2], *vocab)
    import_model(tmp_path / "marian", tmp_path / "run")
    translator = Translator.from_pretrained(tmp_path / "run", device="cpu")

    config = read_config(tmp_path / "marian", OwnConfig)
    source, target, languages = read_sides(tmp_path / "marian", config)
    assert languages is None
    rows = [torch.tensor(side.rows) for side in (source, target)]
    search = {"bad_words_ids": [[config.pad_token_id]], "forced_eos_token_id": None}
    require_same(translator, other, tokenizer, rows[0], SENTENCES, rows[1], **search)


@settings(max_examples=50, deadline=None)
@given(
    dim=st.integers(2, 64),
    seed=st.integers(0, 10**6),
    shift=st.sampled_from([0.0, 0.1, 1.0]),
    offset=st.sampled_from([-1.0, 0.0, 1.0]),
)
def test_a_folded_bias_gives_the_same_logits(dim, seed, shift, offset):
    draw = torch.Generator().manual_seed(seed)
    norm = torch.nn.LayerNorm(dim, dtype=torch.float64)
    weight, bias, x = (torch.randn(shape, generator=draw) for shape in ((7, dim), (7,), (5, dim)))
    gain = 0.5 + torch.rand(dim, generator=draw)
    beta = shift * torch.randn(dim, generator=draw) + offset
    folded, moved = fold_bias(weight, bias, gain, beta)
    plain = torch.nn.functional.layer_norm(x.double(), (dim,), eps=norm.eps)
    expected = (plain * gain + beta) @ weight.double().T + bias
    torch.testing.assert_close((plain * gain + moved) @ folded.double().T, expected, atol=2e-4, rtol=0)


def test_a_bias_that_cannot_be_folded_is_refused():
    gain, shift = torch.ones(8), torch.zeros(8)
    gain[:2], shift[:2] = 1e-6, torch.tensor([0.1, -0.1])
    with pytest.raises(ConfigError, match="gains so close to 0"):
        fold_bias(torch.ones(3, 8), torch.ones(3), gain, shift)
    with pytest.raises(ConfigError, match="gains so close to 0"):
        fold_bias(torch.ones(3, 8), torch.ones(3), torch.zeros(8), shift)


def group_folder(folder: Path, files: dict[str, bytes], **changes: object) -> MarianMTModel:
    """Write a model that is told the target language before the source, as OPUS-MT's for groups of languages are."""
    vocab = json.loads(files["vocab.json"])
    pad = vocab.pop("<pad>")
    rows = [*vocab, ">>fra<<", ">>cmn_Hans<<", "<pad>"]
    assert pad == len(vocab)
    files = files | {"vocab.json": json.dumps({piece: row for row, piece in enumerate(rows)}).encode()}
    model = marian_folder(folder, files, **changes)
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "eng", "target_lang": "mul"}))
    return model


@pytest.fixture
def several(tokenizer_files, tmp_path) -> tuple[MarianMTModel, MarianTokenizer]:
    model = group_folder(tmp_path / "marian", tokenizer_files, tie_word_embeddings=False)
    paths = [str(tmp_path / "marian" / name) for name in ("source.spm", "target.spm", "vocab.json")]
    return model, MarianTokenizer(*paths)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["pytorch", "compiled", "ctranslate2"])
def test_a_model_for_several_target_languages(engine, several, tmp_path, monkeypatch):
    monkeypatch.setattr("locant.translation.ctranslate2.cache_folder", lambda: tmp_path / "cache")
    other, tokenizer = several
    notes = import_model(tmp_path / "marian", tmp_path / "run")
    assert any("2 languages (cmn_Hans, fra)" in note for note in notes)
    translator, _ = load_translator(tmp_path / "run", engine=engine, device="cpu")
    with pytest.raises(ConfigError, match="must be told the target language"):
        translator.translate("kalo mir")
    pad, codes = tokenizer.pad_token_id, set(tokenizer.convert_tokens_to_ids([">>fra<<", ">>cmn_Hans<<"]))
    search = {"num_beams": 1, "max_new_tokens": 20, "bad_words_ids": [[pad]], "forced_eos_token_id": None}
    found = {}
    for language in ("fra", "cmn_Hans"):
        batch = tokenizer([f">>{language}<< {text}" for text in SENTENCES], return_tensors="pt", padding=True)
        written = [[i for i in row[1:] if i not in codes] for row in other.generate(**batch, **search).tolist()]
        translator.choose_languages(None, language)
        found[language] = translator.translate(SENTENCES, beam=1, max_length_ratio=1e-9, max_length_extra=19)
        expected = tokenizer.batch_decode(written, skip_special_tokens=True)
        assert [text.strip() for text in found[language]] == expected
    assert found["fra"] != found["cmn_Hans"]


def test_the_source_language_is_the_model_s_own_and_not_told(several, tmp_path, capsys):
    import_model(tmp_path / "marian", tmp_path / "run")
    assert load_model_folder(tmp_path / "run", device="cpu").source_language == "eng"
    translate = ["translate", str(tmp_path / "run"), "ka"]
    written = set()
    for source in ([], ["--source-language", "en"], ["--source-language", "eng_Latn"]):
        assert main([*translate, *source, "--target-language", "fra"]) == 0
        written.add(capsys.readouterr().out)
    assert len(written) == 1
    for source, target, named in (("fra", "fra", "'eng'"), ("eng", "french", "'fr'")):
        assert main([*translate, "--source-language", source, "--target-language", target]) == 2
        assert named in capsys.readouterr().err


def test_a_group_leaves_as_marian_again(several, tmp_path):
    other, tokenizer = several
    import_model(tmp_path / "marian", tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["decoding"]["usual_source_length"] is None
    config["decoding"]["usual_source_length"] = 40
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    export_huggingface(tmp_path / "run", tmp_path / "back")
    import_model(tmp_path / "back", tmp_path / "again")
    assert load_model_folder(tmp_path / "again", device="cpu").decoding.usual_source_length == 40
    model, ours = (kind.from_pretrained(tmp_path / "back") for kind in (MarianMTModel, MarianTokenizer))
    texts = [">>fra<< kalo mir", ">>cmn_Hans<< ka"]
    found, expected = (one(texts, return_tensors="pt", padding=True) for one in (ours, tokenizer))
    search = {"num_beams": 1, "max_new_tokens": 9}
    theirs = other.generate(**expected, **search, bad_words_ids=[[other.config.pad_token_id]], forced_eos_token_id=None)
    written = model.eval().generate(**found, **search)
    decoded = [
        one.batch_decode(rows[:, 1:], skip_special_tokens=True) for one, rows in ((ours, written), (tokenizer, theirs))
    ]
    assert decoded[0] == decoded[1]


class Code:
    """What a stranger's pickle could hold."""

    def __reduce__(self):
        return Path.touch, (Path(self.path),)


def test_code_in_a_pickle_is_not_run(tokenizer_files, tmp_path):
    marian_folder(tmp_path / "marian", tokenizer_files, pickled=True)
    code = Code()
    code.path = str(tmp_path / "executed")
    (tmp_path / "marian" / "pytorch_model.bin").write_bytes(pickle.dumps(code, protocol=2))
    with pytest.raises(CheckpointError, match="damaged, or more than tensors"):
        import_model(tmp_path / "marian", tmp_path / "run")
    assert not (tmp_path / "executed").exists()


def test_a_pickle_is_read_by_a_torch_that_reads_it_safely_alone(tmp_path, tokenizer_files, monkeypatch):
    folder = tmp_path / "marian"
    marian_folder(folder, tokenizer_files)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    import_model(folder, tmp_path / "run")
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"read safely from torch 2\.10 on, and this is torch 2\.9\.1"):
        import_model(folder, tmp_path / "other")
