"""Exported folders, run by CTranslate2."""

import ctranslate2
import pytest
import sentencepiece
import torch
from small_models import build, padded

from locant.errors import ConfigError
from locant.interop import export_ctranslate2
from locant.models import DecodingSettings
from locant.text import BOS, EOS, PAD
from locant.translation import Translator

SENTENCES = ["kalo mir", "tenbu shi gra no", "zap", "üm ☃ ka", "ka ka ka ka ka ka ka ka"]
MODELS = {
    "post": {},
    "pre": {"norm": "pre", "tie_output": False},
    "own vocabularies": {"share_embeddings": False},
    "other dialect": {"position_options": {"dialect": "tensor2tensor", "start": 2}, "feed_forward": "gelu"},
    "learned": {"position": "learned", "position_options": {"max_positions": 100}, "feed_forward": "silu"},
    "rotary": {"position": "rotary", "norm": "pre"},
    "partly rotary": {
        "position": "rotary",
        "position_options": {"layout": "interleaved", "rotary_dim": 4, "base": 500.0},
    },
    "glu": {"feed_forward": "glu"},
    "reglu": {"feed_forward": "reglu", "norm": "pre"},
    "geglu": {"feed_forward": "geglu"},
    "swiglu": {"feed_forward": "swiglu"},
}


def load(folder) -> ctranslate2.Translator:
    return ctranslate2.Translator(str(folder), device="cpu", intra_threads=1, compute_type="float32")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", MODELS)
def test_greedy_tokens_and_scores_are_equal(name, joint, separate, tmp_path):
    tokenizers = separate if name == "own vocabularies" else joint
    model = build(tokenizers, **MODELS[name])
    limit = {"max_length_ratio": 1e-9, "max_length_extra": 19}
    translator = Translator(model, tokenizers, DecodingSettings(beam=1, **limit))
    translator.save_pretrained(tmp_path / "run")
    export_ctranslate2(tmp_path / "run", tmp_path / "other")

    pieces = [tokenizers.source.tokens(sentence) for sentence in SENTENCES]
    search = {"beam_size": 1, "max_decoding_length": 20, "return_scores": True, "length_penalty": 0}
    found = load(tmp_path / "other").translate_batch(pieces, **search)
    target = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "other" / "target.spm"))
    texts = [target.decode_pieces(result.hypotheses[0]) for result in found]
    assert texts == translator.translate(SENTENCES)

    # Log-probabilities of given translations, token by token, among those tokens that may be written.
    targets = [[BOS, *ids] for ids in tokenizers.target.encode(texts)]
    scored = load(tmp_path / "other").score_batch(pieces, [tokenizers.target.tokens(text) for text in texts])
    for row, (result, written) in enumerate(zip(scored, targets, strict=True)):
        with torch.no_grad():
            source, length = padded([[*tokenizers.source.encode(SENTENCES)[row], EOS]])
            logits = model(source, length, torch.tensor([written]))
        logits[..., [PAD, BOS]] = -torch.inf
        expected = logits[0].log_softmax(-1)[range(len(written)), [*written[1:], EOS]]
        torch.testing.assert_close(torch.tensor(result.log_probs), expected, atol=1e-4, rtol=0)


def test_quantized_weights_are_smaller_and_reported(trained, joint, tmp_path):
    Translator(trained, joint).save_pretrained(tmp_path / "run")
    export_ctranslate2(tmp_path / "run", tmp_path / "full")
    notes = export_ctranslate2(tmp_path / "run", tmp_path / "small", quantization="int8")
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("full", "small")]
    positions = 2 * 4 * 32 * 1075  # two tables, which stay float32
    assert sizes[1] - positions < 0.4 * (sizes[0] - positions)
    assert any("int8" in note for note in notes)
    assert load(tmp_path / "small").translate_batch([joint.source.tokens("kalo mir")])[0].hypotheses[0]


def test_what_ctranslate2_cannot_express_is_refused(joint, tmp_path):
    scaled = {"scaling": {"kind": "linear", "factor": 2.0}}
    Translator(build(joint, position="rotary", position_options=scaled), joint).save_pretrained(tmp_path / "scaled")
    with pytest.raises(ConfigError, match="rotary positions without a scaling, but this model's have 'linear'"):
        export_ctranslate2(tmp_path / "scaled", tmp_path / "other")
    Translator(build(joint, position="alibi"), joint).save_pretrained(tmp_path / "run")
    with pytest.raises(ConfigError, match="positions that are added"):
        export_ctranslate2(tmp_path / "run", tmp_path / "other")
    with pytest.raises(ConfigError, match="Did you mean 'int8'"):
        export_ctranslate2(tmp_path / "run", tmp_path / "other", quantization="int9")
    assert not (tmp_path / "other").exists()
