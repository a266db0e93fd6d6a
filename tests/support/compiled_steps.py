"""The compiled Transformer step by step, for the search in Python and for comparisons with the model."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from locant.kernels.library import LIBRARY, require_done
from locant.translation.compiled import CompiledEngine

_ADDRESS, _COUNT, _ERROR = ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p
LIBRARY.declare(
    {
        "locant_batch": ([_ADDRESS, ctypes.c_int, _ADDRESS], _ERROR),
        "locant_batch_join": ([_ADDRESS, _COUNT, _ADDRESS, _ADDRESS, _COUNT, _ADDRESS, _COUNT], _ERROR),
        "locant_batch_encode": ([_ADDRESS, _COUNT, _ADDRESS], _ERROR),
        "locant_batch_length": ([_ADDRESS], _COUNT),
        "locant_batch_select": ([_ADDRESS, _COUNT, _ADDRESS], _ERROR),
        "locant_batch_step": ([_ADDRESS, _ADDRESS, _COUNT, _ADDRESS, _COUNT, _COUNT, _ADDRESS, _ADDRESS], _ERROR),
        "locant_batch_free": ([_ADDRESS], None),
    }
)


class CompiledSteps:
    """A compiled model as :func:`locant.translation.search.search` takes one."""

    def __init__(self, model: CompiledEngine) -> None:
        self.model = model

    def start_search(self, source: Tensor, source_lengths: Tensor) -> _State:
        return _State(self.model, source, source_lengths)


class _State:
    def __init__(self, model: CompiledEngine, source: Tensor, lengths: Tensor) -> None:
        self._model, self._library = model, LIBRARY.require()
        self._batch = ctypes.c_void_p()
        require_done(self._library.locant_batch(model.handle, model.threads, ctypes.byref(self._batch)))
        tokens = source[torch.arange(source.shape[1]) < lengths[:, None]].contiguous()
        table = model.positions(0, source.shape[1])
        sentences = len(lengths), lengths.data_ptr(), tokens.data_ptr(), len(tokens)
        require_done(self._library.locant_batch_join(self._batch, *sentences, *_table(table)))
        unfinished = ctypes.c_int64()
        require_done(self._library.locant_batch_encode(self._batch, 10**18, ctypes.byref(unfinished)))
        assert not unfinished.value

    def __del__(self) -> None:
        self._library.locant_batch_free(self._batch)

    def best(self, last: Tensor, k: int) -> tuple[Tensor, Tensor]:
        k = min(k, self._model.vocabulary)
        columns = torch.empty(len(last), k, dtype=torch.int64)
        return self._step(last, k, columns), columns

    def log_probabilities(self, last: Tensor) -> Tensor:
        return self._step(last, self._model.vocabulary, None)

    def _step(self, last: Tensor, k: int, columns: Tensor | None) -> Tensor:
        last, values = last.contiguous(), torch.empty(len(last), k)
        table = self._model.positions(1, self._library.locant_batch_length(self._batch) + 1)
        to = values.data_ptr(), None if columns is None else columns.data_ptr()
        given = last.data_ptr(), len(last), *_table(table)
        require_done(self._library.locant_batch_step(self._batch, *given, k, *to))
        return values

    def select(self, rows: Tensor, *, same_sources: bool = False) -> None:
        del same_sources
        rows = rows.contiguous()
        require_done(self._library.locant_batch_select(self._batch, len(rows), rows.data_ptr()))


def _table(table: Tensor | None) -> tuple[int | None, int]:
    return (None, 0) if table is None else (table.data_ptr(), len(table))
