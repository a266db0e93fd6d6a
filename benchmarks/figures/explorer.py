"""How soon the explorer's page *Transformer* answers: every knob, from the input to the pictures drawn anew.

Usage: python benchmarks/figures/explorer.py [RUN] [--times 4] [--minutes 4] [--output docs/results/explorer]

Opens the page in Chromium without a window and sets one knob after another, to and fro. An answer ends with the frame
that shows the last change of a picture in view; pictures that the page keeps for later (those out of view, and the one
of all schemes) do not count. It is measured in a window of usual height, which shows two or three pictures, and in one
so high that it shows all of them. Beside it stand the processor time of the browser and of the server's requests, those
for later by themselves. With the folder of a run the page shows that model too. Nothing else should run meanwhile.
Where the minutes run out, the knobs that are left are set twice to and fro. Writes OUTPUT.md and OUTPUT.json.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests" / "support")]
from browsers import BROWSERS, Tab, running

from locant.app.explorer import build_app, listen, open_server
from locant.app.explorer.model_panels import Reader
from locant.app.explorer.shown_models import EXAMPLE, TRAINED
from measure import machine, processor_seconds_of_children, table, warn_when_busy, write_record

GOAL = 200
"""Milliseconds within which the page should answer."""
HEIGHTS = {"in a window of 900 pixels": 900, "with all pictures in view": 5000}

# What each knob is set to, in turns with what it was at first.
KNOBS: dict[str, Any] = {
    "token": 3,
    "layer": 2,
    "head": 2,
    "mask": "causal",
    "heads": 1,
    "parts": ["scaling"],
    "padding": 2,
    "scheme": "rotary",
    "first": 1,
    "second": 3,
    "sentence": "the man bites the dog",
    "stack": "decoder",
}

# Sets a knob and returns when that was and when the last change of a picture in view was shown, in milliseconds since
# 1970; null where none changed. That something is awaited or has been drawn, which attributes tell, changes no picture.
ANSWER = """async (id, value) => {
    const seen = [...document.querySelectorAll("[data-picture]:not([hidden]):not([data-late])")].filter((card) => {
        const place = card.getBoundingClientRect();
        return place.bottom > 0 && place.top < innerHeight;
    });
    const now = () => performance.timeOrigin + performance.now();
    let last = null;
    const shown = () => requestAnimationFrame(() => setTimeout(() => { last = now(); }));
    const signs = ["class", "data-dash-is-loading"];
    const watch = new MutationObserver((changes) => {
        if (changes.some((change) => !signs.includes(change.attributeName))) shown();
    });
    const everything = { subtree: true, childList: true, attributes: true, characterData: true };
    for (const card of seen) watch.observe(card, everything);
    const begun = now();
    window.dash_clientside.set_props(id, { value });
    for (;;) {
        await new Promise((done) => setTimeout(done, 25));
        if (now() - (last ?? begun) > (last === null ? 1500 : 600)) break;
    }
    watch.disconnect();
    return last === null ? null : [begun, last];
}"""

READY = """async () => {
    const until = performance.now() + 60000;
    const first = () => document.querySelector("[data-picture]:not([hidden])");
    while (!first()) await new Promise((done) => setTimeout(done, 50));
    first().scrollIntoView();
    const wrong = () => [...document.querySelectorAll("[data-picture]:not([hidden]):not([data-late])")]
        .filter((card) => card.getBoundingClientRect().top < innerHeight)
        .some((card) => !card.querySelector(".picture svg"));
    while (wrong() && performance.now() < until) {
        await new Promise((done) => setTimeout(done, 50));
    }
    await new Promise((done) => setTimeout(done, 1500));
}"""


class Requests:
    """When the server had answered each request, in milliseconds since 1970, and the processor time of its thread."""

    def __init__(self, app: Any) -> None:
        self._answered: list[tuple[float, float]] = []
        begun = threading.local()

        def begin() -> None:
            begun.at = time.thread_time()

        def end(response: Any) -> Any:
            self._answered.append((1000 * time.time(), 1000 * (time.thread_time() - begun.at)))
            return response

        app.server.before_request(begin)
        app.server.after_request(end)

    def taken(self, until: float) -> tuple[float, float]:
        """Return the sum since the last call of those answered until a time, and of those later."""
        found, self._answered = self._answered, []
        before = sum(spent for at, spent in found if at <= until)
        return before, sum(spent for _, spent in found) - before


def measured(tab: Tab, requests: Requests, knob: str, other: Any, times: int, until: float) -> dict[str, Any]:
    """Return what the answers to a knob took, in milliseconds; after a time of the clock no more than four."""
    taken: dict[str, list[float]] = {name: [] for name in ("answer", "browser", "server", "later")}
    values = (other, tab.run("id => window.dash_component_api.getLayout(id).props.value", f"transformer-{knob}"))
    for number in range(2 + 2 * times):
        if number >= 6 and number % 2 == 0 and time.monotonic() > until:
            break
        requests.taken(0)
        spent = processor_seconds_of_children()
        answer = tab.run(ANSWER, f"transformer-{knob}", values[number % 2])
        spent = 1000 * (processor_seconds_of_children() - spent)
        if number < 2 or answer is None:  # at first nothing is remembered; some knobs change no picture in view
            continue
        begun, last = answer
        for name, value in zip(taken, (last - begun, spent, *requests.taken(last)), strict=True):
            taken[name].append(value)
    found: dict[str, Any] = {"knob": knob, "answers": len(taken["answer"])}
    for name, values in taken.items():
        if values:
            found |= {name: round(statistics.median(values), 1), f"worst_{name}": round(max(values), 1)}
    return found


def report(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return the measurements as Markdown."""
    lines = [
        "# The explorer's answers",
        "",
        f"{machine()}; Chromium without a window; `make bench-explorer`. Milliseconds on the page *Transformer* from "
        "setting a knob until the last picture in view is shown anew, browser and server on the same machine; the "
        f"goal is {GOAL}. A sentence that is typed waits 200 milliseconds more for the next letter. Processor time: of "
        "all the browser's processes, of the requests that the answer takes, and of those after it, for what is out of "
        "view or takes long; medians, the worst behind them.",
    ]
    for title, rows in found.items():
        lines += ["", verdict(title, rows)]
    for title, rows in found.items():
        lines += ["", f"## {title[0].upper()}{title[1:]}", ""]
        cells = []
        for row in rows:
            if not row["answers"]:
                cells.append([row["knob"], "no picture in view changes", "", "", "", ""])
                continue
            spent = (f"{row[name]:g} ({row[f'worst_{name}']:g})" for name in ("browser", "server", "later"))
            cells.append([row["knob"], f"{row['answer']:.0f}", f"{row['worst_answer']:.0f}", *spent])
        lines.append(table(["knob", "median", "worst", "CPU, browser", "CPU, server", "CPU, later"], cells))
    return "\n".join(lines) + "\n"


def verdict(title: str, rows: list[dict[str, Any]]) -> str:
    """Return a sentence about the goal."""
    answered = [row for row in rows if row["answers"]]
    late = [f"{row['knob']} ({row['answer']:.0f} ms)" for row in answered if row["answer"] > GOAL]
    slowest = max(answered, key=lambda row: row["answer"])
    if not late:
        met = f"every knob is answered within {GOAL} ms; the slowest is {slowest['knob']} ({slowest['answer']:.0f} ms)"
    else:
        met = f"{len(late)} of {len(answered)} knobs miss the goal of {GOAL} ms: {', '.join(late)}"
    return f"{title[0].upper()}{title[1:]}, {met} (medians)."


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run", nargs="?", type=Path, help="folder of a run, whose model is shown besides")
    parser.add_argument("--times", type=int, default=4, help="how often each knob is turned to and fro")
    parser.add_argument("--minutes", type=float, default=4, help="after which fewer times are enough")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "docs" / "results" / "explorer", help="without .md and .json"
    )
    options = parser.parse_args()
    if BROWSERS["chromium"] is None:
        raise SystemExit("No chromium was found; install it or name one in CHROMIUM.")
    warn_when_busy()
    app = build_app(Reader.from_folder(options.run, device="cpu") if options.run else None)
    requests = Requests(app)
    begun, shares = time.monotonic(), 60 * options.minutes / (len(HEIGHTS) * len(KNOBS) * (2 if options.run else 1))
    server = open_server(app, listen("127.0.0.1", 0))
    threading.Thread(target=server.run, daemon=True).start()
    found: dict[str, list[dict[str, Any]]] = {}
    with running("chromium") as browser:
        for name in [EXAMPLE, *([TRAINED] if options.run else [])]:
            for title, height in HEIGHTS.items():
                tab = browser.tab()
                tab.resize(1280, height)
                tab.go(f"http://127.0.0.1:{server.effective_port}/transformer?model={name.replace(' ', '+')}")
                tab.run(READY)
                rows = found.setdefault(f"{name}, {title}", [])
                for knob, other in KNOBS.items():
                    done = sum(map(len, found.values()))
                    until = begun + shares * (done + 1)
                    rows.append(measured(tab, requests, knob, other, options.times, until))
                    print(name, title, rows[-1], flush=True)
                tab.close()
    write_record(options.output.with_suffix(".json"), times=options.times, answers=found)
    options.output.with_suffix(".md").write_text(report(found), encoding="utf-8")


if __name__ == "__main__":
    main()
