"""Encoder and decoder of a trained Transformer, for the search of translations."""

from __future__ import annotations

import ctypes

from locant.kernels.library import LIBRARY

PRECISIONS = ("float32", "bfloat16", "int8")
"""Types of weights; their inputs are rounded likewise. int8 has a scale for each output and for each row of inputs.
Sums and all other arithmetic are float32."""

_ADDRESS, _COUNT, _NUMBER, _ERROR = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_char_p
LIBRARY.declare(
    {
        "locant_supports": ([_COUNT], _NUMBER),
        "locant_engine": ([*[_ADDRESS] * 3, _COUNT, _ADDRESS, _COUNT, *[_ADDRESS] * 3], _ERROR),
        "locant_engine_free": ([_ADDRESS], None),
        "locant_engine_rows": ([_ADDRESS, _ADDRESS, _ADDRESS], None),
        "locant_search": ([_ADDRESS, _NUMBER, _COUNT, _ADDRESS], _ERROR),
        "locant_search_free": ([_ADDRESS], None),
        "locant_search_threads": ([_ADDRESS, _NUMBER], _ERROR),
        "locant_search_length": ([_ADDRESS], _COUNT),
        "locant_search_join": (
            [_ADDRESS, _COUNT, _ADDRESS, _ADDRESS, _COUNT, _ADDRESS, _COUNT, _ADDRESS, _ADDRESS, _COUNT],
            _ERROR,
        ),
        "locant_search_encode": ([_ADDRESS, _COUNT, _ADDRESS], _ERROR),
        "locant_search_remove": ([_ADDRESS, _COUNT], None),
        "locant_search_steps": ([_ADDRESS, _ADDRESS, *[_COUNT] * 4, _ADDRESS], _ERROR),
        "locant_search_take": ([_ADDRESS, _ADDRESS, _ADDRESS], None),
    },
    brief=("locant_engine_rows", "locant_search_length", "locant_search_remove", "locant_search_take"),
)


def supports(precision: str) -> bool:
    """Whether this processor multiplies one of :data:`PRECISIONS` fast.

    On x86-64 bfloat16 needs AVX-512 BF16, and int8 needs AVX2; on ARM both need their own dot products.

    Raises:
        ConfigError: Kernels are switched off, there is no C++ compiler, it fails, or the cache folder cannot be
            written.
    """
    return bool(LIBRARY.require().locant_supports(PRECISIONS.index(precision)))


def nanoseconds(seconds: float) -> int:
    """Return a time, after which kernels pause, as they take it; of any length."""
    return int(min(seconds, 1e9) * 1e9)
