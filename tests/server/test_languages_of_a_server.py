"""Which model translates between which languages, what they are called, and how they are identified."""

from __future__ import annotations

import pytest
from served import serving, tiny_translator
from starlette.requests import Request
from tiny_models import tiny_model, tiny_tokenizers

from locant.errors import ConfigError, UsageError
from locant.models import DecodingSettings
from locant.server import ModelPlace, Models
from locant.server.gate import address_of
from locant.server.identification import Identifier
from locant.server.models import language_name
from locant.text import TokenizerPair
from locant.text.tokenizer import LanguageTokens
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
        ("hf://user/de-en", ModelPlace("hf://user/de-en")),
    ],
)
def test_a_place_may_name_its_languages(text, place):
    assert ModelPlace.parse(text) == place


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
            assert answer.json() == {"translatedText": translator.translate("alpha beta")}


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("de", "German"),
        ("deu_Latn", "German (Latin)"),
        ("zho_Hant", "Chinese (Traditional)"),
        ("pt_BR", "Portuguese (Brazil)"),
        ("qqq", "qqq"),
    ],
)
def test_languages_have_names(code, name):
    assert language_name(code) == name


def test_languages_are_identified_by_the_codes_of_the_models():
    identifier = Identifier(["deu_Latn", "nb", "eng_Latn"])
    assert identifier.identify(GERMAN)[0].code == "deu_Latn"
    assert identifier.choose("Jeg forstår ikke hva du mener.", ["eng_Latn", "nb"]).code == "nb"
    assert identifier.identify("12345 !?") == []
    nothing = identifier.choose("12345", ["eng_Latn", "nb"])
    assert (nothing.code, nothing.confidence) == ("eng_Latn", 0.0)


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
    assert address_of(Request({"type": "http", "client": (host, 1), "headers": []})) == client
