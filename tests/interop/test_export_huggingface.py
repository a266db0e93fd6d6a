"""Exported folders, loaded by plain ``transformers``."""

import unicodedata

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import build, sentence_pairs
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from locant.errors import CheckpointError, ConfigError
from locant.interop import export_huggingface
from locant.models import DecodingSettings
from locant.text import BOS, EOS, UNK, TokenizerSettings, train_tokenizers
from locant.translation import Translator

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

MODELS = {
    "paper": (True, {}),
    "concatenated": (True, {"position_options": {"dialect": "concatenated"}, "feed_forward": "gelu"}),
    "untied output": (True, {"tie_output": False, "feed_forward": "silu"}),
    "own embeddings": (True, {"share_embeddings": False}),
    "own vocabularies": (False, {"share_embeddings": False}),
    "nothing tied": (False, {"share_embeddings": False, "tie_output": False, "encoder_layers": 1}),
}
SENTENCES = ["kalo mir", "Tenbu shi gra no", "</s> zap", "üm", "ka ka ka ka ka ka ka ka"]


def limited(max_length: int, **changes: object) -> DecodingSettings:
    """Settings under which every translation may have so many tokens, as transformers counts."""
    return DecodingSettings(max_length_ratio=1e-9, max_length_extra=max_length - 1, **changes)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MODELS)
def test_logits_ids_and_greedy_translations_are_equal(name, joint, separate, tmp_path):
    shared, changes = MODELS[name]
    tokenizers = joint if shared else separate
    model = build(tokenizers, **changes)
    translator = Translator(model, tokenizers, limited(30, beam=1))
    translator.save_pretrained(tmp_path / "run")
    export_huggingface(tmp_path / "run", tmp_path / "marian")

    other = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "marian")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "marian")
    assert (type(other).__name__, type(tokenizer).__name__) == ("MarianMTModel", "MarianTokenizer")
    batch = tokenizer(SENTENCES, return_tensors="pt", padding=True)
    assert tokenizer(SENTENCES)["input_ids"] == [[*ids, 3] for ids in tokenizers.source.encode(SENTENCES)]
    target = torch.randint(4, tokenizers.target.vocab_size, (len(SENTENCES), 9))
    target[:, 0] = BOS
    with torch.no_grad():
        expected = other(**batch, decoder_input_ids=target).logits
        found = model(batch["input_ids"], batch["attention_mask"].sum(1), target)
    assert (found - expected).abs().max() < 1e-4
    assert expected.std() > 0.1

    written = other.generate(**batch, num_beams=1, max_length=None, max_new_tokens=30).tolist()
    texts = tokenizers.target.decode(written)
    assert texts == translator.translate(SENTENCES)
    known = [text for text, row in zip(texts, written, strict=True) if UNK not in row]
    decoded = tokenizer.batch_decode([row for row in written if UNK not in row], skip_special_tokens=True)
    assert decoded == [text.strip() for text in known]


def test_a_model_that_is_told_its_target_language(tmp_path):
    settings = TokenizerSettings(vocab_size=80)
    tokenizers = train_tokenizers(sentence_pairs(400), settings, languages=["en", "fr"], layout="marian")
    translator = Translator(build(tokenizers), tokenizers, limited(30, beam=1), target_language="fr")
    translator.save_pretrained(tmp_path / "run")
    export_huggingface(tmp_path / "run", tmp_path / "marian")
    other = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "marian")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "marian")
    batch = tokenizer([f">>fr<< {text}" for text in SENTENCES], return_tensors="pt", padding=True)
    written = other.generate(**batch, num_beams=1, max_length=None, max_new_tokens=30).tolist()
    assert tokenizers.target.decode(written) == translator.translate(SENTENCES)


COMPOSED = [
    chr(code) for code in range(0xC0, 0xD7A4, 7) if unicodedata.normalize("NFC", c := chr(code)) == c and c.isalpha()
]
PARTS = [*COMPOSED, *(unicodedata.normalize("NFD", letter) for letter in COMPOSED)]
OTHERS = ["a", "ka", " ", "\t", "\u3000", "\u212b", "▁", "☃", "</s>", "<unk>", "<0x41>"]


@pytest.fixture(scope="module", params=[("unigram", False), ("bpe", True)], ids=str)
def both(request, tmp_path_factory):
    """A tokenizer that shows other characters byte by byte, and the one that is exported."""
    (algorithm, lowercase), root = request.param, tmp_path_factory.mktemp("ids")
    options = TokenizerSettings(vocab_size=268, lowercase=lowercase, byte_fallback=True, algorithm=algorithm)
    tokenizers = train_tokenizers([("ka åö ▁ a", "ka lo")] * 9, options)
    Translator(build(tokenizers), tokenizers).save_pretrained(root / "run")
    export_huggingface(root / "run", root / "marian")
    return tokenizers.source, AutoTokenizer.from_pretrained(root / "marian")


@settings(max_examples=100, deadline=None)
@given(text=st.lists(st.sampled_from(PARTS) | st.sampled_from(OTHERS), max_size=12).map("".join))
def test_ids_of_any_text(both, text):
    own, other = both
    assert other(text)["input_ids"] == [*own.encode([text])[0], EOS]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("beam", [1, 4])
def test_translations_of_a_trained_model_are_equal(beam, trained, joint, pairs, tmp_path):
    translator = Translator(trained, joint, DecodingSettings(beam=beam, length_penalty=0))
    translator.save_pretrained(tmp_path / "run")
    export_huggingface(tmp_path / "run", tmp_path / "marian")
    other = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "marian")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "marian")
    sources = [source for source, _ in pairs[:40]]
    # The folder's own generation_config.json says how to search.
    batch = tokenizer(sources, return_tensors="pt", padding=True)
    written = other.generate(**batch, return_dict_in_generate=True, output_scores=True)
    texts = tokenizer.batch_decode(written.sequences, skip_special_tokens=True)
    own = [translations[0] for translations in translator.translate_n_best(sources)]
    different = [row for row, text in enumerate(texts) if text != own[row].text]
    assert len(set(texts)) > 30
    assert len(different) <= (2 if beam > 1 else 0)
    # transformers keeps its beam wide when a hypothesis ends, so it may find a better one, but no worse one.
    assert all(written.sequences_scores[row] > own[row].score for row in different)


@pytest.mark.parametrize(
    ("changes", "settings"),
    [
        *(
            ({"position_options": {option: value}}, ["model.position_options={}"])
            for option, value in {"dialect": "tensor2tensor", "base": 500.0, "start": 1, "features": 16}.items()
        ),
        (  # what `locant train` chooses, and more: all at once
            {"norm": "pre", "position": "rotary", "feed_forward": "swiglu"},
            ["model.norm=post", "model.feed_forward=relu", "model.position=sinusoidal"],
        ),
    ],
    ids=str,
)
def test_what_marian_cannot_express_is_refused(changes, settings, joint, tmp_path):
    Translator(build(joint, **changes), joint).save_pretrained(tmp_path / "run")
    with pytest.raises(ConfigError) as found:
        export_huggingface(tmp_path / "run", tmp_path / "marian")
    assert all(setting in str(found.value) for setting in settings)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_that_holds_something_is_left_alone(joint, tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    with pytest.raises(CheckpointError, match="not empty"):
        export_huggingface(tmp_path / "no run is looked for", tmp_path / "taken")
    assert (tmp_path / "taken" / "file").read_text() == "mine"
