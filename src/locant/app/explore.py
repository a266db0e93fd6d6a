"""The explorer: pages that compute their pictures in the browser, and what Locant adds where it serves them.

The pages are in ``app/pages``: plain modules of JavaScript and one style, joined here into one file that opens from a
folder, a site or a server and fetches nothing. :func:`serve` answers what the pages ask beyond their own formulas: the
reading of a sentence by a trained model, schemes without a formula of their own, and the meaning of a ``config.json``.
"""

from __future__ import annotations

import base64
import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from locant.analysis.introspection import introspect
from locant.analysis.properties import Probe
from locant.app.own_requests import own_names, reason_to_refuse
from locant.errors import ConfigError, LocantError, UsageError
from locant.figures.numbers import example_scheme
from locant.figures.palette import PROPERTIES, VARIABLES, head_shades, line_style, scheme_line, styles_of
from locant.figures.trained import readable
from locant.files import write_text
from locant.lab.variants import options_for_lengths
from locant.models.architectures import require_transformer
from locant.models.config import require_served
from locant.models.hub import DEMO
from locant.models.model_folder import ModelFolder, load_model_folder
from locant.models.transformer import Transformer, count_parameters
from locant.parsing import parse_json
from locant.positions import SCHEMES, AttentionShape
from locant.runtime import listen
from locant.text.sentencepiece_model import model_type
from locant.text.tokenizer import BOS, EOS

_MODULES = ("draw", "formulas", "knobs", "transformer", "served", "context", "order", "positions", "translate", "app")
_IN_PAGE = 60  # tokens of a sentence that a page reads
_LARGEST_IN_PAGE = 20_000_000  # parameters of a model that a page holds; each takes 1.4 bytes
_LONGEST_TEXT = 2000
_MOST_TOKENS = 100
_LARGEST_REQUEST = 2**20
_CANDIDATES = 5


def page(extra: Mapping[str, Any] | None = None, model: Mapping[str, Any] | None = None) -> str:
    """Return the pages as one HTML file with its program, its style and a model that it computes.

    Args:
        extra: What a server tells the pages: ``served``, ``schemes`` (titles by name) and ``model`` (an example
            ``text``, a ``hint`` what to try, and a sentence ``about`` the model).
        model: From :func:`page_model`; by default the small model of numbers.
    """
    folder = files("locant.app") / "pages"

    def read(name: str) -> str:
        return (folder / name).read_text("utf-8")

    tokenizer = (files("locant.app") / "web" / "tokenizer.js").read_text("utf-8")
    joined = "\n".join([tokenizer, *(read(f"{name}.js") for name in _MODULES)])
    program = re.sub(r"^export ", "", re.sub(r"^import .*\n", "", joined, flags=re.MULTILINE), flags=re.MULTILINE)
    found = read("index.html")
    style = f":root {{ {PROPERTIES}}}\n{read('style.css')}"
    found = found.replace('<link rel="stylesheet" href="style.css">', f"<style>{style}</style>")
    found = found.replace('<script type="module" src="app.js"></script>', f'<script type="module">{program}</script>')
    for name, data in (("styles", _styles()), ("extra", extra or {}), ("model", model or _demo())):
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        found = found.replace(f'id="{name}">{{}}<', f'id="{name}">{text}<')
    return found


def _styles() -> dict[str, Any]:
    """Return colour and stroke of every scheme and scaling, of other lines by their place, and the colours of heads."""
    dashes = {"-": "none", "--": "7 3", ":": "2 3", "-.": "10 3 2 3"}

    def style(line: Mapping[str, Any]) -> dict[str, str]:
        return {"color": f"var(--{VARIABLES[line['color']]})", "dash": dashes[line["linestyle"]]}

    scalings = ("none", "linear", "ntk", "yarn", "llama3")
    return {
        "lines": [style(line_style(number)) for number in range(7)],
        "schemes": {name: style(line_style(scheme_line(name))) for name in SCHEMES},
        "scalings": dict(zip(scalings, map(style, styles_of(scalings)), strict=True)),
        "heads": head_shades(8),
    }


def save_page(path: Path, model: Path | None = None) -> None:
    """Write the pages as one HTML file.

    Args:
        path: The file.
        model: Folder of a run or of a saved model that the pages compute; by default they have the small one.

    Raises:
        ConfigError: The pages cannot compute this model.
        CheckpointError: The file cannot be written, or the folder holds no trained model.
    """
    write_text(path, page(model=None if model is None else page_model(load_model_folder(model, device="cpu"))))


@lru_cache(maxsize=1)
def _demo() -> dict[str, Any]:
    """Return the small model, which knows the words of numbers."""
    found = page_model(load_model_folder(DEMO, device="cpu"))
    found["config"] |= {"most_tokens": 12, "lowercase": True, "whole_words": True}
    return found | {
        "about": {
            "text": "seven hundred forty two",
            "hint": "Press Play and watch where the model looks for each word; the order turns round at “und”.",
            "about": "A small trained Transformer computes in this page: it reads English numbers from one to 999 and "
            "writes them in German.",
        }
    }


def page_model(found: ModelFolder) -> dict[str, Any]:
    """Return a model as the pages read it: its sizes, tokenizers and weights, in int8, and what is said about it.

    Raises:
        ConfigError: It has more than 20 million parameters, or something that the pages do not compute.
    """
    from safetensors.torch import save

    config, tokenizers = require_transformer(found.model, "A page").config, found.tokenizers
    require_served(config, "A page", "Leave out --save: `locant explore` serves any model.")
    limits: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "position": (config.position, ("sinusoidal", "rotary", "none")),
        "position_options": (config.position_options, ({},)),
        "feed_forward": (config.feed_forward, ("relu",)),
        "languages": (tokenizers.languages and list(tokenizers.languages.ids), (None,)),
        "tokenizer": (model_type(tokenizers.source.model), ("unigram", "bpe")),
    }
    for name, (value, known) in limits.items():
        if value not in known:
            wanted = " or ".join(str(one) for one in known)
            raise ConfigError(
                f"A page computes models with {name} {wanted}, not {value}. Leave out --save: `locant explore` serves "
                "any model."
            )
    if (size := count_parameters(found.model)) > _LARGEST_IN_PAGE:
        raise ConfigError(
            f"The model has {size:,} parameters, and a page holds {_LARGEST_IN_PAGE:,}. Leave out --save: "
            "`locant explore` serves any model."
        )
    tensors: dict[str, Tensor] = {}
    for name, parameter in found.model.named_parameters():  # tied ones once
        tensor = parameter.detach()
        if tensor.dim() == 2:
            scale = (tensor.abs().amax(1) / 127).half().clamp_min(2**-24)
            tensors[f"{name}.scale"] = scale
            tensors[name] = (tensor / scale[:, None].float()).round().clamp(-127, 127).to(torch.int8)
        else:
            tensors[name] = tensor.half()
    names = ("d_model", "heads", "encoder_layers", "decoder_layers", "norm", "position")
    more = {"lowercase": tokenizers.source.lowercase, "source_end": tokenizers.source_end, "most_tokens": _IN_PAGE}

    def text(content: bytes) -> str:
        return base64.b64encode(content).decode("ascii")

    return {
        "config": {name: getattr(config, name) for name in names} | more,
        "source": text(tokenizers.source.model),
        "target": None if tokenizers.joint else text(tokenizers.target.model),
        "weights": text(save(tensors)),
        "about": _about(found),
    }


def _about(found: ModelFolder) -> dict[str, str]:
    """Return an example to type, what to try, and what the model is."""
    config = require_transformer(found.model, "The explorer").config
    examples = {
        None: "Two dogs play in the snow.",
        "en": "Two dogs play in the snow.",
        "de": "Den König liebt der Prophet.",
    }
    return {
        "text": examples.get(found.source_language, ""),
        "hint": "Press Play and watch where the model looks for each word.",
        "about": f"{found.folder.name}: {config.encoder_layers} encoder and {config.decoder_layers} decoder layers, "
        f"{config.d_model} features, {config.heads} heads, {config.positions} positions. It writes the likeliest token "
        "each time, so translations may differ from those of a beam.",
    }


class Reader:
    """A trained model that reads sentences for the pages, one at a time.

    Args:
        found: The model.

    Raises:
        ConfigError: The model is no Transformer.
    """

    def __init__(self, found: ModelFolder) -> None:
        self._tokenizers = found.tokenizers
        model = require_transformer(found.model, "The explorer").eval()
        without = Transformer(model.config.with_positions(position="none"))
        weights = {name: tensor for name, tensor in model.state_dict().items() if name in without.state_dict()}
        without.load_state_dict(weights)
        self._models = {True: model, False: without.to(model.target_embedding.weight).eval()}
        self._lock = Lock()
        self.about = _about(found)

    def read(self, sentence: str, positions: bool, temperature: float, seed: int) -> dict[str, Any]:
        """Return what the pages show of a sentence and its translation.

        Args:
            sentence: The sentence.
            positions: Whether the model is told positions.
            temperature: What scores are divided by before the softmax.
            seed: 0 to write the likeliest token each time, else one is drawn by the seed.

        Raises:
            DataError: The sentence is longer than the model's positions.
            UsageError: It has more than 100 tokens.
        """
        tokenizers, model = self._tokenizers, self._models[positions]
        source = [*tokenizers.source.encode([sentence])[0], *tokenizers.source_end]
        if len(source) > _MOST_TOKENS:
            raise UsageError(f"The sentence has {len(source)} tokens; the pages show at most {_MOST_TOKENS}.")
        with self._lock, torch.inference_mode():
            written, candidates = self._write(model, source, temperature, seed)
            seen = introspect(model, source, written[:-1])
        target = tokenizers.target
        return {
            "source": readable([tokenizers.source.token(index) for index in source]),
            "read": readable([target.token(index) for index in written[:-1]]),
            "written": readable([target.token(index) for index in written[1:]]),
            "translation": target.decode([[index for index in written[1:] if index != EOS]])[0],
            "candidates": candidates,
            "states": [_rounded(state) for state in seen.encoder.layers],
            "encoder": [_rounded(layer) for layer in seen.encoder_attention],
            "decoder": [_rounded(layer) for layer in seen.decoder_attention],
            "cross": [_rounded(layer) for layer in seen.cross_attention],
        }

    def _write(self, model: Any, source: Sequence[int], temperature: float, seed: int) -> tuple[list[int], list[Any]]:
        """Return the tokens from BOS to EOS, and for each of them after BOS the most probable tokens."""
        device, target = model.target_embedding.weight.device, self._tokenizers.target
        generator = torch.Generator().manual_seed(seed)
        lengths = torch.tensor([len(source)], device=device)
        written, candidates = [BOS], []
        while len(written) < min(_MOST_TOKENS, 2 * len(source) + 10) and (len(written) == 1 or written[-1] != EOS):
            read = torch.tensor([written], device=device)
            scores = model(torch.tensor([list(source)], device=device), lengths, read)[0, -1].float().cpu()
            shares = (scores / temperature).softmax(-1)
            best = shares.topk(_CANDIDATES)
            names = readable([target.token(index) for index in best.indices.tolist()])
            shown = zip(names, best.values.tolist(), strict=True)
            candidates.append([{"token": name, "share": share} for name, share in shown])
            drawn = torch.multinomial(shares, 1, generator=generator) if seed else best.indices[:1]
            written.append(int(drawn))
        return written, candidates


def _rounded(values: Tensor) -> Any:
    return (values.double() * 1e4).round().div(1e4).tolist()


def _scheme(scheme: Any, width: Any, length: Any) -> dict[str, Any]:
    """Return by how much a scheme changes the scores of one content at every pair of positions, 0 after the query."""
    if scheme not in SCHEMES:
        raise UsageError(f"The scheme {str(scheme)[:40]!r} is unknown.")
    if not (isinstance(width, int) and isinstance(length, int) and 2 <= width <= 512 and 2 <= length <= 512):
        raise UsageError("Width and length must be whole numbers from 2 to 512.")
    # What acts on queries, keys or scores is made for shorter texts, so that what it does beyond them is seen.
    trained = length if "embedding" in example_scheme(scheme).acts_on else max(2, length // 4)
    options = options_for_lengths(SCHEMES[scheme], trained=trained, longest=length)
    positions = torch.arange(length)
    probe = Probe(scheme, AttentionShape(width, 1, causal=True), options)
    return {"changes": _rounded(probe.scores(positions, positions)[0].tril())}


def _inspect(config: Any) -> dict[str, Any]:
    """Return what a config.json means and what is wrong with it, in the words of ``locant inspect``."""
    from locant.extension import inspect_model

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(str(config), encoding="utf-8", errors="surrogatepass")
        try:
            found = inspect_model(path, ask_class=False)  # anybody's text: nothing is built from it
        except UsageError as error:
            raise UsageError(str(error).replace(str(path), "The pasted text")) from None
    configs = {} if found.parsed is None else found.parsed.configs
    said = [f"{layer} layers\n{rotary.describe()}\n{rotary.explain()}" for layer, rotary in configs.items()]
    said += [f"{finding.severity} [{finding.code}]: {finding.message} {finding.remedy}" for finding in found.findings]
    return {"text": "\n\n".join(said if found.findings else [*said, "Nothing was found wrong."])}


class _Handler(BaseHTTPRequestHandler):
    """Answers the pages, and them alone."""

    protocol_version = "HTTP/1.1"
    timeout = 30

    def __init__(
        self, *arguments: Any, html: bytes, answers: Mapping[str, Callable[..., Any]], names: frozenset[str]
    ) -> None:
        self._html, self._answers, self._names = html, answers, names
        super().__init__(*arguments)

    def do_GET(self) -> None:
        if reason := self._refused():
            self._say(403, {"error": reason})
        elif self.path.split("?")[0] in ("/", "/index.html"):
            self._send(200, "text/html; charset=utf-8", self._html)
        else:
            self._say(404, {"error": "There is no such page."})

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > _LARGEST_REQUEST:
            self.close_connection = True
            self._say(413, {"error": f"A question may have at most {_LARGEST_REQUEST:,} bytes."})
            return
        content = self.rfile.read(int(size))
        answer = self._answers.get(self.path.strip("/"))
        if reason := self._refused():
            self._say(403, {"error": reason})
        elif answer is None:
            self._say(404, {"error": "There is no such page."})
        else:
            try:
                self._say(200, answer(**parse_json(content)))
            except LocantError as error:
                self._say(400, {"error": str(error)})
            except (TypeError, ValueError, RecursionError):
                self._say(400, {"error": "The question is none that the pages ask."})

    def _refused(self) -> str:
        return reason_to_refuse(self.headers.get("Host", ""), self.headers.get("Origin"), self._names)

    def _say(self, status: int, data: Any) -> None:
        self._send(status, "application/json", json.dumps(data).encode())

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", "default-src 'self' 'unsafe-inline' data:; frame-ancestors 'none'")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing: the one who asks is the one who reads."""


def open_server(
    folder: Path | None = None, *, host: str = "127.0.0.1", port: int = 8050, device: str = "auto"
) -> ThreadingHTTPServer:
    """Return a server of the pages; its ``serve_forever()`` answers, ``server_port`` is its port.

    Args:
        folder: Of a run or of a saved model that the pages show; without one they show the small model.
        host: Address of this machine to listen at.
        port: Port to listen at; 0 for any that is free.
        device: Of the model: auto, cpu or cuda.

    Raises:
        UsageError: The port is none, or in use.
        LocantError: Nothing can listen at this address, or the folder holds no trained model.
    """
    listener = listen(host, port)
    server = ThreadingHTTPServer(listener.getsockname(), BaseHTTPRequestHandler, bind_and_activate=False)
    server.socket.close()
    server.socket, server.server_port = listener, listener.getsockname()[1]
    server.daemon_threads = True
    try:
        reader = None if folder is None else Reader(load_model_folder(folder, device=device))
    except BaseException:
        server.server_close()
        raise
    titles = {name: scheme.title for name, scheme in SCHEMES.items()}
    extra = {"served": True, "schemes": titles, "model": reader and reader.about}
    answers: dict[str, Callable[..., Any]] = {"scheme": _scheme, "inspect": _inspect}
    if reader is not None:
        answers["read"] = partial(_read, reader)
    html = page(extra).encode()
    server.RequestHandlerClass = partial(_Handler, html=html, answers=answers, names=own_names(host))
    return server


def _read(reader: Reader, sentence: Any, positions: Any, temperature: Any, seed: Any) -> dict[str, Any]:
    """Return what a model makes of what a page sent."""
    if not isinstance(sentence, str) or not sentence.strip() or len(sentence) > _LONGEST_TEXT:
        raise UsageError(f"A sentence has 1 to {_LONGEST_TEXT:,} characters.")
    if not 0.05 <= float(temperature) <= 20:
        raise UsageError(f"A temperature is between 0.05 and 20; got {temperature}.")
    return reader.read(sentence, bool(positions), float(temperature), int(seed) % 2**63)
