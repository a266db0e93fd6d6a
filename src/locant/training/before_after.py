"""Test sets of a fine-tuned model before and after: the parent's own and the new one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from locant.analysis.scores import bleu_tokenizer
from locant.analysis.significance import PairedComparison, paired_bootstrap
from locant.errors import LocantError
from locant.files import explaining_damage, read_json, sealed, write_json
from locant.text import Corpus, Pair
from locant.text.readers import read_files
from locant.training.checkpoint import from_plain_data
from locant.training.recipe import run_text_store
from locant.training.settings import FineTuningSettings
from locant.translation.engines import fastest_engine
from locant.translation.translator import Translator

if TYPE_CHECKING:
    from locant.training.finetuning import Parent

_BEFORE, _COMPARISON = Path("cache") / "before.json", "finetuning.json"


@dataclass(frozen=True)
class TestSet:
    """Held-out text of the corpus that is named: of the ``parent``, the ``new`` one or ``both``.

    ``before`` are the parent's translations of the sentences.
    """

    name: str
    of: str
    pairs: list[Pair]
    source_language: str | None
    target_language: str | None
    before: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TestComparison:
    """A test set before and after.

    Attributes:
        name: Of the corpus that it belongs to.
        of: Whose test set it is: ``parent``, ``new`` or ``both``.
        scores: Of the parent and of the fine-tuned model, with the significance of their difference.
    """

    name: str
    of: str
    scores: PairedComparison


@dataclass(frozen=True)
class BeforeAfter:
    """What fine-tuning changed; the content of a run's ``finetuning.json``.

    Attributes:
        parent: The model that the run started from.
        tests: The parent's own test sets, then the new ones.
        notes: Why something could not be measured.
    """

    parent: str
    tests: tuple[TestComparison, ...]
    notes: tuple[str, ...]


def measure_before(folder: Path, parent: Parent, corpus: Corpus, settings: FineTuningSettings) -> None:
    """Translate the test sets of the parent and of the new text by the parent, and keep that in the run folder.

    Raises:
        DataError: The parent's test set that the settings name cannot be read.
    """
    if not settings.test_sentences:
        return
    found, notes = parent.found, list[str]()
    own: list[TestSet] = []
    if settings.parent_test:
        name = ", ".join(path.name for path in settings.parent_test.source)
        own = [TestSet(name, "parent", named_test(settings), found.source_language, found.target_language)]
    elif parent.recipe is None:
        notes.append(
            "The parent is no run and has no test set of its own; finetuning.parent_test names one (source and target)."
        )
    else:
        try:
            text = parent.recipe.open_corpus(run_text_store(Path(parent.name)))
            own = list(_tests_of(text, "parent", settings.test_sentences))
        except LocantError as error:
            notes.append(f"The parent's own test set cannot be read: {error}")
    tests: dict[tuple[Pair, ...], TestSet] = {}  # each text once
    for test in (*own, *_tests_of(corpus, "new", settings.test_sentences)):
        known = tests.setdefault(tuple(test.pairs), test)
        of = test.of if known.of == test.of else "both"
        tests[tuple(test.pairs)] = replace(test, of=of)
    translator = Translator(found.model, found.tokenizers, found.decoding, engine=fastest_engine(found.model))
    translator.source_language, translator.target_language = found.source_language, found.target_language
    kept = [asdict(replace(test, before=_translate(translator, test))) for test in tests.values()]
    write_json(folder / _BEFORE, sealed({"parent": parent.name, "tests": kept, "notes": notes}))


def named_test(settings: FineTuningSettings) -> list[Pair]:
    """Return the parent's test set that the settings name; none where they name none or nothing is translated.

    Raises:
        DataError: It cannot be read.
    """
    files = settings.parent_test
    return list(islice(read_files(files.source, files.target), settings.test_sentences)) if files else []


def _tests_of(corpus: Corpus, of: str, most: int) -> Iterator[TestSet]:
    for part in corpus.parts:
        text = part.test or part.valid
        if text is not None:
            yield TestSet(part.name, of, list(islice(text, most)), part.source_language, part.target_language)


def _translate(translator: Translator, test: TestSet) -> list[str]:
    if translator.tokenizers.languages:
        takes_source = translator.tokenizers.languages.takes_source
        translator.choose_languages(test.source_language if takes_source else None, test.target_language)
    return translator.translate([source for source, _ in test.pairs])


def compare_after(folder: Path) -> BeforeAfter | None:
    """Translate the test sets by the run's model, compare with what the parent said, and write ``finetuning.json``.

    Returns ``None`` where the run measured nothing before.
    """
    path = folder / _BEFORE
    if not path.is_file():
        return None
    data = read_json(path)
    with explaining_damage(path):
        kept = from_plain_data(list[TestSet], data["tests"])
        parent, notes = from_plain_data(tuple[str, tuple[str, ...]], (data["parent"], data["notes"]))
        if any(len(test.before) != len(test.pairs) for test in kept):
            raise ValueError("it has not as many translations as sentences")
    translator = Translator.from_pretrained(folder, engine="auto")
    tests = []
    for test in kept:
        references = [translator.tokenizers.target.cased(target) for _, target in test.pairs]
        tokenize = bleu_tokenizer(test.target_language or translator.target_language, references)
        scores = paired_bootstrap(test.before, _translate(translator, test), references, tokenize=tokenize)
        tests.append(TestComparison(test.name, test.of, scores))
    result = BeforeAfter(parent, tuple(tests), notes)
    write_json(folder / _COMPARISON, asdict(result))
    return result


def load_before_after(folder: Path) -> BeforeAfter | None:
    """Read what fine-tuning changed in a run; ``None`` where it is no fine-tuning or has not ended."""
    if not (folder / _COMPARISON).is_file():
        return None
    data = read_json(folder / _COMPARISON)
    with explaining_damage(folder / _COMPARISON):
        return from_plain_data(BeforeAfter, data)
