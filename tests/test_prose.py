"""The checker of the pages' style finds phrases in prose, across lines, and nowhere else."""

from __future__ import annotations

import pytest

pytest.importorskip("proselint")
prose = pytest.importorskip("prose")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("# Title\n\nIt is written anew each time.\n", [3]),
        ("One line ends in\nthe place of another; it takes the\nplace of it.\n", [1, 2]),
        ('```\nanew\n```\n\nSee `anew`, "anew" and [it](https://example.org/anew).\n', []),
        ("| key | meaning |\n| --- | --- |\n| a | for instance |\n", [3]),
        ("Renewed by itselfish means.\n", []),
        ("", []),
    ],
)
def test_phrases_are_found_where_they_are(text, lines):
    assert [line for line, _ in prose.findings(text)] == lines
