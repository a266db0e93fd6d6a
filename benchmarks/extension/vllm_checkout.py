"""vLLM's rotary classes and models from a checkout of its sources, run without what vLLM needs to run.

Executed are vLLM's files about rotary positions, about configurations and about models. Whatever else they import from
vLLM is replaced: classes by modules without weights, everything else by something that is false, empty and zero. The
models that come out have no weights and cannot compute, but every rotary module in them is vLLM's own.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import nn

EXECUTED = (
    "vllm.model_executor.layers.rotary_embedding",
    "vllm.model_executor.models",
    "vllm.transformers_utils.config",
    "vllm.transformers_utils.configs",
    "vllm.config.utils",
    "vllm.utils.math_utils",
    "vllm.utils.collection_utils",
)
"""Modules of vLLM whose files are run, with those below them."""


class Nothing:
    """Something false, empty and zero; as a decorator it changes nothing."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        is_decorated = len(args) == 1 and not kwargs and isinstance(args[0], type | types.FunctionType)
        return args[0] if is_decorated else Nothing()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __getitem__(self, key: Any) -> Any:
        return Nothing()

    def __repr__(self) -> str:
        return "Nothing"  # without an address, which a record would keep

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __index__(self) -> int:
        return 0

    __int__ = __index__

    def __float__(self) -> float:
        return 0.0

    def __or__(self, other: Any) -> Any:
        return Any

    __ror__ = __or__

    def __lt__(self, other: Any) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nothing)

    def __hash__(self) -> int:
        return 0

    def __add__(self, other: Any) -> Any:
        return other

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __add__
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __add__

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *raised: Any) -> None:
        return None


class _Replaced(type):
    def mro(cls) -> list[type]:
        """Return the bases of a class; nn.Module behind replacements that stand after it."""
        try:
            return super().mro()
        except TypeError:
            last = nn.Module.__mro__
            found = [base for each in cls.__bases__ for base in each.__mro__ if base not in last]
            return [cls, *dict.fromkeys(found), *last]

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __getitem__(cls, key: Any) -> Any:
        return cls


class Replacement(nn.Module, metaclass=_Replaced):
    """A class of vLLM that is not run."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return Nothing()

    def tie_weights(self, other: nn.Module) -> nn.Module:
        """Return the embedding whose weights a projection to the vocabulary takes."""
        return other


class CustomOp(nn.Module):
    """The base of vLLM's rotary classes, which is asked for an attribute before it has it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    @staticmethod
    def register(name: str, **kwargs: Any) -> Callable[[type], type]:
        """Return a decorator that changes nothing."""
        del name, kwargs
        return lambda cls: cls

    @staticmethod
    def enabled() -> bool:
        """Return that kernels are not used."""
        return False


class _One(SimpleNamespace):
    """The group of the one process that there is."""

    def __getattr__(self, name: str) -> Any:
        return Nothing()


_GROUP = _One(rank_in_group=0, world_size=1, is_first_rank=True, is_last_rank=True, rank=0, size=lambda: 1)
serving = _One(model_config=_One(max_model_len=0))
"""What vLLM's classes see of the whole configuration while they are built."""

_KNOWN: dict[str, Any] = {
    "CustomOp": CustomOp,
    "get_tensor_model_parallel_world_size": lambda: 1,
    "get_tensor_model_parallel_rank": lambda: 0,
    "get_pp_group": lambda: _GROUP,
    "get_tp_group": lambda: _GROUP,
    "get_ep_group": lambda: _GROUP,
    "get_pp_indices": lambda layers, rank, size: (0, layers),
    "get_offloader": lambda: _One(wrap_modules=lambda modules, **options: list(modules)),
    "get_current_vllm_config": lambda: serving,
    "divide": lambda numerator, denominator: numerator // denominator,
    "supports_kw": lambda *args, **kwargs: True,
}


class _ReplacedModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _KNOWN:
            return _KNOWN[name]
        found: Any = Nothing()
        if re.match(r"_?[A-Z]\w*[a-z]", name):
            found = _Replaced(name, (Replacement,), {})
        setattr(self, name, found)
        return found


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds vLLM's modules: the files of those that are run, replacements of the others."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if name.split(".")[0] != "vllm":
            return None
        if any(name == each or name.startswith(f"{each}.") for each in EXECUTED):
            place = self.root.joinpath(*name.split("."))
            if place.is_dir():
                below = [str(place)]
                return importlib.util.spec_from_file_location(
                    name, place / "__init__.py", submodule_search_locations=below
                )
            if place.with_suffix(".py").exists():
                return importlib.util.spec_from_file_location(name, place.with_suffix(".py"))
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        return _ReplacedModule(spec.name)

    def exec_module(self, module: Any) -> None:
        module.__path__ = []


def use(checkout: Path) -> None:
    """Make ``import vllm`` mean the checkout from now on.

    Args:
        checkout: Folder that holds vLLM's folder ``vllm``.
    """
    assert (checkout / "vllm" / "model_executor" / "models").is_dir(), f"{checkout} holds no sources of vLLM."
    sys.meta_path.insert(0, _Finder(checkout))
    sys.modules.setdefault("regex", re)


def configuration(config: Any) -> Any:
    """Return a configuration of transformers as vLLM's models get it."""
    patch = importlib.import_module("vllm.transformers_utils.config").patch_rope_parameters
    patch(config)
    if config.get_text_config() is not config:
        patch(config.get_text_config())
    return config


def model(module: str, name: str, config: Any, max_model_len: int) -> nn.Module:
    """Return a model of vLLM, without weights.

    Args:
        module: File of the model, below vLLM's ``models``.
        name: Its class.
        config: Its configuration, as :func:`configuration` returns it.
        max_model_len: Longest text that is served.
    """
    serving.model_config = _One(
        hf_config=config,
        hf_text_config=config.get_text_config(),
        max_model_len=max_model_len,
        dtype=__import__("torch").float32,
        is_attention_free=False,
        enforce_eager=True,
    )
    serving.quant_config = serving.lora_config = serving.speculative_config = None
    serving.cache_config = _One(sliding_window=None, block_size=16, cache_dtype="auto")
    serving.parallel_config = _One(tensor_parallel_size=1, pipeline_parallel_size=1, world_size=1)
    serving.scheduler_config = _One(max_num_batched_tokens=max_model_len, max_num_seqs=1)
    rotary = importlib.import_module("vllm.model_executor.layers.rotary_embedding")
    rotary._ROPE_DICT.clear()
    built: Callable[..., nn.Module] = getattr(importlib.import_module(f"vllm.model_executor.models.{module}"), name)
    return built(vllm_config=serving, prefix="model")


def models_by_architecture() -> dict[str, tuple[str, str]]:
    """Return the file and the class of every architecture that generates text."""
    registry = importlib.import_module("vllm.model_executor.models.registry")
    return dict(registry._TEXT_GENERATION_MODELS)
