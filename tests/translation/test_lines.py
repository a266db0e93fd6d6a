from __future__ import annotations

import io
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from locant.errors import DataError
from locant.translation import Translator
from locant.translation.lines import LONGEST_LINE, Line, arriving_windows, split_to_fit

UNHURRIED = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_lines_are_there_as_soon_as_they_have_arrived() -> None:
    reading, writing = os.pipe()
    windows = arriving_windows(os.fdopen(reading, "rb", buffering=0), "pipe")
    os.write(writing, b"one\ntw")
    assert next(windows) == [Line("one")]
    os.write(writing, b"o\nthree\n")
    assert next(windows) == [Line("two"), Line("three")]
    os.write(writing, b"four")
    os.close(writing)
    assert list(windows) == [[Line("four")]]


def test_what_is_wrong_comes_after_the_lines_before_it() -> None:
    windows = arriving_windows(io.BytesIO(b"one\n\xff\ntwo\n"), "input")  # type: ignore[arg-type]
    assert next(windows) == [Line("one")]
    with pytest.raises(DataError, match="input, line 2: byte 1 of the line is not valid UTF-8"):
        next(windows)


@UNHURRIED
@given(st.lists(st.integers(0, 6), max_size=6), st.integers(1, 5))
def test_blocks_make_no_difference(lengths: list[int], size: int) -> None:
    raw = b"\r\n".join(b"x" * length for length in lengths)

    class Slow(io.BytesIO):
        def read(self, count: int | None = -1) -> bytes:
            return super().read(size)

    found = [line.text for window in arriving_windows(Slow(raw), "input") for line in window]
    *lines, last = raw.decode().split("\r\n")
    assert found == ([*lines, last] if last else lines)


def test_a_line_without_end_is_never_held() -> None:
    class Endless(io.RawIOBase):
        blocks = 200

        def read(self, count: int = -1) -> bytes:
            self.blocks -= 1
            return b"x" * 65_536 if self.blocks > 0 else b"\nend\n" if self.blocks == 0 else b""

    first, end = (line for window in arriving_windows(Endless(), "input") for line in window)  # type: ignore[arg-type]
    assert first.text == ""
    assert f"longer than {LONGEST_LINE:,} bytes" in first.fault
    assert end == Line("end")


@UNHURRIED
@given(st.text(st.sampled_from("ab .,。、!\n'"), max_size=60), st.integers(1, 9))
def test_parts_fit_and_lose_nothing_but_white_space(text: str, limit: int) -> None:
    parts = split_to_fit(text, lambda part: len(part) <= limit)
    assert all(len(part) <= limit and part == part.strip() != "" for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_cuts_are_at_sentences_then_clauses_then_words() -> None:
    def cut(text: str, limit: int) -> list[str]:
        return split_to_fit(text, lambda part: len(part) <= limit)

    assert cut("He came, saw and won. She did not. They left.", 30) == [
        "He came, saw and won.",
        "She did not. They left.",
    ]
    assert cut("as he came to town, she left for good", 30) == ["as he came to town,", "she left for good"]
    assert cut("one two three four", 10) == ["one two", "three four"]
    assert cut("我来了。你看见了。他走了。", 7) == ["我来了。", "你看见了。", "他走了。"]
    assert cut("abcdefgh", 4) == ["abcd", "efgh"]


TEXTS = ["alpha beta", "", "mu nu xi", "gamma alpha", "beta", "  ", "delta mu"]


@pytest.mark.parametrize("sampling", [None, {"seed": 3}])
def test_chunks_make_no_difference(translator: Translator, sampling: dict[str, int] | None) -> None:
    whole = translator.translate(TEXTS, sampling=sampling)
    for cuts in ([TEXTS[:1], TEXTS[1:3], [], TEXTS[3:]], [[text] for text in TEXTS]):
        found = [best for chunk in translator.translate_chunks(cuts, sampling=sampling) for best in chunk]
        assert [best[0].text for best in found] == whole
    assert list(translator.stream(TEXTS, chunk=2, sampling=sampling)) == whole


def test_a_split_sentence_is_its_parts(translator: Translator) -> None:
    text, parts = "alpha beta. gamma delta.", ["alpha beta.", "gamma delta."]
    limit = max(len(translator.tokenizers.source.encode([part])[0]) for part in parts)
    said: list[str] = []
    ((found,),) = translator.translate_chunks(
        [[text]], on_long="split", say=said.append, max_source_length=limit, n_best=2
    )
    one, two = translator.translate_n_best(parts, n_best=2)
    assert found[0].text == f"{one[0].text} {two[0].text}".strip()
    assert found[1].log_probability == pytest.approx(one[1].log_probability + two[1].log_probability)
    assert found[0].tokens == one[0].tokens + two[0].tokens
    assert said == [
        f"Sentence 1 has {len(translator.tokenizers.source.encode([text])[0])} tokens, but at most {limit} can be "
        "translated (max_source_length). It is translated in 2 parts."
    ]
