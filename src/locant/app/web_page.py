"""A model as a page that translates in a browser: without a server, and without a network once it is loaded.

::

    index.html            the page with its program; opens as a file, or from any web server
    model-*.js            tokenizers and weights in int8: parts that are safetensors files, in base64, as scripts,
                          because a page that was opened as a file can read nothing else
    sw.js                 keeps all of it in the browser's cache, where the page came from a web server
    manifest.webmanifest  lets browsers install the page as an application; with icon.svg
    README.md             the model card

The engine is ``kernels/web/engine.cpp``. Matrices are quantised here as the engine of the command line does when it
loads a model with the compute type ``int8``, so that both multiply the same numbers.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.files import replacing_folder, require_new_folder, write_json, write_text
from locant.kernels.web_engine import engine_modules
from locant.models.architectures import require_transformer
from locant.models.model_card import CARD, model_card, model_facts
from locant.models.model_folder import ModelFolder, load_model_folder
from locant.text.sentencepiece_model import model_type
from locant.text.tokenizer import BOS, Tokenizer
from locant.translation.kernel_weights import KernelWeights, kernel_weights
from locant.version import __version__

_PART = 16 * 2**20
"""Bytes of a part of the model, unless a single tensor is larger."""

_MOST_INPUTS = 1 << 16
"""Of a matrix: sums of more products of int8 would not fit 32 bits."""

_LARGEST = 2**30
"""Bytes of a model: a page may have a few gigabytes in all."""

_WORKER = ("tokenizer.js", "sentences.js", "search.js", "engine.js", "worker.js")

_POLICY = (
    "default-src 'none'; script-src '{script}' 'strict-dynamic' 'wasm-unsafe-eval'; style-src '{style}'; "
    "worker-src 'self' blob:; manifest-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'"
)
"""The page runs its own program alone, and what that loads; nothing can be sent anywhere."""

_USE = """python -m http.server --directory FOLDER"""

_INSTEAD = "Serve it with locant serve."
"""What becomes of a model that has no page."""

_ICON = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" rx="12" \
fill="#0b5cad"/><path d="M16 20h32M16 32h20M16 44h32M42 26l8 6-8 6" fill="none" stroke="#fff" stroke-width="5" \
stroke-linecap="round" stroke-linejoin="round"/></svg>
"""


def export_web(run: Path | str, folder: Path | str) -> list[str]:
    """Write a model folder as a page that translates in a browser.

    Its translations are those of ``locant translate --engine compiled --compute-type int8``: the same numbers are
    computed in the same order.

    Args:
        run: A Locant model folder or finished run.
        folder: Where to write; must not exist, or be empty.

    Returns:
        Sentences about what a user should know.

    Raises:
        ConfigError: The engine cannot run the model, the tokenizer is none that the page knows, or the engine for
            browsers was not built and cannot be.
        CheckpointError: The run cannot be read, or the folder is taken or cannot be written.
    """
    run, folder = Path(run), Path(folder)
    require_new_folder(folder)
    found = load_model_folder(run, device="cpu")
    model = require_transformer(found.model, "Export to a page")
    weights = kernel_weights(model, "The engine for browsers", _INSTEAD)
    for tokenizer in {id(side): side for side in (found.tokenizers.source, found.tokenizers.target)}.values():
        _require_known(tokenizer)
    engines = engine_modules()
    tensors, shared = _tensors(found, weights)
    size = sum(tensor.nbytes for tensor in tensors.values())
    if size > _LARGEST:
        raise ConfigError(
            f"The model takes {_megabytes(size)}, and a page should have {_megabytes(_LARGEST)} at most. {_INSTEAD}"
        )
    card = model_card(found.folder, _USE)
    with replacing_folder(folder) as temporary:
        files = _write_parts(temporary, tensors)
        about = _about(found, weights, shared, files, engines)
        about["size"] = _megabytes(size + sum(map(len, engines)))
        page = _page(about, engines, card, model_facts(found.folder))
        write_text(temporary / "index.html", page)
        write_text(temporary / "icon.svg", _ICON)
        write_json(temporary / "manifest.webmanifest", _manifest(found))
        kept = ["./", "index.html", "icon.svg", "manifest.webmanifest", *files]
        version = hashlib.sha256(page.encode()).hexdigest()[:16]
        program = _asset("sw.js").replace("{{version}}", version).replace("{{files}}", json.dumps(kept))
        write_text(temporary / "sw.js", program)
        write_text(temporary / CARD, card)
    notes = [
        f"Open {folder / 'index.html'} in a browser, or put the folder on any web server; it needs no other program.",
        f"The model takes {about['size']}.",
    ]
    if found.decoding.sampling:
        notes.append("The model's settings ask for sampling; the page searches with a beam.")
    return notes


def _require_known(tokenizer: Tokenizer) -> None:
    """Raise ConfigError unless a tokenizer has a vocabulary that the page's own tokenizer cuts text into."""
    kind = model_type(tokenizer.model)
    if kind not in ("unigram", "bpe"):
        raise ConfigError(
            f"The tokenizer is a SentencePiece model of the type {kind}, and the page knows unigram and bpe. {_INSTEAD}"
        )


def _tensors(found: ModelFolder, weights: KernelWeights) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return what the page loads, by name, and the names of tensors that are those of other names."""
    tensors: dict[str, Tensor] = {}
    shared: dict[str, str] = {}
    tokenizers = found.tokenizers
    for side, tokenizer in {"source": tokenizers.source, "target": tokenizers.target}.items():
        if side == "source" or not tokenizers.joint:
            tensors[f"tokenizer.{side}"] = torch.from_numpy(np.frombuffer(tokenizer.model, np.uint8).copy())
    for number, matrix in enumerate(weights.matrices):
        name = f"matrix.{number}"
        tensors[f"{name}.weight"], tensors[f"{name}.scale"] = quantize(matrix)
        bias = weights.biases[number] if number < len(weights.biases) else None
        if bias is not None:
            tensors[f"{name}.bias"] = bias
    for number in range(len(weights.norms) // 2):
        tensors[f"norm.{number}.weight"], tensors[f"norm.{number}.bias"] = weights.norms[2 * number : 2 * number + 2]
    tensors["source.embedding"] = weights.embeddings[0]
    if weights.embeddings[1] is weights.embeddings[0]:
        shared["target.embedding"] = "source.embedding"
    else:
        tensors["target.embedding"] = weights.embeddings[1]
    longest = found.decoding.longest_sequence(tokenizers.languages)
    for side, positions in zip(("source", "target"), weights.positions, strict=True):
        if positions is None:
            continue
        table = positions.table(min(longest, positions.most or longest))
        first = tensors.get("source.positions")
        if first is not None and torch.equal(first, table):
            shared[f"{side}.positions"] = "source.positions"
        else:
            tensors[f"{side}.positions"] = table
    return tensors, shared


def quantize(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return a matrix in int8 as ``matrix_products.h`` quantises it.

    Args:
        matrix: ``[outputs, inputs]``, float32.

    Returns:
        Weights int8 ``[outputs, inputs]``, and scales float32 ``[outputs]``: ``weight * scale`` is about the matrix.

    Raises:
        ConfigError: It has too many inputs, or a weight is not a finite number.
    """
    if matrix.shape[1] > _MOST_INPUTS:
        raise ConfigError(f"Sums of int8 hold at most {_MOST_INPUTS} inputs, not {matrix.shape[1]}.")
    if not bool(matrix.isfinite().all()):
        raise ConfigError("The model has weights that are not finite numbers, so it cannot translate.")
    largest = matrix.abs().amax(1)
    # PyTorch divides a number by a tensor with two roundings, a tensor by a tensor with one.
    reach = torch.where(largest > 0, torch.full_like(largest, 127.0) / largest, 0.0)
    return (matrix * reach[:, None]).round().to(torch.int8), largest / 127.0


def _write_parts(folder: Path, tensors: Mapping[str, Tensor]) -> list[str]:
    """Write the parts of the model, and return their names."""
    from safetensors.torch import save

    files = []
    for number, part in enumerate(_parts(tensors), start=1):
        content = save({name: tensor.contiguous() for name, tensor in part.items()})
        name = f"model-{number}-{hashlib.sha256(content).hexdigest()[:12]}.js"
        (folder / name).write_bytes(b'locantPart("' + base64.b64encode(content) + b'");\n')
        files.append(name)
    return files


def _parts(tensors: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """Yield the tensors in parts; those of a matrix stay together."""
    part: dict[str, Tensor] = {}
    size = 0
    for name, tensor in tensors.items():
        begins = not name.endswith((".scale", ".bias"))
        if part and begins and size + tensor.nbytes > _PART:
            yield part
            part, size = {}, 0
        part[name] = tensor
        size += tensor.nbytes
    yield part


def _about(
    found: ModelFolder, weights: KernelWeights, shared: dict[str, str], files: list[str], engines: list[bytes]
) -> dict[str, Any]:
    """Return what the page knows; ``model`` is what the thread that translates is told."""
    tokenizers, decoding = found.tokenizers, found.decoding
    languages = tokenizers.languages
    before, after = languages.places if languages else ((), ())
    lengths = ("max_length_ratio", "max_length_extra", "max_source_length", "usual_source_length")
    kept = ("beam", "length_penalty", *lengths)
    return {
        "version": hashlib.sha256(b"".join(engines) + "".join(files).encode()).hexdigest()[:16],
        "locant_version": __version__,
        "source_language": found.source_language,
        "target_language": found.target_language,
        "files": files,
        "model": {
            "shape": weights.shape,
            "shared": shared,
            "parts": len(files),
            "lowercase": tokenizers.source.lowercase,
            "source_end": tokenizers.source_end,
            "start": languages.decoder_start if languages else BOS,
            "languages": languages and {"ids": languages.ids, "before": before, "after": after},
            "max_positions": found.model.max_positions,
            "decoding": {name: getattr(decoding, name) for name in kept},
        },
    }


def _page(about: dict[str, Any], engines: list[bytes], card: str, facts: Mapping[str, str]) -> str:
    """Return the page of the server (``server/page``) with another back end, everything in one file."""

    def shared(name: str) -> str:
        return resources.files("locant.server").joinpath("page", name).read_text("utf-8")

    style, script = shared("style.css"), _asset("browser.js") + shared("page.js").replace('"use strict";\n', "", 1)
    shown = {**facts, "size": about["size"], "engine": f"Locant {__version__}, int8"}
    rows = "".join(
        f"<tr><th scope=row>{html.escape(key)}</th><td>{html.escape(value)}</td></tr>" for key, value in shown.items()
    )
    text = html.escape(re.sub(r"\A---\n.*?\n---\n+", "", card, flags=re.DOTALL))
    data = {
        # Nothing in a block of data may end it.
        "about": ("application/json", json.dumps(about, ensure_ascii=False).replace("<", "\\u003c")),
        "engines": ("text/plain", "\n".join(base64.b64encode(engine).decode() for engine in engines)),
        "worker": ("text/plain", '"use strict";\n' + "".join(_asset(name) for name in _WORKER)),
    }
    blocks = "".join(
        f'<script type="{kind}" id="{name}">{content}</script>\n' for name, (kind, content) in data.items()
    )
    policy = _POLICY.format(script=_source(script), style=_source(style))
    page = shared("index.html")
    for old, new in {
        '<meta charset="utf-8">': '<meta charset="utf-8">\n  <meta http-equiv="Content-Security-Policy" content='
        f'"{policy}">\n  <meta name="referrer" content="no-referrer">',
        '<link rel="icon" href="data:,">': '<link rel="icon" href="icon.svg" type="image/svg+xml">\n'
        '  <link rel="manifest" href="manifest.webmanifest">',
        '<link rel="stylesheet" href="page/style.css">': f"<style>{style}</style>",
        '<script src="page/server.js" defer></script>\n  <script src="page/page.js" defer></script>\n': "",
        "<p>by a Locant server</p>": "<p>in this browser, without a network</p>",
        '<a href="docs">API</a>': '<a href="#model">About the model</a>',
        "Texts are not stored.": "What you write stays on this device.",
        "</main>": '<section id="model" aria-label="About the model"><h2>About the model</h2>'
        f"<table><tbody>{rows}</tbody></table><details><summary>Model card</summary><pre>{text}</pre></details>"
        f"</section>\n  </main>\n{blocks}<script>{script}</script>",
    }.items():
        before, found, after = page.partition(old)
        assert found, old
        page = before + new + after
    return page


def _source(text: str) -> str:
    """Return what a content security policy calls a script or style of the page itself."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _manifest(found: ModelFolder) -> dict[str, Any]:
    pair = "" if found.tokenizers.languages else f" {found.source_language or '?'} to {found.target_language or '?'}"
    return {
        "name": f"Translate{pair}",
        "short_name": f"Translate{pair}",
        "start_url": "./",
        "display": "standalone",
        "background_color": "#f4f4f1",
        "theme_color": "#0b5cad",
        "icons": [{"src": "icon.svg", "sizes": "any", "type": "image/svg+xml"}],
    }


def _asset(name: str) -> str:
    return resources.files("locant.app").joinpath("web", name).read_text("utf-8")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
