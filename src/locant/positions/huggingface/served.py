"""Classes like those of a model's modules, in which some functions are Locant's; a module takes one and gives it back.

The functions of such a class are those of the original with globals of their own. Nothing of transformers is changed,
other models of the same class are not touched, and a module keeps its parameters, buffers, hooks and name.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import nn

ANGLES = ("cos", "sin", "freqs_cis")
"""Names of the arguments by which functions of transformers are given angles."""

_ORIGINAL = "locant_original_class"
_HOOKED = "_old_forward"  # in which the hooks of accelerate, which move modules to devices, keep a forward pass
_ROTATION = re.compile(r"apply_.*(rot|rope)")
_CLASSES: dict[Any, type[nn.Module]] = {}


def served_class(original: type[nn.Module], members: Callable[..., dict[str, Any]], option: Any) -> type[nn.Module]:
    """Return the class that replaces another one; copies and pickles of its instances are instances of it again.

    Args:
        original: The other one.
        members: Returns what is other in the new class, of ``original`` and ``option``; a function of a module.
        option: Something that can be hashed.
    """
    if (key := (original, members, option)) not in _CLASSES:

        def reduce(self: Any, protocol: Any) -> Any:
            del protocol
            return _new_instance, key, self.__getstate__()

        about = {name: getattr(original, name) for name in ("__module__", "__qualname__", "__doc__")}
        own = {**about, _ORIGINAL: original, "__reduce_ex__": reduce, **members(original, option)}
        _CLASSES[key] = type(original.__name__, (original,), own)
    return _CLASSES[key]


def _new_instance(*key: Any) -> Any:
    kind = served_class(*key)
    return kind.__new__(kind)


def original_class(module: nn.Module) -> type[nn.Module] | None:
    """Return the class that a served module had, or ``None`` where it is not served."""
    found: type[nn.Module] | None = getattr(type(module), _ORIGINAL, None)
    return found


def take_class(module: nn.Module, kind: type[nn.Module]) -> None:
    """Give a module a served class, or its own again."""
    module.__class__ = kind
    if _HOOKED in vars(module):
        module.__dict__[_HOOKED] = types.MethodType(kind.forward, module)


def is_replaced(module: nn.Module) -> bool:
    """Return whether a tool other than the hooks of accelerate has replaced a module's forward pass."""
    return "forward" in vars(module) and not inspect.ismethod(vars(module).get(_HOOKED))


def methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the methods of a class by name, its own and inherited ones."""
    bases = [base for base in reversed(kind.__mro__) if base not in (nn.Module, object)]
    members = {name: member for base in bases for name, member in vars(base).items()}
    yield from ((name, each) for name, each in members.items() if isinstance(each, types.FunctionType))


def rotations(function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return the functions that rotate queries and keys among the globals that a function uses, by name."""
    inner: Any = inspect.unwrap(function)
    found = {name: inner.__globals__.get(name) for name in _names_in(inner.__code__) if _ROTATION.match(name)}
    return {
        name: value
        for name, value in found.items()
        if callable(value) and not {*ANGLES}.isdisjoint(inspect.signature(value).parameters)
    }


def _names_in(code: types.CodeType) -> set[str]:
    """Return the names that code refers to, with those of the functions inside it."""
    inner = [_names_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inner)


def with_globals(function: Any, replaced: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a function of the same code in whose eyes some globals are others.

    Its globals are those that the code uses, and it has no ``__name__`` among them: with one, ``torch.compile`` would
    look them up in the module of that name.
    """
    known, closure, about = function.__globals__, function.__closure__, vars(function)
    if "__wrapped__" in about:  # the function of a decorator, around another one
        inner = with_globals(function.__wrapped__, replaced)
        cells = [cell.cell_contents for cell in closure or ()]
        closure = tuple(types.CellType(inner if each is function.__wrapped__ else each) for each in cells) or None
        about = about | {"__wrapped__": inner}
    else:
        used = {name: known[name] for name in _names_in(function.__code__) if name in known}
        known = {"__builtins__": known["__builtins__"], **used, **replaced}
    copy = types.FunctionType(function.__code__, known, function.__name__, function.__defaults__, closure)
    for name in ("__kwdefaults__", "__annotations__", "__qualname__", "__module__", "__doc__"):
        setattr(copy, name, getattr(function, name))
    copy.__dict__.update(about)
    return copy
