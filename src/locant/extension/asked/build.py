"""The configuration and the model that transformers makes of a config.json, without weights."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from locant.errors import ConfigError, LocantError
from locant.extension.asked.watch import ATTENTION, register
from locant.extension.asked.weightless import TooLargeError, no_weights

_MOST_LAYERS = 320  # more than twice those of the deepest published model; lists are made of such numbers


class NoClassError(LocantError):
    """The installed transformers has no class for a model type, or is not installed."""


class ClassRefusesError(ConfigError):
    """The class of a model refuses a file, in its own words.

    Attributes:
        stage: What it refuses: "config", "build" or "run".
        class_name: Its name.
        error: What it raised.
    """

    def __init__(self, stage: str, class_name: str, error: Exception) -> None:
        lines = str(error).strip().splitlines() or [""]
        said = " ".join(map(str.strip, lines[: 2 if lines[0].endswith(":") else 1])).rstrip(".")  # 2: which field, why
        does = {"config": "refuses the file", "build": "makes no model of the file", "run": "computes no text"}[stage]
        super().__init__(f"{class_name} {does}: {type(error).__name__}{said and f', {said:.300}'}.")
        self.stage, self.class_name, self.error = stage, class_name, error


@dataclass(frozen=True)
class Built:
    """What transformers makes of a file.

    Attributes:
        config: The configuration that the model reads, with everything that the class fills in.
        model: The model of the text alone, without weights.
        length: Tokens to let it read: a number that is none of its sizes, nor are the six after it.
    """

    config: Any
    model: nn.Module
    length: int

    @property
    def name(self) -> str:
        """Name of the model's class."""
        return type(self.model).__name__

    @property
    def code(self) -> str:
        """The module of transformers that the class is in."""
        module = importlib.import_module(type(self.model).__module__)
        return Path(module.__file__ or "").read_text(encoding="utf-8")


def completed_config(content: Mapping[str, Any]) -> Any:
    """Return the configuration of transformers for the object in a config.json, with all entries that it fills in.

    Raises:
        NoClassError: transformers is not installed, or does not know the model type.
        ClassRefusesError: The class refuses the file.
        TooLargeError: The file states more layers than any model has.
    """
    name = content.get("model_type")
    if importlib.util.find_spec("transformers") is None:
        raise NoClassError("transformers is not installed, so that no class can be asked.")
    try:
        from transformers import CONFIG_MAPPING
    except Exception as error:  # a package that is broken, or whose own packages are
        raise NoClassError(f"transformers cannot be imported: {type(error).__name__}, {error}.") from error
    if not isinstance(name, str) or name not in CONFIG_MAPPING:
        own = " Code beside the file is never run." if "auto_map" in content else ""
        raise NoClassError(f"The installed transformers has no class for the model type '{name!s:.60}'.{own}")
    deepest = max((n for key, n in _whole_numbers(content) if re.search(r"layers?$|depth$", key)), default=0)
    if deepest > _MOST_LAYERS:
        raise TooLargeError(f"The file states {deepest} layers; models of more than {_MOST_LAYERS} are not asked.")
    try:
        return CONFIG_MAPPING[name].from_dict(copy.deepcopy(dict(content)))
    except Exception as error:
        raise ClassRefusesError("config", CONFIG_MAPPING[name].__name__, error) from error


def build(content: Mapping[str, Any]) -> Built:
    """Build the model of the text of the object in a config.json.

    Raises:
        NoClassError: transformers has no class for it.
        ClassRefusesError: The class makes no configuration, or no model, of it.
        TooLargeError: It is too large.
    """
    whole = completed_config(content)
    ways = ((each, model_class(type(each))) for each in (text_of(whole), whole))
    config, found = next((each for each in ways if each[1] is not None), (whole, None))
    if found is None:
        raise NoClassError(f"The installed transformers has no model for {type(whole).__name__}.")
    register()
    refused: Exception | None = None
    for attention in (ATTENTION, "eager"):  # the second for classes with an attention of their own
        config._attn_implementation, config._experts_implementation = attention, "eager"
        try:
            with no_weights():
                model = found(config).eval()
        except TooLargeError:
            raise
        except Exception as error:
            refused = refused or error.with_traceback(None)  # which would keep what was made
            continue
        if any("inv_freq" in name and each.is_meta for name, each in model.named_buffers()):
            raise TooLargeError(f"{found.__name__} of this configuration has heads too large to be asked.")
        taken = {number for _, number in _whole_numbers(config.to_dict())}
        length = next(n for n in range(23, 10**4) if not any(n <= each <= n + 6 for each in taken))
        return Built(config, model, length)
    assert refused is not None
    raise ClassRefusesError("build", found.__name__, refused) from refused


def text_of(whole: Any) -> Any:
    """Return the configuration of the text that a model writes, the whole one where it is of text alone."""
    with contextlib.suppress(Exception):
        text = whole.get_text_config(decoder=True)
        if type(text) is not type(whole):  # of older pairs of encoder and decoder it is a changed copy
            return text
    return whole


def _whole_numbers(entries: Any, key: str = "") -> Iterator[tuple[str, int]]:
    if isinstance(entries, Mapping):
        for name, each in entries.items():
            yield from _whole_numbers(each, str(name))
    elif isinstance(entries, int) and not isinstance(entries, bool):
        yield key, entries


def model_class(config_class: type[Any]) -> type[nn.Module] | None:
    """Return the class of the bare model for a class of configurations, ``None`` where there is none."""
    from transformers import PreTrainedModel
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    named: Any = None
    found: list[Any] = []
    with contextlib.suppress(KeyError, ValueError, ImportError, AttributeError):
        named = MODEL_MAPPING[config_class]
        named = named[0] if isinstance(named, tuple) else named
        found.append(named)
    with contextlib.suppress(ImportError):
        module = importlib.import_module(config_class.__module__.replace(".configuration_", ".modeling_"))
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, PreTrainedModel) and each.__module__ == module.__name__:
                reads = (getattr(each, "config_class", None), each.__annotations__.get("config"))
                is_its = config_class in reads or config_class.__name__ in reads
                found += [each] if is_its and not each.__name__.endswith("PreTrainedModel") else []
    stem = config_class.__name__.removesuffix("Config")

    def order(each: Any) -> tuple[Any, ...]:  # classes with heads have parts that are not about text
        name = each.__name__.removeprefix(stem)
        return "For" in name, each is not named, name != "Model", len(name)

    return min(found, key=order, default=None)
