"""Ctrl-C while PyTorch and NumPy are imported, which do not bear it."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from locant.signals import ending_imports

INTERRUPTED_IMPORT = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # the signal is heard between instructions
        pass
except KeyboardInterrupt:
    pass
raise AttributeError("module 'numpy' has no attribute 'matrix'")
"""

COMMAND = """
import signal, sys
from locant.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts jobs that ignore it
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def usual():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("package", ["numpy", "torch"])
@pytest.mark.parametrize(
    "command", [["train", "--source", "a", "--target", "b", "--output", "run"], ["translate", "run", "A man."]]
)
def test_an_import_is_ended_at_once(tmp_path: Path, package: str, command: list[str]) -> None:
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text(INTERRUPTED_IMPORT)
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    run = subprocess.run(
        [sys.executable, "-c", COMMAND, *command],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "\nlocant: interrupted.\n")


def test_elsewhere_an_interrupt_is_raised_as_ever() -> None:
    with pytest.raises(KeyboardInterrupt), ending_imports():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_program_stays() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ending_imports():
        signal.raise_signal(signal.SIGINT)


def test_other_threads_do_without() -> None:
    found = []

    def work() -> None:
        with ending_imports():
            found.append(signal.getsignal(signal.SIGINT))

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]
