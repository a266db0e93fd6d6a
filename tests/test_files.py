import errno
import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from locant.errors import CheckpointError
from locant.files import (
    append_line,
    open_output,
    read_json,
    remove_folder,
    replacing_file,
    replacing_folder,
    require_new_folder,
    write_json,
    write_text,
)
from locant.locks import LOCK_FILE


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def fail_after_writing(path: Path) -> None:
    path.write_text("half")
    raise ZeroDivisionError


def test_text_and_json_round_trip(tmp_path: Path) -> None:
    write_text(tmp_path / "new" / "a.txt", "Grüße\n")
    assert (tmp_path / "new" / "a.txt").read_bytes() == "Grüße\n".encode()
    write_json(tmp_path / "a.json", {"ключ": [1, 2.5, None]})
    assert "ключ" in (tmp_path / "a.json").read_text(encoding="utf-8")
    assert (tmp_path / "a.json").read_bytes().endswith(b"}\n")
    assert read_json(tmp_path / "a.json") == {"ключ": [1, 2.5, None]}
    assert names(tmp_path) == ["a.json", "new"]


def test_a_file_has_its_old_content_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path, reader = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_text("old")
    reader.hardlink_to(path)
    with replacing_file(path) as first, replacing_file(path) as second:
        assert first != second
        assert first.parent.stat().st_dev == tmp_path.stat().st_dev, "renaming is atomic only within one file system"
        first.write_text("first" * 3)
        second.write_text("second")
        assert path.read_text() == "old"
    assert (path.read_text(), reader.read_text()) == ("first" * 3, "old")
    with pytest.raises(ZeroDivisionError), replacing_file(path) as temporary:
        fail_after_writing(temporary)
    assert path.read_text() == "first" * 3
    assert names(tmp_path) == ["a.txt", "b.txt"]


def test_a_folder_appears_whole_or_not_at_all_and_never_over_content(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), replacing_folder(tmp_path / "runs" / "step") as temporary:
        fail_after_writing(temporary / "weights")
    assert names(tmp_path / "runs") == []
    with replacing_folder(tmp_path / "runs" / "step") as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "weights").write_text("whole")
        assert not (tmp_path / "runs" / "step").exists()
    with pytest.raises(CheckpointError, match="step"), replacing_folder(tmp_path / "runs" / "step"):
        pass
    assert (tmp_path / "runs" / "step" / "inner" / "weights").read_text() == "whole"
    assert names(tmp_path / "runs") == ["step"]


def test_a_full_disk_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def disk_full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_text(tmp_path / "a.txt", "old")
    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(CheckpointError, match="disk is full"):
        write_text(tmp_path / "a.txt", "new")
    # A file in a folder that is written is named as it would have been called.
    named = re.escape(f"disk is full: {tmp_path / 'step' / 'b.txt'} could not")
    with pytest.raises(CheckpointError, match=named), replacing_folder(tmp_path / "step") as temporary:
        write_text(temporary / "b.txt", "x")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_folder_that_is_removed_in_part_has_its_name_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "step").mkdir()
    (tmp_path / "step" / "state.json").write_text("{}")

    def killed(folder: Path, **_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("locant.files.shutil.rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        remove_folder(tmp_path / "step")
    assert not (tmp_path / "step").exists()
    monkeypatch.undo()
    (tmp_path / "other").mkdir()
    remove_folder(tmp_path / "other")
    assert not (tmp_path / "other").exists()


WRITE = """
import sys, time
from pathlib import Path
from locant.files import replacing_file
with replacing_file(Path(sys.argv[1])) as temporary:
    temporary.write_text("from another process")
    print("written", flush=True)
    time.sleep(60)
"""


def test_remains_of_a_killed_writer_are_removed_and_those_of_a_living_one_stay(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITE, str(tmp_path / "a.txt")]
    killed, living = (subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2))
    for process in (killed, living):
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
    killed.kill()
    killed.wait()
    assert len(names(tmp_path)) == 2
    write_text(tmp_path / "b.txt", "ours")
    (left,) = [name for name in names(tmp_path) if name != "b.txt"]
    assert (tmp_path / left / "a.txt").read_text() == "from another process"
    living.kill()
    living.wait()
    with replacing_folder(tmp_path / "step") as temporary:
        (temporary / "new").write_text("x")
    assert names(tmp_path) == ["b.txt", "step"]


def test_remains_of_another_machine_stay_for_a_day(tmp_path: Path) -> None:
    """Not every file system tells a machine what another one has locked."""
    left = tmp_path / ".locant-0123456789abcdef.tmp"
    left.mkdir()
    (left / LOCK_FILE).write_text(json.dumps({"process": 1, "host": "elsewhere"}))
    write_text(tmp_path / "a.txt", "x")
    assert left.exists()
    two_days_ago = time.time() - 48 * 3600
    os.utime(left, (two_days_ago, two_days_ago))
    write_text(tmp_path / "a.txt", "x")
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no users, or none that could do harm")
def test_what_others_make_to_look_like_remains_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / ".locant-0123456789abcdef.tmp"
    left.mkdir()
    os.mkfifo(left / LOCK_FILE)  # whoever reads it waits for ever
    ours = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: ours + 1)
    write_text(tmp_path / "a.txt", "x")
    assert names(tmp_path) == [left.name, "a.txt"]


def test_two_writers_of_one_folder_do_not_mix(tmp_path: Path) -> None:
    def write(content: str, existing: Literal["refuse", "keep", "replace"]) -> None:
        with replacing_folder(tmp_path / "step", existing) as outer:
            (outer / content).write_text(content)
            with replacing_folder(tmp_path / "step", existing) as inner:
                (inner / "inner").write_text("inner")

    with pytest.raises(CheckpointError, match="step could not be written"):
        write("outer", "refuse")
    assert names(tmp_path / "step") == ["inner"]
    write("outer", "keep")
    assert names(tmp_path / "step") == ["inner"]
    write("outer", "replace")
    assert names(tmp_path / "step") == ["outer"]
    assert names(tmp_path) == ["step"]


def test_everything_is_flushed_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc to name an open file")
    monkeypatch.setattr(os, "fsync", spy)
    with replacing_folder(tmp_path / "step") as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "weights").write_text("x")
    assert set(flushed[:-1]) == {"weights", "inner", "step"}
    assert flushed[-1] == tmp_path.name, "the rename itself must reach the disk"


def test_a_file_in_place_of_a_folder_is_told_plainly(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="could not be written"):
        write_text(tmp_path / "file" / "a.txt", "new")
    with pytest.raises(CheckpointError, match="could not be written"), replacing_folder(tmp_path / "file" / "step"):
        pass


def test_reading_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with pytest.raises(CheckpointError, match=r"a\.json is missing"):
        read_json(path)
    for content in (b'{"a": ', b"\xff\xfe\x00"):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"a\.json cannot be read as JSON"):
            read_json(path)
    with pytest.raises(CheckpointError, match="cannot be read as JSON"):
        read_json(tmp_path)
    path.write_text(json.dumps([1]))
    assert read_json(path) == [1]


def test_appending_to_a_full_disk_is_explained(tmp_path):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(CheckpointError, match="The disk is full: /dev/full could not be written"):
        append_line(full, "x")
    append_line(tmp_path / "a", "one")
    append_line(tmp_path / "a", "two")
    assert (tmp_path / "a").read_text() == "one\ntwo\n"


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
@pytest.mark.usefixtures("umask")
def test_modes_are_kept_and_new_files_have_what_the_umask_says(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    assert mode_of(path) == 0o640
    for mode in (0o600, 0o664, 0o755):
        path.chmod(mode)
        write_text(path, "new")
        assert mode_of(path) == mode
        with open_output(path) as text:
            text.write("newer")
        assert mode_of(path) == mode


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    link, target = tmp_path / "link.txt", tmp_path / "far" / "target.txt"
    link.symlink_to("far/target.txt")
    for text in ("first", "second"):
        write_text(link, text)
        assert target.read_text() == text
    (tmp_path / "run").symlink_to("far/run")
    with replacing_folder(tmp_path / "run") as temporary:
        (temporary / "weights").write_text("x")
    assert (tmp_path / "far" / "run" / "weights").read_text() == "x"
    assert link.is_symlink()
    assert (tmp_path / "run").is_symlink()
    assert names(tmp_path / "far") == ["run", "target.txt"]


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="this system has no /dev/null")
def test_a_device_is_written_and_not_replaced(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev/null")
    for path in (Path("/dev/null"), link):
        write_text(path, "x")
        with open_output(path) as text:
            text.write("x")
        assert stat.S_ISCHR(path.stat().st_mode)
    assert names(tmp_path) == ["link"]
    with pytest.raises(CheckpointError, match="already exists and is no folder"):
        require_new_folder(Path("/dev/null"))
    with pytest.raises(CheckpointError, match="The disk is full"), replacing_file(Path("/dev/null")):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_gets_what_is_written_as_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with open_output(path) as text:
            text.write("one\n")
            text.flush()
            assert os.read(reader, 100) == b"one\n"
            text.write("two\n")
        assert os.read(reader, 100) == b"two\n"
        write_text(path, "three")
        assert os.read(reader, 100) == b"three"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system has no /dev/fd")
def test_a_descriptor_is_written_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    with path.open("w") as shell:
        shell.write("before\n")
        shell.flush()
        for name in (f"/dev/fd/{shell.fileno()}", f"/proc/self/fd/{shell.fileno()}"):
            if Path(name).parent.exists():
                write_text(Path(name), "written\n")
        shell.write("after\n")
    lines = path.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert set(lines[1:-1]) == {"written"}
