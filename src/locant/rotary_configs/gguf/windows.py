"""Sliding windows of the architectures of GGUF files: which layers have one, and how far they see.

Source: ``load_arch_hparams`` of every architecture in ``src/models`` of llama.cpp, ``load_swa_pattern`` in
``llama-model.cpp`` and ``set_swa_pattern`` in ``llama-hparams.cpp``, as llama-cpp-python 0.3.36 brings them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from locant.positions.scaling.fields import Fields
from locant.rotary_configs.base import number_of_layers
from locant.rotary_configs.gguf.architectures import DRAFT_OF_DEEPSEEK4

WINDOW = "attention.sliding_window"
PATTERN = "attention.sliding_window_pattern"


@dataclass(frozen=True)
class Windows:
    """How an architecture finds its layers with windows.

    Attributes:
        period: One layer in so many has full attention, where the file states no other number; ``None`` where it must
            list the layers.
        full_first: Whether that is the first of a period, not the last.
        needed: Whether llama.cpp refuses a file without a window.
        usual: The window of a file that states none.
        fixed: The window, whatever the file states.
        both_ways: Whether half of the window is behind a token, and half ahead of it.
    """

    period: int | None = 4
    full_first: bool = False
    needed: bool = False
    usual: int | None = None
    fixed: int | None = None
    both_ways: bool = False

    @property
    def stays(self) -> bool:
        """Whether layers slide even with a window of 0; it switches the windows of the others off."""
        return self.needed or (self.usual is not None and self.fixed is None)


_LISTED = Windows(period=None, needed=True)
WINDOWS = {
    "afmoe": Windows(),
    "cohere2": Windows(needed=True),
    "cohere2moe": Windows(needed=True, full_first=True),
    "dflash": Windows(period=None),
    "dots3note": _LISTED,
    "exaone-moe": Windows(needed=True),
    "exaone4": Windows(usual=4096),
    "gemma-embedding": Windows(6, needed=True, both_ways=True),
    "gemma2": Windows(2, usual=4096),
    "gemma3": Windows(6),
    "gemma3n": Windows(5, needed=True),
    "gemma4": _LISTED,
    "gemma4-assistant": _LISTED,
    "gpt-oss": Windows(2, needed=True),
    "granite_swa": _LISTED,
    "laguna": Windows(full_first=True),
    "llama4": Windows(usual=8192, fixed=8192),
    "maple": _LISTED,
    "mellum": Windows(),
    "mimo2": _LISTED,
    "modern-bert": Windows(3, full_first=True, both_ways=True),
    "muse-glimmer": Windows(needed=True),
    "olmo2": Windows(),
    "plamo3": Windows(8),
    "smallthinker": Windows(full_first=True, fixed=4096),
    "spark2_5": _LISTED,
    "step35": _LISTED,
}
"""Architectures with windows in some of their layers; others pass over the keys, but for those of
:data:`WINDOW_EVERYWHERE`."""

WINDOW_EVERYWHERE = frozenset(("deepseek4", "lfm2", DRAFT_OF_DEEPSEEK4))
"""Architectures whose layers of attention all have the window that the file states."""

_DEEPER = 64  # layers of EXAONE 4 32B, the one with windows


def windows_of(architecture: str, count: int | None) -> Windows | None:
    """Return how a file of so many layers finds those with windows; ``None`` where none has one."""
    deeper = depth_with_windows(architecture)
    return WINDOWS.get(architecture) if deeper in (None, count) else None


def depth_with_windows(architecture: str) -> int | None:
    """Return the number of layers that files of an architecture with windows have, ``None`` where any may have them."""
    return _DEEPER if architecture == "exaone4" else None


def window_of(keys: Fields, architecture: str) -> int | None:
    """Return how many tokens layers with a window see, looking back from one, itself among them.

    ``None`` where no layer has a window, or the file does not say.
    """
    stated = keys.get(WINDOW)
    stated = stated if isinstance(stated, int) and not isinstance(stated, bool) else None
    windows = WINDOWS.get(architecture)
    if windows is None:
        return (stated or None) if architecture in WINDOW_EVERYWHERE else None
    size = windows.usual if stated is None else stated
    if not size:
        return None
    size = windows.fixed or size
    return size // 2 + 1 if windows.both_ways else size


def has_windows(keys: Fields, architecture: str) -> bool:
    """Return whether layers of a file may have a window: its architecture has some, and nothing switches them off."""
    if architecture in WINDOW_EVERYWHERE:
        return window_of(keys, architecture) is not None
    windows = windows_of(architecture, keys.get("block_count"))
    return windows is not None and (windows.stays or window_of(keys, architecture) is not None)


def first_layer_slides(keys: Fields, architecture: str) -> bool:
    """Return whether the first layer has a window, whose sizes graphs of one size have in all layers."""
    if architecture in WINDOW_EVERYWHERE:
        return window_of(keys, architecture) is not None
    slides = sliding_layers(keys, architecture, number_of_layers(keys, "block_count") or 1)
    return bool(slides and slides[0])


def sliding_layers(keys: Fields, architecture: str, count: int) -> tuple[bool, ...] | None:
    """Return for every layer whether it has a window; ``None`` where the file must say, and does not.

    Args:
        keys: The metadata of the architecture.
        architecture: ``general.architecture``.
        count: Number of layers that compute the next token.
    """
    windows = windows_of(architecture, count)
    if windows is None or not (windows.stays or window_of(keys, architecture)):
        return (False,) * count
    pattern = keys.get(PATTERN)
    if isinstance(pattern, Sequence) and not isinstance(pattern, str):
        return tuple(index < len(pattern) and bool(pattern[index]) for index in range(count))
    if windows.period is None:
        return None
    stated = isinstance(pattern, int) and not isinstance(pattern, bool)
    period = pattern if stated else windows.period
    full = 0 if windows.full_first else period - 1
    return tuple(period == 0 or index % period != full for index in range(count))
