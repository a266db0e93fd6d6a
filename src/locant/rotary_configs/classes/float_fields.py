"""Whole numbers where a class takes numbers with a fraction alone, in a file or in a part of it.

``float_fields.json`` is generated from the classes of transformers 5.24 (``tests/support/zoo/float_fields.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from locant.positions.scaling.fields import Finding
from locant.rotary_configs.classes.entries import entries_of_class
from locant.rotary_configs.classes.field_kinds import kinds_of_fields
from locant.rotary_configs.classes.parts import parts_of_class, stored


def whole_numbers_for_floats(config: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield warnings about whole numbers with which a class of transformers refuses a file.

    Args:
        config: The content of config.json.
    """
    if not config.get("auto_map"):
        yield from _in_group(config, config.get("model_type"), ("config.json",))


def _in_group(group: Mapping[str, Any], name: Any, where: tuple[str, ...]) -> Iterator[Finding]:
    """Yield those of a file or of a part.

    Args:
        group: Its entries.
        name: Its model type, or the name of the class of such a part.
        where: Names of the groups that it is in, the innermost first.
    """
    if not isinstance(name, str):
        return
    own = entries_of_class(name)
    told = {*kinds_of_fields(name), *(() if own is None else (*own.takes, *own.sizes))}
    for entry, value in group.items():
        is_whole = isinstance(value, int) and not isinstance(value, bool) and entry not in told
        if is_whole and name in stored("float_fields")["fields"].get(entry, ()):
            yield Finding(
                "warning",
                f"{entry} is {value} in {' of '.join(where)}, a whole number: the class of '{name.split('.')[0]}' in "
                "transformers 5 takes a number with a fraction there, and refuses the file.",
                f"Write {value}.0.",
            )
    for entry, fixed in parts_of_class(name).items():  # all other groups are passed over
        if isinstance(part := group.get(entry), Mapping):
            yield from _in_group(part, fixed or part.get("model_type"), (entry, *where))
