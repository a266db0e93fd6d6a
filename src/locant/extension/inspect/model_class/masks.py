"""The windows of a model's attention, read from the functions by which transformers makes its masks.

A mask function tells of a query and a key, by their indices, whether the one sees the other. It is asked about indices
far beyond the few tokens of the model's input, so that windows of any size show.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor, nn

    from locant.extension.inspect.model_class.observe import ObservedLayer

_FAR = 1 << 24
"""Index of the query that is asked about; windows that are longer are taken for none."""
_TOKENS = 5
_TOKEN = 7


@dataclass(frozen=True)
class SeenMask:
    """The mask of a layer.

    Attributes:
        window: Tokens that it looks back over, the token itself among them; ``None`` for the whole text.
    """

    window: int | None


@dataclass
class MaskRecorder:
    """The masks of one pass.

    Attributes:
        names: Names of modules, by their ``id``.
        made: Masks that transformers made, with the function that each is of.
        used: The function of the mask that each attention module was given, by its name.
    """

    names: dict[int, str]
    made: list[tuple[Tensor, Callable[..., Any]]] = field(default_factory=list)
    used: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def keep(self, module: nn.Module, mask: Any) -> None:
        """Note the mask that an attention module was given; it may be a part of the one that was made."""
        if isinstance(mask, torch.Tensor):
            place = mask.untyped_storage().data_ptr()
            for made, function in self.made:
                if made.untyped_storage().data_ptr() == place:
                    self.used.setdefault(self.names.get(id(module), ""), function)


_recording: list[MaskRecorder] = []


def recorder_of_masks() -> MaskRecorder | None:
    """Return what notes the masks of the pass that runs, where they are wanted."""
    return _recording[-1] if _recording else None


def make_mask(*args: Any, **options: Any) -> Any:
    """Return a mask as transformers makes it for its own attention in PyTorch's operations, and note it if wanted."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    recorder = recorder_of_masks()
    if recorder is not None:  # a mask that hides nothing of so few tokens is wanted, too
        options["allow_is_bidirectional_skip"] = False
    mask = ALL_MASK_ATTENTION_FUNCTIONS["eager"](*args, **options)
    if recorder is not None and mask is not None and "mask_function" in options:
        recorder.made.append((mask, options["mask_function"]))
    return mask


@contextlib.contextmanager
def _recorded(model: nn.Module) -> Iterator[MaskRecorder]:
    _recording.append(MaskRecorder({id(module): name for name, module in model.named_modules()}))
    try:
        yield _recording[-1]
    finally:
        _recording.pop()


@torch.no_grad()
def with_masks(model: nn.Module, layers: Sequence[ObservedLayer]) -> tuple[ObservedLayer, ...]:
    """Return layers with their masks, as far as these are made by transformers' mask functions.

    Args:
        model: The model, which attends by the observed attention.
        layers: What its layers were seen to do.
    """
    accepted = inspect.signature(model.forward).parameters
    ids = torch.full((1, _TOKENS), _TOKEN)
    given = {"input_ids": ids, "decoder_input_ids": ids, "use_cache": False}
    seen: dict[str, SeenMask] = {}
    # Classes raise whatever they like for a text alone.
    with contextlib.suppress(Exception), _recorded(model) as recorder:
        model(**{name: value for name, value in given.items() if name in accepted})
        windows = {function: window_of_mask(function) for function in recorder.used.values()}
        seen = {name: SeenMask(windows[function]) for name, function in recorder.used.items()}
    return tuple(replace(layer, mask=seen.get(layer.name)) for layer in layers)


def window_of_mask(sees: Callable[..., Any]) -> int | None:
    """Return the tokens that the widest query of a mask looks back over, itself among them; ``None`` for all.

    Args:
        sees: The mask function: index of the batch, the head, the query and the key to whether the key is seen.

    Example:
        >>> window_of_mask(lambda batch, head, query, key: key > query - 4)
        4
        >>> window_of_mask(lambda batch, head, query, key: key // 6 == query // 6)
        6
    """
    first = _first_seen(sees, _FAR)
    if first is None:
        return 0
    if first == 0:
        return None
    before = _first_seen(sees, first - 1)  # of the last query of a chunk, where attention is chunked
    return max(_FAR - first, 0 if before is None else first - 1 - before) + 1


def _first_seen(sees: Callable[..., Any], query: int) -> int | None:
    """Return the first of the keys in a row, up to its own, that a query sees; ``None`` where it does not see that."""

    def is_seen(key: int) -> bool:
        return bool(sees(torch.tensor(0), torch.tensor(0), torch.tensor(query), torch.tensor(key)))

    if not is_seen(query):
        return None
    low, high = 0, query
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_seen(middle) else (middle + 1, high)
    return low
