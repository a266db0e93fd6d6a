"""Entries about windows that change what the classes of transformers compute, written to ``windows.json``.

Run this file after transformers was updated: ``.venv/bin/python tests/support/zoo/class_windows.py``. Small models
read a text with one value of each entry and with another; names after the command show what came out for these alone.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

import locant
from locant.extension.inspect.model_class.inputs import text_inputs
from locant.extension.inspect.model_class.small_model import HEADS, model_class, quiet, reduced_entries
from locant.rotary_configs.classes.windows import WINDOW_SIZES
from zoo.architectures import Architecture, architecture, architectures, config_with_model
from zoo.cases import SWITCHED_ON, usual_entries

PATH = Path(locant.__file__).parent / "rotary_configs" / "classes" / "windows.json"

_LAYERS = 4
_TOKENS = 24
_VOCABULARY = 40
_LARGEST = 1 << 26  # numbers of a small model
_SIZES = (4, 8)  # windows; some classes want even ones
_KEPT = 16  # tokens that a cache holds before the last ones come
_TYPES = ("sliding_attention", "chunked_attention", "full_attention")
_QUOTED_TYPE = re.compile(r"""(?<=["'])(?:\w+_)?(?:sliding|chunked|local)(?:_attention)?(?=["'])""")
_SWITCH, _FIRST_LAYERS = "use_sliding_window", "max_window_layers"
_CACHED = "sliding_window"
_OF_MASKS = {"sliding_window": "sliding", "attention_chunk_size": "chunked"}
"""What code speaks of that makes its masks, or its cache, by entries which the functions for that read."""


def window_facts(found: Architecture) -> dict[str, Any] | None:
    """Return which entries about windows change what a class computes; ``None`` where no text makes it compute.

    ``sizes`` are the entries whose numbers count, ``switch`` and ``first_layers`` are there where
    ``use_sliding_window`` and ``max_window_layers`` count, ``needed`` where it fails with null for ``sliding_window``
    though no layer is a sliding one, and ``in_cache`` where ``sliding_window`` changes nothing in
    a text that is read at once, and does where a cache holds its beginning.

    Args:
        found: The class.
    """
    base = next((each for each in _bases(found) if _computed(found, each) is not None), None)
    if base is None:
        return None
    code = _code_of(found)
    named = [name for name in WINDOW_SIZES if re.search(rf"\b{name}\b|{_OF_MASKS.get(name, name)}", code)]
    contexts = list(_contexts(base, code))
    sizes = [name for name in named if _counts(found, base, contexts, name, _SIZES)]
    facts: dict[str, Any] = {"sizes": sizes}
    windows = {**base, **dict.fromkeys(sizes, _SIZES[0])}
    if sizes:
        facts["switch"] = _SWITCH in code and _counts(found, windows, contexts, _SWITCH, (True, False))
        facts["first_layers"] = _FIRST_LAYERS in code and _counts(found, windows, contexts, _FIRST_LAYERS, (0, _LAYERS))
        facts["needed"] = _CACHED in sizes and bool(base.get("layer_types")) and _needs_window(found, windows)
    if _CACHED not in sizes and "Cache" in code:
        facts["in_cache"] = _counts(found, base, ({},), _CACHED, (_SIZES[0], _TOKENS * 2), in_cache=True)
    return {name: value for name, value in facts.items() if value or name == "sizes"}


def _needs_window(found: Architecture, entries: Mapping[str, Any]) -> bool:
    """Whether a class makes a configuration with null for ``sliding_window``, and fails though no layer is sliding."""
    full = {**entries, "layer_types": ["full_attention"] * len(entries["layer_types"])}
    try:
        with quiet():
            config_with_model(found, copy.deepcopy({**full, _CACHED: None}))
    except Exception:  # whatever refuses null
        return False
    return _computed(found, {**full, _CACHED: None}) is None and _computed(found, full) is not None


def _code_of(found: Architecture) -> str:
    """Return the code of a class and of its model, without comments."""
    model = model_class(found.config_class)
    modules = [sys.modules[found.config_class.__module__], *(() if model is None else [sys.modules[model.__module__]])]
    folder = Path(modules[0].__file__ or "").parent
    files = {*folder.glob("modeling_*.py"), *(Path(each.__file__ or "") for each in modules)}
    return "\n".join(re.sub(r"#.*", "", file.read_text(encoding="utf-8")) for file in sorted(files))


def _bases(found: Architecture) -> Iterator[dict[str, Any]]:
    """Yield entries of small models of a class, the plainest first."""
    try:
        with quiet():
            entries = usual_entries(found.config_class)
    except Exception:  # a class that refuses its own defaults
        return
    switched = ({}, {"layer_types": ["conv", "full_attention"] * (_LAYERS // 2)}, *SWITCHED_ON)
    for changes, layers, heads in itertools.product(switched, (_LAYERS, 2 * _LAYERS, None), HEADS):
        if changes.keys() <= entries.keys():
            yield reduced_entries(entries | changes, layers, heads)


def _counts(
    found: Architecture,
    base: Mapping[str, Any],
    contexts: Sequence[Mapping[str, Any]],
    name: str,
    values: tuple[Any, Any],
    *,
    in_cache: bool = False,
) -> bool:
    """Whether a class computes something else with another value of an entry, beside whatever else may want it."""
    for beside in contexts:
        one = _computed(found, {**base, **beside, name: values[0]}, in_cache=in_cache)
        other = None if one is None else _computed(found, {**base, **beside, name: values[1]}, in_cache=in_cache)
        if one is not None and other is not None and not all(map(torch.equal, one, other)):
            return True
    return False


def _contexts(base: Mapping[str, Any], code: str) -> Iterator[dict[str, Any]]:
    """Yield entries beside which a window may count: none, its switch, and layers of types with one."""
    yield {}
    if _SWITCH in code or _FIRST_LAYERS in code:
        without = {"layer_types": None} if "layer_types" in base else {}
        yield {**without, _SWITCH: True, _FIRST_LAYERS: 2}
    types = base.get("layer_types")
    names = dict.fromkeys((*_TYPES, *sorted(_QUOTED_TYPE.findall(code))))
    for name in names if re.search(r"layer_types|attention_type", code) else ():
        yield {"layer_types": [name] * (len(types) if isinstance(types, list) else _LAYERS)}


@torch.no_grad()
def _computed(found: Architecture, entries: Mapping[str, Any], *, in_cache: bool = False) -> list[torch.Tensor] | None:
    """Return what a small model of a class computes of a text, ``None`` where it fails.

    Args:
        found: The class.
        entries: The entries of the model.
        in_cache: Whether the text is read in two parts, with a cache between them.
    """
    try:
        with quiet(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            config = config_with_model(found, copy.deepcopy(dict(entries)))
            config._attn_implementation = config._experts_implementation = "eager"
            make = model_class(type(config))
            with torch.device("meta"):
                if sum(each.numel() for each in make(copy.deepcopy(config)).parameters()) > _LARGEST:
                    return None
            model = make(config).eval()
            _draw_weights(model)
            accepted = inspect.signature(model.forward).parameters
            ids = (torch.arange(_TOKENS) * 7 % _VOCABULARY + 5)[None]
            given = text_inputs(accepted, range(_TOKENS), None)
            given |= {name: ids for name in ("input_ids", "decoder_input_ids") if name in given}
            if not in_cache:
                return _numbers(model(**given))
            first = model(input_ids=ids[:, :_KEPT], use_cache=True)
            return _numbers(model(input_ids=ids[:, _KEPT:], past_key_values=first.past_key_values, use_cache=True))
    except Exception:  # whatever the class raises
        return None


def _numbers(output: Any) -> list[torch.Tensor]:
    """Return the first states of an output, which are those of the last layer, and what a text that is written has."""
    names = ("last_hidden_state", "logits")
    found = [output[name] for name in names if isinstance(output, Mapping) and name in output]
    return found or [output[0]]


def _draw_weights(model: torch.nn.Module) -> None:
    """Draw all weights anew: some classes begin with projections of zeros, by which attention changes nothing."""
    drawn = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        if parameter.is_floating_point() and parameter.ndim > 1:
            parameter.copy_(torch.randn(parameter.shape, generator=drawn) * parameter.shape[-1] ** -0.5)
        elif parameter.is_floating_point() and not parameter.any():
            parameter.copy_(torch.randn(parameter.shape, generator=drawn) * 0.3)


def main(names: list[str]) -> None:
    """Write the facts of all architectures, or show those of some."""
    chosen = [architecture(name) for name in names] if names else architectures()
    lines = []
    for found in chosen:
        facts = window_facts(found) if found.kind in ("text", "part") else None
        if facts is not None:
            lines.append(f"{json.dumps(found.model_type)}: {json.dumps(facts)}")
            sys.stderr.write(f"{lines[-1]}\n")
    if not names:
        PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
