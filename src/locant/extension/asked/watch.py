"""A model of transformers watched at its attention while it reads a few tokens, without weights."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from locant.extension.asked.turn import Turn, measure_turn
from locant.extension.asked.weightless import Labelled, TooLargeError, Weightless

ATTENTION = "locant_asked"
"""Name under which transformers knows the attention that is watched; nothing else uses it."""

_ABOUT_ROPE = "transformers.modeling_rope_utils"  # the module that validates rotary entries
_TOKEN = 7
_FAR = 1 << 24  # index of the query that a mask is asked about; longer windows are taken for none
_ATTENTION = re.compile("[Aa]ttention|Attn|MLA")
_LINEAR = re.compile("Linear|Lightning|Delta")  # attention in which queries do not meet keys
_BESIDE = re.compile(
    r"(^|\.)(mlp|feed_forward|ffn|block_sparse_moe|moe|experts|shared_experts?|shared_mlp|linear_attn|mamba2?|ssm"
    "|temporal_block)$"
)


def is_attention(module: nn.Module) -> bool:
    """Whether queries meet keys in a module, by the name of its class."""
    kind = type(module).__name__
    return _ATTENTION.search(kind) is not None and _LINEAR.search(kind) is None


@dataclass(frozen=True)
class Call:
    """What one attention module attended with.

    Attributes:
        name: Its name.
        stack: Name of the list of layers that it is in.
        layer: Index of the layer, from 0; ``None`` where modules are not counted.
        heads: Queries and keys of the first token, ``[H, D]`` and ``[G, D]``.
        texts: Queries and keys of the first heads, ``[2, L, D]``.
        window: Tokens that it looks back over, itself among them; ``None`` for all.
    """

    name: str
    stack: str
    layer: int | None
    heads: tuple[Tensor, Tensor]
    texts: tuple[Tensor, Tensor]
    window: int | None

    @functools.cached_property
    def turn(self) -> Turn | None:
        """The rotation of its keys, or of its queries where these tell more; ``None`` where it has none."""
        queries, keys = self.texts
        turn = measure_turn(keys)  # queries may be scaled by their position
        if not bool(keys.any()) or (turn is not None and turn.layout is None):  # or keys mixed with their neighbours
            turn = measure_turn(queries)
        return turn


class Watch(Weightless):  # type: ignore[no-untyped-call]
    """What happens inside a model during one pass.

    Attributes:
        calls: The attention of each layer, in the order of computation.
        labels: Labelled numbers inside each attention module.
    """

    def __init__(self, model: nn.Module, length: int) -> None:
        super().__init__(model, length)
        self.calls: dict[tuple[str, str], Call] = {}
        self.labels: dict[str, list[Labelled]] = {}
        self.masks: list[tuple[Tensor, Callable[..., Any]]] = []
        self.running: list[str] = []  # attention modules, from the outermost
        self.layers: list[str] = []  # modules that are counted
        self._model = model
        self._names = {id(module): name for name, module in model.named_modules()}
        self._products: set[tuple[str, str]] = set()  # calls that were seen as a product alone

    def label(self, found: Labelled) -> None:
        """Keep what comes of weights inside attention modules."""
        if self.running:
            self.labels.setdefault(self.running[-1], []).append(found)

    def notice(self, name: str, args: Any) -> None:
        """See the product of queries and keys of classes that compute their own attention."""
        if name in ("bmm", "baddbmm") and self.running:
            query, key = args[-2:]
            if query.shape[-2] == key.shape[-1] == self.length != query.shape[-1]:
                window = getattr(self._model.get_submodule(self.running[-1]), "sliding_window", None)
                self._record(self.running[-1], query[None], key.mT[None], window, is_product=True)

    def attend(self, module: nn.Module, query: Tensor, key: Tensor, mask: Any, window: Any) -> None:
        """See what an attention module hands to transformers' attention."""
        if isinstance(mask, torch.Tensor):
            place = mask.untyped_storage().data_ptr()
            for made, function in self.masks:
                if made.untyped_storage().data_ptr() == place:
                    window = window_of_mask(function)
        name = self.running[-1] if self.running else self._names.get(id(module), "")
        if "meta" not in (query.device.type, key.device.type):
            self._record(name, query, key, window, is_product=False)

    def _record(self, name: str, query: Tensor, key: Tensor, window: Any, *, is_product: bool) -> None:
        place = layer, _ = self.layers[0] if self.layers else "", name
        known = place in self.calls and (is_product or place not in self._products)
        if known or query.shape[-2] != self.length or key.shape[-2] < self.length:
            return
        both, (stack, _, index) = (query, key[..., : self.length, :]), layer.rpartition(".")
        heads, texts = ([each[at].clone() for each in both] for at in ((0, slice(None), 0), (0, slice(2))))
        seen = window if isinstance(window, int) and window > 0 else None
        number = int(index) if index else None
        self.calls[place] = Call(name, stack, number, (heads[0], heads[1]), (texts[0], texts[1]), seen)
        (self._products.add if is_product else self._products.discard)(place)


@functools.lru_cache(maxsize=64)
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
    try:
        if not (first := _first_seen(sees, _FAR)):
            return None
        before = _first_seen(sees, first - 1)  # of the last query of a chunk, where attention is chunked
    except (IndexError, RuntimeError):  # a mask of this very text
        return None
    return max(_FAR - first, 0 if before is None else first - 1 - before) + 1


def _first_seen(sees: Callable[..., Any], query: int) -> int | None:
    """Return the first of the keys in a row, up to its own, that a query sees; ``None`` where it does not see that."""

    def is_seen(key: int) -> bool:
        return bool(sees(torch.tensor(0), torch.tensor(0), torch.tensor(query), torch.tensor(key)))

    low, high = 0, query
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_seen(middle) else (middle + 1, high)
    return low if is_seen(query) else None


_watching: list[Watch] = []


def register() -> None:
    """Make the attention that is watched known to transformers."""
    from transformers import AttentionInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

    def attention(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any = None, **options: Any) -> Any:
        for watch in _watching[-1:]:
            window = options.get("sliding_window") or getattr(module, "sliding_window", None)
            watch.attend(module, query, key, mask, window)
        return value.new_zeros(len(query), query.shape[2], query.shape[1], value.shape[-1]), None

    def make_mask(*args: Any, **options: Any) -> Any:
        mask = ALL_MASK_ATTENTION_FUNCTIONS["eager"](*args, **options | {"allow_is_bidirectional_skip": False})
        for watch in _watching[-1:]:
            watch.masks += [(mask, options["mask_function"])] if mask is not None and "mask_function" in options else []
        return mask

    AttentionInterface.register(ATTENTION, attention)
    AttentionMaskInterface.register(ATTENTION, make_mask)


@torch.no_grad()
def watched(model: nn.Module, length: int, positions: Tensor | None = None) -> Watch:
    """Let a model read a text of one token again and again, and watch it.

    Args:
        model: From :func:`~locant.extension.asked.weightless.no_weights`.
        length: Number of tokens.
        positions: Their positions, where the class takes them.

    Raises:
        Exception: Whatever the class raises.
    """
    accepted = inspect.signature(model.forward).parameters
    tokens: dict[str, Any] = dict.fromkeys(("input_ids", "decoder_input_ids"), torch.full((1, length), _TOKEN))
    if "input_ids" not in accepted and isinstance(width := getattr(model.config, "hidden_size", None), int):
        tokens["inputs_embeds"] = torch.ones(1, length, width)
    at = torch.arange(length)[None] if positions is None else positions
    refused: Exception | None = None
    for places in ({"position_ids": at, "decoder_position_ids": at}, {}):
        text = {n: each for n, each in (tokens | places | {"use_cache": False}).items() if n in accepted}
        for way in (without_mlps, contextlib.nullcontext):
            watch = Watch(model, length)
            handles = [each for name, module in model.named_modules() for each in _hooks(watch, name, module)]
            _watching.append(watch)
            try:
                with way(model), watch:
                    model(**text)
                return watch
            except TooLargeError:
                raise
            except Exception as error:  # what it reads, or a part that was left out, is needed
                refused = refused or error.with_traceback(None)  # which would keep what was made
            finally:
                _watching.pop()
                for each in handles:
                    each.remove()
    assert refused is not None
    raise refused


def _hooks(watch: Watch, name: str, module: nn.Module) -> Iterator[Any]:
    def hook(places: list[str], *, leaves: bool) -> Callable[..., None]:
        return lambda *_: places.__delitem__(slice(places.index(name), None)) if leaves else places.append(name)

    for places, is_wanted in ((watch.running, is_attention(module)), (watch.layers, re.search(r"(^|\.)\d+$", name))):
        if is_wanted:
            yield module.register_forward_pre_hook(hook(places, leaves=False))
            yield module.register_forward_hook(hook(places, leaves=True), always_call=True)


@contextlib.contextmanager
def without_mlps(model: nn.Module) -> Iterator[None]:
    """MLPs, experts and recurrences give what the first of their class gave, zeros, or what they are given.

    Nothing there is about rotations.
    """
    given: dict[type[nn.Module], Any] = {}

    def first(module: nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        kind = type(module)
        if kind not in given:
            given[kind] = (*args, *kwargs.values())[0]
            with contextlib.suppress(Exception):  # experts ask for numbers
                given[kind] = _watching[-1].shapes_of(forward, args, kwargs)
        return given[kind]

    changed = []
    for name, module in model.named_modules():
        kind = type(module).__name__
        is_beside = _BESIDE.search(name) or _ATTENTION.search(kind) or "Mixer" in kind
        if is_beside and not any(map(is_attention, module.modules())):
            module.forward = functools.partial(first, module, module.forward)
            changed.append(module)
    try:
        yield
    finally:
        for module in changed:
            del module.forward


@contextlib.contextmanager
def heard() -> Iterator[list[str]]:
    """Collect what transformers warns of in rotary entries within this; nothing that it warns of is printed."""
    theirs = sys.modules.get("transformers.utils.logging")  # where it is not imported yet, it has said nothing
    said: list[str] = []
    ear = logging.Handler(logging.WARNING)

    def emit(record: logging.LogRecord) -> None:
        said.extend([record.getMessage()] if record.name == _ABOUT_ROPE else [])

    ear.emit = emit  # type: ignore[method-assign]
    logger = logging.getLogger("transformers")
    before = logger.level, logger.handlers, logger.propagate
    logger.handlers, logger.propagate, logger.level = [ear], False, logging.WARNING
    # What it said of another file it says of this one too.
    getattr(getattr(theirs, "warning_once", None), "cache_clear", lambda: None)()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield said
    finally:
        logger.level, logger.handlers, logger.propagate = before
