"""Exported pages against the native engine: `locant export --to web` in Node, Chromium and Firefox, int8, one thread.

Usage: python benchmarks/web/run.py MODEL... [--text FILE] [--sentences 200] [--rounds 5] [--minutes 6]
    [--output docs/results/web]

For each model the same sentences are translated with the same beam by the native engine (`locant translate --engine
compiled --compute-type int8`, one thread), by the page's program under Node and by the page itself in the browsers that
are installed, round by round in turns, as many as the time allows. Sentences are those that the page takes for one; by
default the source side of the test of the model's run. Reported are the median sentences and tokens a second, their
share of the native engine's, the same by processor time, and how long a page that was opened as a file takes to its
first translation. With a text given, any model folder will do. Nothing else should run meanwhile. Writes OUTPUT.md and
OUTPUT.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests" / "support")]
from browsers import BROWSERS, Tab, running
from web_node import NODE, WebNode

from locant.app import export_web
from locant.documents.translate import fits_model
from locant.kernels.translation import supports
from locant.training import load_run_recipe
from locant.translation import Translator
from measure import machine, processor_seconds_of_children, table, warn_when_busy, write_record

COLUMNS = (
    *("where", "sentences/s", "tokens/s", "of native", "CPU ms a sentence", "of native"),
    *("first translation, s", "other"),
)

# Hands the page a text as if it were written and sent at once; answers the translation with the milliseconds since
# then, and since the page was opened.
TRANSLATE = """async text => {
    const at = (id) => document.getElementById(id);
    const asked = performance.now();
    at("text").value = text;
    at("text").dispatchEvent(new Event("input"));
    at("form").dispatchEvent(new Event("submit", { cancelable: true }));
    await new Promise((done) => {
        const look = () => (at("said").textContent === "Translated." || !at("error").hidden) && done();
        const watch = new MutationObserver(look);
        for (const place of [at("said"), at("error")]) watch.observe(place, { childList: true, attributes: true });
        look();
    });
    if (!at("error").hidden) throw new Error(at("error").textContent);
    const now = performance.now();
    return { text: at("translation").textContent, took: now - asked, opened: now };
}"""


@dataclass
class Rounds:
    """What was measured of one engine, round by round."""

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def row(self, tokens: int, native: Rounds) -> dict[str, Any]:
        """Return the medians, for that many tokens of the native engine's translations."""
        took, spent = statistics.median(self.seconds), statistics.median(self.processor)
        count = len(self.texts)
        found = {
            "sentences_per_second": round(count / took, 2),
            "tokens_per_second": round(tokens / took, 1),
            "share_of_native": round(statistics.median(native.seconds) / took, 3),
            "processor_milliseconds": round(1000 * spent / count, 3),
            "share_of_native_by_processor_time": round(statistics.median(native.processor) / spent, 3),
        }
        if self.first:
            found["first_translation_seconds"] = round(statistics.median(self.first), 2)
            found["slowest_first_translation_seconds"] = round(max(self.first), 2)
        return {**found, "other_translations": sum(a != b for a, b in zip(self.texts, native.texts, strict=True))}


def native_round(translator: Translator, sentences: list[str], found: Rounds) -> None:
    """Translate once by the native engine."""
    start, spent = time.perf_counter(), time.process_time()
    found.texts = translator.translate(sentences)
    found.seconds.append(time.perf_counter() - start)
    found.processor.append(time.process_time() - spent)


def node_round(node: WebNode, sentences: list[str], page: Path, found: Rounds) -> None:
    """Translate once by the page's program under Node, which is loaded again: it remembers what it has translated."""
    node.ask("load", str(page))
    start = time.perf_counter()
    answer = node.ask("translate", {"sentences": sentences})
    found.seconds.append(time.perf_counter() - start)
    found.texts = answer["translations"]
    found.processor.append(answer["seconds"])


def browser_round(new_tab: Callable[[], Tab], first: str, sentences: list[str], page: Path, found: Rounds) -> None:
    """Open the page as a file, translate a sentence as soon as it takes one, then the text, and close it."""
    tab = new_tab()
    tab.go((page / "index.html").as_uri())
    found.first.append(tab.run(TRANSLATE, first)["opened"] / 1000)
    spent = processor_seconds_of_children()
    answer = tab.run(TRANSLATE, "\n".join(sentences))
    found.processor.append(processor_seconds_of_children() - spent)
    found.seconds.append(answer["took"] / 1000)
    found.texts = answer["text"].split("\n")
    tab.close()


def sentences_of(model: Path, text: Path | None, node: WebNode, fits: Callable[[str], bool], most: int) -> list[str]:
    """Return different sentences that are one for the page as well, as many as are wanted and one more."""
    if text is not None:
        lines = text.read_text(encoding="utf-8").splitlines()
    else:
        lines = [source for source, _ in load_run_recipe(model).open_corpus().test or []]
    found = []
    for line in dict.fromkeys(line.strip() for line in lines):
        pieces = [piece["text"] for piece in node.ask("cut", [line, None]) if piece["translated"]]
        if pieces == [line] and fits(line):
            found.append(line)
        if len(found) > most:
            return found
    if len(found) < 2:
        raise SystemExit(f"There are no sentences for {model}; name a text with --text.")
    return found


def measure(model: Path, options: argparse.Namespace, work: Path, end: float) -> dict[str, Any]:
    """Return all measurements of a model, with one round at least and no further one that would go beyond the end."""
    page = work / "page"
    export_web(model, page)
    translator = Translator.from_pretrained(model, engine="compiled", compute_type="int8", device="cpu")
    with ExitStack() as stack:
        node = stack.enter_context(WebNode())
        first, *sentences = sentences_of(model, options.text, node, fits_model(translator), options.sentences)
        native: Rounds = Rounds()
        engines = {"native": native, "Node": Rounds()}
        turns: list[Callable[[], None]] = [
            lambda: native_round(translator, sentences, native),
            lambda: node_round(node, sentences, page, engines["Node"]),
        ]
        for name in (name for name in BROWSERS if BROWSERS[name] and name not in options.without):
            browser = stack.enter_context(running(name))
            found = engines.setdefault(browser.version, Rounds())
            turns.append(lambda b=browser, f=found: browser_round(b.tab, first, sentences, page, f))
        rounds, longest = -1, 0.0  # the first is a warm-up
        while rounds < 1 or (rounds < options.rounds and time.monotonic() + longest < end):
            begun = time.monotonic()
            for turn in turns:
                turn()
            longest, rounds = max(longest, time.monotonic() - begun), rounds + 1
            if rounds == 0:
                for found in engines.values():
                    vars(found).update(vars(Rounds()))
        tokens = sum(len(ids) + 1 for ids in translator.tokenizers.target.encode(native.texts))
        return {
            "model": model.name,
            "parameters": sum(part.numel() for part in translator.model.parameters()),
            "beam": translator.settings.beam,
            "page_megabytes": round(sum(path.stat().st_size for path in page.iterdir()) / 1e6, 1),
            "rounds": rounds,
            "sentences": len(sentences),
            "tokens": tokens,
            "engines": {name: found.row(tokens, native) for name, found in engines.items()},
        }


def report(results: list[dict[str, Any]]) -> str:
    """Return the measurements as Markdown."""
    lines = [
        "# Exported pages",
        "",
        f"{machine()}; int8 on one thread, medians of the rounds; `make bench-web`. The same sentences with the same "
        "beam: by the native engine, by the page's program in WebAssembly under Node, and by the page itself in "
        "browsers without a window, which also show every sentence. CPU is processor time, in a browser that of all "
        "its processes. The first translation counts from the opening of a page whose files are local until the "
        "translation of one sentence is seen; the longest of all rounds is behind it. The last column counts "
        "translations other than the native engine's.",
    ]
    for result in results:
        lines += [
            "",
            f"## {result['model']}, {result['parameters']:,} parameters",
            "",
            f"{result['sentences']} sentences, {result['tokens']} tokens, beam {result['beam']}, {result['rounds']} "
            f"rounds; the page takes {result['page_megabytes']:g} MB.",
            "",
        ]
        rows = []
        for name, row in result["engines"].items():
            opened = ""
            if "first_translation_seconds" in row:
                opened = f"{row['first_translation_seconds']:g} ({row['slowest_first_translation_seconds']:g})"
            shares = [f"{row[key]:.0%}" for key in ("share_of_native", "share_of_native_by_processor_time")]
            cells = [name, row["sentences_per_second"], row["tokens_per_second"], shares[0]]
            rows.append([*cells, row["processor_milliseconds"], shares[1], opened, row["other_translations"]])
        lines.append(table(COLUMNS, rows))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="run or model folder")
    parser.add_argument("--text", type=Path, help="sentences, one a line; by default the test of each model's run")
    parser.add_argument("--sentences", type=int, default=200, help="how many of them")
    parser.add_argument("--rounds", type=int, default=5, help="at most, after one that does not count")
    parser.add_argument("--minutes", type=float, default=6.0, help="in all; there is one round at least")
    parser.add_argument("--without", nargs="*", default=[], choices=list(BROWSERS), help="browsers to leave out")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results" / "web", help="without .md and .json")
    options = parser.parse_args()
    if NODE is None:
        raise SystemExit("Node, which runs the page's program, is not installed.")
    if not supports("int8"):
        raise SystemExit("This processor has no fast int8 arithmetic, so there is nothing to compare with.")
    warn_when_busy()
    results = []
    begun, time_of_each = time.monotonic(), 60 * options.minutes / len(options.models)
    for number, model in enumerate(options.models, start=1):
        with tempfile.TemporaryDirectory(prefix="bench-web-") as work:
            results.append(measure(model, options, Path(work), begun + number * time_of_each))
    write_record(options.output.with_suffix(".json"), models=results)
    text = report(results)
    options.output.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
