"""The class of a model in the installed transformers, asked what it makes of a config.json: the reading."""

from __future__ import annotations

import inspect
import math
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from locant.extension.asked.build import Built, ClassRefusesError, NoClassError, build
from locant.extension.asked.name import groups_of, layer_types, named, tables_of
from locant.extension.asked.turn import Turn, origins
from locant.extension.asked.watch import Call, Watch, heard, is_attention, watched
from locant.extension.asked.weightless import TooLargeError
from locant.positions.rotary.config import RotaryConfig, RotaryLayout
from locant.rotary_configs.reading import ALL_LAYERS, NoRotaryPositionsError, ParsedConfig, layers_alike

_STEPS = (5, 7, 11, 13)  # by that many tokens a position of each axis is ahead of that of the token before
_TEXTS = frozenset(("input_ids", "decoder_input_ids", "inputs_embeds"))

__all__ = ["AskedClass", "ClassRefusesError", "NoClassError", "TooLargeError", "ask_class"]


@dataclass(frozen=True)
class AskedClass:
    """What a class makes of a file.

    Attributes:
        reading: Its rotary positions; without configurations where nothing rotates.
        name: Name of the model's class.
        release: Release of transformers.
        said: What transformers warns of in the rotary entries.
        notes: Sentences on what of the reading cannot be told.
        config: The configuration that the model reads, with everything that the class fills in.
        has_own_code: Whether the file names code of its own, which may do something else and is never run.
        seconds: Processor time that it took.
    """

    reading: ParsedConfig
    name: str
    release: str
    said: tuple[str, ...]
    notes: tuple[str, ...]
    config: Any
    has_own_code: bool
    seconds: float


def ask_class(content: Mapping[str, Any]) -> AskedClass:
    """Build the model of a config.json's class without weights, let it read a few tokens, and tell what it does.

    No code but that of the installed transformers is run.

    Args:
        content: The object in config.json.

    Raises:
        NoClassError: transformers is not installed, or has no class for the file that could be watched.
        ClassRefusesError: The class refuses the file.
        TooLargeError: The model is too large to be asked.
        NoRotaryPositionsError: It reads no texts, or only with sounds.
    """
    begin = time.process_time()
    notes: list[str] = []
    with heard() as said:
        built = build(content)
        if not _TEXTS & inspect.signature(built.model.forward).parameters.keys():
            raise NoRotaryPositionsError(f"{built.name} reads no texts.")
        try:
            reading = _reading(built, watched(built.model, built.length), notes)
        except TooLargeError:
            raise
        except Exception as error:  # of the class, or of watching it
            if (reads := getattr(built.model, "main_input_name", "input_ids")) != "input_ids":
                raise NoRotaryPositionsError(f"{built.name} reads {reads}, and no text.") from error
            raise NoClassError(f"The class cannot be watched: {ClassRefusesError('run', built.name, error)}") from error
    import transformers

    source = f"{built.name} of transformers {transformers.__version__}"
    return AskedClass(
        replace(reading, source=source),
        built.name,
        transformers.__version__,
        tuple(dict.fromkeys(said)),
        tuple(dict.fromkeys(notes)),
        built.config,
        any("auto_map" in each for each in (content, *content.values()) if isinstance(each, Mapping)),
        time.process_time() - begin,
    )


def _reading(built: Built, watch: Watch, notes: list[str]) -> ParsedConfig:
    """Return what was seen of a model, layer by layer; ``notes`` gets what is to be said of it."""
    calls, types = _of_text(watch.calls.values()), layer_types(built.config)
    tables = list(tables_of(built.model))
    stack = next(iter(calls.values())).stack if calls else ""
    layers = built.model.get_submodule(stack) if stack else built.model
    attending = {int(n): any(map(is_attention, each.modules())) for n, each in layers.named_children() if n.isdecimal()}
    count = max([*calls, *attending, -1 if attending else len(types) - 1]) + 1
    configs, axes = dict[str, RotaryConfig](), dict[str, Call]()
    known, layouts = dict[Any, str](), dict[Any, RotaryLayout]()
    kinds: list[tuple[str, str | None, int | None, bool]] = []
    for index in range(count):
        kind = types[index] if index < len(types) else ALL_LAYERS
        call, key = calls.get(index), None
        turn = None if call is None else call.turn
        if call is not None and turn is not None and (tables or turn.layout):
            if turn.layout is None:
                raise LookupError(f"{call.name} moves features otherwise than by turning pairs")
            ways = (turn, turn.backwards())
            turn, table = next(((way, each) for way in ways for each in tables if each.makes(way)), (turn, None))
            notes += [] if turn is call.turn else [f"{built.name} turns pairs backwards, by minus the angle."]
            place = type(built.model.get_submodule(call.name)), turn.head_dim, turn.first, turn.rotary_dim, turn.layout
            if place not in layouts:
                layouts[place] = _layout(call, turn, watch)
            # Frequencies that were measured differ by rounding from layer to layer, those of modules do not.
            frequencies = table.frequencies if table else tuple(round(each, 5) for each in turn.frequencies)
            rotation = *place, frequencies, kind
            if rotation not in known:
                group, config, note = named(built.config, kind, turn, layouts[place], table)
                notes += [note] if note else []
                name = next((name for name, each in configs.items() if each == config), None)
                if name is None:
                    tried = [each for each in (group, kind) if each != ALL_LAYERS] or ["layers"]
                    tried += [f"{tried[-1]} {number}" for number in range(2, count + 2)]
                    name = next(each for each in tried if each not in configs)
                configs[name], known[rotation] = config, name
            key = known[rotation]
            axes.setdefault(key, call)
        window, attends = call.window if call else None, call is not None or attending.get(index, False)
        kinds.append((kind, key, window, attends))
    multimodal = _axes_of(built, axes, configs)
    only = next(iter(configs)) if len(configs) == 1 else None  # the one configuration is that of all
    names = {key: ALL_LAYERS if key == only else key for key in configs}
    return ParsedConfig(
        {names[key]: each for key, each in configs.items()},
        {names[key]: each for key, each in multimodal.items()},
        layers_alike((kind, key and names[key], window, attends) for kind, key, window, attends in kinds),
        source="",
    )


def _layout(call: Call, turn: Turn, watch: Watch) -> RotaryLayout:
    """Return how pairs are in the weights, before the class reorders them."""
    assert turn.layout is not None
    for head in (call.heads[1][0], call.heads[0][0]):
        block, found = head[turn.first : turn.first + turn.rotary_dim], turn.layout
        for labelled, _, found in origins(block, turn.layout, watch.labels.get(call.name, ())):
            if labelled.is_product:
                return found
    return found


def _of_text(calls: Iterable[Call]) -> dict[int, Call]:
    """Return the calls of the last stack of layers that rotates, by layer, each the one that rotates."""
    stacks: dict[str, dict[int, Call]] = {}
    for number, call in enumerate(calls):
        layers, index = stacks.setdefault(call.stack, {}), number if call.layer is None else call.layer
        known = layers.get(index)
        if known is None or ("cross" not in call.name and (known.turn is None or "cross" in known.name)):
            layers[index] = call
    rotating = [each for each in stacks.values() if any(call.turn is not None for call in each.values())]
    return next(reversed(rotating or list(stacks.values())), {})


def _axes_of(built: Built, calls: Mapping[str, Call], configs: Mapping[str, RotaryConfig]) -> dict[str, dict[str, Any]]:
    """Return which axis (time, height, width) turns each pair, as ``ParsedConfig.multimodal`` has it.

    The model reads the text again at positions that rise faster on some axes than on others.

    Args:
        built: The model.
        calls: The attention of a layer of each configuration, as seen with a text.
        configs: The configurations.
    """
    if not re.search(r"mrope_section|position_ids\.expand\(\s*[34]", built.code):
        return {}
    stated = [group["mrope_section"] for group in groups_of(built.config).values() if group.get("mrope_section")]
    stated += [
        each.mrope_section for each in built.model.modules() if isinstance(getattr(each, "mrope_section", 0), list)
    ]
    found: dict[str, dict[str, Any]] = {}
    for axes in [len(stated[0])] if stated else (3, 4):
        positions = torch.tensor(_STEPS[:axes])[:, None, None] * torch.arange(built.length)
        try:
            seen = {
                (call.stack, call.layer, call.name): call.turn
                for call in watched(built.model, built.length, positions).calls.values()
            }
        except Exception:  # the class takes no positions of that many axes
            continue
        for key, call in calls.items():
            turn = seen.get((call.stack, call.layer, call.name))
            if turn is None or (turn.layout is None and not stated):
                continue
            pairs = []
            for turned, frequency in zip(turn.frequencies, map(float, configs[key].frequencies(2)), strict=False):
                errors = [abs(math.remainder(turned - step * frequency, 2 * math.pi)) for step in _STEPS[:axes]]
                pairs += [errors.index(min(errors))] if min(errors) <= 0.2 * frequency + 1e-7 else []
            if len(pairs) == len(turn.frequencies):  # none where axes do not share out the pairs, but their features
                sections = tuple(stated[0]) if stated else tuple(map(pairs.count, range(axes)))
                is_in_turn = pairs[:1] == [0] and pairs != sorted(pairs)
                found[key] = {"sections": sections, "interleaved": is_in_turn, "axis_of_pair": tuple(pairs) or None}
        if found:
            break
    return found
