"""Files of facts about classes of transformers and of other engines have a generator, which CONTRIBUTING names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import locant

_ROOT = Path(__file__).parents[2]
_FILES = sorted((Path(locant.__file__).parent / "rotary_configs").glob("*.json"))
_OF_SOURCES = ("engines", "gguf_keys")  # which take the folder of sources that are not installed


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_what_makes_a_file_is_said(path: Path) -> None:
    page = (_ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    said = re.search(rf"^\| `{path.name}` \|.*`(tests/support/zoo/(\w+)\.py)`", page, re.MULTILINE)
    assert said is not None
    assert f'/ "{path.name}"' in (_ROOT / said[1]).read_text(encoding="utf-8")
    made = re.search(r"^FACTS := (.*)$", (_ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert made is not None
    assert (said[2] in made[1].split()) is (said[2] not in _OF_SOURCES)
