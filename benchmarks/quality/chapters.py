"""Whole chapters translated as documents, next to their sentences translated by hand.

    python chapters.py runs/bible-modern-english

The test chapters of a run on the Bible become documents: plain text with a verse a line, text wrapped as in a letter,
HTML, and HTML with a link in a tenth of the verses and in all of them. Each is translated at once, with the usual
length of sentences that the run knows; the wrapped text also with other ones, and without any. By hand the verses are
translated one by one. BLEU and chrF count chapters, 20 of them by default: what a document says must be the same,
wherever it is cut. Processor time is that of the process.
"""

from __future__ import annotations

import argparse
import html
import random
import re
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import torch

from locant.analysis import bleu_tokenizer, score_translations
from locant.documents import DocumentOptions, find_format, translate_document
from locant.documents.sentences import fitting_splitter, sentence_splitter
from locant.documents.steps import answer_steps, translation_steps
from locant.documents.translate import fits_model
from locant.text.bible import find_version, read_version
from locant.text.corpus_settings import BibleCorpus
from locant.training import load_run_recipe
from locant.translation import Translator
from measure import header, machine, row

Chapter = list[str]


@dataclass(frozen=True)
class Form:
    """A way to write chapters as a document.

    Attributes:
        name: What the table calls it.
        format: Of the document.
        write: Returns the document of chapters.
        read: Returns the text of each chapter, given how many verses each has.
        options: How the document is read.
    """

    name: str
    format: str
    write: Callable[[Sequence[Chapter]], bytes]
    read: Callable[[bytes, Sequence[int]], list[str]]
    options: DocumentOptions | None = None


def read_chapters(settings: BibleCorpus, test: Sequence[tuple[str, str]]) -> tuple[list[Chapter], list[Chapter]]:
    """Return the verses of each test chapter in both languages."""
    sources, references = (read_version(find_version(code)) for code in (settings.source[0], settings.target))  # type: ignore[index,arg-type]
    pairs, found = set(test), {}
    for verse in references:
        if verse in sources:
            found.setdefault(verse[:2], []).append((sources[verse], references[verse]))
    chapters = [verses for verses in found.values() if pairs.issuperset(verses)]
    if sum(map(len, chapters)) != len(test):
        raise SystemExit("The test text is not made of whole chapters.")
    return [[one for one, _ in verses] for verses in chapters], [[other for _, other in verses] for verses in chapters]


def grouped(verses: Sequence[str], lengths: Sequence[int]) -> list[str]:
    """Return the text of each chapter from all verses."""
    assert len(verses) == sum(lengths), (len(verses), sum(lengths))
    rows = iter(verses)
    return [" ".join(next(rows) for _ in range(length)) for length in lengths]


def linked(chapters: Sequence[Chapter], share: float) -> list[Chapter]:
    """Return HTML of verses, some with a link around one to three words that are not the whole verse."""
    draw = random.Random(1)
    found = []
    for chapter in chapters:
        found.append([])
        for verse in chapter:
            words = [html.escape(word, quote=False) for word in verse.split()]
            if draw.random() < share and len(words) > 4:
                first = draw.randrange(1, len(words) - 3)
                last = first + draw.randint(0, 2)
                words[first] = f'<a href="#{len(found)}">{words[first]}'
                words[last] += "</a>"
            found[-1].append(" ".join(words))
    return found


def write_html(chapters: Sequence[Chapter], share: float = 0.0) -> bytes:
    """Return a page with a paragraph a verse."""
    body = "\n".join(f"<p>{verse}</p>" for chapter in linked(chapters, share) for verse in chapter)
    return f"<!doctype html>\n<body>\n{body}\n</body>\n".encode()


def read_html(content: bytes, lengths: Sequence[int]) -> list[str]:
    """Return the text of each chapter of a page."""
    found = re.findall(r"<p>(.*?)</p>", content.decode(), re.DOTALL)
    return grouped([html.unescape(re.sub("<[^<>]*>", "", verse)) for verse in found], lengths)


def write_lines(chapters: Sequence[Chapter]) -> bytes:
    """Return a text with a verse a line."""
    return "".join(f"{verse}\n" for chapter in chapters for verse in chapter).encode()


def write_wrapped(chapters: Sequence[Chapter]) -> bytes:
    """Return a text with a paragraph a chapter, in lines of at most 79 characters."""
    return "\n\n".join(textwrap.fill(" ".join(chapter), 79, break_on_hyphens=False) for chapter in chapters).encode()


WRAPPED = DocumentOptions(wrapped=True)
LIMITS = (None, 96, 48, 32)
"""Of subwords, beyond which sentences that run across verses are cut; ``None`` for what the model can read."""
FORMS = (
    Form("text, a verse a line", "text", write_lines, lambda raw, lengths: grouped(raw.decode().splitlines(), lengths)),
    Form(
        "text, wrapped, a paragraph a chapter",
        "text",
        write_wrapped,
        lambda raw, _: [" ".join(part.split()) for part in raw.decode().split("\n\n")],
        WRAPPED,
    ),
    Form("HTML", "html", write_html, read_html),
    Form("HTML, a link in every tenth verse", "html", partial(write_html, share=0.1), read_html),
    Form("HTML, a link in every verse", "html", partial(write_html, share=1.0), read_html),
)


def without_alignment(translator: Translator, content: bytes, format: str, usual: int | None) -> bytes:
    """Return a document whose tags are placed as if the model had no attention to look at."""
    document = find_format(format).read(content)
    fits = fits_model(translator, usual_source_length=usual)
    split = fitting_splitter(sentence_splitter(translator.source_language or "en"), fits)
    steps = translation_steps(document.passages, split, aligned=False)
    return document.written(answer_steps(steps, translator.translate))


def main() -> int:
    """Translate and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run on the Bible")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    recipe = load_run_recipe(options.run)
    (part,) = recipe.open_corpus().parts
    if not isinstance(recipe.corpus, BibleCorpus) or part.test is None:
        parser.error(f"{options.run} was not trained on the Bible, or has no test text")
    chapters, references = read_chapters(recipe.corpus, list(part.test))
    lengths = list(map(len, chapters))
    wanted = [" ".join(verses) for verses in references]
    translator = Translator.from_pretrained(options.run, engine=options.engine, device="cpu")
    usual = translator.settings.usual_source_length
    first: dict[str, float] = {}

    def show(name: str, translate: Callable[[], Sequence[str]], read: Callable[[Any], Sequence[str]]) -> None:
        begun = time.process_time()
        found = translate()
        seconds, texts = time.process_time() - begun, read(found)
        scores = score_translations(texts, wanted, tokenize=bleu_tokenizer(translator.target_language))
        first.setdefault("BLEU", scores.bleu)
        cells = (f"{scores.bleu:.2f}", f"{scores.bleu - first['BLEU']:+.2f}", f"{scores.chrf:.2f}", f"{seconds:.1f}")
        print(row(name, *cells), flush=True)

    about = f"{len(chapters)} chapters, {sum(lengths)} verses; sentences of at most {usual} subwords are usual"
    print(f"{about}; {translator.engine.name}; {machine()}\n")
    print(header("form", "BLEU", "to by hand", "chrF", "processor time (s)"))
    verses = [verse for chapter in chapters for verse in chapter]
    show("by hand, verses", lambda: translator.translate(verses), lambda found: grouped(found, lengths))
    for form in FORMS:
        content = form.write(chapters)
        ways: dict[str, Callable[[], bytes]] = {}
        for limit in (usual, *(LIMITS if form.options == WRAPPED else ())):
            ending = f", sentences of {f'at most {limit}' if limit else 'any number of'} subwords" if ways else ""
            ways[form.name + ending] = partial(
                *(translate_document, translator, content, form.format),
                options=form.options,
                usual_source_length=limit,
            )
        if b"<a " in content:
            ways[f"{form.name}, without alignment"] = partial(
                without_alignment, translator, content, form.format, usual
            )
        for name, way in ways.items():
            show(name, way, lambda found, form=form: form.read(found, lengths))
    return 0


if __name__ == "__main__":
    sys.exit(main())
