"""Which rows of which weights become rotated features, told by the labels of made-up numbers in the model's class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from locant.errors import LocantError, UsageError
from locant.extension.asked.build import Built, ClassRefusesError, build, completed_config
from locant.extension.asked.turn import Turn, origins
from locant.extension.asked.watch import Watch, heard, watched
from locant.extension.asked.weightless import no_weights
from locant.positions.rotary.config import RotaryLayout

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class RotatedRows:
    """Where the rotated features of heads are in a tensor.

    Attributes:
        axis: Along this axis,
        size: which has that many rows,
        starts: blocks of rows begin here, each of which has
        count: that many rows, all rotated features of a head.
        layout: How they are paired.
    """

    axis: int
    size: int
    starts: tuple[int, ...]
    count: int
    layout: RotaryLayout


@dataclass(frozen=True)
class AskedLayout:
    """What a class does with the rows of a model's weights.

    Attributes:
        config: The configuration that it makes of config.json.
        model: The model that a checkpoint is of, without weights.
        turns: What attention does to queries and keys, by the names of its modules.
        rows: Where rotated features are, by the names of the parameters.
        layout: How they are paired there.
    """

    config: Any
    model: nn.Module
    turns: Mapping[str, Turn]
    rows: Mapping[str, RotatedRows]
    layout: RotaryLayout

    @property
    def name(self) -> str:
        """Name of the class."""
        return type(self.model).__name__


def ask_layout(content: Mapping[str, Any]) -> AskedLayout:
    """Ask the class of a config.json's content which rows of its weights are rotated.

    Raises:
        NoClassError: transformers has no class for the model type, or is not installed.
        ClassRefusesError: The class makes no model of the file.
        LocantError: It does not rotate, or in a way for which rows have no order that could be changed.
    """
    with heard():
        config, built = completed_config(content), build(content)
        found = _checkpoint_class(content, config)
        watch = watched(built.model, built.length)
        try:
            with no_weights():
                model: nn.Module = found(config).eval()
        except Exception as error:  # whatever the class raises
            raise ClassRefusesError("build", found.__name__, error) from error
    inside = [f"{name}." if name else "" for name, each in model.named_modules() if type(each) is type(built.model)]
    if len(inside) != 1:
        raise LocantError(f"{found.__name__} has {len(inside)} parts of the class {built.name} instead of one.")
    rows = {inside[0] + name: each for name, each in rotated_rows(built, watch).items()}
    turns = {inside[0] + call.name: call.turn for call in watch.calls.values() if call.turn is not None}
    if not turns:
        raise UsageError(f"{built.name} does not rotate queries and keys, so its weights have no rotary layout.")
    layouts = {each.layout for each in rows.values()}
    if len(layouts) != 1 or any(min(turn.frequencies) < 0 for turn in turns.values()):
        raise LocantError(f"{built.name} turns pairs of several layouts, or backwards: its rows have no single layout.")
    return AskedLayout(config, model, turns, rows, layouts.pop())


def _checkpoint_class(content: Mapping[str, Any], config: Any) -> type[Any]:
    """Return the class whose tensors a checkpoint has: the one that config.json names, or a usual one."""
    import transformers
    from transformers.models.auto import modeling_auto as auto

    for name in content.get("architectures") or ():
        found: Any = getattr(transformers, str(name), None)
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found
    for kind in ("FOR_CAUSAL_LM_", "FOR_SEQ_TO_SEQ_CAUSAL_LM_", "FOR_MASKED_LM_", "FOR_IMAGE_TEXT_TO_TEXT_", ""):
        known: Any = getattr(auto, f"MODEL_{kind}MAPPING")
        if type(config) in known:
            usual: type[Any] = known[type(config)]
            return usual
    raise UsageError(f"transformers has no model with weights for the model type '{content.get('model_type')}'.")


def rotated_rows(built: Built, watch: Watch) -> dict[str, RotatedRows]:
    """Return the rows of all weights that become rotated features, by the names of the parameters of the bare model.

    Weights of single features between a projection and the rotation, those of norms, have their "rows" as well.

    Args:
        built: The model.
        watch: What it did with a text.

    Raises:
        LocantError: The features of a head are not in rows of their own.
    """
    found: dict[str, RotatedRows] = {}
    alike: dict[Any, dict[str, RotatedRows]] = {}  # of layers that are alike, one is looked at
    for call in watch.calls.values():
        if (turn := call.turn) is None:
            continue
        if turn.layout is None:
            raise LocantError(f"{call.name} moves features otherwise than by turning pairs.")
        module, scope = built.model.get_submodule(call.name), f"{call.name}."
        sizes = tuple((name, tuple(each.shape)) for name, each in module.named_parameters())
        kind = type(module), sizes, turn.head_dim, turn.first, turn.rotary_dim, turn.layout
        if kind not in alike:
            starts = dict[tuple[str, int, int, RotaryLayout], set[int]]()
            for head in (*call.heads[0], *call.heads[1]):
                is_product = False
                block = head[turn.first : turn.first + turn.rotary_dim]
                for labelled, start, layout in origins(block, turn.layout, watch.labels.get(call.name, ())):
                    is_product = labelled.is_product
                    for weight in labelled.weights:
                        place = weight.name, weight.axis, weight.size, layout
                        row = weight.offset + (start if is_product else start % weight.size)
                        starts.setdefault(place, set()).add(row)
                if not is_product:
                    raise LocantError(f"Rotated features of {call.name} are not in rows of a weight of their own.")
            alike[kind] = {
                name.removeprefix(scope): RotatedRows(axis, size, tuple(sorted(each)), turn.rotary_dim, layout)
                for (name, axis, size, layout), each in starts.items()
            }
            if any(not name.startswith(scope) for name, *_ in starts):
                raise LocantError(f"{built.name} makes queries or keys of {call.name} of weights outside of it.")
            if len(alike[kind]) < len(starts):
                raise LocantError(f"A weight of {call.name} serves heads that are paired differently.")
        found |= {scope + name: each for name, each in alike[kind].items()}
    return found
