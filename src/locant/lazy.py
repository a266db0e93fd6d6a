"""Lazy exports: a package imports what it offers when it is first asked for.

What a package offers is in one place, the ``__init__.pyi`` beside its ``__init__.py``, which type checkers and
editors read as well. Importing a package therefore costs next to nothing, and no two packages wait for each other.
"""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from locant.errors import MissingExtraError


class _LazyPackage(ModuleType):
    """A package whose exports are imported at their first use."""

    _homes: dict[str, tuple[str, str]]
    __all__: list[str]

    def __getattr__(self, name: str) -> Any:
        if name not in self._homes:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, original = self._homes[name]
        if module == self.__name__:
            found: Any = import_module(f"{module}.{original}")  # a package inside this one
        else:
            found = getattr(import_module(module), original)
        setattr(self, name, found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        # Importing a submodule binds it in its package; where what is exported has that name, the export wins.
        if isinstance(value, ModuleType) and name in self._homes:
            module, original = self._homes[name]
            if module.startswith(f"{value.__name__}."):
                return  # it is defined farther inside, and imported when it is asked for
            if module == value.__name__:
                value = getattr(value, original)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        # What is public, and what every module has; not the modules below, which importing binds here too.
        inside = (name for name, (module, _) in self._homes.items() if module == self.__name__)
        return sorted({*self.__all__, *inside, *(name for name in super().__dir__() if name.startswith("__"))})


class _OptionalPackage(ModuleType):
    """A package that an extra brings, imported at its first use."""

    def __init__(self, name: str, feature: str) -> None:
        super().__init__(name)
        self._feature = feature

    def __getattr__(self, name: str) -> Any:
        found = getattr(require_package(self.__name__, self._feature), name)
        setattr(self, name, found)
        return found


def optional_package(name: str, feature: str) -> Any:
    """Return a package that an extra brings, imported as by :func:`require_package` when it is first used."""
    return _OptionalPackage(name, feature)


def require_package(name: str, feature: str) -> Any:
    """Import a package that an extra brings, and return it.

    Args:
        name: Of the package, as it is imported.
        feature: What needs it, for the message.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if not name.startswith(str(error.name)):
            raise  # what the package itself needs
        raise MissingExtraError(feature, name) from None


def package_folder(name: str, feature: str) -> Path:
    """Return the folder of a package that an extra brings, which is found and not imported.

    Args:
        name: Of the package, as it is imported.
        feature: What needs it, for the message.

    Raises:
        MissingExtraError: It is not installed.
    """
    from importlib.util import find_spec

    found = find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError(feature, name)
    return Path(found.submodule_search_locations[0])


def find_program(command: str, package: str, feature: str) -> str:
    """Return the path of a program that a package of an extra brings; the arguments are as above.

    Raises:
        MissingExtraError: It is not installed.
    """
    import shutil  # which takes as long to import as all of Locant

    # An environment that is not activated is not in the search path.
    found = shutil.which(command) or shutil.which(command, path=str(Path(sys.executable).parent))
    if found is None:
        raise MissingExtraError(feature, package)
    return found


def lazy_exports(package: str) -> list[str]:
    """Make a package import its exports lazily, and return the public ones, which are its ``__all__``.

    The ``__all__`` of the stub lists these. Other names that the stub imports are for the rest of Locant, and packages
    inside the package are imported lazily too, but ``from package import *`` leaves both out.

    Args:
        package: Its ``__name__``. The stub ``__init__.pyi`` beside its ``__init__.py`` consists of lines such as
            ``from package.module import name as name``, or ``from package import inner as inner`` for a package in it,
            and of ``__all__``.

    Example:
        The whole of an ``__init__.py`` below its docstring::

            __all__ = lazy_exports(__name__)
    """
    module = sys.modules[package]
    stub = ast.parse(Path(str(module.__file__)).with_name("__init__.pyi").read_text(encoding="utf-8"))
    homes: dict[str, tuple[str, str]] = {}
    public: list[str] = []
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            homes |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Assign):
            public = ast.literal_eval(node.value)
    module.__dict__["_homes"] = homes
    module.__class__ = _LazyPackage
    return list(public)
