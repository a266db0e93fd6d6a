"""Load on `locant serve`, beside LibreTranslate with the same weights and beside `locant translate` without a server.

Usage: python benchmarks/serve/run.py MODEL... [--text FILE] [--seconds 20] [--clients 1,8,64,256]
           [--libretranslate PROGRAM] [--overload 120] [--output docs/results/serving]

For each model and each number of clients, locust asks for one sentence after another: short ones (8 words at most)
and mixed ones, drawn from the text, by default the source side of the test of the model's run. Reported are sentences
a second, latencies by percentile, refusals, failures and memory. The overload test asks for ten times what 64 clients
were answered, and then looks how soon a single request takes its usual time again. All of it stays on the loopback
address and ends by itself: two loads of 20 seconds for each number of clients, for each model and server, and the
overload's time. Nothing else should run meanwhile. Writes OUTPUT.md and OUTPUT.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from servers import Server, libretranslate, locant

from locant.models import load_model_folder
from locant.training import load_run_recipe
from measure import machine, warn_when_busy

HERE = Path(__file__).parent
SHORT = 8
"""Words of the longest short sentence."""
LEAST_OFFLINE = 500
"""Sentences of the shorter text that is translated without a server."""
TIMES = 10
"""The overload, in times of what is answered."""
OVERLOADING = 500
"""Clients of the overload."""
WARM_UP = 3.0
"""Seconds before a load that are not measured."""


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


def percentile(counts: dict[str, int], share: float) -> float:
    """Return a percentile of response times that are counted by their milliseconds."""
    place, seen = share * sum(counts.values()), 0
    for milliseconds, count in sorted((float(key), count) for key, count in counts.items()):
        seen += count
        if seen >= place:
            return milliseconds
    return float("nan")


def load(
    server: Server, texts: Path, pair: tuple[str, str], clients: int, seconds: float, rate: float | None = None
) -> dict[str, Any]:
    """Return what clients were answered in some seconds."""
    command = [sys.executable, "-m", "locust", "--locustfile", str(HERE / "load.py"), "--headless", "--only-summary"]
    command += [
        "--users",
        str(clients),
        "--spawn-rate",
        str(clients),
        "--run-time",
        f"{seconds:g}s",
        "--stop-timeout",
        "150",
    ]
    told = {"LOAD_TEXT": str(texts), "LOAD_SOURCE": pair[0], "LOAD_TARGET": pair[1]}
    if rate is not None:
        told["LOAD_RATE"] = str(rate / clients)
    done = subprocess.run(
        [*command, "--host", server.address, "--json", "--exit-code-on-error", "0"],
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        timeout=seconds + 240,
        check=True,
    )
    entries = {entry["name"]: entry for entry in json.loads(done.stdout)}
    answered, refused = entries.get("answered"), entries.get("refused")
    if answered is None:
        raise SystemExit(f"{server.name} answered nothing:\n{done.stderr[-2000:]}")
    good = answered["num_requests"] - answered["num_failures"]
    first = min(entry["start_time"] for entry in entries.values())
    span = max(entry["last_request_timestamp"] for entry in entries.values()) - first
    return {
        "clients": clients,
        "sentences_per_second": round(good / span, 2),
        **{f"p{share}": percentile(answered["response_times"], share / 100) for share in (50, 95, 99)},
        "longest": round(max(entry["max_response_time"] for entry in entries.values())),
        "answered": good,
        "refused": refused["num_requests"] if refused else 0,
        "failed": answered["num_failures"],
        "megabytes": round(server.megabytes()),
    }


def once(server: Server, sentence: str, pair: tuple[str, str]) -> float:
    """Return the seconds of one request."""
    body = json.dumps({"q": sentence, "source": pair[0], "target": pair[1]}).encode()
    asked = urllib.request.Request(f"{server.address}/translate", body, {"Content-Type": "application/json"})
    start = time.perf_counter()
    with urllib.request.urlopen(asked, timeout=150) as answer:
        answer.read()
    return time.perf_counter() - start


def overload(server: Server, texts: Path, pair: tuple[str, str], capacity: float, seconds: float) -> dict[str, Any]:
    """Return what happens when ten times as much is asked for as can be answered."""
    sentence = texts.read_text(encoding="utf-8").splitlines()[0]
    usual = sorted(once(server, sentence, pair) for _ in range(9))[4]
    load(server, texts, pair, OVERLOADING, min(10.0, seconds), TIMES * capacity)
    before = server.megabytes()
    found = load(server, texts, pair, OVERLOADING, seconds, TIMES * capacity)
    end = time.monotonic()
    while time.monotonic() < end + 60:
        try:
            if once(server, sentence, pair) < 2 * usual + 0.02:
                break
        except OSError:
            time.sleep(0.05)
    return {
        **found,
        "usual_seconds": round(usual, 4),
        "seconds_until_usual": round(time.monotonic() - end, 2),
        "memory_growth": round(server.megabytes() / before - 1, 3),
    }


def offline(model: Path, texts: Path, options: list[str]) -> float:
    """Return the sentences a second of `locant translate`, without the time that it takes to start."""
    lines = texts.read_text(encoding="utf-8").splitlines()
    lines *= -(-LEAST_OFFLINE // len(lines))
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        # The second text is five times as long; the difference is translation alone.
        for times in (1, 5):
            source = Path(folder, f"{times}.txt")
            source.write_text("".join(f"{line}\n" for line in lines * times), encoding="utf-8")
            command = [sys.executable, "-m", "locant", "translate", str(model), "--input", str(source)]
            start = time.perf_counter()
            subprocess.run([*command, "--output", f"{source}.out", *options], check=True, capture_output=True)
            seconds.append(time.perf_counter() - start)
    return round(4 * len(lines) / (seconds[1] - seconds[0]), 2)


def measure(model: Path, options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Return all measurements of a model."""
    found = load_model_folder(model, device="meta")
    # A model within one language is served between two codes all the same: LibreTranslate asks for two.
    source, target = found.source_language or "en", found.target_language or "de"
    pair = (source, target if target != source else ("de" if source != "de" else "en"))
    sentences = sentences_of(model, options.text)
    texts = {}
    for name, chosen in (("short", [s for s in sentences if len(s.split()) <= SHORT]), ("mixed", sentences)):
        texts[name] = work / f"{name}.txt"
        texts[name].write_text("".join(f"{line}\n" for line in chosen[: options.sentences]), encoding="utf-8")
        if not chosen:
            raise SystemExit(f"The text has no sentence of at most {SHORT} words.")
    engine = ["--beam", str(options.beam)]
    result: dict[str, Any] = {"model": model.name, "parameters": sum(p.numel() for p in found.model.parameters())}
    result["offline"] = {name: offline(model, path, engine) for name, path in texts.items()}
    print(model.name, "offline", result["offline"], flush=True)
    servers = [("Locant", lambda: locant(model, *pair, *engine))]
    if options.libretranslate:
        other = work / "libretranslate"
        servers.append(("LibreTranslate", lambda: libretranslate(options.libretranslate, model, *pair, other)))
    for name, start in servers:
        rows = result.setdefault("servers", {}).setdefault(name, {})
        with ExitStack() as stack:
            server = stack.enter_context(start())
            for kind, path in texts.items():
                for clients in options.clients:
                    load(server, path, pair, clients, WARM_UP)
                    row = load(server, path, pair, clients, options.seconds)
                    rows.setdefault(kind, []).append(row)
                    print(model.name, name, kind, row, flush=True)
            if name == "Locant" and options.overload:
                many = min(rows["mixed"], key=lambda row: abs(row["clients"] - 64))
                row = overload(server, texts["mixed"], pair, many["sentences_per_second"], options.overload)
                result["overload"] = row
                print(model.name, name, "overload", row, flush=True)
    return result


def page(results: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """Return the measurements as Markdown."""
    lines = [
        "# Serving under load",
        "",
        f"{machine()}; beam {options.beam}; `make bench-serve`. Server and clients share the machine and the loopback "
        "address. Each client asks for one sentence after another; times are milliseconds, memory is that of all "
        "processes of the server. LibreTranslate has the same weights (`locant export --to argos`), its own beam and "
        "computes in the type that it chooses.",
    ]
    for result in results:
        lines += ["", f"## {result['model']}, {result['parameters']:,} parameters", ""]
        lines += [
            "| server | sentences | clients | sentences/s | of offline | p50 | p95 | p99 | refused | failed | MB |"
        ]
        lines += ["| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
        for server, kinds in result["servers"].items():
            for kind, rows in kinds.items():
                for row in rows:
                    share = row["sentences_per_second"] / result["offline"][kind]
                    cells = (server, kind, row["clients"], row["sentences_per_second"], f"{share:.0%}")
                    rest = (f"{row['p50']:g}", f"{row['p95']:g}", f"{row['p99']:g}")
                    last = (row["refused"], row["failed"], row["megabytes"])
                    lines.append("| " + " | ".join(map(str, (*cells, *rest, *last))) + " |")
        speeds = ", ".join(f"{kind} {speed:g}" for kind, speed in result["offline"].items())
        lines += ["", f"`locant translate`, sentences a second: {speeds}."]
        if over := result.get("overload"):
            lines += [
                "",
                f"Ten times the load for {options.overload:g} seconds: {over['answered']} answered "
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
    parser.add_argument("--seconds", type=float, default=20, help="of each load")
    parser.add_argument("--clients", type=lambda text: [int(one) for one in text.split(",")], default=[1, 8, 64, 256])
    parser.add_argument("--beam", type=int, default=4, help="LibreTranslate's is 4")
    parser.add_argument("--libretranslate", type=Path, metavar="PROGRAM", help="LibreTranslate's program")
    parser.add_argument("--overload", type=float, default=120, metavar="SECONDS", help="0 leaves it out")
    parser.add_argument("--output", type=Path, default=Path("docs/results/serving"), help="without .md and .json")
    options = parser.parse_args()
    warn_when_busy()
    results = []
    for model in options.models:
        with tempfile.TemporaryDirectory(prefix="bench-serve-") as work:
            results.append(measure(model, options, Path(work)))
        options.output.parent.mkdir(parents=True, exist_ok=True)
        about = {"machine": machine(), "beam": options.beam, "seconds": options.seconds, "models": results}
        options.output.with_suffix(".json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        options.output.with_suffix(".md").write_text(page(results, options), encoding="utf-8")


if __name__ == "__main__":
    main()
