"""Commands of Locant in processes of their own, forked from a server that has imported what they need."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import torch

_DIES = "LOCANT_TESTS_MACHINE_DIES"

_CONTEXT = multiprocessing.get_context("forkserver")
# Imports alone: the server computes nothing, so what it forks is as good as a fresh interpreter. PyTorch's optimisers
# import torch._dynamo.
_CONTEXT.set_forkserver_preload(
    [
        "locant.cli.progress",
        "locant.cli.train",
        "locant.training.run",
        "sacrebleu.metrics",
        "torch._dynamo",
        "torch.distributed.checkpoint.hf_storage",
        "torch.distributed.fsdp",
        "torch.distributed.run",
        "torch.utils.tensorboard",
    ]
)


def start_locant(
    arguments: Sequence[str | Path],
    log: Path,
    environment: dict[str, str] | None = None,
    *,
    folder: Path | None = None,
    killed_in: tuple[str, int] | None = None,
) -> BaseProcess:
    """Start ``locant ARGUMENTS`` and return its process, which computes with as many threads as this one.

    Args:
        arguments: Of the command line.
        log: Where its standard output and errors go.
        environment: Added to that of the tests.
        folder: Where it works.
        killed_in: The dotted name of a function, and at which call of it the process is killed.
    """
    words = [str(argument) for argument in arguments]
    given = (words, str(log), environment or {}, torch.get_num_threads(), folder, killed_in)
    process = _CONTEXT.Process(target=_run, args=given)
    process.start()
    return process


def start_processes(
    arguments: Sequence[Sequence[str | Path]],
    logs: Path,
    *,
    folders: Sequence[Path] = (),
    killed_in: dict[int, tuple[str, int]] | None = None,
) -> list[BaseProcess]:
    """Start commands that train together, with the variables that torchrun sets.

    Args:
        arguments: Of each process.
        logs: The folder of their outputs, ``process-0.log`` and so on.
        folders: Where each works, on a machine of its own; without them all are on one.
        killed_in: Of some of them by rank, see :func:`start_locant`.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # What starts them may be older than a program that a test has put into the search path.
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": len(arguments), "PATH": os.environ["PATH"]}
    processes = []
    for rank, words in enumerate(arguments):
        local = {"GROUP_RANK": 0, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": len(arguments)}
        if folders:
            local = {"GROUP_RANK": rank, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}
        variables = {name: str(value) for name, value in {**common, **local, "RANK": rank}.items()}
        place = folders[rank] if folders else None
        killed = (killed_in or {}).get(rank)
        processes.append(start_locant(words, logs / f"process-{rank}.log", variables, folder=place, killed_in=killed))
    return processes


def exit_codes(processes: Sequence[BaseProcess], seconds: float = 300) -> list[int | None]:
    """Wait for processes and return their exit codes; those that do not end in time are killed, and have none."""
    for process in processes:
        process.join(seconds)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    return codes


def run_processes(arguments: Sequence[str | Path], folder: Path, count: int = 2) -> None:
    """Run ``locant ARGUMENTS`` in several processes with the variables that torchrun sets, and expect success."""
    codes = exit_codes(start_processes([arguments] * count, folder))
    assert codes == [0] * count, "\n".join(log.read_text()[-3000:] for log in sorted(folder.glob("process-*.log")))


def run_torchrun(arguments: Sequence[str | Path], folder: Path, killed_in: tuple[str, int]) -> str:
    """Run ``locant ARGUMENTS`` by torchrun as on two machines of one process each, of which one dies, and return what
    the other says.

    Args:
        arguments: Of the command line.
        folder: Of the outputs.
        killed_in: At which call of which function the second machine dies, with its torchrun.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"
    machines = []
    for number in range(2):
        settings = f"is_host={1 - number},last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=2"
        words = ["--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=1", "--monitor-interval=0.1"]
        words += ["--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", f"--rdzv-conf={settings}", __file__]
        words += map(str, (*killed_in, *arguments))
        environment = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", _DIES: str(number)}
        given = (words, str(folder / f"machine-{number}.log"), environment)
        machines.append(_CONTEXT.Process(target=_run_torchrun, args=given))
        machines[-1].start()
    codes = exit_codes(machines, 400)
    said = (folder / "machine-0.log").read_text()
    assert codes == [0, -signal.SIGKILL], said[-5000:]
    return said


def _run_torchrun(arguments: list[str], log: str, environment: dict[str, str]) -> None:
    from torch.distributed.run import main

    _write_to(log)
    os.environ.update(environment)
    main(arguments)


def _write_to(log: str) -> None:
    """Let standard output and errors of this process go to a file."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for output in (1, 2):
        os.dup2(descriptor, output)


def _run(
    arguments: list[str],
    log: str,
    environment: dict[str, str],
    threads: int,
    folder: Path | None,
    killed_in: tuple[str, int] | None,
) -> None:
    _write_to(log)
    os.environ.update(environment)
    torch.set_num_threads(threads)
    if folder:
        os.chdir(folder)
    if killed_in:
        _kill_in(*killed_in)
    from locant.cli import main

    sys.exit(main(arguments))


def _kill_in(function: str, call: int, *others: int) -> None:
    """Let this process be killed at a call of a function, after others."""
    place, _, name = function.rpartition(".")
    owner = resolve_name(place)
    real, calls = getattr(owner, name), itertools.count(1)

    def killed(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == call:
            for process in (*others, os.getpid()):
                os.kill(process, signal.SIGKILL)
        return real(*args, **kwargs)

    setattr(owner, name, killed)


if __name__ == "__main__":  # a process of torchrun
    from locant.cli import main

    if os.environ[_DIES] == "1":
        _kill_in(sys.argv[1], int(sys.argv[2]), os.getppid())
    sys.exit(main(sys.argv[3:]))
