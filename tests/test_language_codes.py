"""Codes of languages: what they mean, which of a model's is meant, and what is no code."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import locant
from locant.errors import ConfigError
from locant.languages import english_name, find_language, meant_language, parse_language, require_language, script_of

ROWS = [
    line.split("\t")
    for line in Path(locant.__file__).with_name("languages.tsv").read_text(encoding="utf-8").splitlines()
]
CODES = [code for row in ROWS for code in (row[0], *row[1].split())]


@pytest.mark.parametrize(
    ("code", "tag", "script"),
    [
        ("deu_Latn", "de", "Latn"),
        ("zho_Hant", "zh-Hant", "Hant"),
        ("zh-tw", "zh-TW", "Hant"),
        ("zt", "zh-Hant", "Hant"),
        ("pb", "pt-BR", "Latn"),
        ("es_419", "es-419", "Latn"),
        ("srp_Latn", "sr-Latn", "Latn"),
        ("arb_Arab", "ar", "Arab"),
        ("ger", "de", "Latn"),
        ("iw", "he", "Hebr"),
        ("nor", "nb", "Latn"),
        ("de_AT.UTF-8", "de-AT", "Latn"),
        ("sr_RS@latin", "sr-Latn-RS", "Latn"),
        ("kor_Hang", "ko", "Kore"),
        ("acm_Arab", "acm-Arab", "Arab"),
        ("ine-ltn", "ine-ltn", ""),
        ("deu+nld", "deu+nld", ""),
    ],
)
def test_a_code_says_language_script_and_region(code, tag, script):
    assert (parse_language(code).tag, parse_language(code).script) == (tag, script)


@pytest.mark.parametrize(
    ("code", "known", "found"),
    [
        ("zh", ["zh_Hant", "zh_Hans"], "zh_Hans"),
        ("zt", ["zh_Hans", "zh_Hant"], "zh_Hant"),
        ("zh-TW", ["zh-Hans"], None),
        ("zh-Hant", ["zh"], None),
        ("zh-HK", ["zh_CN", "zh_TW"], "zh_TW"),
        ("ZH", ["zh-Hans"], "zh-Hans"),
        ("EN-us", ["eng_Latn"], "eng_Latn"),
        ("en-US", ["en-GB"], None),
        ("pt-BR", ["pt", "pb"], "pb"),
        ("pt", ["pt-BR"], "pt-BR"),
        ("nn", ["nb"], None),
        ("hr", ["bs", "sr_Latn"], None),
        ("yue", ["zh"], None),
        ("twi_Latn", ["aka_Latn", "twi_Latn"], "twi_Latn"),
        ("en", ["en-modern"], None),
    ],
)
def test_a_language_is_found_by_any_of_its_codes_and_never_another(code, known, found):
    assert find_language(code, known) == found


@given(st.sampled_from(CODES), st.booleans(), st.sampled_from("-_"))
def test_case_separator_and_usual_script_do_not_matter(code, upper, separator):
    script = parse_language(code).script
    full = f"{code}{separator}{script}"
    assert find_language(full.upper() if upper else full, ["xx", code]) == code
    assert parse_language(full).tag == parse_language(code).tag
    assert english_name(full)


@given(st.text(max_size=20), st.lists(st.sampled_from(CODES), max_size=4))
def test_any_text_is_a_code_or_none(text, known):
    assert find_language(text, known) in (None, *known)
    assert parse_language(parse_language(text).tag).tag == parse_language(text).tag


@pytest.mark.parametrize(
    ("name", "code"), [("jp", "ja"), ("CN", "zh"), ("gr", "el"), ("Japanese", "ja"), ("deutsch", "de"), ("us", "en")]
)
def test_names_and_countries_are_no_codes(name, code):
    with pytest.raises(ConfigError, match=f"'{code}'"):
        require_language(name, "corpus.target_language")


def test_codes_are_taken_also_those_that_no_standard_knows():
    assert not [code for code in [*CODES, "xx", "old", "sla", "en-old"] if meant_language(code)]


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("東京へ行きます。", "Jpan"),
        ("我们去北京。", "Hani"),
        ("서울에 갑니다", "Kore"),
        ("ไปกรุงเทพ", "Thai"),
        ("ໄປວຽງຈັນ", "Laoo"),
        ("ទៅភ្នំពេញ", "Khmr"),
        ("ရန်ကုန်", "Mymr"),
        ("в Москву, OK", "Cyrl"),
        ("nach Köln", "Latn"),
        ("12 - 3", ""),
    ],
)
def test_the_script_of_a_text(text, script):
    assert script_of([text]) == script
