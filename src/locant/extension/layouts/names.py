"""Names of tensors in a checkpoint's files, and which parameters of a class they become."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from locant.errors import UsageError
from locant.extension.layouts.rows import RotatedRows
from locant.extension.layouts.stored import StoredTensor, check_rows

if TYPE_CHECKING:
    from torch import nn


def rows_in_files(
    model: nn.Module, rows: Mapping[str, RotatedRows], stored: Mapping[str, StoredTensor]
) -> dict[str, RotatedRows]:
    """Return the rows of the tensors in files, by the names that these have there.

    Names are translated as transformers does when it loads a checkpoint. Tensors of further layers, which the class
    passes over (those that predict more tokens, say), are taken as well where they are named and shaped alike.

    Args:
        model: From :func:`~locant.extension.layouts.low_rank.build_low_rank`.
        rows: By the names of its parameters.
        stored: The tensors in the files.

    Raises:
        UsageError: A tensor is not there, is of another shape, quantized, or taken apart while it is loaded.
    """
    shapes = parameter_shapes(model)
    found: dict[str, RotatedRows] = {}
    for parameter, name in _stored_names(model, rows, shapes, stored).items():
        check_rows(name, stored[name], rows[parameter], shapes[parameter])
        if found.setdefault(name, rows[parameter]) != rows[parameter]:
            raise UsageError(f"'{name}' in {stored[name].file.name} serves layers that rotate differently.")
    return found | _of_further_layers(found, stored)


def parameter_shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a class's parameters, whole where the model has them in parts."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name.endswith(".left"):
            owner: Any = model.get_submodule(name.removesuffix(".left"))
            shapes[f"{name.removesuffix('.left')}.weight"] = (owner.out_features, owner.in_features)
        elif not name.endswith(".right"):
            shapes[name] = tuple(parameter.shape)
    return shapes


def _stored_names(
    model: nn.Module, rows: Mapping[str, RotatedRows], shapes: Mapping[str, Any], stored: Iterable[str]
) -> dict[str, str]:
    """Return the name in the files of every parameter that has rows, but of those that are tied to another."""
    loaded = _loaded_names(model, shapes, stored)
    tied: Mapping[str, str] = getattr(model, "all_tied_weights_keys", None) or {}
    found: dict[str, str] = {}
    for parameter in rows:
        named, is_whole = loaded.get(parameter, (None, True))
        if named is None and rows.get(tied.get(parameter, "")) == rows[parameter]:
            continue
        if named is None:
            raise UsageError(
                f"The files have no tensor that {type(model).__name__} would take for '{parameter}', which it rotates."
            )
        if not is_whole:
            raise UsageError(
                f"transformers takes '{named}' apart when it loads the files, so its rows are not those of "
                f"{type(model).__name__}. Such a checkpoint cannot be converted."
            )
        found[parameter] = named
    return found


def _loaded_names(model: nn.Module, shapes: Mapping[str, Any], stored: Iterable[str]) -> dict[str, tuple[str, bool]]:
    """Return what each parameter is loaded from, and whether it is as it is in the file."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

    conversions: list[Any] = get_model_conversion_mapping(model)  # type: ignore[arg-type]
    renamings = [each for each in conversions if isinstance(each, WeightRenaming)]
    converters = [each for each in conversions if isinstance(each, WeightConverter)]
    prefix = str(getattr(model, "base_model_prefix", ""))
    found: dict[str, tuple[str, bool]] = {}
    for name in stored:
        loaded, converter = rename_source_key(name, renamings, converters, prefix, dict(shapes))
        if loaded in found and name != loaded:
            continue
        found[loaded] = (name, converter is None)
    return found


def _of_further_layers(found: Mapping[str, RotatedRows], stored: Mapping[str, StoredTensor]) -> dict[str, RotatedRows]:
    by_pattern: dict[tuple[str, tuple[int, ...]], set[RotatedRows]] = {}
    for name, rows in found.items():
        by_pattern.setdefault((_pattern(name), stored[name].shape), set()).add(rows)
    further = {}
    for name, tensor in stored.items():
        alike = by_pattern.get((_pattern(name), tensor.shape), set())
        if name not in found and len(alike) == 1 and _index(name) > max(_index(each) for each in found):
            further[name] = next(iter(alike))
    return further


def _pattern(name: str) -> str:
    return re.sub(r"\d+", "*", name)


def _index(name: str) -> int:
    number = re.search(r"\d+", name)
    return int(number[0]) if number else -1
