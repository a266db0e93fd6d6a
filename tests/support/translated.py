"""Documents translated by functions, where a test needs no model."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from hypothesis import strategies as st

from locant.documents import DocumentOptions, find_format
from locant.documents.sentences import Splitter, sentence_splitter
from locant.documents.steps import answer_steps, translation_steps

Function = Callable[[str], str]


def translated(
    format: str,
    content: str | bytes,
    function: Function,
    *,
    align: bool = False,
    split: Splitter | None = None,
    language: str | None = None,
    **options: object,
) -> bytes:
    """A document whose sentences go through a function; with ``align`` each word is that of the same number."""
    raw = content.encode() if isinstance(content, str) else content
    document = find_format(format).read(raw, DocumentOptions(**options))
    steps = translation_steps(document.passages, split or sentence_splitter("en"), aligned=align)

    def links(pairs: Sequence[tuple[str, str]]) -> list[list[tuple[int, int]]]:
        return [[(word, word) for word in range(len(one.split()))] for one, _ in pairs]

    answered = answer_steps(steps, lambda texts: [function(text) for text in texts], links if align else None)
    return document.written(answered, language)


def reversed_words(sentence: str) -> str:
    return " ".join(reversed(sentence.split()))


@cache
def _marked(sentence: str) -> str:
    return f"*{sentence[::-1]}_ <b>1. # `x`|$y$ \\"


FUNCTIONS: dict[str, Function] = {
    "same": lambda sentence: sentence,
    "upper": str.upper,
    "reversed": reversed_words,
    "nothing": lambda sentence: "",
    "twice": lambda sentence: f"{sentence} {sentence}",
    "one word": lambda sentence: "Wort",
    "lines": lambda sentence: sentence.replace(" ", "\n") + "\n\n1\n00:00:01,000 --> 00:00:02,000",
    "markup": _marked,
}
functions = st.sampled_from(sorted(FUNCTIONS))


def zipped(files: Mapping[str, bytes | str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as package:
        for name, data in files.items():
            package.writestr(name, data)
    return content.getvalue()


WORD_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName="/d.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
ODT_TYPE = "application/vnd.oasis.opendocument.text"


def word(body: str) -> bytes:
    """A document of Word with the elements of a body; their names have no prefix, those of attributes have ``w``."""
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    xml = f'<document xmlns="{space}" xmlns:w="{space}"><body>{body}</body></document>'
    return zipped({"[Content_Types].xml": WORD_TYPES, "d.xml": xml})


def odt(body: str) -> bytes:
    """A text of OpenDocument with the elements of a body."""
    names = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "text", "style", "table")
    )
    names += ' xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"'
    return zipped({"mimetype": ODT_TYPE, "content.xml": f"<office:text {names}>{body}</office:text>"})
