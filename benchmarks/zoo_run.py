"""The file of a run over all architectures of transformers, which goes on where it was stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers

VERSIONS = {"transformers": transformers.__version__, "torch": torch.__version__}
"""What outcomes were seen with; those of other versions do not count."""


def read_run(path: Path, seeds: int) -> dict[str, dict[str, Any]]:
    """Return what a run has seen so far with these versions, by model type.

    Args:
        path: The file of the run, with a line for every architecture.
        seeds: Cases of an architecture.
    """
    done = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        each = json.loads(line)
        if each["seeds"] == seeds and all(each[name] == version for name, version in VERSIONS.items()):
            done[each["model_type"]] = each
    return done


def survey(
    path: Path, names: Iterable[str], seeds: int, outcomes: Callable[[str], list[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """Yield the line of each architecture, once it is in the file of the run.

    Args:
        path: The file of the run.
        names: Model types, in the order of the survey.
        seeds: Cases of an architecture.
        outcomes: Returns the outcomes of a model type as plain data.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        start = time.perf_counter()
        found = outcomes(name)
        seconds = round(time.perf_counter() - start, 1)
        line = {"model_type": name, "seeds": seeds, **VERSIONS, "seconds": seconds, "outcomes": found}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        yield line
