"""The pages of the documentation: their Python runs, their commands parse, what they show is what comes out."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import inspect
import io
import json
import os
import re
import statistics
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


def test_the_table_of_large_texts_is_its_record():
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    measured = json.loads((ROOT / "docs" / "results" / "scale.json").read_text(encoding="utf-8"))["measured"]
    for found in measured:
        phases = found["phases"]
        growing = [phases[name] for name in ("reading", "cleaning", "tokenising")]
        rate = found["pairs"] / sum(phase["processor_seconds"] for phase in growing)
        named = ("reading", "cleaning", "learning the vocabulary", "tokenising")
        seconds = " | ".join(f"{phases[name]['seconds']:.1f}" for name in named)
        memory = max(phase["own_memory_mb"] for phase in phases.values())
        who = ", one process" if found["processes"] == 1 else ""
        assert f"| {found['pairs']:,}{who} | {seconds} | {round(rate, -2):,.0f} | {memory:,} MB |" in page


def test_the_table_of_kernels_is_its_record():
    folder = ROOT / "docs" / "results"
    page = (folder / "speed.md").read_text(encoding="utf-8")
    record = json.loads((folder / "speed" / "kernel-ablation.json").read_text(encoding="utf-8"))
    for shape, found in record["found"].items():
        for name, speeds in found.items():
            positions, kernels = name.split(": ")
            speed, whole = (statistics.median(each) for each in (speeds, found[f"{positions}: all"]))
            assert f"| {shape} | {positions} | {kernels} | {speed:,.0f} | {speed / whole:.3f} |" in page
    record = json.loads((folder / "speed" / "zen5" / "layer-norm.json").read_text(encoding="utf-8"))
    for shape, found in record["found"].items():
        whole, without = (statistics.median(found[name]) for name in ("all kernels", "without layer norm"))
        assert f"| {shape} | {whole:,.0f} | {without:,.0f} | {without / whole:.3f} |" in page


def test_the_ratio_to_the_best_form_of_pytorch_is_its_record():
    results = ROOT / "docs" / "results"
    record = json.loads((results / "speed" / "zen5" / "training-best-form.json").read_text(encoding="utf-8"))
    performance = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for shape, engines in record["results"].items():
        speeds = [
            statistics.median(run["tokens_per_second"] for run in engines[engine])
            for engine in ("locant", "torch.nn.Transformer")
        ]
        ratio = f"{speeds[0] / speeds[1]:.2f}"
        assert f"| {shape} | {speeds[0]:,.0f} | {speeds[1]:,.0f} | {ratio} |" in (results / "speed.md").read_text(
            "utf-8"
        )
        assert ratio in performance


def test_the_tables_of_the_newer_processor_are_their_records():
    page = (ROOT / "docs" / "results" / "speed.md").read_text(encoding="utf-8").split("## A newer processor")[1]
    folder = ROOT / "docs" / "results" / "speed" / "zen5"
    for name, engines in json.loads((folder / "translation.json").read_text(encoding="utf-8"))["results"].items():
        speeds = {engine: statistics.median(r["tokens_per_second"] for r in runs) for engine, runs in engines.items()}
        own = [speeds[f"locant {kind}, threads 2"] for kind in ("int8", "bfloat16", "float32")]
        other = max(speed for engine, speed in speeds.items() if engine.startswith("ctranslate2"))
        shape, _, _, _, beam = name.split()
        search = "greedy" if beam == "1" else f"beam {beam}"
        cells = [f"{speed:,.0f}" for speed in (*own, other)] + [f"{own[0] / other:.2f}", f"{own[1] / own[0]:.2f}"]
        assert f"| {shape}, {search} | {' | '.join(cells)} |" in page
    for shape, engines in json.loads((folder / "training.json").read_text(encoding="utf-8"))["results"].items():
        speeds = {engine: statistics.median(r["tokens_per_second"] for r in runs) for engine, runs in engines.items()}
        own, cells = speeds.pop("locant"), []
        for kept in (False, True):
            best = max(speed for engine, speed in speeds.items() if engine.endswith("memory kept") == kept)
            cells += [f"{best:,.0f}", f"{own / best:.2f}"]
        assert f"| {shape} | {own:,.0f} | {' | '.join(cells)} |" in page
    for file in ("contention.json", "contention-training.json", "contention-later.json"):
        for name, found in json.loads((folder / file).read_text(encoding="utf-8"))["results"].items():
            if name == "translating small-8k, batch 32, beam 1 | ctranslate2 int8-1x2":
                continue  # two workers are faster
            quiet, one, busy, quota = (
                statistics.median(found[key]) for key in ("quiet", "one thread", "busy core", "quota")
            )
            rates = f"{quiet:,.0f} | {one:,.0f} | {busy:,.0f} | {busy / quiet:.0%} | {quota:,.0f} | {quota / quiet:.0%}"
            assert f" | {rates} |" in page, name


def test_the_table_of_the_readme_is_its_records():
    results = ROOT / "docs" / "results"
    readme = (ROOT / "README.md").read_text(encoding="utf-8").split("## Results")[1]

    def median(runs):
        return statistics.median(run["tokens_per_second"] for run in runs)

    lines = [line.split(" | ") for line in (results / "positions.md").read_text(encoding="utf-8").splitlines()]
    kinds = ("float32", "bfloat16")
    million = {tuple(line[:2]): float(line[5]) for line in lines if len(line) == 8 and line[1] in kinds}
    cells = (million["| Locant", "float32"], million["| Locant", "bfloat16"])
    assert f" | {cells[0]}; {cells[1]} | " in readme
    peers = [
        max(error for (name, kind), error in million.items() if name != "| Locant" and kind == each) for each in kinds
    ]
    assert f"| {peers[0]:g}; {peers[1]:.1f} (" in readme
    dynamic, *_ = (line for line in lines if line[:2] == ["| dynamic NTK", "256"])
    assert f" | {dynamic[3].removesuffix(' |')} | {float(dynamic[2])} (transformers)" in readme

    reading = (results / "reading.md").read_text(encoding="utf-8")
    for how in ("with the class", "by the entries alone"):
        right, files = re.search(rf"\| {how} \| (\d+) of (\d+) ", reading).groups()
        assert f"{right} of {files} {how}" in readme
    differing = (ROOT / "tests" / "extension" / "otherwise_by_class.txt").read_text(encoding="utf-8").splitlines()
    right, files = re.search(r"\| with the class \| (\d+) of (\d+) ", reading).groups()
    assert int(files) - int(right) == len(differing)

    speed = {
        name: json.loads((results / "speed" / "zen5" / f"{name}.json").read_text())["results"]
        for name in ("training-best-form", "translation")
    }
    speeds = {engine: median(runs) for engine, runs in speed["training-best-form"]["tiny-8k"].items()}
    other = speeds["torch.nn.Transformer"]
    assert f" | {speeds['locant']:,.0f} | {other:,.0f} (`torch.nn.Transformer` in its best form) |" in readme
    speeds = {engine: median(runs) for engine, runs in speed["translation"]["base-32k batch 32 beam 1"].items()}
    other = max(rate for engine, rate in speeds.items() if engine.startswith("ctranslate2"))
    assert f" | {speeds['locant int8, threads 2']:,.0f} | {other:,.0f} (CTranslate2) |" in readme

    servers = json.loads((results / "serving.json").read_text())["models"][0]["servers"]
    own, other = (
        each["sentences_per_second"]
        for name in ("Locant", "LibreTranslate")
        for each in servers[name]["mixed"]
        if each["clients"] == 64
    )
    assert f" | {own:.0f} | {other:.0f} (LibreTranslate) |" in readme


def test_the_page_on_browsers_has_the_numbers_of_its_record():
    engines = json.loads((ROOT / "docs" / "results" / "web.json").read_text(encoding="utf-8"))["models"][0]["engines"]
    share = {name.split()[0]: f"{found['share_of_native']:.0%}" for name, found in engines.items()}
    speeds = [found["sentences_per_second"] for name, found in engines.items() if name != "native"]
    page = " ".join((ROOT / "docs" / "web.md").read_text(encoding="utf-8").split())
    assert f"{share['Chromium']} of the command's speed in Chromium, {share['Firefox']} in Firefox and" in page
    assert f"{share['Node']} in Node: {min(speeds):.0f} to {max(speeds):.0f}" in page


def test_the_table_of_four_languages_is_its_record():
    results = ROOT / "docs" / "results"
    page = (results / "bible-four-languages.md").read_text(encoding="utf-8")
    record = json.loads((results / "bible-four-languages" / "test.json").read_text(encoding="utf-8"))
    rows = [[cell.strip(" *") for cell in line.split("|")[2:-1]] for line in page.splitlines() if line.startswith("| ")]
    languages = ("en", "de", "fr", "es")
    for source, row in zip(languages, rows[2:6], strict=True):
        scores = [record["directions"].get(f"{source}-{target}") for target in languages]
        assert row == [f"{found['bleu']:.1f}" if found else "" for found in scores]
    assert f"are trained is {record['mean']['bleu']:.1f} BLEU and {record['mean']['chrf']:.1f} chrF" in page
    guide = " ".join((ROOT / "docs" / "languages.md").read_text(encoding="utf-8").split())
    german, zero_shot = (record["directions"][name]["bleu"] for name in ("de-en", "de-es"))
    assert f"{german:.1f} BLEU from German into English, and {zero_shot:.1f} from German into Spanish" in guide
    metrics = (results / "bible-four-languages" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    validations = [found for found in map(json.loads, metrics) if found["kind"] == "validation"]
    for name, cells in (
        ("step", [f"{found['step']:,}" for found in validations]),
        ("loss", [f"{found['loss']:.3f}" for found in validations]),
        ("BLEU", [f"{found['bleu']:.1f}" for found in validations]),
        ("German to Spanish", [f"{found['parts']['de-es']:.1f}" for found in validations]),
    ):
        assert f"| {name} | {' | '.join(cells)} |" in page


def test_the_table_of_distillation_is_its_record():
    results = ROOT / "docs" / "results"
    page = (results / "distillation.md").read_text(encoding="utf-8")
    rows = json.loads((results / "quality" / "distillation.json").read_text(encoding="utf-8"))["rows"]
    table = [line for line in page.splitlines() if " million | " in line]
    for line, found in zip(table, rows, strict=True):
        assert line.startswith(f"| {found['model']} | ")
        numbers = (
            f"{found['bleu']:.1f} | {found['chrf']:.1f} | {found['sentences_per_second']:,.0f} | {found['speed']:.1f}"
        )
        assert line.endswith(f" million | {found['beam']} | {numbers} |")
    teacher, greedy_teacher, _, student, beam, greedy = rows
    text = " ".join(page.split())
    assert f"{student['speed']:.1f} times as fast as its teacher with a beam of four" in text
    cost, times = teacher["bleu"] - student["bleu"], student["speed"] / greedy_teacher["speed"]
    assert f"for {cost:.1f} BLEU, and {times:.1f} times as fast as its teacher searched" in text
    assert f"as its teacher searched greedily, for {greedy_teacher['bleu'] - student['bleu']:.1f}." in text
    assert f"are worth {student['bleu'] - greedy['bleu']:.1f} BLEU to a greedy search" in text
    assert abs(beam["bleu"] - rows[2]["bleu"]) < 0.2
    guide = " ".join((ROOT / "docs" / "more-data.md").read_text(encoding="utf-8").split())
    assert f"{student['speed']:.1f} times as fast as its teacher, for {cost:.1f} BLEU" in guide


def test_the_tables_of_adapting_are_their_record():
    results = ROOT / "docs" / "results"
    page = (results / "adaptation.md").read_text(encoding="utf-8")
    record = json.loads((results / "quality" / "adaptation.json").read_text(encoding="utf-8"))
    few = json.loads((results / "quality" / "adaptation-2000.json").read_text(encoding="utf-8"))
    slower, known = (
        json.loads((results / "quality" / f"adaptation-{name}.json").read_text(encoding="utf-8"))
        for name in ("slower", "kjv")
    )
    little, much = page.split("## Much new text")
    slow, of_known = much.split("## A slower processor")[1].split("| model, King James")
    for section, found in ((little, few), (much, record), (slow, slower), (of_known, known)):
        for model, of in found["models"].items():
            assert f"| {model} | {of['updates']:,} | {of['new']:.1f} | {of['old']:.1f} |" in section
    for found in record["rates"]:
        settings = f"{found['text']} | {found['optimizer']} | {found['learning_rate']:g} | {found['trained_on']}"
        assert f"| {settings} | {found['new']:.1f} | {found['old']:.1f} |" in much

    def losses(parent: dict, adapted: dict, mixed: dict) -> str:
        lost = f"loses {parent['old'] - mixed['old']:.1f} BLEU instead of {parent['old'] - adapted['old']:.1f}"
        gained = f"gains {mixed['new'] - parent['new']:.1f} instead of {adapted['new'] - parent['new']:.1f}"
        return f"{lost}, and the new one {gained}"

    for section, found, said in (
        (slow, slower, "Adapting is {:.1f} BLEU short"),
        (of_known, known, "are worth {:.1f} BLEU more than ten"),
    ):
        _, scratch, adapted, *_ = found["models"].values()
        assert said.format(abs(adapted["new"] - scratch["new"])) in section
    parent, scratch, adapted, mixed, mixed_more = few["models"].values()
    assert f"is worth {adapted['new'] - scratch['new']:.1f} BLEU more than five times the time" in little
    assert losses(parent, adapted, mixed_more) in little
    parent, scratch, adapted, mixed, mixed_more = record["models"].values()
    assert f"{scratch['new'] - adapted['new']:.1f} BLEU less" in much
    assert losses(parent, adapted, mixed) in much
    lost, gained = parent["old"] - mixed_more["old"], mixed_more["new"] - parent["new"]
    assert f"With three times as much it loses {lost:.1f}, and the new one gains {gained:.1f}." in much
    mixed_at = {found["optimizer"]: found for found in record["rates"] if found["trained_on"] == "new and old"}
    more, less = mixed_at["Muon"]["new"] - mixed["new"], mixed["old"] - mixed_at["Muon"]["old"]
    assert f"0.005 learned {more:.1f} BLEU more and lost {less:.1f} more" in much


def test_the_table_of_threads_of_groups_is_its_record():
    results = ROOT / "docs" / "results"
    rows = set()
    for found in json.loads((results / "speed" / "zen3" / "groups.json").read_text(encoding="utf-8"))["results"]:
        speeds = {name: f"{round(statistics.median(runs)):,}" for name, runs in found["threads"].items()}
        numbers = (speeds["before"], speeds["now"], speeds.get("as many threads as cores", ""))
        about = (found["shape"], f"{found['condition']}, the {found['hour']} hour", str(len(found["threads"]["now"])))
        rows.add(f"| {' | '.join((*about, *numbers))} |")
    section = (
        (results / "speed.md").read_text(encoding="utf-8").split("Groups of sentences had twice")[1].split("\n##")[0]
    )
    assert {line for line in section.splitlines() if line.startswith("| ")} >= rows
    assert section.count("\n| ") == 2 + len(rows)


def test_the_table_of_changes_is_its_record():
    results = ROOT / "docs" / "results"
    section = (results / "quality.md").read_text(encoding="utf-8").split("## One change at a time")[1]
    rows = set()
    for found in map(json.loads, (results / "quality" / "changes.jsonl").read_text(encoding="utf-8").splitlines()):
        loss = min(loss for _, loss in found["losses"])
        scores = f"{found['bleu_chosen_by']:.1f} | {found['bleu_reported']:.1f} | {found['chrf']:.1f}"
        rows.add(f"| {found['variant']} | {found['steps']:,} | {loss:.3f} | {scores} |")
    table = [line for line in section.splitlines() if line.startswith("| ")]
    assert set(table[2:]) == rows
    assert len(table) == 2 + len(rows)


@pytest.mark.parametrize(
    ("heading", "record", "names"),
    [
        ("Rotary positions", "positions", {"default": "rotary"}),
        ("Around the rotary defaults", "defaults-rotary", {"wider": "wider (192 features)"}),
        ("Doubled batches beside equal work", "defaults-rotary-again", {}),
        ("Weight decay", "weight-decay", {"default": "none", "weight decay": "0.1"}),
        ("Three seeds", "defaults-seeds", {}),
        (
            "Twenty minutes on a faster processor",
            "defaults-20-minutes-faster",
            {"narrower": "narrower (128 features)"},
        ),
        (
            "An hour",
            "defaults-60-minutes",
            {
                "default": "wider (192 features), the default then",
                "narrower": "narrower (128 features), the default now",
            },
        ),
        (
            "Twenty minutes",
            "defaults-20-minutes",
            {"wider": "wider (192 features)", "recipe": "recipe `multi30k-en-de`"},
        ),
    ],
)
def test_the_tables_of_defaults_are_their_records(heading, record, names):
    results = ROOT / "docs" / "results"
    section = (results / "quality.md").read_text(encoding="utf-8").split(f"### {heading}\n")[1].split("\n##")[0]
    rows = []
    for found in map(json.loads, (results / "quality" / f"{record}.jsonl").read_text(encoding="utf-8").splitlines()):
        loss = min(loss for _, loss in found["losses"])
        name = names.get(found["variant"], found["variant"])
        scores = f"{found['bleu_chosen_by']:.1f} | {found['bleu_reported']:.1f}"
        rows.append(f"{name} | {found['steps']:,} | {loss:.3f} | {scores} |")
    table = [line.removeprefix("| ") for line in section.splitlines() if line.startswith("| ")][2:]
    assert sorted(line.split(" | ", 1)[1] for line in table) == sorted(rows)  # the first column is corpus or seed


@pytest.mark.parametrize(
    ("heading", "record", "said"),
    [
        (
            "Twenty minutes",
            "defaults-20-minutes",
            {
                "captions-de": "{}% of the best by the even lines on Multi30k to German",
                "captions-fr": "{}% to French",
                "captions-cs": "{}% to Czech",
                "captions-de-10000": "{}% on the first\n10,000 pairs",
            },
        ),
        (
            "Twenty minutes on a faster processor",
            "defaults-20-minutes-faster",
            {"captions-de-2000": "the default has {}% of doubled batches'"},
        ),
        ("An hour", "defaults-60-minutes", {"verses-de": "which came\nto {}% of the BLEU of 128 features"}),
    ],
)
def test_the_shares_of_the_best_are_those_of_their_records(heading, record, said):
    results = ROOT / "docs" / "results"
    section = (results / "quality.md").read_text(encoding="utf-8").split(f"### {heading}\n")[1].split("\n##")[0]
    lines = (results / "quality" / f"{record}.jsonl").read_text(encoding="utf-8").splitlines()
    runs = [found for found in map(json.loads, lines) if found["corpus"] in said]
    for corpus, sentence in said.items():
        tried = [found for found in runs if found["corpus"] == corpus]
        best = max(tried, key=lambda found: found["bleu_chosen_by"])["bleu_reported"]
        default = next(found for found in tried if found["variant"] == "default")["bleu_reported"]
        assert sentence.format(round(100 * default / best)) in section


def test_the_table_of_both_directions_is_its_record():
    results = ROOT / "docs" / "results"
    page = (results / "quality.md").read_text(encoding="utf-8")
    section = page.split("### Both directions first, then one\n")[1].split("\n##")[0]
    records = (results / "quality" / "both-directions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [
        f"| {found['variant']} | {name} | {row['steps']:,} | {row['seconds'] / 60:.1f} | "
        f"{min(loss for _, loss in row['losses']):.3f} | {row['bleu']:.1f} | {row['bleu_chosen_by']:.1f} | "
        f"{row['bleu_reported']:.1f} | {row['chrf']:.1f} | {row['length_penalty']:g} |"
        for found in map(json.loads, records)
        for name, row in (
            [("both directions", found["both"]), ("then one direction", found["one"])]
            if "both" in found
            else [("one direction", found["one"])]
        )
    ]
    assert [line for line in section.splitlines() if line.startswith("| ")][2:] == rows
    best = json.loads(records[0])["one"]["bleu_by_length_penalty"].values()
    *first, last = [f"{bleu:.1f}" for bleu in best]
    assert f"has {', '.join(first)} and {last} BLEU on" in section


def test_the_table_of_defaults_is_its_record():
    results = ROOT / "docs" / "results"
    page = (results / "quality.md").read_text(encoding="utf-8")
    section = page.split("## Defaults beside a search")[1].split("\n##")[0]
    lines = (results / "quality" / "defaults.jsonl").read_text(encoding="utf-8").splitlines()
    rows = set()
    for found in map(json.loads, lines):
        loss = min(loss for _, loss in found["losses"])
        scores = f"{found['bleu_chosen_by']:.1f} | {found['bleu_reported']:.1f}"
        rows.add(f"{found['variant']} | {found['steps']:,} | {loss:.3f} | {scores} |")
    table = section.split("| updates |")[1].split("\n\n")[0]
    assert {line.split(" | ", 1)[1] for line in table.splitlines()[2:]} == rows
    by_run = {(found["corpus"], found["variant"]): found for found in map(json.loads, lines)}
    for corpus in {found["corpus"] for found in by_run.values()}:
        runs = [found for found in by_run.values() if found["corpus"] == corpus]
        best = max(runs, key=lambda found: found["bleu_chosen_by"])
        ours, theirs = by_run[corpus, "default"]["bleu_reported"], best["bleu_reported"]
        assert f" | {ours:.1f} | {best['variant']} | {theirs:.1f} | {ours / theirs:.2f} |" in section
