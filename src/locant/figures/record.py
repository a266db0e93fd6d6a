"""Records that come with Locant: what figures show of trainings and timings that take too long to repeat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_RECORDS = Path(__file__).parent / "records"


def read_record(name: str) -> dict[str, Any]:
    """Return a record: its numbers, and under ``command`` and ``machine`` how and where they were made."""
    record: dict[str, Any] = json.loads((_RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    return record
