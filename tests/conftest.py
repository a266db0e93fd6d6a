from __future__ import annotations

import os
import shutil

import pytest

# One thread a process: small tensors gain nothing from more, and test processes do not wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Nor does torch's compiler start processes of its own, each of which would import torch anew.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


@pytest.fixture(scope="session")
def example_store(tmp_path_factory):
    """Where the runs and models that examples name are kept once they are made."""
    return tmp_path_factory.mktemp("examples")


def pytest_terminal_summary(terminalreporter):
    """Say at the end that the tests in a browser did not run, and what they need."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found and any("chromium" in str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(
            "No chromium was found: the tests in a browser were skipped. To run them: apt-get install chromium, "
            "or name a browser in CHROMIUM.",
            yellow=True,
        )
