"""The short way of a text that is one plain sentence: it gives what the long way does."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from property_examples import TIMES
from served import serving, tiny_models

from locant.documents.plain import is_plain_sentence
from locant.documents.sentences import sentence_splitter
from locant.errors import LocantError
from locant.models import DecodingSettings
from locant.server import plain_sentences, translating
from locant.server.progress import Delivery
from locant.server.tickets import QueueFullError, Sentence
from locant.translation import Hypothesis

WORDS = [
    "alpha",
    "beta",
    "Gamma",
    "delta",
    "Epsilon.",
    "zeta!",
    "eta?",
    "3",
    "3rd",
    "a@b.de",
    "www.a.de",
    "(a)",
    "-",
    "1.",
]
ODD = [
    "ﷺ",
    "你好。",
    "\u2028",
    "\u00a0",
    "\u200b",
    "\x00",
    "\x85",
    "…",
    "e\u0301",
    "🙂",
    "\t",
    "\n",
    "\r\n",
    "  ",
    "x" * 90,
]
TEXTS = st.lists(st.sampled_from([*WORDS, *ODD]), max_size=7).flatmap(
    lambda words: st.sampled_from([" ".join(words), "".join(words), " " + " ".join(words)])
)


@pytest.fixture(scope="module")
def client():
    with serving(tiny_models(), limits={"sentence_tokens": 12}) as found:
        yield found


@settings(
    max_examples=20 * TIMES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
@given(text=TEXTS, alternatives=st.sampled_from([0, 0, 2]))
@example(text="alpha beta gamma", alternatives=0)
@example(text="ﷺ" * 8, alternatives=0)
def test_both_ways_are_one(client, text, alternatives):
    asked = {"q": text, "source": "de", "target": "en", "alternatives": alternatives}
    short = client.post("/translate", json=asked).json()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translating, "is_plain_sentence", lambda text, split: False)
        assert client.post("/translate", json=asked).json() == short


def test_what_goes_the_short_way(client, monkeypatch):
    taken = []

    async def noted(*arguments, **options):
        taken.append(arguments)
        return await plain_sentences.search(*arguments, **options)

    monkeypatch.setattr(translating, "search", noted)
    asked = {"source": "de", "target": "en"}
    for text in ("alpha beta gamma", "alpha. Beta gamma!", " alpha", "alpha\nbeta", "alpha 5", "- alpha", "a) alpha"):
        client.post("/translate", json={**asked, "q": text})
    assert len(taken) == 1
    client.post("/translate", json={**asked, "q": "<b>alpha</b>", "format": "html"})
    client.post("/translate", json={**asked, "q": ["alpha", "beta"]})
    assert len(taken) == 1


@pytest.mark.parametrize(
    "text", ["", " ", "5", "...", "One. Two.", "a\rb", "see www.a.de", "two\u00a0", "1) one", "🙂 one"]
)
def test_what_is_no_plain_sentence(text):
    assert not is_plain_sentence(text, sentence_splitter("en"))


class Scheduler:
    """Delivers what it is told, or nothing."""

    def __init__(self, outcome=None):
        self.outcome, self.cancelled = outcome, []

    def submit(self, client, sentences, deliver, *, resumed):
        if isinstance(self.outcome, QueueFullError):
            raise self.outcome
        if self.outcome is not None:
            deliver([(0, self.outcome)])
        return client

    def cancel(self, ticket):
        self.cancelled.append(ticket)


def searching(scheduler):
    sentence = Sentence([1], 5, [2], DecodingSettings())
    return plain_sentences.search(scheduler, "a", sentence, Delivery(asyncio.get_running_loop()), resumed=False)


def test_who_gives_up_frees_the_place_of_the_sentence():
    async def run():
        scheduler = Scheduler()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(searching(scheduler), 0.05)
        return scheduler.cancelled

    assert asyncio.run(run()) == ["a"]


@pytest.mark.parametrize("outcome", [QueueFullError(3), LocantError("The translation failed.")])
def test_what_goes_wrong_with_a_sentence_is_raised(outcome):
    async def run():
        with pytest.raises(LocantError) as raised:
            await searching(Scheduler(outcome))
        return raised.value

    assert asyncio.run(run()) is outcome


def test_hypotheses_come():
    async def run():
        return await searching(Scheduler([Hypothesis([7], 0.0, 0.0)]))

    assert asyncio.run(run())[0].tokens == [7]
