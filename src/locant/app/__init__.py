"""The report page. Needs the extra ``report``."""

from locant.app.comparison_report import comparison_report
from locant.app.report import (
    Code,
    Fact,
    Facts,
    Figure,
    Report,
    Section,
    Table,
    Text,
    Translation,
    Translations,
    render_report,
    write_report,
)
from locant.app.run_report import run_report

__all__ = [
    "Code",
    "Fact",
    "Facts",
    "Figure",
    "Report",
    "Section",
    "Table",
    "Text",
    "Translation",
    "Translations",
    "comparison_report",
    "render_report",
    "run_report",
    "write_report",
]
