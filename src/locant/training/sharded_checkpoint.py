"""Checkpoints of models that are sharded over processes: each writes and reads its own part, none the whole.

PyTorch's distributed checkpoints (``torch.distributed.checkpoint``) write them while training goes on, as safetensors
that say which part of each tensor they hold, so that any number of processes reads them, and one as well::

    checkpoints/step-00001000/
        parts/shard-00001-model-00001-of-00001.safetensors   of each process: weights, optimiser, moving average
        optimizer.safetensors                                what is not sharded: counters, random states
        state.json                                           as in every checkpoint
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from inspect import signature
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from locant.files import file_digest, replacing_folder
from locant.training import parallel

if TYPE_CHECKING:
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

_PARTS = "parts"


def parts_can_be_written() -> bool:
    """Whether the installed PyTorch writes parts as safetensors; early releases that Locant takes do not."""
    try:
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    except ImportError:
        return False
    return "save_distributed" in signature(HuggingFaceStorageWriter).parameters


class BackgroundSave:
    """Writes the parts of this process and its fellows, one checkpoint at a time, beside the training.

    A context; at its end the newest checkpoint is complete. Every process must do the same with it in the same order.
    """

    def __init__(self) -> None:
        self._group = parallel.new_group()
        self._thread: Thread | None = None
        self._failed: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.wait()
        except Exception:
            if error is None:
                raise

    def start(
        self,
        folder: Path,
        tensors: Mapping[str, Tensor],
        finish: Callable[[Path, dict[str, str]], None],
        then: Callable[[], None],
    ) -> None:
        """Copy tensors to the memory of the CPU and begin to write them; waits for the checkpoint before.

        Args:
            folder: Of the checkpoint; it appears when all is in it. Its file system is that of all processes.
            tensors: Sharded ones, by name.
            finish: Called on the first process when all parts are in a temporary folder, which it is given with the
                digests of the parts by name, and with what it does the folder is published.
            then: Called on the first process when it is.

        Raises:
            CheckpointError: The disk is full or not writable, found now or while the checkpoint before was written.
        """
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter  # takes seconds to import
        from torch.distributed.checkpoint.state_dict_saver import async_save

        self.wait()
        held = ExitStack()
        temporary = parallel.from_first_process(
            lambda: held.enter_context(replacing_folder(folder, existing="replace")), self._group
        )
        writer = HuggingFaceStorageWriter(str(temporary / _PARTS), save_distributed=True)
        written = async_save(dict(tensors), storage_writer=writer, process_group=self._group)
        assert isinstance(written, Future)
        self._thread = Thread(target=self._finish, args=(written, held, temporary, finish, then), daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the checkpoint that was begun is complete.

        Raises:
            CheckpointError: The disk is full or not writable; earlier checkpoints stay.
            RuntimeError: Another process has ended.
        """
        if self._thread:
            self._thread.join()
            self._thread = None
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def _finish(
        self,
        written: Future[Any],
        held: ExitStack,
        temporary: Path,
        finish: Callable[[Path, dict[str, str]], None],
        then: Callable[[], None],
    ) -> None:
        """Wait until all parts are written, and publish the folder, or let it vanish; in a thread."""
        mine: dict[str, str] = {}

        def write() -> None:
            _without_failures(written)
            # Which process wrote which is torch's affair; all are there by now.
            parts = sorted((temporary / _PARTS).iterdir())[parallel.rank() :: parallel.world_size()]
            mine.update({f"{_PARTS}/{path.name}": file_digest(path) for path in parts})

        def publish() -> None:
            with held:
                parallel.on_some_processes(True, write, self._group)
                digests = parallel.gather(mine, self._group)
                if parallel.rank() == 0:
                    finish(temporary, {name: digest for each in digests for name, digest in each.items()})
            if parallel.rank() == 0:
                then()

        try:
            parallel.on_some_processes(True, publish, self._group)
        except Exception as error:
            self._failed = error


def _without_failures(written: Future[Any]) -> None:
    """Wait for what PyTorch writes, and raise what failed on whichever process first instead of its own collection."""
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        written.result()
    except CheckpointException as error:
        cause = next((each[0] for each in error.failures.values()), error)
        raise cause if isinstance(cause, Exception) else RuntimeError(str(cause)) from None


def stored_shapes(folder: Path) -> dict[str, list[int]]:
    """Return the full shapes of the tensors that the parts of a checkpoint hold, by name."""
    return {name: list(each.size) for name, each in _stored(folder).items()}


def _stored(folder: Path) -> dict[str, TensorStorageMetadata]:
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    stored = HuggingFaceStorageReader(str(folder / _PARTS)).read_metadata().state_dict_metadata
    return {name: each for name, each in stored.items() if isinstance(each, TensorStorageMetadata)}


@torch.no_grad()
def read_parts(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Fill tensors from the parts of a checkpoint, each process its own share, however many wrote them.

    Args:
        folder: Of the checkpoint; seen by all processes.
        tensors: Sharded ones or, where nothing is distributed, whole ones; by name. They are written in place.
    """
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = HuggingFaceStorageReader(str(folder / _PARTS))
    sharded = any(hasattr(tensor, "full_tensor") for tensor in tensors.values())
    load({name: tensor.detach() for name, tensor in tensors.items()}, storage_reader=reader, no_dist=not sharded)


def read_whole(folder: Path) -> dict[str, Tensor]:
    """Return the whole tensors of which the parts of a checkpoint hold shares; this process alone reads."""
    tensors = {name: torch.empty(each.size, dtype=each.properties.dtype) for name, each in _stored(folder).items()}
    with warnings.catch_warnings():
        # It is what is wanted here.
        warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")
        read_parts(folder, tensors)
    return tensors
