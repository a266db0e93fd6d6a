"""Two kinds of browsers of this machine, driven alike and without a window.

Chromium is driven by Playwright. Playwright's protocol for Firefox is that of a Firefox of its own; the one that is
published is driven by the protocol that it brings along, Marionette: JSON with its length in front, over a socket.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

BROWSERS = {
    "chromium": os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser"),
    "firefox": os.environ.get("FIREFOX") or shutil.which("firefox-esr") or shutil.which("firefox"),
}
"""Where each is, or ``None``. The environment variables ``CHROMIUM`` and ``FIREFOX`` name others."""

_START = 60.0
"""Seconds that Firefox may take to start, on a machine that is busy."""

_PREFERENCES = {
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "marionette.port": 0,  # any that is free
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
}


Browser = Tab = Any


@contextmanager
def running(name: str, *, dark: bool = False) -> Iterator[Any]:
    """Run one of :data:`BROWSERS` that is there, with a profile of its own that is removed afterwards.

    It has a ``version``, and opens a page with ``tab``, of the same storage as the others: ``go`` opens an address and
    waits until it is loaded, ``run`` returns what a function of JavaScript returns or promises, as JSON.

    Args:
        name: ``chromium`` or ``firefox``.
        dark: Whether pages are told that the system prefers dark colours.
    """
    with _CLASSES[name](str(BROWSERS[name]), dark=dark) as browser:
        yield browser


class _ChromiumTab:
    def __init__(self, page: Any) -> None:
        self._page = page
        page.set_default_timeout(1000 * _START)

    def go(self, address: str) -> None:
        self._page.goto(address)

    def run(self, function: str, *arguments: Any) -> Any:
        return self._page.evaluate(f"given => ({function})(...given)", list(arguments))

    def resize(self, width: int, height: int) -> None:
        self._page.set_viewport_size({"width": width, "height": height})

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        self._page.screenshot(path=file, full_page=whole)

    def close(self) -> None:
        self._page.close()


class _Chromium:
    def __init__(self, program: str, *, dark: bool) -> None:
        self._program, self._dark, self._stack = program, dark, ExitStack()

    def __enter__(self) -> _Chromium:
        from playwright.sync_api import sync_playwright

        driver = self._stack.enter_context(sync_playwright())
        browser = driver.chromium.launch(executable_path=self._program, args=["--no-sandbox"])
        self._stack.callback(browser.close)
        self.version = f"Chromium {browser.version}"
        scheme = "dark" if self._dark else "light"
        self._context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def tab(self) -> _ChromiumTab:
        return _ChromiumTab(self._context.new_page())


class _FirefoxTab:
    def __init__(self, browser: _Firefox, handle: str) -> None:
        self._browser, self._handle = browser, handle

    def _ask(self, command: str, **given: Any) -> Any:
        self._browser.ask("WebDriver:SwitchToWindow", handle=self._handle)
        return self._browser.ask(command, **given)

    def go(self, address: str) -> None:
        self._ask("WebDriver:Navigate", url=address)

    def run(self, function: str, *arguments: Any) -> Any:
        # A promise of the page itself is waited for there: scripts of Marionette have another Promise.
        script = f"""
            const [given, done] = arguments;
            (async () => ({function})(...given))().then(
                (value) => done([value ?? null, null]), (error) => done([null, String(error)]));
        """
        asked = {"script": script, "args": [list(arguments)], "newSandbox": False}
        value, error = self._ask("WebDriver:ExecuteAsyncScript", **asked)["value"]
        if error is not None:
            raise RuntimeError(error)
        return value

    def resize(self, width: int, height: int) -> None:
        for _ in range(2):  # the first answers what the window's frame takes
            missing = self.run("(w, h) => [w - innerWidth, h - innerHeight]", width, height)
            now = self._ask("WebDriver:GetWindowRect")
            size = {"width": now["width"] + missing[0], "height": now["height"] + missing[1]}
            self._ask("WebDriver:SetWindowRect", **size)

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        found = self._ask("WebDriver:TakeScreenshot", full=whole)
        file.write_bytes(base64.b64decode(found["value"]))

    def close(self) -> None:
        self._ask("WebDriver:CloseWindow")


class _Firefox:
    def __init__(self, program: str, *, dark: bool) -> None:
        self._program, self._stack, self._number = program, ExitStack(), 0
        self._preferences = {**_PREFERENCES, "ui.systemUsesDarkTheme": int(dark)}

    def __enter__(self) -> _Firefox:
        profile = Path(self._stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in self._preferences.items()]
        (profile / "user.js").write_text("\n".join(lines), encoding="utf-8")
        command = [self._program, "--headless", "--marionette", "--no-remote", "--profile", str(profile)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._stack.callback(self._end, process)
        self._socket = self._connect(process, profile / "MarionetteActivePort")
        self._stack.callback(self._socket.close)
        self._stream = self._socket.makefile("rb")
        self._read()  # a greeting
        about = self.ask("WebDriver:NewSession")["capabilities"]
        self.version = f"Firefox {about['browserVersion']}"
        self.ask("WebDriver:SetTimeouts", script=1000 * _START, pageLoad=1000 * _START)
        self._first = self.ask("WebDriver:GetWindowHandle")["value"]
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    @staticmethod
    def _connect(process: subprocess.Popen[bytes], port: Path) -> socket.socket:
        until = time.monotonic() + _START
        while not (port.is_file() and port.read_text()):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("Firefox did not start.")
            time.sleep(0.05)
        return socket.create_connection(("127.0.0.1", int(port.read_text())), timeout=2 * _START)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _read(self) -> Any:
        length = b""
        while (sign := self._stream.read(1)) != b":":
            if not sign:
                raise RuntimeError("Firefox has ended.")
            length += sign
        return json.loads(self._stream.read(int(length)))

    def ask(self, command: str, **given: Any) -> Any:
        """Return the answer to a command of Marionette."""
        self._number += 1
        message = json.dumps([0, self._number, command, given]).encode()
        self._socket.sendall(b"%d:%s" % (len(message), message))
        _, _, error, result = self._read()
        if error is not None:
            raise RuntimeError(f"{command}: {error['message']}")
        return result

    def tab(self) -> _FirefoxTab:
        self.ask("WebDriver:SwitchToWindow", handle=self._first)  # the one that was used last may be closed
        return _FirefoxTab(self, self.ask("WebDriver:NewWindow", type="tab", focus=True)["handle"])


_CLASSES: dict[str, Any] = {"chromium": _Chromium, "firefox": _Firefox}
