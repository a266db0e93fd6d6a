"""Pages of the documentation and modules of the package taken apart: code blocks, commands, syntax."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("", "docs", "docs/course", "docs/results", "examples")
PAGES = sorted(
    [page for folder in FOLDERS for page in (ROOT / folder).glob("*.md")],
    key=lambda page: str(page.relative_to(ROOT)),
)
PACKAGE = ROOT / "src" / "locant"
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")


@cache
def modules() -> dict[str, ast.Module]:
    """Return all modules of the package by their paths in it; they are parsed once in a process."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: Its file.
        line: Number of its first line.
        language: What is after the opening fence.
        code: Its text.
        not_run: Why it is not run, from a comment ``<!-- not run: reason -->`` on the line before it.
    """

    page: Path
    line: int
    language: str
    code: str
    not_run: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A line of a shell.

    Attributes:
        line: What is typed.
        output: What a page shows as its answer; ``None`` where it shows none.
        block: Where it is.
    """

    line: str
    output: str | None
    block: Block


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        fence = re.match(r"( *)```(\w*)", lines[number])
        number += 1
        if fence:
            start = number
            while not lines[number].strip().startswith("```"):
                number += 1
            code = [line.removeprefix(fence[1]) for line in lines[start:number]]
            reason = NOT_RUN.search("\n".join(lines[max(0, start - 3) : start - 1]))
            found.append(Block(page, start + 1, fence[2], "\n".join(code) + "\n", reason[1] if reason else ""))
            number += 1
    return found


def commands(block: Block) -> list[Command]:
    """Return what is typed into a shell in a block: after ``$``, or every line where there is no ``$``."""
    if block.language not in ("", "sh", "bash", "shell", "console"):
        return []
    text = block.code.replace("\\\n", " ")
    if not re.search(r"^\$ ", text, re.MULTILINE):
        return [Command(line.strip(), None, block) for line in text.splitlines()]
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    shown = zip(parts[1::2], parts[2::2], strict=True)
    return [Command(line, output if output.strip() else None, block) for line, output in shown]


def simple_commands(line: str) -> Iterator[list[str]]:
    """Yield the words of every program that a line of a shell starts, without what redirects input and output."""
    for inner in re.findall(r"\$\(([^()]*)\)", line):
        yield from simple_commands(inner)
    line = re.sub(r"\$\([^()]*\)", "substituted", line)
    line = re.sub(r"\d?>&\d|\d?[<>]+ *[^\s|;&]+", "", line)
    reader = shlex.shlex(line, posix=True, punctuation_chars="|;&")
    reader.whitespace_split = True
    words: list[str] = []
    for word in [*reader, "|"]:
        if word.strip("|;&"):
            words.append(word)
        else:
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                del words[0]
            if words:
                yield words
            words = []


def locant_arguments(words: list[str]) -> list[str] | None:
    """Return the arguments of ``locant`` in a command, or ``None`` for another program."""
    if words[0] == "locant" or words[0].endswith("bin/locant"):
        return words[1:]
    if "-m" in words[:-1] and words[words.index("-m") + 1] == "locant":
        return words[words.index("-m") + 2 :]
    return None
