from __future__ import annotations

import os

import pytest

# One thread a process: small tensors gain nothing from more, and test processes do not wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def example_store(tmp_path_factory):
    """Where the runs and models that examples name are kept once they are made."""
    return tmp_path_factory.mktemp("examples")
