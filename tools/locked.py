"""Exact versions of what Locant is developed with: ``python tools/locked.py > locked.txt``.

All that ``locant[dev]`` asks for, directly or by way of others, as it is installed in this environment.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def own_requirements(extras: Iterable[str]) -> list[Requirement]:
    """Return what Locant asks for with some of its extras, those that they name included."""
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in PROJECT["optional-dependencies"][extra])]
    return [Requirement(line) for line in lines]


def locked(extras: Iterable[str]) -> dict[str, str]:
    """Return the installed versions of all packages that Locant takes with some extras, by normalised name."""
    found: dict[str, str] = {}
    waiting, seen = own_requirements(extras), set[tuple[str, frozenset[str]]]()
    while waiting:
        wanted = waiting.pop()
        name, with_extras = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if (name, with_extras) in seen:
            continue
        seen.add((name, with_extras))
        if name == PROJECT["name"]:
            waiting += own_requirements(with_extras)
            continue
        package = metadata.distribution(name)
        found[name] = package.version.partition("+")[0]
        for requirement in map(Requirement, package.requires or ()):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in (with_extras or {""})):
                waiting.append(requirement)
    return found


if __name__ == "__main__":
    lines = (f"{name}=={version}\n" for name, version in sorted(locked(["dev"]).items()))
    sys.stdout.writelines(["# Written by `make lock`; `make audit` looks these up.\n", *lines])
