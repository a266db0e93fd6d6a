"""Load on `locant serve`, beside LibreTranslate with the same weights and beside a translator without a server.

Usage: python benchmarks/serve/run.py MODEL... [--text FILE] [--seconds 20] [--clients 1,8,64,256]
           [--libretranslate PROGRAM] [--overload 120] [--output docs/results/serving]

For each model and each number of clients, wrk asks for one sentence after another: short ones (12 words at most)
and mixed ones, drawn from the text, by default the source side of the test of the model's run. Reported are sentences
a second, latencies by percentile, refusals, failures, memory and processor time. The overload asks for ten times what
64 clients were answered, and then looks how soon a single request takes its usual time again; the first model has it.
All of it stays on the loopback address and ends by itself; where a server or a load fails, the rest is measured.
Nothing else should run meanwhile. Writes OUTPUT.md and OUTPUT.json after each server.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from servers import Server, libretranslate, locant

from locant.errors import LocantError
from locant.models import load_model_folder
from locant.training import load_run_recipe
from locant.translation import load_translator
from measure import machine, table, warn_when_busy, write_record

HERE = Path(__file__).parent
SHORT = 12
"""Words of the longest short sentence."""
COMPARED = 64
"""Clients whose load is followed by the translation without a server, and decides how much the overload asks for."""
TIMES = 10
"""The overload, in times of what is answered."""
OVERLOADING, WAITING = 900, 384
"""Clients of the overload, fewer than a process takes connections; and how many of one address may wait at a time, of
512 requests in all: those ask for nothing meanwhile, and the others make up for it."""
WARM_UP = 3.0
"""Seconds of another load before one that is measured."""
TIMEOUT = 150
"""Seconds after which an answer counts as failed."""
COLUMNS = (
    *("server", "sentences", "clients", "sentences/s", "of offline", "by CPU", "p50", "p95", "p99"),
    *("refused", "failed", "MB", "CPU ms"),
)


def sentences_of(model: Path, text: Path | None) -> list[str]:
    """Return the lines of a text, or the sources of the test of a model's run."""
    if text is not None:
        lines = text.read_text(encoding="utf-8").splitlines()
    else:
        corpus = load_run_recipe(model).open_corpus()
        lines = [source for source, _ in corpus.test or []]
    found = [line for line in lines if line.strip()]
    if not found:
        raise SystemExit(f"There is no text for {model}; name one with --text.")
    return found


def bodies_of(text: Path, pair: tuple[str, str]) -> Path:
    """Write the bodies of requests for the lines of a text, one a line, and return where."""
    fields = {"source": pair[0], "target": pair[1]}
    lines = [json.dumps({**fields, "q": line}) for line in text.read_text(encoding="utf-8").splitlines()]
    written = text.with_suffix(".bodies")
    written.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return written


def clients(server: Server, bodies: Path, count: int, seconds: float, pause: float | None = None) -> dict[str, float]:
    """Return what clients noted in some seconds.

    Args:
        server: Whom they ask.
        bodies: What they ask for.
        count: How many there are.
        seconds: For how long they ask.
        pause: Seconds between an answer and the next request, on the average.
    """
    command = ["wrk", "--threads", "1", "--connections", str(count), "--duration", f"{max(1, round(seconds))}s"]
    command += ["--timeout", f"{TIMEOUT}s", "--script", str(HERE / "load.lua"), server.address]
    with tempfile.NamedTemporaryFile(suffix=".json") as output:
        variables = {"LOAD_BODIES": str(bodies), "LOAD_OUTPUT": output.name}
        if pause is not None:
            variables["LOAD_PAUSE"] = f"{1000 * pause:f}"
        done = subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=seconds + TIMEOUT + 60
        )
        noted = Path(output.name).read_text(encoding="utf-8")
    if not noted:
        raise SystemExit(f"The load did not begin:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(noted)
    return found


def load(
    server: Server, bodies: Path, count: int, seconds: float, pause: float | None = None, warm_up: float = WARM_UP
) -> dict[str, Any]:
    """Return what clients were answered in some seconds, after a warm-up of others; see :func:`clients`."""
    if warm_up:
        clients(server, bodies, count, warm_up, pause)
    before = server.processor_seconds()
    found = clients(server, bodies, count, seconds, pause)
    spent = server.processor_seconds() - before
    if not found["answered"]:
        raise SystemExit(f"{count} clients were not answered anything in {seconds:g} s.")
    every = found["answered"] + found["refused"] + found["failed"]
    return {
        "clients": count,
        "sentences_per_second": round(found["answered"] / found["seconds"], 2),
        **{name: round(found[name], 1) for name in ("p50", "p95", "p99", "longest")},
        **{name: found[name] for name in ("answered", "refused", "failed")},
        "megabytes": round(server.megabytes()),
        "server_processor_milliseconds": round(1000 * spent / every, 2),
    }


def once(server: Server, sentence: str, pair: tuple[str, str]) -> float:
    """Return the seconds of one request."""
    body = json.dumps({"q": sentence, "source": pair[0], "target": pair[1]}).encode()
    asked = urllib.request.Request(f"{server.address}/translate", body, {"Content-Type": "application/json"})
    start = time.perf_counter()
    with urllib.request.urlopen(asked, timeout=150) as answer:
        answer.read()
    return time.perf_counter() - start


class Probe:
    """A client that asks for one sentence again and again, and notes when and how long each took."""

    def __init__(self, ask: Callable[[], float]) -> None:
        self._ask, self._stop = ask, threading.Event()
        self.noted: list[tuple[float, float]] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            begun = time.time()
            with suppress(OSError):  # refused
                self.noted.append((begun, self._ask()))

    def __enter__(self) -> Probe:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


def overload(server: Server, text: Path, pair: tuple[str, str], capacity: float, seconds: float) -> dict[str, Any]:
    """Return what happens when ten times as much is asked for as can be answered."""
    sentence = text.read_text(encoding="utf-8").splitlines()[0]
    bodies, pause = bodies_of(text, pair), (OVERLOADING - WAITING) / (TIMES * capacity)
    usual = sorted(once(server, sentence, pair) for _ in range(9))[4]
    load(server, bodies, OVERLOADING, min(10.0, seconds), pause)
    before = server.megabytes()
    with Probe(lambda: once(server, sentence, pair)) as probe:
        found = load(server, bodies, OVERLOADING, seconds, pause, warm_up=0)
        end = time.time()
        time.sleep(5)
    quick = [begun - end for begun, took in probe.noted if begun >= end and took < 2 * usual + 0.02]
    return {
        **found,
        "asked_per_second": round((found["answered"] + found["refused"] + found["failed"]) / seconds, 1),
        "usual_seconds": round(usual, 4),
        "seconds_until_usual": round(min(quick, default=float("inf")), 2),
        "memory_growth": round(server.megabytes() / before - 1, 3),
    }


def offline(model: Path, text: Path, beam: int, seconds: float) -> dict[str, float]:
    """Return the speed of a translator without a server, and the processor time of a sentence."""
    lines = text.read_text(encoding="utf-8").splitlines()
    translator, _ = load_translator(model, engine="auto", device="cpu")
    translator.translate(lines[:8], beam=beam)
    begun, spent, count = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - begun < seconds:
        translator.translate(lines, beam=beam)
        count += len(lines)
    return {
        "sentences_per_second": round(count / (time.perf_counter() - begun), 2),
        "processor_milliseconds": round(1000 * (time.process_time() - spent) / count, 2),
    }


def texts_of(sentences: list[str], work: Path, count: int) -> dict[str, Path]:
    """Write short and mixed sentences into files."""
    texts = {}
    for name, chosen in (("short", [s for s in sentences if len(s.split()) <= SHORT]), ("mixed", sentences)):
        if not chosen:
            raise SystemExit(f"The text has no sentence of at most {SHORT} words.")
        texts[name] = work / f"{name}.txt"
        texts[name].write_text("".join(f"{line}\n" for line in chosen[:count]), encoding="utf-8")
    return texts


def measure(
    model: Path, sentences: list[str], options: argparse.Namespace, work: Path, *, first: bool
) -> Iterator[dict[str, Any]]:
    """Yield the measurements of a model, more of them each time.

    Args:
        model: Its folder.
        sentences: What it translates.
        options: Of the command.
        work: A folder for files.
        first: Whether it has the overload.
    """
    found = load_model_folder(model, device="meta")
    # A model within one language is served between two codes all the same: LibreTranslate asks for two.
    source, target = found.source_language or "en", found.target_language or "de"
    pair = (source, target if target != source else ("de" if source != "de" else "en"))
    texts = texts_of(sentences, work, options.sentences)
    engine = ["--beam", str(options.beam)]
    result: dict[str, Any] = {"model": model.name, "parameters": sum(p.numel() for p in found.model.parameters())}
    result["offline"] = {}
    compared = min(options.clients, key=lambda count: abs(count - COMPARED))
    servers = [("Locant", lambda: locant(model, *pair, *engine))]
    if options.libretranslate:
        other = work / "libretranslate"
        servers.append(("LibreTranslate", lambda: libretranslate(options.libretranslate, model, *pair, other)))
    for name, start in servers:
        rows = result.setdefault("servers", {}).setdefault(name, {})
        try:
            with start() as server:
                for kind, path in texts.items():
                    bodies = bodies_of(path, pair)
                    for count in options.clients:
                        row = load(server, bodies, count, options.seconds)
                        rows.setdefault(kind, []).append(row)
                        print(model.name, name, kind, row, flush=True)
                        if name == "Locant" and count == compared:
                            result["offline"][kind] = offline(model, path, options.beam, options.seconds)
                            print(model.name, "offline", kind, result["offline"][kind], flush=True)
                if name == "Locant" and first and options.overload > 0:
                    many = next(row for row in rows["mixed"] if row["clients"] == compared)
                    row = overload(server, texts["mixed"], pair, many["sentences_per_second"], options.overload)
                    result["overload"] = row
                    print(model.name, name, "overload", row, flush=True)
        except (SystemExit, OSError, LocantError, subprocess.SubprocessError) as error:
            why = f"{name} could not be measured to the end. {str(error).splitlines()[0]}"
            result.setdefault("missing", []).append(why)
            print(model.name, name, error, file=sys.stderr, flush=True)
        yield result


def shares_of(row: dict[str, Any], offline: dict[str, float]) -> tuple[str, ...]:
    """Return a load's shares of the offline speed and, by sentence, of its processor time."""
    speed = row["sentences_per_second"] / offline["sentences_per_second"]
    processor = offline["processor_milliseconds"] / row["server_processor_milliseconds"]
    return f"{speed:.0%}", f"{processor:.0%}"


def page(results: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """Return the measurements as Markdown."""
    lines = [
        "# Serving under load",
        "",
        f"{machine()}; beam {options.beam}; `make bench-serve`. Server and clients share the machine and the loopback "
        "address. Each client asks for one sentence after another; times are milliseconds, as wrk writes them down: a "
        "request that takes more than twice as long as others counts for those that its client could have made "
        "meanwhile, too. Memory is that of all processes of the server, CPU the processor time of a request. By CPU is "
        "the processor time of a sentence offline as a share of the server's, which other work on the machine changes "
        f"less. Short sentences have {SHORT} words at most. LibreTranslate has the same "
        "weights (`locant export --to argos`), its own beam and computes in the type that it chooses; it cuts texts "
        "into sentences by rules of spaCy, because the models that it would fetch for it are not there.",
    ]
    for result in results:
        lines += ["", f"## {result['model']}, {result['parameters']:,} parameters", ""]
        cells = []
        for server, kinds in result["servers"].items():
            for kind, rows in kinds.items():
                for row in rows:
                    shares = shares_of(row, result["offline"][kind]) if kind in result["offline"] else ("",) * 2
                    times = (f"{row[name]:g}" for name in ("p50", "p95", "p99"))
                    speed = (server, kind, row["clients"], row["sentences_per_second"])
                    failures = (row["refused"], row["failed"], row["megabytes"])
                    cells.append([*speed, *shares, *times, *failures, row["server_processor_milliseconds"]])
        lines.append(table(COLUMNS, cells))
        speeds = "; ".join(
            f"{kind} {found['sentences_per_second']:g} sentences a second, {found['processor_milliseconds']:g} ms"
            for kind, found in result["offline"].items()
        )
        lines += ["", f"Without a server, speed and processor time of a sentence: {speeds}."]
        for why in result.get("missing", []):
            lines += ["", why]
        if over := result.get("overload"):
            lines += [
                "",
                f"{OVERLOADING} clients that ask for ten times as much as 64 were answered, for {options.overload:g} "
                f"seconds ({over['asked_per_second']:g} requests a second came): {over['answered']} answered "
                f"({over['sentences_per_second']:g} a second), {over['refused']} refused, {over['failed']} failed, the "
                f"longest after {over['longest'] / 1000:.1f} s; memory {over['memory_growth']:+.1%}; a single request "
                f"took its usual time again {over['seconds_until_usual']:g} s after the end.",
            ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="run or model folder")
    parser.add_argument("--text", type=Path, help="sentences, one a line; by default the test of each model's run")
    parser.add_argument("--sentences", type=int, default=500, help="how many of them")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each load")
    parser.add_argument("--clients", type=lambda text: [int(one) for one in text.split(",")], default=[1, 8, 64, 256])
    parser.add_argument("--beam", type=int, default=4, help="LibreTranslate's is 4")
    parser.add_argument("--libretranslate", type=Path, metavar="PROGRAM", help="LibreTranslate's program")
    parser.add_argument("--overload", type=float, default=120.0, metavar="SECONDS", help="0 leaves it out")
    parser.add_argument("--output", type=Path, default=Path("docs/results/serving"), help="without .md and .json")
    options = parser.parse_args()
    if not shutil.which("wrk"):
        raise SystemExit("The clients are those of wrk, which is not installed; Debian's package is wrk.")
    if options.libretranslate and not options.libretranslate.exists():
        print(f"{options.libretranslate} is not there: LibreTranslate is left out.", file=sys.stderr)
        options.libretranslate = None
    warn_when_busy()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="bench-serve-") as place:
        work = Path(place)
        for model in options.models:
            sentences = sentences_of(model, options.text)
            own = work / str(len(results))
            own.mkdir()
            done = list(results)
            for result in measure(model, sentences, options, own, first=not done):
                results = [*done, result]
                record = options.output.with_suffix(".json")
                write_record(record, beam=options.beam, seconds=options.seconds, models=results)
                options.output.with_suffix(".md").write_text(page(results, options), encoding="utf-8")


if __name__ == "__main__":
    main()
