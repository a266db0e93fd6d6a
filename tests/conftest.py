from __future__ import annotations

import gc
import os
import random
from collections import defaultdict

import pytest
from hypothesis import settings

# A busy machine is no fault: no example has a time limit.
settings.register_profile("without deadline", settings(), deadline=None)
settings.load_profile("without deadline")

# One thread a process: small tensors gain nothing from more, and test processes do not wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Nor does torch's compiler start processes of its own, each of which would import torch anew.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


@pytest.fixture(scope="session")
def example_store(tmp_path_factory):
    """Where the runs and models that examples name are kept once they are made."""
    return tmp_path_factory.mktemp("examples")


# What is imported and collected stays: looking through it for garbage would take a fifth of the time.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases of a test that is ``sampled(count)`` as slow, all but so many, which are drawn by its name."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for name, all_cases in cases.items():
        (count,) = all_cases[0].get_closest_marker("sampled").args
        kept = random.Random(name).sample(range(len(all_cases)), min(count, len(all_cases)))
        for number, item in enumerate(all_cases):
            if number not in kept:
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Let the garbage collector pass over what is there before the first test: modules, and the tests themselves."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter):
    """Say at the end that tests in a browser did not run, and what they need."""
    skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    for browser, package in {"chromium": "chromium", "firefox": "firefox-esr"}.items():
        if any(f"no {browser} was found" in reason for reason in skipped):
            terminalreporter.write_line(
                f"No {browser} was found: the tests in it were skipped. To run them: apt-get install {package}, "
                f"or name a browser in {browser.upper()}.",
                yellow=True,
            )
