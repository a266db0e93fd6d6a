"""Exported models for several languages, run by onnxruntime."""

import json

import pytest
import torch
from small_models import hypotheses, padded
from test_export_onnx import check_logits, run_example
from test_import_marian import files_of, group_folder
from test_multilingual import SENTENCES, m2m100_files, seldom_ending

from locant.interop import export_onnx, import_model
from locant.interop.onnx_example import OnnxTranslator
from locant.languages import parse_language
from locant.text import EOS
from locant.translation import Translator

pytestmark = pytest.mark.slow

M2M100_ROWS = 169  # more than its tokenizer has


def m2m100(folder, pairs) -> None:
    m2m100_files(folder, pairs, joint=False)
    seldom_ending(folder, M2M100_ROWS, end=2.2, encoder_layers=1, decoder_layers=1)


def marian_with_a_bias(folder, pairs) -> None:
    group_folder(folder, files_of(pairs, "unigram"), bias=True, encoder_layers=1)


# What writes the model, and two choices of languages.
MODELS = {
    "m2m100": (m2m100, ("en", "fr"), ("de", "zh")),
    "marian unigram with a bias": (marian_with_a_bias, (None, "fra"), (None, "cmn_Hans")),
}


@pytest.fixture(scope="module", params=MODELS)
def exported(request, pairs, tmp_path_factory):
    """A translator, its folder and two choices of languages."""
    write, *choices = MODELS[request.param]
    root = tmp_path_factory.mktemp("onnx")
    write(root / "other", pairs)
    import_model(root / "other", root / "run")
    notes = export_onnx(root / "run", root / "onnx")
    assert ("--source-language CODE --target-language CODE" in notes[0]) == (choices[0][0] is not None)
    return Translator.from_pretrained(root / "run", device="cpu"), root / "onnx", choices


def options(languages: tuple[str | None, str]) -> list[str]:
    sides = zip(("--source-language", "--target-language"), languages, strict=True)
    return [part for name, code in sides if code for part in (name, code)]


def test_logits_are_equal_behind_the_languages(exported):
    translator, folder, choices = exported
    ids = translator.tokenizers.source.encode(SENTENCES)
    for languages in choices:
        translator.choose_languages(*languages)
        before, prefix = translator.prefixes
        source, lengths = padded([[*before, *row, EOS] for row in ids])
        torch.manual_seed(0)
        size = translator.model.config.target_vocab_size
        target = torch.cat((torch.tensor([prefix] * len(ids)), torch.randint(4, size, (len(ids), 6))), dim=1)
        check_logits(folder, translator.model, source, lengths, target, (len(prefix), 1, 4, 1))


def test_ids_and_texts_are_those_of_locant(exported):
    translator, folder, choices = exported
    onnx = OnnxTranslator(folder, *choices[0])
    texts = []
    for languages in choices:
        translator.choose_languages(*languages)
        onnx.choose_languages(*languages)
        settings = translator.settings_with(beam=1)
        ids = translator.tokenizers.source.encode(SENTENCES)
        expected = hypotheses(translator, ids, settings)
        assert [onnx.source.encode(text) for text in map(translator.tokenizers.source.normalize, SENTENCES)] == ids
        assert [onnx.search(row) for row in ids] == [expected[index][0].tokens for index in range(len(ids))]
        texts.append(translator.translate(SENTENCES, beam=1))
        done = run_example(folder, *options(languages), *SENTENCES, " ")
        assert done.stdout.splitlines() == [*texts[-1], ""], done.stderr
    assert texts[0] != texts[1]
    assert len({len(text) for text in texts[0]}) > 1


def test_config_says_where_the_languages_stand(exported):
    translator, folder, choices = exported
    config = json.loads((folder / "config.json").read_text())
    ids = config["language_ids"]
    assert ids == translator.tokenizers.languages.ids
    assert config["max_source_length"] == 62  # of 64 positions, its language and its end mark taken away
    for source, target in choices:
        translator.choose_languages(source, target)
        named = {"source": source, "target": target}
        before, after = ([ids[named[side]] for side in config[f"{side}_prefix"]] for side in ("source", "target"))
        assert translator.prefixes == (before, [config["decoder_start_token_id"], *after])


def test_codes_are_known_in_any_form(exported):
    _, folder, choices = exported
    onnx = OnnxTranslator(folder, *choices[0])
    for source, target in choices:
        onnx.choose_languages(source, target)
        expected = onnx.before_source, onnx.before_target
        tag = parse_language(target).tag
        for form in (tag, tag.upper(), f"{tag}_{parse_language(target).script}"):
            onnx.choose_languages(f"{parse_language(source).code}-Latn" if source else None, form)
            assert (onnx.before_source, onnx.before_target) == expected


def test_wrong_languages_are_plain_messages(exported):
    _, folder, choices = exported
    (source, target), _ = choices
    attempts = [(source, None), (source, f"{target}x"), (None, target) if source else ("deu", target)]
    for languages in attempts:
        done = run_example(folder, *options(languages), "kalo")
        assert (done.returncode, done.stdout) == (2, "")
        assert "error: The model " in done.stderr
        assert "Traceback" not in done.stderr
