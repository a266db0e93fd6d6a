"""Which model translates between which languages, what they are called, and how they are identified."""

from __future__ import annotations

import json

import pytest
from served import serving, tiny_translator
from tiny_models import tiny_model, tiny_tokenizers

from locant.errors import ConfigError, UsageError
from locant.models import DecodingSettings
from locant.server import ModelPlace, Models
from locant.server.clients import address_of
from locant.server.models import identify, identify_among
from locant.text import TokenizerPair
from locant.text.tokenizer_pair import LanguageTokens
from locant.translation import Translator

GERMAN = "Ein Mann reitet auf einem Pferd."


def multilingual(layout, *codes):
    """A random model for several languages, whose tokens are the last of its vocabulary."""
    tokenizers = tiny_tokenizers()
    size = tokenizers.source.vocab_size
    ids = {code: size - 1 - place for place, code in enumerate(codes)}
    pair = TokenizerPair(tokenizers.source, tokenizers.target, LanguageTokens(layout=layout, ids=ids))
    model = tiny_model(size, sharpness=4.0)
    return Translator(model, pair, DecodingSettings(beam=2, max_length_extra=4))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("runs/de-en", ModelPlace("runs/de-en")),
        ("de-en=runs/mine", ModelPlace("runs/mine", "de", "en")),
        ("en-*=models/opus", ModelPlace("models/opus", "en", None)),
        ("deu_Latn-zho_Hant=nllb", ModelPlace("nllb", "deu_Latn", "zho_Hant")),
        ("de=en=x", ModelPlace("de=en=x")),
        ("en-zh-Hans=x", ModelPlace("x", "en", "zh-Hans")),
        ("zh-Hant-zh-Hans=x", ModelPlace("x", "zh-Hant", "zh-Hans")),
        ("en-pt-BR=x", ModelPlace("x", "en", "pt-BR")),
        ("pt-BR-en=x", ModelPlace("x", "pt-BR", "en")),
        ("en-es_419=x", ModelPlace("x", "en", "es_419")),
        ("zh-TW-*=x", ModelPlace("x", "zh-TW", None)),
        ("hf://user/de-en", ModelPlace("hf://user/de-en")),
    ],
)
def test_a_place_may_name_its_languages(text, place):
    assert ModelPlace.parse(text) == place


SIMPLIFIED, TRADITIONAL = tiny_translator("en", "zh_Hans", seed=8), tiny_translator("en", "zh_Hant", seed=9)
BRAZIL, PORTUGAL = tiny_translator("en-GB", "pt-BR", seed=8), tiny_translator("en-GB", "pt-PT", seed=9)


@pytest.mark.parametrize(
    ("models", "target", "translator"),
    [
        ([SIMPLIFIED], "zh", SIMPLIFIED),
        ([SIMPLIFIED], "zh-CN", SIMPLIFIED),
        ([SIMPLIFIED], "ZH-hans", SIMPLIFIED),
        ([SIMPLIFIED], "zt", None),
        ([SIMPLIFIED, TRADITIONAL], "zh", SIMPLIFIED),
        ([SIMPLIFIED, TRADITIONAL], "zh-TW", TRADITIONAL),
        ([SIMPLIFIED, TRADITIONAL], "zt", TRADITIONAL),
        ([SIMPLIFIED, TRADITIONAL], "ja", None),
        ([BRAZIL], "pt-PT", BRAZIL),
        ([BRAZIL, PORTUGAL], "pt-PT", PORTUGAL),
        ([BRAZIL, PORTUGAL], "pt-AO", None),
    ],
)
def test_a_language_is_served_by_any_of_its_codes_and_by_no_other(models, target, translator):
    with serving(Models([(ModelPlace(str(number)), model) for number, model in enumerate(models)])) as client:
        answer = client.post("/translate", json={"q": "alpha beta", "source": "en-US", "target": target})
        if translator is None:
            assert answer.status_code == 400
        else:
            assert answer.json() == {"translatedText": translator.translate("alpha beta").strip()}


def test_two_models_for_a_direction_are_refused():
    found = [(ModelPlace("a"), tiny_translator()), (ModelPlace("b"), tiny_translator())]
    with pytest.raises(UsageError, match="Both a and b translate de-en"):
        Models(found)
    assert len(Models([found[0], (ModelPlace("b", "en", "de"), found[1][1])]).routes) == 2


def test_a_model_that_does_not_say_its_languages_must_have_them_named():
    with pytest.raises(ConfigError, match="de-en=runs/x"):
        Models([(ModelPlace("runs/x"), tiny_translator(None, None))])


def test_a_model_for_several_languages_has_all_directions_it_can_be_told():
    models = Models([(ModelPlace("m"), multilingual("fairseq", "de", "en", "fr"))])
    assert len(models.routes) == 6
    one_way = Models([(ModelPlace("m", "en"), multilingual("marian", "de", "fr"))])
    assert sorted(map(str, one_way.routes)) == ["en-de", "en-fr"]
    with pytest.raises(ConfigError, match="no target language 'it'"):
        Models([(ModelPlace("m", "en", "it"), multilingual("marian", "de", "fr"))])


@pytest.mark.parametrize("layout", ["fairseq", "marian"])
def test_a_model_for_several_languages_translates_into_the_one_that_is_asked_for(layout):
    translator = multilingual(layout, "de", "en", "fr")
    with serving(Models([(ModelPlace("m"), translator)])) as client:
        for target in ("en", "fr"):
            answer = client.post("/translate", json={"q": "alpha beta", "source": "de", "target": target})
            translator.choose_languages("de" if layout == "fairseq" else None, target)
            # In a document no white space stands around a sentence, and an unknown token writes some.
            assert answer.json() == {"translatedText": str(translator.translate("alpha beta")).strip()}


TO_ENGLISH, FROM_ENGLISH = tiny_translator("de", "en", seed=8), tiny_translator("en", "fr", seed=2)
PIVOTED = [(ModelPlace("a"), TO_ENGLISH), (ModelPlace("b"), FROM_ENGLISH)]
ASKED = {"q": "alpha beta gamma", "source": "de", "target": "fr"}


def test_a_text_goes_by_way_of_english_where_no_model_is_direct():
    with serving(Models(PIVOTED)) as client:
        assert client.get("/languages").json()[0] == {"code": "de", "name": "German", "targets": ["en", "fr"]}
        english = TO_ENGLISH.translate(ASKED["q"])
        french = FROM_ENGLISH.translate(english)
        assert len({ASKED["q"], english, french}) == 3
        assert client.post("/translate", json=ASKED).json() == {"translatedText": french}
        # Beside one that is translated by one model, and one that stays.
        texts = ["The dogs are playing with a ball.", "Das Pferd steht auf der Wiese.", "Le chat dort sur la table."]
        answer = client.post("/translate", json={**ASKED, "source": "auto", "q": texts}).json()
        assert [each["language"] for each in answer["detectedLanguage"]] == ["en", "de", "fr"]
        assert answer["translatedText"] == [
            FROM_ENGLISH.translate(texts[0]), FROM_ENGLISH.translate(TO_ENGLISH.translate(texts[1])), texts[2]
        ]  # fmt: skip
        html = client.post("/translate", json={**ASKED, "q": f"<p>{ASKED['q']}</p>", "format": "html"}).json()
        assert html == {"translatedText": f"<p>{french}</p>"}
        streamed = client.post("/translate/stream", json=ASKED).text
        pieces = [json.loads(line[6:]) for line in streamed.split("\n") if line.startswith("data: ")]
        assert "".join(piece.get("text", "") for piece in pieces) == french
        others = client.post("/translate", json={**ASKED, "alternatives": 2}).json()["alternatives"]
        expected = FROM_ENGLISH.translate_n_best([english], beam=3, n_best=3)[0]
        assert others == [found.text for found in expected[1:]]


@pytest.mark.parametrize("pivot", [None, "it"])
def test_no_way_leads_by_another_language(pivot):
    with serving(Models(PIVOTED), pivot=pivot) as client:
        assert client.get("/languages").json()[0]["targets"] == ["en"]
        answer = client.post("/translate", json=ASKED)
        assert answer.status_code == 400
        assert "not available as a target language from German" in answer.json()["error"]


def test_languages_are_identified_by_the_codes_of_the_models():
    assert identify(GERMAN, ["deu_Latn", "nb", "eng_Latn"])[0].language == "deu_Latn"
    assert identify_among("Jeg forstår ikke hva du mener.", ["eng_Latn", "nb"]).language == "nb"
    assert identify("12345 !?", ["nb"]) == []
    nothing = identify_among("12345", ["eng_Latn", "nb"])
    assert (nothing.language, nothing.confidence) == ("eng_Latn", 0.0)


@pytest.mark.parametrize(
    ("host", "client"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("testclient", "unknown address"),
    ],
)
def test_addresses_of_one_customer_are_one_client(host, client):
    assert address_of({"type": "http", "client": (host, 1), "headers": []}) == client
