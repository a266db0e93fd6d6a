"""Existing models loaded with plain transformers: safetensors or GGUF, never a pickle, never code from a folder."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.errors import CheckpointError, LocantError, UsageError
from locant.extension.source import LAYOUT_MARK, Source, load_source
from locant.lazy import require_package
from locant.parsing import read_json_file
from locant.rotary_configs.config_json import read_huggingface, text_config, write_huggingface
from locant.rotary_configs.gguf import read_gguf

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_INDEX = "model.safetensors.index.json"
_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers")
_SIDES = ("vocab_size", "hidden_size", "n_embd", "d_model", "intermediate_size", "n_inner", "ffn_dim")
# What transformers adds to the metadata of a GGUF file.
_NOT_THE_MODELS = {"dtype", "torch_dtype", "architectures", "_name_or_path", "_model_name_or_path"}
# Whatever transformers, safetensors and tokenizers raise for files that are not right.
_LOADING_ERRORS = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, NotImplementedError, ImportError),
)


def load_config(path: Path) -> dict[str, Any]:
    """Return a model's configuration as Hugging Face's config.json has it.

    Args:
        path: From :func:`~locant.extension.source.resolve_model`.

    Returns:
        The content of config.json, unchanged; of a GGUF file what transformers makes of its metadata, with the rotary
        frequencies as the file means them (transformers itself ignores their scaling).

    Raises:
        UsageError: It cannot be read.
        LocantError: The frequencies of a GGUF file cannot be expressed in a config.json.
        MissingExtraError: transformers or gguf is not installed.
    """
    source = load_source(path)
    if source.kind == "huggingface":
        return dict(source.content)
    from_file = _transformers(gguf=True).AutoConfig.from_pretrained
    with explained(path):
        config: dict[str, Any] = from_file(
            source.path.parent, gguf_file=source.path.name, trust_remote_code=False
        ).to_diff_dict()
    parsed = read_gguf(source.content, source.tensors)
    # transformers turns the features of queries and keys into those that its class pairs.
    layout = next(iter(read_huggingface(config).configs.values())).layout
    configs = {layer: replace(each, layout=layout) for layer, each in parsed.configs.items()}
    rotary = write_huggingface(configs, "5", model_type=config["model_type"], multimodal=parsed.multimodal)
    changed = (config | rotary).items()
    return {key: value for key, value in changed if key not in _NOT_THE_MODELS and rotary.get(key, 0) is not None}


def load_model(
    path: Path,
    config: Mapping[str, Any] | None = None,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
) -> PreTrainedModel:
    """Load a causal language model with plain transformers, ready to be evaluated.

    Args:
        path: From :func:`~locant.extension.source.resolve_model`; a folder with safetensors, its config.json, or a
            GGUF file, whose weights are unpacked.
        config: Instead of the model's own configuration, what :func:`load_config` returned with changes.
        device: Where to.
        dtype: Of the weights; float32 on CPU and bfloat16 elsewhere by default.

    Returns:
        The model, in evaluation mode, without gradients asked for.

    Raises:
        UsageError: The weights are pickles, the model needs code of its own, or it cannot be read.
        CheckpointError: Files are damaged, weights of the model are missing in them, or it asks for more or wider ones.
        MissingExtraError: transformers, or what it needs for GGUF files, is not installed.
    """
    import torch

    source = load_source(path)
    folder = source.path.parent
    transformers = _transformers(gguf=source.kind == "gguf")
    content = dict(load_config(path) if config is None else config)
    if content.get(LAYOUT_MARK):
        raise UsageError(
            f"The weights at {path} were converted to the rotary layout '{content[LAYOUT_MARK]!s:.60}', which "
            "transformers would read wrongly. Convert them back with locant convert-layout."
        )
    options: dict[str, Any] = _file_options(source)
    if source.kind == "huggingface":
        _require_sizes(content, folder)
        options["use_safetensors"] = True
    device = torch.device(device)
    options["dtype"] = dtype or (torch.float32 if device.type == "cpu" else torch.bfloat16)
    model_type = content.get("model_type")
    if not isinstance(model_type, str) or model_type not in transformers.CONFIG_MAPPING:
        own_code = " It brings code of its own, which is never run." if content.get("auto_map") else ""
        known = f"transformers {transformers.__version__} does not know the model type '{model_type!s:.60}' of {path}."
        raise UsageError(known + own_code)
    with explained(path):
        options["config"] = transformers.CONFIG_MAPPING[model_type].from_dict(content)
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            folder, trust_remote_code=False, output_loading_info=True, **options
        )
    lacking = sorted({*report["missing_keys"], *(str(key) for key in report["mismatched_keys"])})
    if lacking:
        raise CheckpointError(
            f"{path} lacks {len(lacking)} weights of the model, or has them in another shape ({lacking[0]}, for "
            "instance). Copy or download all of its files again."
        )
    return model.to(device).eval().requires_grad_(False)


def load_tokenizer(path: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a model.

    Args:
        path: From :func:`~locant.extension.source.resolve_model`.

    Raises:
        UsageError: It needs code of its own.
        CheckpointError: There is none, or it cannot be read.
        MissingExtraError: transformers, or what it needs for GGUF files, is not installed.
    """
    source = load_source(path)
    load = _transformers(gguf=source.kind == "gguf").AutoTokenizer.from_pretrained
    with explained(path, "tokenizer"):
        return load(source.path.parent, trust_remote_code=False, **_file_options(source))


def _file_options(source: Source) -> dict[str, Any]:
    return {"gguf_file": source.path.name} if source.kind == "gguf" else {}


def weight_files(folder: Path) -> list[Path]:
    """Return the files with the weights of a folder, in the order of their names.

    Raises:
        UsageError: They are pickles, one is missing, or there are none.
    """
    index = folder / _INDEX
    if index.is_file():
        try:
            names = sorted({str(name) for name in read_json_file(index)["weight_map"].values()})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{index} cannot be read as an index of weights: {error!r:.200}. Copy it again."
            ) from error
        for name in names:
            if not name.endswith(".safetensors") or Path(name).name != name:
                raise UsageError(f"{index} names '{name:.200}', which is no safetensors file of the same folder.")
            if not (folder / name).is_file():
                raise UsageError(f"{folder} lacks {name:.200}, which {_INDEX} names. Copy or download it.")
        return [folder / name for name in names]
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    pickles = sorted(file.name for end in ("bin", "pt", "pth", "ckpt", "pkl") for file in folder.glob(f"*.{end}"))
    if pickles:
        raise UsageError(
            f"{folder} holds its weights in a pickle ({pickles[0]}), which can execute code when it is opened, so it "
            "is not. Take the safetensors of the same model, or convert it where you trust it: "
            "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)."
        )
    raise UsageError(f"{folder} holds no weights: there is neither model.safetensors nor {_INDEX}.")


def _require_sizes(content: Mapping[str, Any], folder: Path) -> None:
    """Check that a configuration asks for no more layers and no wider ones than the weights have.

    Without this a number in config.json decides how much memory and time is taken before the weights are looked at.
    """
    from safetensors import SafetensorError, safe_open

    shapes: list[list[int]] = []
    for file in weight_files(folder):
        try:
            with safe_open(file, framework="pt") as tensors:
                shapes += [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118 - no mapping
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{file} is no whole safetensors file. Copy or download it again.") from error
    longest = max((side for shape in shapes for side in shape), default=0)
    limits = dict.fromkeys(_LAYERS, (len(shapes), "tensors")) | dict.fromkeys(_SIDES, (longest, "rows or columns"))
    for key, size in text_config(content).items():
        most, of = limits.get(key, (math.inf, ""))
        if isinstance(size, int | float) and size > most:
            raise CheckpointError(
                f"By config.json the {key} of {folder} is {size:g}, but the weights have {most} {of}."
            )


def _transformers(*, gguf: bool) -> Any:
    for package in ("gguf", "accelerate") if gguf else ():
        require_package(package, "Loading a GGUF file")
    return require_package("transformers", "Loading an existing model")


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep the warnings and progress bars of transformers away within the block."""
    from transformers import modeling_gguf_pytorch_utils
    from transformers.utils import logging

    gguf_files: Any = modeling_gguf_pytorch_utils
    verbosity, has_bars, bar = logging.get_verbosity(), logging.is_progress_bar_enabled(), gguf_files.tqdm
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    gguf_files.tqdm = partial(bar, disable=True)  # which heeds no setting
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        gguf_files.tqdm = bar
        if has_bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


@contextmanager
def explained(path: Path, what: str = "model") -> Iterator[None]:
    """Turn what transformers raises into one error, and keep its warnings and progress bars away."""
    from safetensors import SafetensorError

    try:
        with quiet_transformers():
            yield
    except LocantError:
        raise
    except (SafetensorError, *_LOADING_ERRORS) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        if "trust_remote_code" in str(error):
            raise UsageError(f"The {what} at {path} needs code from its folder, which is never run.") from error
        raise CheckpointError(f"The {what} at {path} cannot be loaded: {reason.rstrip('.'):.300}.") from error
