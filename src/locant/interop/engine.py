"""Choosing the engine that translates: PyTorch, Locant's own compiled kernels or CTranslate2."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from locant.errors import ConfigError, MissingExtraError, UsageError
from locant.kernels.translation import PRECISIONS
from locant.runtime import choose_device
from locant.translation.translator import Translator

Engine = Literal["pytorch", "compiled", "ctranslate2", "auto"]
ENGINES: tuple[Engine, ...] = ("pytorch", "compiled", "ctranslate2", "auto")


def load_translator(
    folder: Path | str, *, engine: Engine = "pytorch", device: str = "auto", compute_type: str | None = None
) -> tuple[Translator, str]:
    """Load a translator with the engine that is asked for.

    Args:
        folder: A model folder, a finished run or a model on the Hub.
        engine: ``auto`` takes the fastest one that can run the model: on a CPU the compiled kernels, else
            CTranslate2, else PyTorch; elsewhere PyTorch.
        device: ``auto``, ``cpu`` or ``cuda``.
        compute_type: For the compiled kernels ``float32``, ``bfloat16`` or ``int8``; for CTranslate2 any of its own.

    Returns:
        The translator, and which engine it has and why.

    Raises:
        UsageError: A compute type is given for PyTorch.
        ConfigError: The engine asked for cannot run the model, or a value is unknown.
        CheckpointError: The folder cannot be read, or the cache folder not written.
        MissingExtraError: The package ``ctranslate2`` is not installed.
    """
    if engine == "pytorch" and compute_type:
        raise UsageError("A compute type goes with the engines compiled, ctranslate2 and auto; PyTorch has float32.")
    kind = choose_device(device).type
    if engine == "compiled":
        return _compiled(folder, kind, compute_type)
    if engine == "ctranslate2":
        return _ctranslate2(folder, device, kind, compute_type)
    if engine == "pytorch":
        return _pytorch(folder, device)
    if kind != "cpu":
        reasons = [f"the other engines are for CPUs, and the device is {kind}"]
    else:
        reasons = []
        try:
            if compute_type in (None, *PRECISIONS):
                return _compiled(folder, kind, compute_type)
        except ConfigError as error:
            reasons.append(str(error))
        try:
            return _ctranslate2(folder, device, kind, compute_type, reasons)
        except (ConfigError, MissingExtraError) as error:
            reasons.append(str(error))
    if compute_type:
        raise ConfigError(f"No engine can translate this model in {compute_type}. {' '.join(reasons)}")
    return _pytorch(folder, device, reasons)


def _pytorch(folder: Path | str, device: str, reasons: Sequence[str] = ()) -> tuple[Translator, str]:
    translator = Translator.from_pretrained(folder, device=device)
    return translator, _because(translator.engine, reasons)


def _compiled(folder: Path | str, kind: str, compute_type: str | None) -> tuple[Translator, str]:
    translator = Translator.from_pretrained(folder, device=kind)
    translator.compile(compute_type or "float32")
    return translator, translator.engine


def _ctranslate2(
    folder: Path | str, device: str, kind: str, compute_type: str | None, reasons: Sequence[str] = ()
) -> tuple[Translator, str]:
    from locant.interop.ctranslate2_engine import CTranslate2Translator  # the last resort: not worth its import

    translator = CTranslate2Translator.from_pretrained(
        folder, device=kind if device == "auto" else device, compute_type=compute_type or "default"
    )
    return translator, _because(translator.engine, reasons)


def _because(name: str, reasons: Sequence[str]) -> str:
    return f"{name}, because: {' '.join(reasons)}" if reasons else name
