"""Translates documents with a model: Word, Markdown, HTML, subtitles and more, into files beside them.

Run it with ``python examples/translate_files.py runs/en-de report.docx notes.md``; ``notes.md`` becomes
``notes.de.md``. With ``--glossary terms.tsv`` terms have the translations of that file.
"""

import argparse
from pathlib import Path

from locant.documents import translate_file
from locant.translation import Glossary, load_translator


def main() -> None:
    """Load a model once, and translate every file with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--glossary", type=Path)
    parser.add_argument("--suffix", default="de")
    options = parser.parse_args()
    translator, engine = load_translator(options.model, engine="auto")
    glossary = Glossary.read(options.glossary) if options.glossary else None
    print(f"Translating with {engine}.")
    for file in options.files:
        output = file.with_suffix(f".{options.suffix}{file.suffix}")
        translate_file(translator, file, output, glossary=glossary)
        print(output)


if __name__ == "__main__":
    main()
