"""What the class of a model in transformers does with the rows of its weights, and that class whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from locant.errors import LocantError, UsageError
from locant.extension.asked.build import ClassRefusesError, build, completed_config
from locant.extension.asked.rows import RotatedRows, rotated_rows
from locant.extension.asked.turn import Turn
from locant.extension.asked.watch import heard, watched
from locant.extension.asked.weightless import no_weights

if TYPE_CHECKING:
    from torch import nn

    from locant.positions.rotary.config import RotaryLayout


@dataclass(frozen=True)
class AskedLayout:
    """What a class does with the rows of a model's weights.

    Attributes:
        config: The configuration that it makes of config.json.
        model: The model that a checkpoint is of, without weights.
        turns: What attention does to queries and keys, by the names of its modules.
        rows: Where rotated features stand, by the names of the parameters.
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
        config = completed_config(content)
        found = _checkpoint_class(content, config)
        built = build(content)
        calls = watched(built.model, built.length).calls.values()
        try:
            with no_weights():
                model: nn.Module = found(config).eval()
        except Exception as error:  # whatever the class raises
            raise ClassRefusesError("build", found.__name__, error) from error
    inside = [f"{name}." if name else "" for name, each in model.named_modules() if type(each) is type(built.model)]
    if len(inside) != 1:
        raise LocantError(f"{found.__name__} has {len(inside)} parts of the class {built.name} instead of one.")
    rows = {inside[0] + name: each for name, each in rotated_rows(content).items()}
    turns = {inside[0] + call.name: call.turn for call in calls if call.turn is not None}
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
