"""Model folders: everything needed to translate, in files that hold no code.

::

    config.json         the format's name, the version that wrote it, model and decoding settings, languages
    model.safetensors   weights; a matrix used in several places is stored once
    tokenizer.*         as TokenizerPair.save writes them
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from locant.errors import CheckpointError
from locant.files import read_json, replacing_file, write_json, write_tensors
from locant.models.architectures import ModelConfig, build_model, config_class
from locant.models.decoding_settings import DecodingSettings
from locant.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from locant.models.hub import local_folder
from locant.runtime import choose_device
from locant.settings import Settings
from locant.text.tokenizer_pair import TokenizerPair
from locant.version import __version__

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"


def _other_format(folder: Path, config: Any) -> str:
    """Return what a folder holds instead of a model of ours, and what would serve, as the rest of a sentence."""
    kind = config.get("model_type") if isinstance(config, dict) else None
    export = "CTranslate2" if (folder / "model.bin").is_file() else "ONNX" if kind == "locant" else ""
    if export:
        return f": it is one for {export}. Name the run or model folder that it was exported from."
    if isinstance(kind, str):
        imports = shlex.join(["locant", "import", str(folder), "--output"])
        return f", but holds a model of type '{kind}' in Hugging Face's format. Import it first: {imports} RUN"
    return f': its {_CONFIG} does not say "format": "locant".'


def _parsed(model: Any) -> Any:
    return config_class(model).model_validate(model) if isinstance(model, dict) else model


class _Config(Settings):
    """The content of ``config.json``."""

    format: Literal["locant"] = "locant"
    version: str = __version__
    model: Annotated[ModelConfig, BeforeValidator(_parsed)]
    decoding: DecodingSettings
    source_language: str | None = None
    target_language: str | None = None


@dataclass(frozen=True)
class ModelFolder:
    """What a model folder holds.

    Attributes:
        folder: Where it is.
        model: In evaluation mode, on the device asked for.
        tokenizers: Of the model's vocabularies.
        decoding: How the model translates by default.
        source_language: ISO 639 code, or ``None`` when it is not known.
        target_language: Likewise.
    """

    folder: Path
    model: EncoderDecoder[Any]
    tokenizers: TokenizerPair
    decoding: DecodingSettings
    source_language: str | None
    target_language: str | None


def save_model_folder(
    folder: Path | str,
    model: EncoderDecoder[Any],
    tokenizers: TokenizerPair,
    decoding: DecodingSettings,
    *,
    source_language: str | None = None,
    target_language: str | None = None,
) -> None:
    """Write a model folder, or its files into a folder that holds other things as well.

    Every file is replaced as a whole, ``config.json`` last.

    Raises:
        CheckpointError: The tokenizers do not fit the model, or the disk is full or not writable.
    """
    folder = Path(folder)
    check_vocabularies(model.config, tokenizers)
    config = _Config(
        model=model.config, decoding=decoding, source_language=source_language, target_language=target_language
    )
    tokenizers.save(folder)
    with replacing_file(folder / _WEIGHTS) as temporary:
        write_tensors(temporary, _distinct_tensors(model))
    write_json(folder / _CONFIG, config.to_dict())


def load_model_folder(
    folder: Path | str, *, device: str | torch.device = "auto", dtype: torch.dtype = torch.float32
) -> ModelFolder:
    """Read a model folder.

    Args:
        folder: Written by :func:`save_model_folder`, or a finished run folder, or a model on the Hugging Face Hub
            (``hf://user/model``).
        device: Where the model goes; ``auto`` is CUDA where there is one, else CPU. On ``meta`` it has shapes alone,
            and no weights are read.
        dtype: Type of the weights in memory.

    Raises:
        CheckpointError: The folder is missing, is no model folder, or a file of it is missing, damaged or does not fit
            the others.
        ConfigError: ``config.json`` holds an unknown key or a wrong value, or the device cannot be used.
        LocantError: The Hub cannot be reached.
        MissingExtraError: The package ``huggingface_hub`` is needed and not installed.
    """
    folder = local_folder(folder)
    if not folder.is_dir():
        raise CheckpointError(
            f"There is no model folder {folder}. (A model on the Hugging Face Hub is named hf://user/model.)"
        )
    if not (folder / _CONFIG).is_file():
        raise CheckpointError(
            f"{folder} is not a Locant model folder: it holds no {_CONFIG}. A run folder becomes one when training "
            "has saved its model."
        )
    data = read_json(folder / _CONFIG)
    if not isinstance(data, dict) or data.get("format") != "locant":
        raise CheckpointError(f"{folder} is not a Locant model folder{_other_format(folder, data)}")
    target_device = choose_device(str(device))
    config = _Config.parse(data, str(folder / _CONFIG))
    tokenizers = TokenizerPair.load(folder)
    check_vocabularies(config.model, tokenizers)
    model = _require_fitting(config.model, folder / _WEIGHTS)
    if target_device.type != "meta":
        with skip_init():
            model = build_model(config.model)
        _load_weights(model, folder / _WEIGHTS)
    return ModelFolder(
        folder=folder,
        model=model.to(device=target_device, dtype=dtype).eval(),
        tokenizers=tokenizers,
        decoding=config.decoding,
        source_language=config.source_language,
        target_language=config.target_language,
    )


class skip_init(TorchFunctionMode):  # noqa: N801 - a context manager
    """Build models with weights of any content, to be loaded afterwards: drawing them takes longer than reading."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Leave alone what would be filled."""
        given = kwargs or {}
        if func in (Tensor.normal_, Tensor.uniform_) or getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def check_vocabularies(config: EncoderDecoderConfig, tokenizers: TokenizerPair) -> None:
    """Raise CheckpointError unless tokenizers and model have vocabularies of the same sizes, languages included."""
    sides = {
        "source": (tokenizers.source.vocab_size, config.source_vocab_size),
        "target": (tokenizers.target.vocab_size, config.target_vocab_size),
    }
    for side, (tokens, rows) in sides.items():
        if tokens != rows:
            raise CheckpointError(
                f"The {side} tokenizer has {tokens} tokens, but the model's {side} vocabulary has {rows}. Use the "
                "tokenizers that the model was trained with."
            )
    if languages := tokenizers.languages:
        for side, place in zip(sides, languages.places, strict=True):
            for code, index in languages.ids.items() if place else ():
                if not 0 <= index < sides[side][1]:
                    raise CheckpointError(
                        f"By tokenizer.json the language '{code}' has the token {index}, but the model's {side} "
                        f"vocabulary has {sides[side][1]} tokens. Use the tokenizers that the model was trained with."
                    )


def _distinct_tensors(model: EncoderDecoder[Any]) -> dict[str, Tensor]:
    """Return the tensors of the state under the first of their names; tied weights have several."""
    distinct: dict[int, str] = {}
    state = model.state_dict(keep_vars=True)
    for name, tensor in state.items():
        distinct.setdefault(id(tensor), name)
    return {name: state[name] for name in distinct.values()}


def _require_fitting(config: ModelConfig, path: Path) -> EncoderDecoder[Any]:
    """Check that weights are those of a configuration before room for a model is taken.

    Returns:
        The model on the device ``meta``, with shapes alone.

    Raises:
        CheckpointError: The file is missing or damaged, or its tensors are not those of the model.
    """
    with _opened(path), safe_open(path, framework="pt") as file:
        found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    longest = max((side for shape in found.values() for side in shape), default=0)
    for key, size in config.model_dump().items():
        # Whole numbers of the configuration are layers, which have tensors, or sides of tensors, or smaller.
        most, of = (len(found), "tensors") if key.endswith("_layers") else (longest, "numbers in a row or column")
        if isinstance(size, int) and size > most:
            raise CheckpointError(
                f"The weights {path} do not fit {_CONFIG}: {key} is {size}, but the weights have at most {most} {of}. "
                "The two files must come from the same model."
            )
    with torch.device("meta"), skip_init():  # to draw what is not there would import torch's compiler
        model = build_model(config)
    expected = {name: tuple(tensor.shape) for name, tensor in _distinct_tensors(model).items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise CheckpointError(
                f"The weights {path} do not fit {_CONFIG}: '{name}' should be {_shape(expected.get(name))} but is "
                f"{_shape(found.get(name))}. The two files must come from the same model."
            )
    return model


@contextmanager
def _opened(path: Path) -> Iterator[None]:
    """Turn errors of reading weights into readable ones."""
    try:
        yield
    except FileNotFoundError:
        raise CheckpointError(f"The file {path} is missing.") from None
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"The file {path} is damaged and cannot be read ({error}). Copy it again, or save the model again."
        ) from None


def _load_weights(model: EncoderDecoder[Any], path: Path) -> None:
    with _opened(path):
        weights = load_file(path)
    model.load_state_dict(weights, strict=False)  # The other names of tied weights are not in the file.


def _shape(shape: tuple[int, ...] | None) -> str:
    return "absent" if shape is None else " x ".join(map(str, shape))
