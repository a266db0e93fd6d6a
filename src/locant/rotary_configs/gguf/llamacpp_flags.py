"""The words of a command line of llama.cpp: which flags they are, and what they change in a GGUF file's metadata.

Source: ``common/arg.cpp`` of llama.cpp (``common_params_parse_ex``): a flag is a word of its own, in small letters, its
value the next word; underscores stand for dashes; what the environment sets (``LLAMA_ARG_ROPE_SCALE=4``) is read before
the flags; of what is given twice the last counts. ``--override-kv`` is read by ``src/llama-model-loader.cpp``, which
passes over an override of another type than the key has.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.scaling import SCALINGS, FrequencyScaling
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding, in_json

NUMBERS = (
    "--rope-scale",
    "--rope-freq-base",
    "--rope-freq-scale",
    "--yarn-orig-ctx",
    "--yarn-ext-factor",
    "--yarn-attn-factor",
    "--yarn-beta-slow",
    "--yarn-beta-fast",
    "--ctx-size",
)
"""Flags about rotary positions whose values are numbers."""

_FLAGS = ("--rope-scaling", *NUMBERS)
_COUNTS = ("--ctx-size", "--yarn-orig-ctx")
_WHOLE = r"\s*[+-]?\d+"
_FLOAT = r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_LEAST, _MOST = 2.0**-126, (2 - 2**-23) * 2.0**127  # of float32, normal ones
_OVERRIDE = "--override-kv"
_OTHER_FLAGS = frozenset(("--ctx-checkpoints", "-ctxcp", "--fit-ctx", "--ctx-size-draft", "--spec-draft-ctx-size"))
_ENVIRONMENT = {
    "LLAMA_ARG_ROPE_SCALING_TYPE": "--rope-scaling",
    **{f"LLAMA_ARG_{flag[2:].replace('-', '_').upper()}": flag for flag in NUMBERS},
}
_OTHER_VARIABLES = frozenset(f"LLAMA_ARG_{flag.lstrip('-').replace('-', '_').upper()}" for flag in _OTHER_FLAGS)
_MINUS = "\N{MINUS SIGN}"
_TYPES = {"int": int, "float": float, "bool": bool, "str": str}
# What llama.cpp reads as float where the file does not have the key.
_IS_FLOAT = re.compile(r"\.rope\..*(freq_base(_swa)?|factor|scale_linear|beta_fast|beta_slow|multiplier)$")
# What may be a list, one value for each layer (get_key_or_arr).
_IS_OF_LAYERS = re.compile(
    r"\.(attention\.(head_count(_kv)?|recurrent_layers|rope_pattern|compress_ratios)"
    r"|rope\.dimension_sections)$"
)


@dataclass(frozen=True)
class GivenFlags:
    """What a command line says about rotary positions.

    Attributes:
        values: The last value of every flag, in the order in which they count.
        overrides: The values of ``--override-kv``.
        findings: What is doubtful about the words.
    """

    values: dict[str, str] = field(default_factory=dict)
    overrides: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def take(self, flag: str, value: str) -> None:
        """Take a value, which counts instead of an earlier one."""
        earlier = self.values.pop(flag, value)
        self.values[flag] = value
        if earlier != value:
            self.findings.append(
                Finding(
                    "warning",
                    f"{flag} is given twice, {earlier} and {value}: llama.cpp takes the last one.",
                    "Keep one of them.",
                )
            )

    def numbers(self) -> dict[str, float]:
        """Return the values that are numbers.

        Raises:
            ConfigError: One of them is none.
        """
        return {flag: _number(flag, value, self.findings) for flag, value in self.values.items() if flag in NUMBERS}


@dataclass(frozen=True)
class Scale:
    """By how much the flags expand the context, and the flag that says so.

    Attributes:
        factor: How many times as long it is.
        flag: The flag with its number.
    """

    factor: float
    flag: str


def parse_flags(arguments: str | Sequence[str]) -> GivenFlags:
    """Return what a command line says about rotary positions; words about other things are passed over.

    Args:
        arguments: The command line, or its words.

    Raises:
        ConfigError: A quote is not closed, a flag has no value, or a word looks like a flag or a variable of the
            environment about rotary positions and is none.
    """
    words = _words(arguments)
    given, plain = GivenFlags(), list[str]()
    for word in words:  # the environment is read first
        name, is_set, value = word.partition("=")
        if not (is_set and name.startswith("LLAMA_ARG_")):
            plain.append(word)
        elif name in _ENVIRONMENT:
            given.take(_ENVIRONMENT[name], value)
        elif name not in _OTHER_VARIABLES and _is_about_rotation(name[10:].lower().replace("_", "-")):
            known = ", ".join(_ENVIRONMENT)
            raise ConfigError(f"llama.cpp reads no variable '{name}'.{nearest(name, _ENVIRONMENT)} Known: {known}.")
    index = 0
    while index < len(plain):
        word = plain[index]
        flag = "--ctx-size" if word == "-c" else word.replace("_", "-") if word.startswith("--") else word
        if flag not in _FLAGS and flag != _OVERRIDE:
            _check_understood(word, flag, plain[index - 1] if index else "")
            index += 1
            continue
        if index + 1 == len(plain):
            raise ConfigError(f"The flag '{word}' of llama.cpp has no value.")
        value = plain[index + 1]
        if flag == _OVERRIDE:
            given.overrides.append(value)
        else:
            given.take(flag, value)
        index += 2
    return given


def overridden_metadata(
    arguments: str | Sequence[str], metadata: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Finding]]:
    """Return the metadata of a GGUF file as llama.cpp reads them with ``--override-kv KEY=TYPE:VALUE``.

    Args:
        arguments: The command line, or its words.
        metadata: The file's metadata.

    Returns:
        The metadata, and findings about overrides without an effect and about keys in whose place others stand.

    Raises:
        ConfigError: An override is not of that form, or what :func:`parse_flags` raises.
    """
    changed, findings = dict(metadata), list[Finding]()
    for override in (each for value in parse_flags(arguments).overrides for each in value.split(",")):
        matched = re.fullmatch(r"([^=]+)=(int|float|bool|str):(.*)", override, re.DOTALL)
        if matched is None:
            raise ConfigError(
                f"{_OVERRIDE} must be KEY=TYPE:VALUE with int, float, bool or str for TYPE; got {override!r}."
            )
        key, kind, text = matched.groups()
        present = metadata.get(key)
        expected = _kind_of(present) if present is not None else "float" if _IS_FLOAT.search(key) else kind
        if present is None and _IS_OF_LAYERS.search(key):
            findings.append(
                Finding(
                    "warning",
                    f"{_OVERRIDE} {override} has no effect: llama.cpp looks for '{key}' in the file first, and it is "
                    "not there.",
                    "Write the key into the file.",
                )
            )
            continue
        if kind != expected:
            findings.append(
                Finding(
                    "warning",
                    f"{_OVERRIDE} {override} has no effect: llama.cpp reads {expected} for '{key}'.",
                    f"State {key}={expected}:{text}.",
                )
            )
            continue
        changed[key] = _value(override, kind, text)
    others = {key: value for key, value in changed.items() if metadata.get(key) not in (None, value)}
    if others:
        said = ", ".join(f"{key} {in_json(metadata[key])} by {in_json(value)}" for key, value in others.items())
        remedy = "Nothing has to be done, if that is meant."
        findings.append(Finding("note", f"Of the keys of the file, {_OVERRIDE} replaces {said}.", remedy))
    return changed, findings


def _kind_of(value: Any) -> str:
    kinds = (name for name, kind in _TYPES.items() if type(value) is kind)
    return next(kinds, "an array")


def _value(override: str, kind: str, text: str) -> Any:
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    try:
        value = {"int": int, "float": float, "str": str}[kind](text)
    except (KeyError, ValueError):
        raise ConfigError(f"{_OVERRIDE} must have a value of its type; got {override!r}.") from None
    if isinstance(value, float) and not is_number(value):
        raise ConfigError(f"{_OVERRIDE} must have a finite number; got {override!r}.")
    return value


def _words(arguments: str | Sequence[str]) -> list[str]:
    if not isinstance(arguments, str):
        return list(arguments)
    try:
        return shlex.split(arguments)
    except ValueError as error:
        reason = "a quote is not closed" if "quotation" in str(error) else "nothing follows the last backslash"
        raise ConfigError(f"The flags of llama.cpp cannot be told apart: {reason}.") from None


def _check_understood(word: str, flag: str, previous: str) -> None:
    """Raise ConfigError for a word that means a flag about rotary positions, and that llama.cpp would not take."""
    name = word.partition("=")[0]
    bare = name.lstrip("".join(each for each in name if _is_dash(each)))
    stem = "".join("-" if _is_dash(each) or each == "_" else each for each in bare).lower()
    if name == bare:  # a word without a dash is the value of the flag before it
        is_meant = f"--{stem}" in _FLAGS and not _is_dash(previous[:1])
    else:
        is_meant = flag not in _OTHER_FLAGS and (bare == "c" or (" " not in name and _is_about_rotation(stem)))
    if not is_meant:
        return
    meant = nearest(f"--{stem}", _FLAGS) if bare != "c" else " Did you mean '-c'?"
    separate = " Its value is a word of its own, without '='." if "=" in word else ""
    raise ConfigError(f"Unknown flag '{word}' of llama.cpp.{meant}{separate} Known: -c, {', '.join(_FLAGS)}.")


def _is_dash(character: str) -> bool:
    return character == _MINUS or (character != "" and unicodedata.category(character) == "Pd")


def _is_about_rotation(stem: str) -> bool:
    return any(part.startswith(("rope", "yarn", "ctx")) or part.endswith("ctx") for part in stem.split("-"))


def _number(flag: str, text: str, findings: list[Finding]) -> float:
    """Return the number that llama.cpp reads, by ``std::stof`` or ``std::stoi``: as far as the text is one.

    Raises:
        ConfigError: It does not begin with a number, or with one that a float of 32 bits does not hold.
    """
    found = re.match(_WHOLE if flag in _COUNTS else _FLOAT, text)
    value = float(found[0]) if found else float("nan")
    if not is_number(value):
        raise ConfigError(f"The flag '{flag}' of llama.cpp must be a number; got {text!r}.")
    if value and not _LEAST <= abs(value) <= _MOST:
        raise ConfigError(f"The flag '{flag}' of llama.cpp must be a number of 32 bits; got {text!r}.")
    if found and found[0].strip() != text.strip() and not _is_text_of(text, value):
        findings.append(
            Finding(
                "warning", f"{flag} {text}: llama.cpp reads {value:g}, and passes over the rest.", f"Write {value:g}."
            )
        )
    return value


def _is_text_of(text: str, value: float) -> bool:
    """Whether a text is a way to write a number: 4096.0 for 4096."""
    try:
        return float(text) == value
    except ValueError:
        return False


def check_numbers(numbers: Mapping[str, float]) -> None:
    """Raise ConfigError for numbers with which llama.cpp cannot compute.

    Args:
        numbers: Those of the flags.
    """
    for flag in ("--rope-freq-base", "--yarn-orig-ctx", "--ctx-size"):
        if numbers.get(flag, 0) < 0:
            raise ConfigError(f"The flag '{flag}' of llama.cpp must not be negative; got {numbers[flag]:g}.")
    if numbers.get("--rope-scale") == 0:
        raise ConfigError(
            "--rope-scale 0 makes llama.cpp divide by 0. Leave it out; the setting of the file is --rope-freq-scale 0."
        )


def scaling_types() -> dict[str, type[FrequencyScaling]]:
    """Return the scalings by the ``--rope-scaling`` that means them."""
    return {scaling.llamacpp_type: scaling for scaling in SCALINGS.values() if scaling.llamacpp_type}


def check_type(kind: str | None) -> None:
    """Raise ConfigError for a ``--rope-scaling`` that llama.cpp does not know.

    Args:
        kind: The type.
    """
    types = scaling_types()
    if kind is not None and kind not in types:
        meant = " Its factors are tensors of the file." if kind in SCALINGS else nearest(kind, types)
        raise ConfigError(f"Unknown --rope-scaling '{kind}' of llama.cpp.{meant} Known: {', '.join(types)}.")


def flags_where_nothing_rotates(arguments: str | Sequence[str]) -> list[Finding]:
    """Return that flags about rotary positions have no effect on a model without any.

    Args:
        arguments: The command line, or its words.

    Raises:
        ConfigError: A flag about rotary positions is unknown or its value wrong.
    """
    given = parse_flags(arguments)
    check_numbers(given.numbers())
    check_type(given.values.get("--rope-scaling"))
    *first, last = [f"{flag} {value}" for flag, value in given.values.items() if flag != "--ctx-size"] or [""]
    if not last:
        return given.findings
    said = f"{', '.join(first)} and {last} have" if first else f"{last} has"
    return [
        *given.findings,
        Finding("warning", f"{said} no effect: the model does not rotate.", f"Leave {'them' if first else 'it'} out."),
    ]


def scale_of(values: Mapping[str, str], numbers: Mapping[str, float], findings: list[Finding]) -> Scale | None:
    """Return by how much the flags expand the context; ``--rope-freq-scale 0`` stands for the setting of the file.

    Args:
        values: The last value of every flag, in the order in which they count.
        numbers: Those that are numbers.
        findings: Where findings go.
    """
    factors = {"--rope-scale": numbers.get("--rope-scale"), "--rope-freq-scale": numbers.get("--rope-freq-scale")}
    stated = [flag for flag in values if factors.get(flag) is not None]
    if not stated:
        return None
    last, number = stated[-1], numbers[stated[-1]]
    factor = number if last == "--rope-scale" or not number else 1 / number
    if len(stated) == 2 and abs(numbers["--rope-scale"] * numbers["--rope-freq-scale"] - 1) > 1e-6:
        findings.append(
            Finding(
                "warning",
                f"{stated[0]} {numbers[stated[0]]:g} and {last} {number:g} contradict each other: llama.cpp takes the "
                "last one.",
                "Keep one of them.",
            )
        )
    if factor < 0:
        findings.append(
            Finding(
                "warning",
                f"{last} {number:g} turns all pairs backwards.",
                f"It is {last} {-number:g}, if that is meant.",
            )
        )
    elif 0 < factor < 1:
        findings.append(
            Finding(
                "warning",
                f"{last} {number:g} multiplies positions by {1 / factor:g}, which makes the context shorter.",
                f"For a context {1 / factor:g} times as long it is {last} {1 / number:g}.",
            )
        )
    return Scale(factor, f"{last} {number:g}") if factor else None
