"""Locks between processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from locant.errors import CheckpointError
from locant.locks import LOCK_FILE, FileLock, holding

HOLD = """
import sys, time
from pathlib import Path
from locant.locks import holding
with holding(Path(sys.argv[1]), "training"):
    print("held", flush=True)
    time.sleep(60)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_folder_has_one_holder_and_is_free_when_that_is_killed(tmp_path: Path) -> None:
    process = holder(tmp_path / "run")
    said = rf"run is in use: process {process.pid} on \S+ has been training in it since \d{{4}}-.* UTC\. Wait"
    with pytest.raises(CheckpointError, match=said), holding(tmp_path / "run", "exporting"):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    with holding(tmp_path / "run", "exporting"):
        assert FileLock(tmp_path / "run" / LOCK_FILE).holder()["process"] == str(os.getpid())


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="this system follows all links")
def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    """Whoever can write the folder could have it lead to any file of ours, which taking the lock would overwrite."""
    kept = tmp_path / "kept"
    kept.write_text("what must not be overwritten")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK_FILE).symlink_to(kept)
    with pytest.raises(CheckpointError, match="run cannot be written: "), holding(tmp_path / "run", "training"):
        pass
    assert kept.read_text() == "what must not be overwritten"


def test_a_lock_is_held_against_the_same_process_too(tmp_path: Path) -> None:
    with holding(tmp_path, "training"):
        with pytest.raises(CheckpointError, match="in use"), holding(tmp_path, "training"):
            pass
        assert not FileLock(tmp_path / LOCK_FILE).acquire()
    with holding(tmp_path, "training"):
        pass
    assert not list(tmp_path.iterdir())
    with holding(tmp_path / "new", "training"):
        pass
    assert not (tmp_path / "new").exists(), "nothing was written"


def test_a_lock_whose_file_was_removed_is_taken_anew(tmp_path: Path) -> None:
    """Who waits for a lock on a file that its holder removes must not end up with a lock on nothing."""
    first, second = FileLock(tmp_path / "a"), FileLock(tmp_path / "a")
    assert first.acquire()
    (tmp_path / "a").unlink()
    assert second.acquire()
    first.release()
    assert not first.acquire()
    assert second.holder()["process"] == str(os.getpid())
    second.release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_does_not_hold_what_its_parent_held(tmp_path: Path) -> None:
    code = r"""
import os, sys, time
from pathlib import Path
from locant.locks import FileLock
lock = FileLock(Path(sys.argv[1]))
assert lock.acquire()
if os.fork() == 0:
    os.write(1, b"forked\n")
    time.sleep(60)
os.write(1, f"{lock.holder()['process']}\n".encode())
os.wait()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "a")], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert {process.stdout.readline() for _ in range(2)} == {"forked\n", f"{process.pid}\n"}
    lock = FileLock(tmp_path / "a")
    assert not lock.acquire()
    process.kill()
    process.wait()
    assert lock.acquire(), "the parent is dead; its child goes on and holds nothing"
    lock.release()
    os.killpg(process.pid, signal.SIGKILL)


def test_a_file_system_without_locks_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", none)
    with holding(tmp_path, "training"), holding(tmp_path, "training"):
        pass


def test_a_folder_that_cannot_be_made_is_told_plainly(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(CheckpointError, match=r"file/run cannot be written"), holding(file / "run", "x"):
        pass
    with pytest.raises(CheckpointError, match="file cannot be written: it is no folder"), holding(file, "x"):
        pass
