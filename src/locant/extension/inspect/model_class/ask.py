"""The class of a model in the installed transformers, asked what it makes of a config.json."""

from __future__ import annotations

import copy
import functools
import importlib.util
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from locant.extension.inspect.model_class.unasked import (
    OF_THE_SEARCH,
    UnaskedClass,
    fails_as_a_whole,
    failure_of_file,
    in_one_line,
    is_given_by_a_whole,
    is_too_deep,
)
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.base import ParsedConfig, in_words
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.entries import values_of_other_kinds
from locant.rotary_configs.classes.float_fields import whole_numbers_for_floats
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.own_code import needs_code
from locant.rotary_configs.classes.refusals import (
    grids_of_other_sizes,
    incomplete_groups,
    refused_by_configuration,
    refused_by_fields,
    widths_of_no_whole_heads,
)
from locant.rotary_configs.classes.windows import WINDOW_SIZES, windows_passed_over
from locant.rotary_configs.huggingface.doubts import turns_backwards
from locant.rotary_configs.huggingface.text_parts import is_taken_for_ministral, text_part, text_part_names, text_type
from locant.rotary_configs.spellings import WIDTHS

if TYPE_CHECKING:
    from locant.extension.inspect.model_class.observe import ObservedLayer

_POSITIONS = (0, 1, 3, 17, 101, 501)
_MOST_LAYERS = 48
_TEXT_PARTS = ("text_config", "thinker_config", "language_config", "llm_config", "decoder", "vlm_config")


@dataclass(frozen=True)
class AskedClass:
    """What a class did with a small model of a file.

    Attributes:
        name: Name of the model's class.
        release: Release of transformers.
        layers: What its attention layers do.
        length: Tokens of the text that they computed.
        kind: The facts of the class, for a model type that is not known otherwise.
        types: The types that it gives all layers of the file, where it has some.
        bases: The bases that its configuration holds.
        built: Indices of the layers that have an attention, also where it did nothing with the text.
    """

    name: str
    release: str
    layers: tuple[ObservedLayer, ...]
    length: int
    kind: ModelType
    types: tuple[str, ...] = ()
    bases: tuple[float, ...] = ()
    built: frozenset[int] = frozenset()

    @property
    def rotates(self) -> bool:
        """Whether any layer rotates."""
        return any(layer.rotation is not None for layer in self.layers)


def ask_class(content: Mapping[str, Any], longest: int | None = None) -> AskedClass | UnaskedClass | None:
    """Build the smallest model of a config.json's class, and watch what it does to queries and keys.

    Widths of layers that do not decide how heads are rotated are made small, and of more than 48 layers the first are
    built. No weights are loaded, and no code but that of the installed transformers is run.

    Args:
        content: The object in config.json.
        longest: Tokens that a text may have, where a longer one is rotated otherwise.

    Returns:
        What was seen, or why nothing was; ``None`` without transformers and for a model type that it does not have.
    """
    name = "ministral" if is_taken_for_ministral(content) else content.get("model_type")
    if importlib.util.find_spec("transformers") is None or not isinstance(name, str):
        return None
    try:
        import transformers
    except Exception as error:  # a package that is broken, or whose own packages are
        return UnaskedClass(name, "", f"its import raises {in_one_line(error)}", refuses_the_file=False)

    from locant.extension.inspect.model_class.masks import with_masks
    from locant.extension.inspect.model_class.observe import attending_layers, observe
    from locant.extension.inspect.model_class.small_model import (
        HEADS,
        build,
        entries_of,
        model_class,
        quiet,
        reduced_entries,
    )
    from locant.extension.inspect.model_class.turning_axes import axes_of_class

    known = families.model_type(name)
    names = () if known is None else (*known.text_part, *known.text_names)
    is_of_another_class = bool(names) and not any(name in content for name in names)
    if name not in transformers.CONFIG_MAPPING or (is_of_another_class and text_part(content) is not content):
        return None
    if any(text_part(content).get(width) == 0 for width in WIDTHS):
        return UnaskedClass(
            name, transformers.__version__, "layers without a feature show nothing", refuses_the_file=False
        )
    positions = tuple(each for each in _POSITIONS if longest is None or each < longest)
    release = transformers.__version__
    config_class = transformers.CONFIG_MAPPING[name]
    # Classes raise whatever they like for a file, or for widths, of which they make no model.
    try:
        with quiet():
            whole = config_class.from_dict(copy.deepcopy(dict(content)))
    except Exception as error:
        return UnaskedClass(config_class.__name__, release, in_one_line(error), refuses_the_file=True)
    errors, found, config = list[Exception](), config_class.__name__, whole
    # Numbers of layers may go with each other, so that a class refuses to have the first ones alone.
    is_deep = is_too_deep(content)
    numbers_kept: tuple[int | None, ...] = (_MOST_LAYERS,) if is_deep else (_MOST_LAYERS, None)
    for layers_kept, heads in itertools.product(numbers_kept, HEADS[:-1]):
        try:
            with quiet():
                config, parts = _text_config(whole, text_part_names(content))
                own = _as_loaded(functools.reduce(getattr, parts, config))
                found = getattr(model_class(type(config)), "__name__", type(config).__name__)
                entries = entries_of(config)
                # Some classes read these without an entry for them; others refuse to name one for all layers.
                for name in ("head_dim", *WINDOW_SIZES):
                    if name in text_part(content) and name not in entries and not parts:
                        entries[name] = getattr(config, name)
                small_entries = reduced_entries(entries, layers_kept, heads, fills=False)
                if layers_kept is None and small_entries == reduced_entries(entries, _MOST_LAYERS, heads, fills=False):
                    break
                small = type(config)(**copy.deepcopy(small_entries))
                if own is not None:  # the class would fill in again what the file states to be missing
                    functools.reduce(getattr, parts, small).rope_parameters = copy.deepcopy(own)
                model = build(small)
                observed = with_masks(model, observe(model, positions))
                layers = tuple(layer for layer in observed if _is_of(parts, layer.name))
                text = functools.reduce(getattr, parts, config)
                kind = facts_of_class(functools.reduce(getattr, parts, small), layers)
                if families.model_type(kind.name) is None:
                    stated = text_part(content).get("layer_types")
                    kind = replace(
                        kind,
                        axes=axes_of_class(model, layers),
                        pairs_blocks=isinstance(stated, list) and _in_pairs(stated, types_of_layers(text)),
                    )
                return AskedClass(
                    type(model).__name__,
                    release,
                    layers,
                    positions[-1] + 1,
                    kind,
                    types_of_layers(text),
                    tuple(_bases(getattr(text, "rope_parameters", None))),
                    frozenset(attending_layers(model)),
                )
        except Exception as error:
            errors.append(error)
    reason = in_one_line(errors[0])
    if not is_deep and "auto_map" not in content and not any(type(error) in OF_THE_SEARCH for error in errors):
        failure = failure_of_file(config, errors)
        is_part = failure is not None and type(config) is not type(whole)
        is_of_part = failure is not None and is_part and not fails_as_a_whole(whole, failure)
        is_of_part = is_of_part or is_given_by_a_whole(config, failure)
        if failure is not None and not is_of_part and _can_be_watched(content):
            return UnaskedClass(found, release, in_one_line(failure), refuses_the_file=False, fails_with_the_file=True)
    return UnaskedClass(found, release, reason, refuses_the_file=False)


def _can_be_watched(content: Mapping[str, Any]) -> bool:
    """Whether a small model of a class was watched with other entries, so that it is these that it fails with."""
    known = families.model_type(text_type(content))
    own = {"model_type": content["model_type"]}
    is_known = known is not None and bool(known.features)
    return is_known or (content.keys() > own.keys() and isinstance(ask_class(own), AskedClass))


def _as_loaded(config: Any) -> Mapping[str, Any] | None:
    """Return the rotary parameters of a configuration as they are when its model is made, ``None`` without any.

    ``from_pretrained`` makes the model of the configuration of the whole file; functions of ``ROPE_INIT_FUNCTIONS``
    bring its parameters in order once more then, and an entry beside the group counts.
    """
    own = getattr(config, "rope_parameters", None)
    if isinstance(own, Mapping) and own and all(each is not None for each in own.values()):
        config.standardize_rope_params()
    return getattr(config, "rope_parameters", None) or None


def _in_pairs(stated: Sequence[str], types: Sequence[str]) -> bool:
    """Whether a class takes an attention block and an MLP block of a file for one layer."""
    return "mlp" in stated and len(stated) == 2 * len(types) and list(stated[::2]) == list(types)


def _text_config(config: Any, names: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
    """Return the configuration of the text part, or of what it is a part of where it has no class of its own.

    Args:
        config: The configuration of a file.
        names: Names of the groups that lead to the text part in the file.

    Returns:
        The configuration, and the names of the parts of its class that are about text.
    """
    from locant.extension.inspect.model_class.small_model import model_class

    way = [config]
    for name in names:
        if name in getattr(way[-1], "sub_configs", {}):
            way.append(getattr(way[-1], name))
    steps = list(names[: len(way) - 1])
    while part := _text_part_of(way[-1]):
        way.append(getattr(way[-1], part))
        steps.append(part)
    without: tuple[str, ...] = ()
    while len(way) > 1 and model_class(type(way[-1])) is None:
        way.pop()
        without = (steps.pop(), *without)
    return way[-1], without


def _text_part_of(config: Any) -> str | None:
    """Return the name of the text part of a configuration, ``None`` where it has none."""
    known = families.model_type(getattr(config, "model_type", None))
    names = (*(known.text_part if known is not None else ()), *_TEXT_PARTS)
    return next((name for name in names if name in getattr(config, "sub_configs", {})), None)


def _is_of(parts: Sequence[str], name: str) -> bool:
    """Whether a module stands in the parts of a class that are about text."""
    return all(part in name.split(".") for part in parts)


def facts_of_class(config: Any, layers: tuple[ObservedLayer, ...]) -> ModelType:
    """Return the facts of a class, as far as one file shows them."""
    rotating = [layer for layer in layers if layer.rotation is not None]
    types = types_of_layers(config)
    attention = {layer.layer: layer for layer in layers}
    behaviour: dict[str, Any] = {}
    features: dict[str, tuple[int, int, int]] = {}
    for index, name in enumerate(types):
        layer = attention.get(index)
        if layer is not None and layer.rotation is not None:
            behaviour[name] = "rotates"
            rotation = layer.rotation
            features.setdefault(name, (rotation.first, rotation.rotary_dim, rotation.head_dim))
        else:
            behaviour.setdefault(name, "none" if layer is None else "still")
    fields = getattr(type(config), "__dataclass_fields__", {})
    own = {name: getattr(type(config), name, None) for name in fields}
    sizes = config.to_dict()  # a class whose heads differ by layer has no head_dim to ask for
    return ModelType(
        str(config.model_type),
        rotates=bool(rotating),
        layout=next((layer.layout for layer in rotating if layer.layout), "half"),
        defaults={name: value for name, value in own.items() if isinstance(value, int | float) and value is not True},
        rope=getattr(config, "rope_parameters", None) or None,
        entries=frozenset(fields),
        head_is_rotated_part=sizes.get("head_dim") == sizes.get("qk_rope_head_dim", 0),
        rotates_partly=any(each.rotation and each.rotation.rotary_dim < each.rotation.head_dim for each in rotating),
        layer_types=types,
        behaviour=behaviour,
        features=features or {"all": _features(rotating[0])} if rotating else {},
    )


def _features(layer: ObservedLayer) -> tuple[int, int, int]:
    rotation = layer.rotation
    assert rotation is not None
    return rotation.first, rotation.rotary_dim, rotation.head_dim


def types_of_layers(config: Any) -> tuple[str, ...]:
    """Return the types that a configuration of transformers gives its layers, empty where it has none."""
    types = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None)
    return tuple(map(str, types)) if isinstance(types, list | tuple) else ()


def _bases(rope: Any) -> Iterator[float]:
    for group in (rope, *rope.values()) if isinstance(rope, Mapping) else ():
        base = group.get("rope_theta") if isinstance(group, Mapping) else None
        if isinstance(base, int | float):
            yield base


def as_the_class(
    asked: AskedClass, parsed: ParsedConfig, part: Mapping[str, Any], *, is_measure: bool = True
) -> tuple[ParsedConfig, list[Finding]]:
    """Return the reading with what the class does in its place, and where that is something else.

    Args:
        asked: What the class did.
        parsed: What was read.
        part: The text part of config.json, for what the file states itself.
        is_measure: Whether the class is the code of the model, and not other code beside the file.
    """
    from locant.extension.inspect.model_class.adopt import by_another_type, is_stated, reading_of_class
    from locant.extension.inspect.model_class.compare import compare_with_class, config_of_layer, turns_back

    findings = []
    if any(turns_back(each, config_of_layer(parsed, each.layer)) for each in asked.layers if each.layer is not None):
        is_told = any(each.code == "turns backwards" for each in parsed.findings)
        findings += [] if is_told else [turns_backwards(asked.kind.name)]
    differences = compare_with_class(parsed, asked.layers, asked.length, asked.built)
    shown = reading_of_class(parsed, asked) if differences and is_measure else None
    if shown is not None and compare_with_class(shown, asked.layers, asked.length, asked.built):
        shown = None
    told: list[str] = []
    left_out: list[str] = []
    for each in differences:
        others = by_another_type(parsed, asked.types, each)
        is_told = shown is None or is_stated("rotation" if others else each.subject, part)
        (told if is_told else left_out).append(
            f"in {in_words(each.layers)}: {each.found} (by the file{'' if is_told else ' alone'}: {each.read})"
        )
    built, ends = (
        f"{asked.name} of transformers {asked.release}, built from this file,",
        "" if shown is None else (" What the class does is shown."),
    )
    if told:
        said = f"{built} does something else than the file says {'; '.join(told)}.{ends}"
        findings.append(Finding("warning", said, "Find out which of them the weights were trained with."))
    if left_out:
        said = f"{built} decides what the file leaves out {'; '.join(left_out)}.{ends}"
        findings.append(Finding("note", said, "State it in the file, for engines that do not ask the class."))
    return (parsed if shown is None else shown), findings


def without_reading(answer: AskedClass | UnaskedClass | None, content: Mapping[str, Any]) -> list[Finding]:
    """Return what a class says against a file that was read to have no rotary positions.

    Args:
        answer: What it did with the file; ``None`` where it was not asked, of which what it refuses is known.
        content: The object in config.json.
    """
    found = answer.finding(content) if isinstance(answer, UnaskedClass) else None
    if found is not None:
        return [found]
    if needed := needs_code(content):
        return needed
    part, kind = text_part(content), families.model_type(text_type(content))
    has_own_code = "auto_map" in content  # which decides
    passed = []
    if kind is not None and not has_own_code:
        passed = list(windows_passed_over(part, kind.name, kind.defaults, with_types=True))
        passed += [*widths_of_no_whole_heads(part, kind), *grids_of_other_sizes(part, kind)]
    if not isinstance(answer, AskedClass):
        refused = [*passed, *whole_numbers_for_floats(content), *refused_by_configuration(part, kind)]
        if kind is None or not families.is_in_transformers(kind.name):
            return refused
        refused += incomplete_groups(part, kind) if kind.rotates and refused == passed else ()
        return [*refused, *(values_of_other_kinds(part, kind) if kind.rotates else ()), *refused_by_fields(part, kind)]
    if has_own_code:
        return []
    turned = [each for each in answer.layers if each.rotation is not None and each.rotation.layout is not None]
    if not turned or turned[0].rotation is None:
        return passed
    seen, layers = turned[0].rotation, sorted({each.layer for each in turned if each.layer is not None})
    return [
        *passed,
        Finding(
            "warning",
            f"{answer.name} of transformers {answer.release}, built from this file, rotates {seen.rotary_dim} of "
            f"{seen.head_dim} features{f' in {in_words(layers)}' if layers else ''}, though the file is read to have "
            "no rotary positions.",
            "Find out which of them the weights were trained with.",
        ),
    ]
