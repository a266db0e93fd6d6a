"""Style of the pages: what ``make lint`` finds with proselint and the list in ``prose.toml``.

Code, comments, addresses of links and quotations are blanked first, letter by letter, so that places are kept.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from proselint.checks import __register__ as own_checks
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check
from proselint.registry.checks.types import PreferredForms
from proselint.tools import LintFile

ROOT = Path(__file__).parents[1]
STYLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
GENERATED = {"api.md", "errata.md", "findings.md", "settings.md"}
NOT_PROSE = re.compile(
    r"^( *)```.*?^\1```|<!--.*?-->|`[^`]*`|\]\([^)]*\)|https?://\S+|\*\*?\"[^\"]*\"\*\*?|\"[^\"\n]*\"", re.M | re.S
)


def pages() -> list[Path]:
    """Return the pages that are read: those of the root and the guides, but what programs write."""
    return [page for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")) if page.name not in GENERATED]


def blanked(text: str) -> str:
    """Return Markdown with spaces for everything that is not prose; single line breaks become spaces too."""
    text = NOT_PROSE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return re.sub(r"(?<=[^\n|])\n(?=[^\n|#>*\-\d])", " ", text)


def findings(text: str) -> list[tuple[int, str]]:
    """Return what is wrong with a page: line and message."""
    checks = dict.fromkeys(["locant", *STYLE["proselint"]["checks"]], True)
    read = blanked(text)
    if not read.strip():
        return []
    results = LintFile("page", read).lint({"max_errors": 1000, "checks": checks})
    return sorted(
        (text.count("\n", 0, max(0, each.check_result.span[0])) + 1, each.check_result.message) for each in results
    )


def main() -> int:
    """Print what is wrong with the pages; 1 if anything is."""
    wrong = [
        f"{page.relative_to(ROOT)}:{line}: {message}"
        for page in sorted(pages())
        for line, message in findings(page.read_text(encoding="utf-8"))
    ]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return bool(wrong)


registry = CheckRegistry()
registry.register_many(own_checks)
registry.register(
    Check(check_type=PreferredForms(items=STYLE["prefer"]), path="locant", message="Write '{}', not '{}'.")
)

if __name__ == "__main__":
    sys.exit(main())
