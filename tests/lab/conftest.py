from collections.abc import Iterator
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text with some order in it."""
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{number} bottles of beer; " for number in range(600)), encoding="utf-8")
    return path
