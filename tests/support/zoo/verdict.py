"""Comparison of what Locant reads from a config.json with what the class does that transformers builds from it."""

from __future__ import annotations

import contextlib
import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from locant.errors import ConfigError
from locant.extension.inspect.model_class.compare import compare_with_class
from locant.extension.inspect.model_class.observe import ObservedLayer, observe
from locant.extension.inspect.model_class.small_model import build, quiet
from locant.extension.inspect.model_class.turning_axes import takes_axes
from locant.rotary_configs import read_huggingface
from locant.rotary_configs.base import ParsedConfig
from locant.rotary_configs.classes.families import ONE_POSITION_FOR_ALL_AXES
from zoo.attention import axis_differences, window_differences
from zoo.cases import LENGTH, Case

if TYPE_CHECKING:
    from torch import nn

SHORT = (0, 1, 3, 17, LENGTH // 4 - 30)
LONG = (0, 1, 3, 17, 150, LENGTH - 1, LENGTH * 4)


Outcome = Literal["right", "warned", "refused", "wrong", "not built"]


@dataclass(frozen=True)
class Verdict:
    """The outcome of one case.

    Attributes:
        model_type: The architecture.
        seed: Seed of the case.
        form: Form of the file.
        rope_type: The scaling that was drawn.
        outcome: ``right``; ``warned`` where Locant reads something else and says that the class does; ``refused`` by
            Locant; ``wrong``; ``not built`` where the class itself refuses the file.
        reason: Locant's message, the differences, or the error of the class.
        rotating: Layers that rotate, as observed.
        still: Attention layers that do not.
        layout: Their pairing.
        windows: Whether the windows of masks were compared as well.
        axes: Whether the axes of positions were.
    """

    model_type: str
    seed: int
    form: str
    rope_type: str
    outcome: Outcome
    reason: str = ""
    rotating: int = 0
    still: int = 0
    layout: str | None = None
    windows: bool = False
    axes: bool = False

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def judge(case: Case, config_class: Any, part: tuple[str, ...] = ()) -> Verdict:
    """Compare one case at a short and, where its scaling depends on the length, at a long text.

    Args:
        case: The case.
        config_class: Class that reads the file.
        part: Names of the nested groups that lead to the text part of what it reads.
    """
    about = (case.model_type, case.seed, case.form, case.rope_type)
    try:
        with quiet():
            config = text_config(case, config_class, part)
            model = build(config)
            short = observe(model, SHORT)
    except Exception as error:  # whatever the class raises
        return Verdict(*about, "not built", first_line(error))
    # What moves otherwise than by turning pairs has relative positions of another kind.
    rotating = [layer for layer in short if layer.rotation is not None and layer.rotation.layout is not None]
    seen: dict[str, Any] = {
        "rotating": len(rotating),
        "still": len(short) - len(rotating),
        "layout": rotating[0].layout if rotating else None,
    }
    try:
        parsed = read_huggingface(case.content)
    except ConfigError as error:
        refused_rightly = not rotating and "no rotary positions" in str(error)
        return Verdict(*about, "right" if refused_rightly else "refused", str(error), **seen)
    reasons = _differences(parsed, short, SHORT)
    if not reasons and any(each.scaling.depends_on_length for each in parsed.configs.values()):
        with quiet():
            long = build(text_config(case, config_class, part))
            reasons = _differences(parsed, observe(long, LONG), LONG)
    if not reasons:
        # Positions of several axes would be ours: the class makes none such.
        one_position = case.content.get("model_type") in ONE_POSITION_FOR_ALL_AXES
        more, compared = _masks_and_axes(parsed, model, short, takes_axes(type(config)) and not one_position)
        reasons, seen = more, seen | compared
    if not reasons:
        return Verdict(*about, "right", **seen)
    return Verdict(*about, "wrong", "; ".join(reasons), **seen)


def text_config(case: Case, config_class: Any, part: tuple[str, ...]) -> Any:
    """Return what a configuration's class reads from the file of a case; of a multimodal model, its text part."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(case.content), encoding="utf-8")
        config = config_class.from_pretrained(folder)
    for name in part:
        config = getattr(config, name)
    return config


def _differences(parsed: ParsedConfig, layers: list[ObservedLayer], positions: tuple[int, ...]) -> list[str]:
    try:
        found = compare_with_class(parsed, layers, positions[-1] + 1)
    except ConfigError as error:
        return [str(error)]
    return [f"layers {list(each.layers)}: {each.read}, but the class: {each.found}" for each in found]


def _masks_and_axes(
    parsed: ParsedConfig, model: nn.Module, layers: list[ObservedLayer], several_axes: bool
) -> tuple[list[str], dict[str, bool]]:
    """Return the differences in windows and axes, and which of them the class shows."""
    windows = axes = None
    with contextlib.suppress(Exception), quiet():  # whatever a class raises for a text without positions
        windows = window_differences(parsed, model)
    if several_axes:
        with quiet():
            axes = axis_differences(parsed, model, layers)
    found = [*(windows or ()), *(axes or ())]
    return found, {"windows": windows is not None, "axes": axes is not None}


def first_line(error: Exception) -> str:
    """Return what a class said when it refused a file."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = " ".join(lines[:1] if len(lines) < 2 or not lines[0].endswith(":") else lines[:2])
    return f"{type(error).__name__}: {said[:200]}"
