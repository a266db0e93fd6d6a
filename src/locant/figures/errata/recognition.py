"""Recognition of printed numbers: which formula gave them, and which erratum is in them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from locant.figures.errata.findings import NumberFinding
from locant.figures.errata.reading import normal, read_clauses, read_tables
from locant.figures.errata.tables import table_finding
from locant.figures.errata.worked_lines import clause_findings


def identify_printed(text: str) -> list[NumberFinding]:
    """Say of the arrays, tables and worked lines in a text which formula gave their numbers, and name known errors.

    Numbers are compared within their last printed digit. Nothing in the text is executed.

    Args:
        text: What a text or a program prints: ``[[0. 1.] [0.84 0.54]]``, rows with or without labels, lines such as
            ``PE(1)[2] = 0.0464`` (the width from ``d = 6`` in the text) or ``sin(0.1) = 0.0998``.

    Returns:
        One finding for each array and worked line, in their order; none where the text holds no such thing.

    Example:
        >>> (finding,) = identify_printed("PE(1)[2] = 0.0022 for d = 6")
        >>> finding.errata
        ('e4',)
    """
    text = normal(text)
    found = [*_quotes(text), *map(table_finding, read_tables(text))]
    for clause in read_clauses(text):
        found += clause_findings(clause)
    return sorted(found, key=lambda finding: finding.line)


def _quotes(text: str) -> Iterator[NumberFinding]:
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r"\w\(\s*[\u2018\u2019\u201c\u201d]|[\u2018\u2019\u201c\u201d]\s*\)", line):
            said = "a listing with typographic quotation marks: Python does not read it"
            yield NumberFinding(number, said, ("e2",), wrong=True)
            return
