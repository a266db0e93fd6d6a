"""Model folders on the Hugging Face Hub, under names such as ``hf://user/model`` or ``hf://user/model@revision``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from locant.errors import ConfigError, LocantError
from locant.lazy import require_package

DEMO = Path(__file__).parent / "demo"
"""The small model that comes with Locant; tools/demo_model.py trains it."""

# A Path has one slash where the name has two.
_NAME = re.compile(r"hf:/{1,2}(?P<repository>[^/@]+/[^/@]+)(@(?P<revision>[^@]+))?$")


_LOCANT_FILES = ["config.json", "model.safetensors", "tokenizer.*", "records.json", "README.md"]
_OTHER_FILES = ["*_config.json", "*.spm", "vocab.json", "target_vocab.json", "sentencepiece.bpe.model"]
"""Of Marian, M2M-100 and NLLB models in Hugging Face's format."""


def local_folder(name: Path | str, *, other_formats: bool = False) -> Path:
    """Return the folder of a model; one on the Hub is downloaded to the cache of ``huggingface_hub`` first.

    Args:
        name: A folder; a name that begins with ``hf://``; or ``demo``, where no folder of that name holds a model, for
            the small model that comes with Locant, which translates the English numbers from 1 to 999 to German.
        other_formats: Whether to fetch the files of models that can be imported, too.

    Raises:
        ConfigError: The name begins with ``hf:`` and is no name of a model, or the Hub does not have it.
        LocantError: The Hub cannot be reached.
        MissingExtraError: The package ``huggingface_hub`` is not installed.
    """
    if not str(name).startswith("hf:/"):
        return DEMO if str(name) == DEMO.name and not (Path(name) / "config.json").exists() else Path(name)
    found = _NAME.match(str(name))
    if not found:
        raise ConfigError(f"'{name}' is no model on the Hub. Write hf://user/model or hf://user/model@revision.")
    hub = _require("Loading a model from the Hugging Face Hub")
    wanted = _LOCANT_FILES + (_OTHER_FILES if other_formats else [])

    def download(patterns: list[str]) -> Path:
        return Path(hub.snapshot_download(found["repository"], revision=found["revision"], allow_patterns=patterns))

    with _readable(hub, found["repository"]):
        folder = download(wanted)
        if other_formats and not (folder / "model.safetensors").exists():
            folder = download([*wanted, "pytorch_model.bin"])
        return folder


def upload(folder: Path, repository: str, *, private: bool, token: str | None, message: str) -> str:
    """Upload a folder to a model repository, which is created where there is none.

    Args:
        folder: What to upload, all of it.
        repository: ``user/model``.
        private: Whether a new repository is private.
        token: Access token; by default that of ``hf auth login`` or ``HF_TOKEN``.
        message: What the commit says.

    Returns:
        The address of the repository.

    Raises:
        ConfigError: There is no token, or the name is no name of a repository, or the Hub refuses it.
        LocantError: The Hub cannot be reached.
        MissingExtraError: The package ``huggingface_hub`` is not installed.
    """
    hub = _require("push_to_hub")
    if not (token or hub.get_token()):
        raise ConfigError(
            "There is no access token of the Hugging Face Hub. Log in with `hf auth login`, set HF_TOKEN or pass token."
        )
    api = hub.HfApi(token=token)
    with _readable(hub, repository):
        address = api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(repo_id=address.repo_id, folder_path=folder, commit_message=message)
    return str(address)


def _require(feature: str) -> Any:
    hub = require_package("huggingface_hub", feature)

    return hub


@contextmanager
def _readable(hub: Any, repository: str) -> Iterator[None]:
    """Turn what can go wrong with the Hub into messages."""
    errors = hub.errors
    # The base of all errors of the HTTP client, of which huggingface_hub has had several.
    unreachable = (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, errors.HTTPError)
    try:
        yield
    except errors.HFValidationError as error:
        raise ConfigError(f"'{repository}' is no name of a repository on the Hub: {_first_line(error)}") from None
    except unreachable as error:
        if isinstance(error, errors.HfHubHTTPError) and not isinstance(error, unreachable[:2]):
            raise ConfigError(
                f"The Hugging Face Hub refused {repository}: {_first_line(error)} Check the name and that the token "
                "may use it."
            ) from None
        raise LocantError(
            f"The Hugging Face Hub cannot be reached for {repository}: {_first_line(error)} Check the network (and "
            "HF_ENDPOINT and HF_HUB_OFFLINE, where they are set)."
        ) from None


def _first_line(error: Exception) -> str:
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line if line.endswith(".") else f"{line}."
