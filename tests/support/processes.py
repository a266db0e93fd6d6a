"""Commands of Locant in processes of their own, forked from a server that has imported what they need."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

_CONTEXT = multiprocessing.get_context("forkserver")
# Imports alone: the server computes nothing, so what it forks is as good as a fresh interpreter. PyTorch's optimisers
# import torch._dynamo.
_CONTEXT.set_forkserver_preload(
    ["locant.cli.progress", "locant.training.run", "torch._dynamo", "torch.distributed.fsdp", "torch.utils.tensorboard"]
)


def start_locant(arguments: Sequence[str | Path], log: Path, environment: dict[str, str] | None = None) -> BaseProcess:
    """Start ``locant ARGUMENTS`` and return its process, which computes with as many threads as this one.

    Args:
        arguments: Of the command line.
        log: Where its standard output and errors go.
        environment: Added to that of the tests.
    """
    words = [str(argument) for argument in arguments]
    process = _CONTEXT.Process(target=_run, args=(words, str(log), environment or {}, torch.get_num_threads()))
    process.start()
    return process


def run_processes(arguments: Sequence[str | Path], folder: Path, count: int = 2) -> None:
    """Run ``locant ARGUMENTS`` in several processes with the variables that torchrun sets, and expect success."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    logs = [folder / f"process-{rank}.log" for rank in range(count)]
    processes = []
    for rank, log in enumerate(logs):
        variables = {name: str(value) for name, value in {**common, "RANK": rank, "LOCAL_RANK": rank}.items()}
        processes.append(start_locant(arguments, log, variables))
    for process in processes:
        process.join(300)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    assert codes == [0] * count, "\n".join(log.read_text()[-3000:] for log in logs)


def _run(arguments: list[str], log: str, environment: dict[str, str], threads: int) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for output in (1, 2):
        os.dup2(descriptor, output)
    os.environ.update(environment)
    torch.set_num_threads(threads)
    from locant.cli import main

    sys.exit(main(arguments))
