"""``locant corpora``."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare nothing: there are no options."""


def run(options: argparse.Namespace) -> None:
    """List the texts of the built-in corpus."""
    from locant.text.bible import bible_versions

    print("Bible translations in the public domain (corpus.kind=bible); any two make a corpus:\n")
    for version in bible_versions():
        print(f"{version.code:<14} {version.language:<4} {version.year}  {version.title}")
