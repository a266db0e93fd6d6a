"""``locant explore`` as a user types it."""

import socket
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dash", reason="the extra 'explore' is not installed")

from waitress.server import BaseWSGIServer

from locant.cli import main


def test_it_serves_where_it_says(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    seen: dict[str, Any] = {}

    def interrupted_at_once(server: Any) -> None:
        seen["address"] = server.socket.getsockname()

    monkeypatch.setattr(BaseWSGIServer, "run", interrupted_at_once)
    assert main(["explore", "--port", "0"]) == 0
    host, port = seen["address"]
    assert host == "127.0.0.1"
    assert capsys.readouterr().out == f"The explorer is at http://127.0.0.1:{port}/ (Ctrl-C ends it).\n"
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["missing-run", "--port", "0"], 1, "missing-run"),
        (["--port", "70000"], 2, "--port must be 0 to 65535; got 70000."),
        (["--host", "not an address"], 1, "No server can listen at"),
    ],
)
def test_mistakes(
    arguments: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explore", *arguments]) == code
    error = capsys.readouterr().err
    assert error.startswith("locant: error: ")
    assert said in error


def test_a_busy_port_is_reported_before_a_model_is_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["explore", "missing-run", "--port", str(port)]) == 2
    assert f"Port {port} of 127.0.0.1 is in use." in capsys.readouterr().err


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "dash", None)
    assert main(["explore"]) == 2
    assert "pip install 'locant[explore]'" in capsys.readouterr().err
