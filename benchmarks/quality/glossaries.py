"""Terms of glossaries in translations of a run's test text: how many are there, and what they cost in BLEU.

    python glossaries.py runs/bible-modern-english

The glossaries come from the text itself, so the reference knows what is right:

- *names*: words that source and reference have alike, with a capital letter inside of sentences; they stay as they are.
- *words*: source words with the word that the reference has for them wherever they are.
- *made-up words*: ten of these pairs, their translation a word that nobody has seen, in the references too.
- *made-up names*: ten of the names, a name that nobody has seen for each in sources and references; they stay.

For each: how many terms the model writes by itself; then terms placed by alignment (what Locant does), and terms placed
without one (by their share of the sentence).
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from locant.analysis import score_translations
from locant.text.spans import find_words
from locant.training import load_run_recipe
from locant.translation import Alignment, Glossary, Translator, load_translator
from locant.translation.terms import place_terms
from measure import header, machine, row

_WORD = re.compile(r"[^\W\d_]{3,}")
_TARGETS = ("Xaquor", "Blentir", "Jorvask", "Quimpel", "Zadruth", "Yostine", "Wubrec", "Fnordal", "Grizbo", "Plaxum")
_NAMES = (
    *("Brazimel", "Tuvochai", "Kelmorath", "Ushpiran", "Dolvanek"),
    *("Mizgarol", "Hafteshu", "Oquenbar", "Sibwallo", "Evrukith"),
)


@dataclass(frozen=True)
class Case:
    """A glossary with the text it is measured on."""

    name: str
    glossary: Glossary
    sources: list[str]
    references: list[str]


def names(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return words that source and reference have alike with a capital letter inside of sentences, frequent first."""
    found: Counter[str] = Counter()
    for source, target in pairs:
        inside = {match[0] for match in re.finditer(r"(?<=[\w,;:] )[A-Z][a-z]{2,}", source)}
        found.update(word for word in inside if find_words(target, word))
    often = Counter(word for source, _ in pairs for word in set(_WORD.findall(source)))
    return [word for word, number in found.most_common() if number >= 2 and number >= 0.9 * often[word]]


def words(train: Sequence[tuple[str, str]], test: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return lower-case source words with other words that the references have wherever these are.

    A pair is taken if its Dice coefficient in the training text is at least 0.5 and every reference of the test text
    has the one as often as its source has the other.
    """
    sources: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    both: Counter[tuple[str, str]] = Counter()
    wanted = {word for word, number in Counter(w for s, _ in test for w in set(s.split())).items() if number >= 3}
    for source, target in train:
        one = {word for word in _WORD.findall(source) if word.islower() and word in wanted}
        other = {word for word in _WORD.findall(target) if word.islower()}
        sources.update(one)
        targets.update(other)
        both.update((a, b) for a in one - other for b in other - one)
    found: dict[str, str] = {}
    for (a, b), number in both.most_common():
        if a in found or 2 * number < 0.5 * (sources[a] + targets[b]) or b in found.values():
            continue
        counts = [(len(find_words(s, a)), len(find_words(t, b))) for s, t in test]
        if all(one == other for one, other in counts) and sum(one for one, _ in counts) >= 3:
            found[a] = b
    return found


def replaced(text: str, pairs: dict[str, str]) -> str:
    """Return a text with other words for some, as whole words."""
    for old, new in pairs.items():
        for start, end in reversed(find_words(text, old)):
            text = text[:start] + new + text[end:]
    return text


def cases(train: Sequence[tuple[str, str]], test: Sequence[tuple[str, str]]) -> list[Case]:
    sources, references = [source for source, _ in test], [target for _, target in test]
    known, pairs = names(test), words(train, test)
    made_up = dict(zip(list(pairs)[: len(_TARGETS)], _TARGETS, strict=False))
    in_references = {pairs[word]: new for word, new in made_up.items()}
    other_names = dict(zip(known[: len(_NAMES)], _NAMES, strict=False))
    return [
        Case("names", Glossary(dict.fromkeys(known)), sources, references),
        Case("words", Glossary(pairs), sources, references),
        Case("made-up words", Glossary(made_up), sources, [replaced(text, in_references) for text in references]),
        Case(
            "made-up names",
            Glossary(dict.fromkeys(other_names.values())),
            [replaced(text, other_names) for text in sources],
            [replaced(text, other_names) for text in references],
        ),
    ]


def success(glossary: Glossary, sources: Sequence[str], translations: Sequence[str]) -> tuple[int, int]:
    """Return how many terms of the sources are in the translations, and how many there are."""
    there = total = 0
    for source, translation in zip(sources, translations, strict=True):
        needed = Counter(match.words for match in glossary.find(source))
        total += sum(needed.values())
        there += sum(
            min(number, len(find_words(translation.casefold(), words.casefold()))) for words, number in needed.items()
        )
    return there, total


def without_alignment(translator: Translator, case: Case, plain: list[str]) -> list[str]:
    def nothing(sources: list[str], translations: list[str]) -> list[Alignment]:
        return [Alignment((), (), (), ()) for _ in sources]

    return place_terms(case.glossary, case.sources, plain, nothing)


def by_alignment(translator: Translator, case: Case, plain: list[str]) -> list[str]:
    return translator.with_terms(case.glossary, case.sources, plain)


METHODS: dict[str, Callable[[Translator, Case, list[str]], list[str]]] = {
    "without a glossary": lambda translator, case, plain: plain,
    "**placed by alignment**": by_alignment,
    "placed without one": without_alignment,
}


def main() -> int:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run with a test text")
    parser.add_argument("--sentences", type=int, metavar="N", help="of the test text, the first N; by default all")
    options = parser.parse_args()
    (part,) = load_run_recipe(options.run).open_corpus().parts
    if part.test is None:
        parser.error(f"{options.run} has no test text")
    train, test = list(part.train), list(part.test)[: options.sentences]
    translator, engine = load_translator(options.run, device="cpu")
    known = score_translations(translator.translate([a for a, _ in test]), [b for _, b in test]).bleu
    print(f"BLEU without made-up words: {known:.1f}\n")
    print(header("glossary", "way", "terms that are there", "BLEU", "of sentences with terms", "processor time"))
    for case in cases(train, test):
        begun = time.process_time()
        plain = translator.translate(case.sources)
        whole = time.process_time() - begun
        have = [number for number, source in enumerate(case.sources) if case.glossary.find(source)]
        for name, method in METHODS.items():
            begun = time.process_time()
            found = method(translator, case, list(plain))
            seconds = time.process_time() - begun
            there, total = success(case.glossary, case.sources, found)
            bleu = score_translations(found, case.references).bleu
            within = score_translations([found[n] for n in have], [case.references[n] for n in have]).bleu
            cells = [f"{case.name} ({len(case.glossary)} terms, {len(have)} sentences)", name]
            cells += [f"{there} of {total} ({there / max(1, total):.1%})", f"{bleu:.1f} ({bleu - known:+.1f})"]
            cells += [f"{within:.1f}", f"{whole if name == 'without a glossary' else seconds:.2f} s"]
            print(row(*cells), flush=True)
    print(f"\n{len(test)} pairs; {engine}; {machine()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
