"""The pages of the documentation: their Python runs, their commands parse, what they show is what comes out."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import inspect
import io
import os
import re
import sys
import tomllib
import traceback
import types

import pytest
import yaml
from example_files import prepare
from pages import PAGES, ROOT, blocks, commands, locant_arguments, simple_commands

from locant.cli import COMMANDS, command_parser, main

BLOCKS = [block for page in PAGES for block in blocks(page)]
PYTHON_PAGES = [page for page in PAGES if any(block.language == "python" for block in blocks(page))]
TYPED = [command for block in BLOCKS for command in commands(block)]
SHOWN = [command for command in TYPED if command.output is not None and not command.block.not_run]
# Pages whose blocks compile, export or train.
SLOW = {"docs/own-model.md", "docs/interop.md", "docs/figures.md", "docs/course/6-encoder-decoder.md"}
# Blocks that are shown and not run: they need the network, a large model or hours.
NOT_RUN = 8
# Commands without `$` that take no more than a moment.
QUICK = {"recipes", "corpora", "info"}
ENTRY_POINTS = {"locant.schemes"}  # a group of them, which looks like a module
MATCHES = doctest.OutputChecker().check_output
LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.sampled(14)
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow) if name(page) in SLOW else page for page in PYTHON_PAGES],
    ids=name,
)
def test_python_blocks_run_and_print_what_is_shown(page, tmp_path, example_store, monkeypatch):
    monkeypatch.chdir(tmp_path)
    python = [block for block in blocks(page) if block.language == "python" and not block.not_run]
    prepare("".join(block.code for block in python), tmp_path, example_store)
    if not any("register_" in block.code for block in python):
        run_blocks(page, python, monkeypatch)
        return
    # What is registered stays: such a page runs in a process of its own.
    child = os.fork()
    if child == 0:
        try:
            run_blocks(page, python, monkeypatch)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name(page)


def run_blocks(page, python, monkeypatch):
    shown = {block.line: block for block in blocks(page) if block.language == "output"}
    module = types.ModuleType("page_of_the_documentation")  # what is defined in it can be pickled
    monkeypatch.setitem(sys.modules, module.__name__, module)
    namespace = module.__dict__
    for block in python:
        if ">>> " in block.code:
            test = doctest.DocTestParser().get_doctest(block.code, namespace, block.place, None, 0)
            printed = io.StringIO()
            doctest.DocTestRunner(optionflags=LIKE).run(test, out=printed.write, clear_globs=False)
            assert not printed.getvalue(), printed.getvalue()
            namespace.update(test.globs)
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (block.line - 1) + block.code, name(page), "exec"), namespace)
        after = block.line + len(block.code.splitlines()) + 1
        output = next((shown[line] for line in (after + 1, after + 2) if line in shown), None)
        if output:
            assert MATCHES(output.code, printed.getvalue(), LIKE), f"{output.place}:\n{printed.getvalue()}"


def test_python_blocks_import_only_from_locant_and_its_rooms():
    wrong = []
    for block in (block for block in BLOCKS if block.language == "python"):
        code = block.code
        if ">>> " in code:
            code = "".join(example.source for example in doctest.DocTestParser().get_examples(code))
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Import):
                wrong += [f"{block.place}: import {each.name}" for each in node.names if each.name.count(".") > 1]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "locant":
                if (node.module or "").count(".") > 1:
                    wrong.append(f"{block.place}: from {node.module} import ...")
                else:
                    room = importlib.import_module(node.module or "")
                    known = {*getattr(room, "__all__", ()), *(each for each in dir(room) if not each.startswith("_"))}
                    wrong += [
                        f"{block.place}: {node.module} does not export {alias.name}"
                        for alias in node.names
                        if alias.name not in known
                    ]
    assert not wrong, "\n".join(wrong)


def test_commands_are_understood(capsys):
    wrong = []
    for command in TYPED:
        for words in simple_commands(command.line):
            arguments = locant_arguments(words)
            if arguments is None or arguments[:1] in (["--help"], ["--version"]):
                continue
            capsys.readouterr()
            try:
                assert arguments
                assert arguments[0] in COMMANDS, f"there is no command {arguments[0]}"
                command_parser(arguments[0]).parse_intermixed_args(arguments[1:])
            except (Exception, SystemExit) as error:
                wrong.append(f"{command.block.place}: {command.line}: {capsys.readouterr().err or error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_in_the_help_are_understood(command, capsys):
    epilog = (command_parser(command).epilog or "").replace("\\\n", " ")
    for line in re.findall(r"^ +(.*\blocant .*)$", epilog, re.MULTILINE):
        for words in simple_commands(line.split("   (")[0]):
            arguments = locant_arguments(words)
            if arguments is not None:
                assert command_parser(arguments[0]).parse_intermixed_args(arguments[1:])


def test_commands_and_options_in_the_text_exist():
    wrong = []
    options = {command: command_parser(command).format_help() for command in COMMANDS}
    for page in PAGES:
        text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for code in re.findall(r"`(locant [^`]*)`", text.replace("\n", " ")):
            command, *rest = code.removeprefix("locant ").split()
            if command.startswith("-"):
                continue
            if command not in COMMANDS:
                wrong.append(f"{name(page)}: `{code}`: there is no command {command}")
                continue
            wrong += [
                f"{name(page)}: `{code}`: {command} has no option {word}"
                for word in rest
                if word.startswith("--") and not re.search(rf"{re.escape(word)}\b", options[command])
            ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("command", SHOWN, ids=lambda command: f"{command.block.place} {command.line[:40]}")
def test_commands_print_what_is_shown(command, tmp_path, example_store, monkeypatch, capsys):
    line = command.line
    prepare(line, tmp_path, example_store)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    capsys.readouterr()
    (words,) = list(simple_commands(line.partition(" | ")[0]))
    main(locant_arguments(words))
    printed = capsys.readouterr()
    text = printed.out + ("" if "2>/dev/null" in line else printed.err)
    last = re.search(r"\| tail -(\d+)$", line)
    if last:
        text = "".join(text.splitlines(keepends=True)[-int(last[1]) :])
    assert MATCHES(command.output, text, LIKE), text


@pytest.mark.parametrize("command", sorted(QUICK & set(COMMANDS)))
def test_quick_commands_run(command, capsys):
    assert main([command]) == 0
    assert capsys.readouterr().out


def test_recipes_in_commands_and_pages_are_valid():
    from locant.training import Recipe, builtin_recipes, load_recipe

    read = 0
    for command in TYPED:
        for words in simple_commands(command.line):
            arguments = locant_arguments(words) or [""]
            if arguments[0] == "train":
                options = vars(command_parser("train").parse_intermixed_args(arguments[1:]))
                (given,) = (value for value in options.values() if isinstance(value, list))
                if given and given[0] in builtin_recipes():
                    load_recipe(given[0], given[1:])
                    read += 1
    for block in (block for block in BLOCKS if block.language == "yaml" and "corpus:" in block.code):
        Recipe.parse(yaml.safe_load(block.code), block.place)
        read += 1
    assert read >= 2


def test_make_targets_and_extras_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wrong = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        used = {
            words[1]
            for line in TYPED
            if line.block.page == page
            for words in simple_commands(line.line)
            if words[0] == "make" and len(words) > 1
        }
        used |= set(re.findall(r"`make ([a-z0-9-]+)", text))
        wrong += [f"{name(page)}: make {target}" for target in used - targets]
        extras = {extra for found in re.findall(r"locant\[([a-z0-9,]+)\]", text) for extra in found.split(",")}
        wrong += [f"{name(page)}: extra {extra}" for extra in extras - set(project["optional-dependencies"])]
    assert not wrong, "\n".join(wrong)


def anchors(text):
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading)).strip().lower().replace(" ", "-") for heading in headings
    }


def test_links_lead_somewhere():
    wrong = []
    for page in PAGES:
        text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path) if path else page
            if not file.exists():
                wrong.append(f"{name(page)}: {target}")
            elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
                wrong.append(f"{name(page)}: {target}: no such heading")
    assert not wrong, "\n".join(wrong)


def test_few_blocks_are_not_run():
    found = [f"{block.place}: {block.not_run}" for block in BLOCKS if block.not_run]
    assert len(found) <= NOT_RUN, "\n".join(found)


def test_modules_named_in_the_text_exist():
    wrong = []
    for page in PAGES:
        if page.name == "CHANGELOG.md":
            continue
        for dotted in set(re.findall(r"`(locant(?:\.\w+)+)", page.read_text(encoding="utf-8"))) - ENTRY_POINTS:
            parts = dotted.split(".")
            value = importlib.import_module(parts[0])
            for index, part in enumerate(parts[1:], start=2):
                with contextlib.suppress(ImportError):
                    if inspect.ismodule(value):
                        importlib.import_module(".".join(parts[:index]))
                if not hasattr(value, part):
                    wrong.append(f"{name(page)}: {dotted}")
                    break
                value = getattr(value, part)
    assert not wrong, "\n".join(wrong)
