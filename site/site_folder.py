"""The folder of pages that Sphinx reads: what did not change keeps its date, so that it is not read again."""

from __future__ import annotations

from pathlib import Path


class SiteFolder:
    """A folder that is written anew each time, and touched only where it changes.

    Args:
        path: The folder; made if it is not there.

    Attributes:
        path: The folder.
        texts: The pages written so far, by their path in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.texts: dict[Path, str] = {}
        self._copies: dict[Path, Path] = {}

    def write(self, name: Path, text: str) -> None:
        """Add a page, or replace one."""
        self.texts[name] = text

    def copy(self, source: Path, name: Path) -> None:
        """Add a copy of a file."""
        self._copies[name] = source

    def finish(self) -> bool:
        """Bring the folder up to date, and return whether something in it has gone."""
        files = {path.relative_to(self.path) for path in self.path.rglob("*") if path.is_file()}
        gone = files - {*self.texts, *self._copies}
        for name in gone:
            (self.path / name).unlink()
        for name, text in self.texts.items():
            self._renew(name, text.encode())
        for name, source in self._copies.items():
            self._renew(name, source.read_bytes())
        return bool(gone)

    def _renew(self, name: Path, content: bytes) -> None:
        path = self.path / name
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
