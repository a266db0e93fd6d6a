"""Classes like those of a model's modules, in which some functions are Locant's; a module takes one and gives it back.

The functions of such a class are those of the original with globals of their own. Nothing of transformers is changed,
other models of the same class are not touched, and a module keeps its parameters, buffers, hooks and name.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from torch import nn

ORIGINAL = "locant_original_class"
"""Attribute of a served class: the class that it stands for."""

_HOOKED = "_old_forward"
"""Attribute in which the hooks of accelerate, which move modules to devices, keep a forward pass."""

_ROTATION = re.compile(r"apply_.*(rot|rope)")
_ANGLES = {"cos", "sin", "freqs_cis"}


class Serving(Protocol):
    """What a served class is made of; an instance is hashable and can be pickled."""

    def members(self, original: type[nn.Module]) -> dict[str, Any]:
        """Return the members that take the place of those of the original class."""


_CLASSES: dict[tuple[type[nn.Module], Serving], type[nn.Module]] = {}


def served_class(original: type[nn.Module], serving: Serving) -> type[nn.Module]:
    """Return the class that stands for another one; the same for the same arguments.

    Copies and pickles of its instances are instances of it again.
    """
    if (original, serving) not in _CLASSES:
        _CLASSES[original, serving] = _made(original, serving)
    return _CLASSES[original, serving]


def _made(original: type[nn.Module], serving: Serving) -> type[nn.Module]:

    def reduce(self: Any, protocol: Any) -> Any:
        del protocol
        return _new_instance, (original, serving), self.__getstate__()

    about = {"__module__": original.__module__, "__qualname__": original.__qualname__, "__doc__": original.__doc__}
    return type(
        original.__name__,
        (original,),
        {**about, ORIGINAL: original, "__reduce_ex__": reduce, **serving.members(original)},
    )


def _new_instance(original: type[nn.Module], serving: Serving) -> Any:
    kind = served_class(original, serving)
    return kind.__new__(kind)


def serve(module: nn.Module, serving: Serving) -> None:
    """Give a module the served class in the place of its own."""
    _take_class(module, served_class(type(module), serving))


def give_back(module: nn.Module) -> None:
    """Give a served module its own class again."""
    original = original_class(module)
    assert original is not None
    _take_class(module, original)


def is_replaced(module: nn.Module) -> bool:
    """Return whether a tool other than the hooks of accelerate has replaced a module's forward pass."""
    return "forward" in vars(module) and not inspect.ismethod(vars(module).get(_HOOKED))


def _take_class(module: nn.Module, kind: type[nn.Module]) -> None:
    module.__class__ = kind
    if _HOOKED in vars(module):
        module.__dict__[_HOOKED] = types.MethodType(kind.forward, module)


def original_class(module: nn.Module) -> type[nn.Module] | None:
    """Return the class that a served module had, or ``None`` where it is not served."""
    found: type[nn.Module] | None = getattr(type(module), ORIGINAL, None)
    return found


def methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the methods of a class by name, its own and inherited ones."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if base in (nn.Module, object):
            continue
        for name, member in vars(base).items():
            if name not in seen and isinstance(member, types.FunctionType):
                seen.add(name)
                yield name, member


def rotations(function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return the functions that rotate queries and keys among the globals that a function uses, by name."""
    inner: Any = inspect.unwrap(function)
    found = {name: inner.__globals__.get(name) for name in names_in(inner.__code__) if _ROTATION.match(name)}
    return {
        name: value
        for name, value in found.items()
        if callable(value) and _ANGLES & set(inspect.signature(value).parameters)
    }


def names_in(code: types.CodeType) -> set[str]:
    """Return the names that code refers to, with those of the functions inside it."""
    inner = [names_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inner)


def locals_in(function: Callable[..., Any]) -> set[str]:
    """Return the names of a function's arguments and variables."""
    inner: Any = inspect.unwrap(function)
    return set(inner.__code__.co_varnames)


def with_globals(function: Callable[..., Any], replaced: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a function of the same code in whose eyes some globals are others.

    Its globals are those that the code uses, and it has no ``__name__`` among them: with one, ``torch.compile`` would
    look them up in the module of that name.
    """
    if hasattr(function, "__wrapped__"):
        return _rewrapped(function, with_globals(function.__wrapped__, replaced))
    assert isinstance(function, types.FunctionType)
    known = function.__globals__
    used = {name: known[name] for name in names_in(function.__code__) if name in known}
    given = {"__builtins__": known["__builtins__"], **used, **replaced}
    copy = types.FunctionType(function.__code__, given, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__annotations__ = function.__annotations__
    copy.__qualname__, copy.__module__, copy.__doc__ = function.__qualname__, function.__module__, function.__doc__
    return copy


def _rewrapped(wrapper: Any, inner: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decorator's function around another one."""
    cells = tuple(
        types.CellType(inner) if cell.cell_contents is wrapper.__wrapped__ else cell
        for cell in wrapper.__closure__ or ()
    )
    copy = types.FunctionType(
        wrapper.__code__, wrapper.__globals__, wrapper.__name__, wrapper.__defaults__, cells or None
    )
    copy.__kwdefaults__ = wrapper.__kwdefaults__
    copy.__dict__.update(wrapper.__dict__, __wrapped__=inner)
    return copy
