"""The program of an exported page, run by Node (``web_node.js``)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from locant.errors import ConfigError
from locant.kernels.web_engine import engine_modules

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="Node, which runs the page's program, is not installed")


def has_web_engine() -> bool:
    """Whether there is the engine for browsers, or what builds it."""
    try:
        engine_modules()
    except ConfigError:
        return False
    return True


class WebNode:
    """A process of Node that answers commands."""

    def __init__(self) -> None:
        assert NODE is not None
        program = str(Path(__file__).with_suffix(".js"))
        self._process = subprocess.Popen([NODE, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=30)

    def ask(self, command: str, given: Any) -> Any:
        """Return the answer to a command of ``web_node.js``."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({command: given}).encode() + b"\n")
        self._process.stdin.flush()
        found = json.loads(self._process.stdout.readline())
        assert "error" not in found, found["error"]
        return found["answer"]
