"""Folders that are written as a whole."""

from __future__ import annotations

from pathlib import Path

from locant.errors import CheckpointError


def require_new_folder(folder: Path) -> None:
    """Raise CheckpointError unless the folder does not exist or is empty; said before any work is done."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CheckpointError(f"{folder} already exists and is not empty. Name a new folder.")
