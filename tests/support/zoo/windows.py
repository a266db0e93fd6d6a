"""Windows of all sizes, none among them, as files state them and as the masks of a class have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from locant.errors import ConfigError
from locant.extension.inspect.model_class.small_model import HEADS, build, quiet
from locant.rotary_configs import read_huggingface
from zoo.architectures import Architecture
from zoo.attention import window_differences
from zoo.cases import WINDOWS, Case, draw_case
from zoo.facts import mentions_rotation
from zoo.verdict import Verdict, first_line, text_config

SIZES = (3, None, 0, -1)


def window_verdicts(found: Architecture) -> Iterator[Verdict]:
    """Yield the outcome of a file for each entry about windows that a class has, and each size of it.

    Nothing is told about files of which a class computes no mask, and of classes that do not rotate.

    Args:
        found: The architecture.
    """
    if found.kind != "text" or not mentions_rotation(found.config_class):
        return
    fields = getattr(found.config_class, "__dataclass_fields__", {})
    entries = [name for name in WINDOWS if name in fields or hasattr(found.config_class, name)]
    for heads in HEADS[:-1] if entries else ():
        try:
            usual = draw_case(found.config_class, found.model_type, 0, heads=heads).content
        except Exception:  # whatever the class raises
            continue
        for entry in entries:
            for size in SIZES:
                form = f"{entry} {'null' if size is None else size}"
                case = Case(found.model_type, 0, form, _with_window(usual, entry, size), "default")
                verdict = _compared(case, found.config_class)
                if verdict is None and size == SIZES[0]:
                    break  # a class that shows no mask
                if verdict is not None:
                    yield verdict
        for entry in (each for each in entries if each in usual):
            left_out = _left_out(found.model_type, usual, entry)
            if left_out is not None:
                yield left_out
        return


def _left_out(model_type: str, usual: dict[str, Any], entry: str) -> Verdict | None:
    """Return whether a file without an entry is read as one with the value that the class takes then."""
    rest = {name: value for name, value in usual.items() if name != entry}
    try:
        read = [[(kind.layers, kind.window) for kind in read_huggingface(each).layers] for each in (usual, rest)]
    except ConfigError:
        return None
    about = (model_type, 0, f"{entry} left out", "default")
    return Verdict(*about, "right") if read[0] == read[1] else Verdict(*about, "wrong", f"{read[1]}, not {read[0]}")


def _with_window(usual: dict[str, Any], entry: str, size: int | None) -> dict[str, Any]:
    content = usual | {entry: size}
    if "use_sliding_window" in content:
        content["use_sliding_window"] = True
        content["max_window_layers"] = 2
        content.pop("layer_types", None)  # the class takes them from these
    return content


def _compared(case: Case, config_class: Any) -> Verdict | None:
    about = (case.model_type, case.seed, case.form, case.rope_type)
    try:
        parsed = read_huggingface(case.content)
    except ConfigError as error:
        return None if "no rotary positions" in str(error) else Verdict(*about, "refused", str(error))
    try:
        with quiet():
            differences = window_differences(parsed, build(text_config(case, config_class, ())))
    except Exception as error:  # whatever the class raises
        return Verdict(*about, "not built", first_line(error))
    if differences is None:
        return None
    if differences and any("hide every token" in each.message for each in parsed.findings):
        return Verdict(*about, "warned", "; ".join(differences), windows=True)
    return Verdict(*about, "wrong" if differences else "right", "; ".join(differences), windows=True)
