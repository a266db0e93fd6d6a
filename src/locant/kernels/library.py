"""The library of the C++ kernels, and their one switch."""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from locant.errors import ConfigError
from locant.kernels.building import build, built_path, mark_as_used
from locant.kernels.variants import VARIANT, choose
from locant.locks import thread_lock

SWITCH = "LOCANT_KERNELS"
"""Environment variable that switches the kernels off from the start: ``0``, ``false``, ``off`` or ``no``."""

_logger = logging.getLogger("locant")
_on = os.environ.get(SWITCH, "").strip().lower() not in ("0", "false", "off", "no")


def enabled(on: bool | None = None) -> bool:
    """Return whether C++ kernels are used in this process, after switching them on or off if asked to.

    Args:
        on: Whether to use them from now on; ``None`` leaves the switch as it is. Other processes, such as those that
            ``locant compare`` starts, follow the environment variable ``LOCANT_KERNELS``.

    Example:
        >>> import locant.kernels
        >>> locant.kernels.enabled(False)
        False
        >>> locant.kernels.enabled(True)
        True
    """
    global _on
    if on is not None:
        _on = on
    return _on


class Library:
    """All C++ kernels in one library, loaded when it is first needed.

    Loading, and building where that is needed, is safe in several threads and processes at once: one builds and the
    others wait for it.
    """

    def __init__(self) -> None:
        self._loaded: ctypes.CDLL | None = None
        self.failed = False
        """Whether loading it has failed."""
        self._lock = thread_lock()

    def usable(self) -> bool:
        """Return whether the library is loaded, which happens now if need be; a warning says once why it cannot be."""
        if self._loaded is None and not self.failed:
            try:
                self.load()
            except ConfigError as error:
                with self._lock:
                    said, self.failed = self.failed, True
                if not said:
                    _logger.warning(f"{error} PyTorch's own operations take the place of the C++ kernels.")
        return self._loaded is not None

    def load(self) -> ctypes.CDLL:
        """Return the library: the best variant that came with the package and that this processor runs.

        Where none came, the sources are built for this processor, unless that is in the cache folder already.

        Raises:
            ConfigError: There is no C++ compiler, it fails, or the cache folder cannot be written; or the variant that
                the environment names cannot be used.
        """
        with self._lock:
            if self._loaded is None:
                self._loaded = _load()
            return self._loaded


LIBRARY = Library()
"""The library of this process."""


class Kernel:
    """Some functions of the library.

    Args:
        functions: For each function its arguments' types and that of its result, as for :mod:`ctypes`.
        library: Where they are.
        brief: Those that take so little time that other Python threads wait meanwhile: giving way to them and coming
            back costs more.
    """

    def __init__(
        self,
        functions: Mapping[str, tuple[Sequence[Any], Any]],
        library: Library = LIBRARY,
        *,
        brief: Sequence[str] = (),
    ) -> None:
        self._functions, self._of, self._brief = functions, library, brief
        self._library: ctypes.CDLL | None = None

    def usable(self) -> bool:
        """Return whether kernels are switched on and can be used; see :meth:`Library.usable`."""
        return _on and (self._library is not None or self._of.usable())

    def expected(self) -> bool:
        """Return whether kernels are switched on and loading them has not failed, without loading them now."""
        return _on and not self._of.failed

    def require(self) -> ctypes.CDLL:
        """Return the library, for what cannot do without it.

        Raises:
            ConfigError: Kernels are switched off, or as in :meth:`Library.load`.
        """
        if not _on:
            raise ConfigError(
                f"C++ kernels are switched off, by {SWITCH}=0 in the environment or by locant.kernels.enabled(False)."
            )
        return self.library

    @property
    def library(self) -> ctypes.CDLL:
        """The loaded library, whose functions know their types.

        Raises:
            ConfigError: As in :meth:`Library.load`.
        """
        if self._library is None:
            library = self._of.load()
            for name, (arguments, result) in self._functions.items():
                function = getattr(library, name)
                function.argtypes, function.restype = list(arguments), result
                if name in self._brief:
                    setattr(library, name, ctypes.PYFUNCTYPE(result, *arguments)((name, library)))
            self._library = library
        return self._library


def build_all() -> None:
    """Build the kernels unless they are there, so that processes started afterwards find them."""
    if _on:
        LIBRARY.usable()


def _load() -> ctypes.CDLL:
    try:
        choice = choose()
        if choice is not None:
            return ctypes.CDLL(str(choice.path))
    except OSError as error:  # what came with the package is for a system with other libraries
        if VARIANT in os.environ:
            raise ConfigError(f"The variant of kernels that {VARIANT} asks for cannot be loaded: {error}") from error
    path = None
    try:
        path = built_path()
        library = _load_or_build(path)
    except OSError as error:
        place = path.parent if path else "a folder of this user"
        raise ConfigError(f"The C++ kernels cannot be kept in {place} or loaded from it: {error}") from error
    mark_as_used(path)
    return library


def _load_or_build(path: Path) -> ctypes.CDLL:
    if path.exists():
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            path.unlink()  # damaged, or built for a system with other libraries
    build(path)
    return ctypes.CDLL(str(path))
