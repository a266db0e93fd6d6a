"""Documents translated by a translator: bytes, and files of any size."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.documents.formats import Document, DocumentOptions, find_format, format_of
from locant.documents.passages import Written
from locant.documents.places import Links, word_links
from locant.documents.plain import plain_windows
from locant.documents.sentences import fitting_splitter, sentence_splitter
from locant.documents.steps import answer_steps, translation_steps
from locant.errors import ConfigError, DataError
from locant.files import is_stream, open_binary_output
from locant.parsing import read_bounded, read_bytes
from locant.text.readers import open_bytes
from locant.translation.lines import check_lines

if TYPE_CHECKING:
    from locant.text.tokenizer_pair import Prefixes
    from locant.translation.glossary import Glossary
    from locant.translation.translator import Translator

_WINDOW = 4_000  # sentences that are translated together, sorted by length
_OTHER_LANGUAGE = "en"  # whose rules sentences of a language that is not known end by


def translate_document(
    translator: Translator,
    content: bytes | str,
    format: str = "text",
    *,
    options: DocumentOptions | None = None,
    glossary: Glossary | None = None,
    **overrides: Any,
) -> bytes:
    r"""Translate a document: its texts, in their places; all else stays as it is.

    Sentences are cut by the rules of the translator's source language, and those that are longer than the model is used
    to (``usual_source_length`` of its settings) at the end of a clause. Numbers and addresses of pages and mail stay as
    they are.

    Args:
        translator: Translates the sentences.
        content: The document; characters count as UTF-8.
        format: Its format, a name of :data:`~locant.documents.FORMATS`.
        options: How it is read.
        glossary: Terms that the translation has to have, as in :meth:`~locant.translation.Translator.translate`.
        overrides: Settings of the search, likewise.

    Returns:
        The document in the same format.

    Raises:
        DataError: It is too large, or not of the format.
        ConfigError: The format is unknown, or an override is.
        MissingExtraError: A package for the format is not installed.

    Example::

        translator = Translator.from_pretrained("runs/en-de")
        translate_document(translator, "# Two dogs\n\nThey *play*.\n", "markdown")
    """
    raw = content.encode("utf-8") if isinstance(content, str) else content
    document = find_format(format).read(raw, options)
    return document.written(_translated(translator, document, glossary, overrides), translator.target_language)


def translate_file(
    translator: Translator,
    source: Path | str | None,
    target: Path | str | None,
    *,
    format: str | None = None,
    options: DocumentOptions | None = None,
    glossary: Glossary | None = None,
    **overrides: Any,
) -> None:
    """Translate a file into another one; see :func:`translate_document`.

    Plain text may have any size: it is read, translated and written in parts. A file appears when everything is
    translated; a device or a pipe gets each part at once.

    Args:
        translator: Translates the sentences.
        source: The file, a device or a pipe; ``None`` for standard input.
        target: Where the translation is written; ``None`` for standard output.
        format: Of the document; by default what the name of the file says.
        options: How it is read.
        glossary: Terms that the translation has to have.
        overrides: Settings of the search.

    Raises:
        DataError: The file is missing, too large, or not of the format.
        ConfigError: The name of the file says no format, or the format or an override is unknown.
        CheckpointError: The translation cannot be written.
        MissingExtraError: A package for the format is not installed.
    """
    path = None if source is None else Path(source)
    if format is None:
        kind = format_of(path) if path else None
        if kind is None:
            raise ConfigError(f"The name of {path or 'standard input'} says no format of documents. Name one.")
        format = kind.name
    with open_documents(path, format, options or DocumentOptions()) as documents:
        write_documents(translator, documents, None if target is None else Path(target), glossary=glossary, **overrides)


@contextmanager
def open_documents(path: Path | None, format: str, options: DocumentOptions) -> Iterator[Iterator[Document]]:
    """Open a file, and yield its documents, to be translated one after the other: of plain text several, else one.

    What cannot be read is told at once, of all but standard input and pipes.

    Args:
        path: The file; ``None`` for standard input.
        format: Of the document.
        options: How it is read.

    Raises:
        DataError: The file is missing, too large, or not of the format.
        ConfigError: The format is unknown.
        MissingExtraError: A package for the format is not installed.
    """
    kind = find_format(format)
    sentence_splitter(_OTHER_LANGUAGE)
    with ExitStack() as open_files:
        open_files.enter_context(_naming(path))
        if kind.name == "text":
            if path and not is_stream(path):
                check_lines(path, returns_end_lines=True)
            file = open_files.enter_context(open_bytes(path)) if path else sys.stdin.buffer
            parts: Iterable[bytes] = plain_windows(file, wrapped=options.wrapped)
            yield (kind.read(part, options) for part in parts)
        else:
            yield iter([kind.read(_read(path, options.largest), options)])


def write_documents(
    translator: Translator,
    documents: Iterable[Document],
    target: Path | None,
    *,
    glossary: Glossary | None = None,
    **overrides: Any,
) -> None:
    """Translate documents and write them one behind the other.

    Arguments and errors are those of :func:`translate_file`.
    """
    with open_binary_output(target) as out:
        for document in documents:
            translated = _translated(translator, document, glossary, overrides)
            out.write(document.written(translated, translator.target_language))
            out.flush()


@contextmanager
def _naming(path: Path | None) -> Iterator[None]:
    """Within the block, say of which document an error speaks."""
    try:
        yield
    except DataError as error:
        sentence = str(error)
        if not sentence.startswith("The document "):
            raise
        raise DataError(f"{path or 'Standard input'} {sentence.removeprefix('The document ')}") from None


def _read(path: Path | None, largest: int) -> bytes:
    try:
        return read_bytes(path, largest) if path else read_bounded(sys.stdin.buffer, largest)
    except FileNotFoundError:
        raise DataError(f"The file {path} does not exist.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"The document cannot be read: {error}.") from None


def _translated(
    translator: Translator, document: Document, glossary: Glossary | None, overrides: Mapping[str, Any]
) -> list[Written]:
    """Return the passages of a document, translated."""
    language = translator.source_language or _OTHER_LANGUAGE
    fits = fits_model(translator, **overrides)
    split = fitting_splitter(sentence_splitter(language), fits, glossary.spans if glossary else None)
    steps = translation_steps(document.passages, split, aligned=True)
    return answer_steps(
        steps, partial(_translate, translator, glossary, overrides), partial(align_words, translator, **overrides)
    )


def fits_model(
    translator: Translator, *, most: int | None = None, prefixes: Prefixes | None = None, **overrides: Any
) -> Callable[[str], bool]:
    """Return what says whether a sentence is short enough to be translated well.

    Args:
        translator: With the model.
        most: Tokens that it may have, if they are fewer than the model can read and has read often.
        prefixes: What tells the model its languages; by default those that were chosen.
        overrides: Settings of the search.
    """
    usual = translator.settings_with(**overrides).usual_source_length
    limits = (translator.longest_source(prefixes=prefixes, **overrides), usual, most)
    limit = min(each for each in limits if each is not None)
    encode = translator.tokenizers.source.encode

    def fits(text: str) -> bool:
        # No token has less than a character where nothing is normalised to more.
        return (text.isascii() and len(text) < limit) or len(encode([text])[0]) <= limit

    return fits


def align_words(
    translator: Translator, pairs: Sequence[tuple[str, str]], *, prefixes: Prefixes | None = None, **overrides: Any
) -> list[Links]:
    """Return which words of sentences are translations of which; of those that are too long for the model none.

    Args:
        translator: With the model, which reads both.
        pairs: Sentences with their translations.
        prefixes: What tells the model its languages; by default those that were chosen.
        overrides: Settings of the search; the lengths and the size of a batch count.
    """
    sources, translations = [source for source, _ in pairs], [translation for _, translation in pairs]
    found = translator.align(sources, translations, prefixes=prefixes, say=lambda sentence: None, **overrides)
    return [word_links(*pair, each.subword_links) for pair, each in zip(pairs, found, strict=True)]


def _translate(
    translator: Translator, glossary: Glossary | None, overrides: Mapping[str, Any], sentences: list[str]
) -> list[str]:
    windows = (sentences[first : first + _WINDOW] for first in range(0, len(sentences), _WINDOW))
    # A sentence that could not be cut short enough, which takes a word of hundreds of tokens, is split here.
    translated = translator.translate_chunks(windows, on_long="split", glossary=glossary, **overrides)
    return [found[0].text for window in translated for found in window]
