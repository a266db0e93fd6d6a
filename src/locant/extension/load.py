"""Existing models loaded with plain transformers: safetensors or GGUF, never a pickle, never code from a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.errors import CheckpointError, LocantError, MissingExtraError, UsageError
from locant.extension.inspect.engine_configs import to_engine_config
from locant.extension.inspect.inspection import inspect_model
from locant.extension.source import EXTRA, Source, load_source
from locant.parsing import read_json_file
from locant.rotary_configs.huggingface.pairing import LAYOUT_MARK
from locant.rotary_configs.huggingface.text_parts import text_part

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_INDEX = "model.safetensors.index.json"
_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers")
_SIDES = ("vocab_size", "hidden_size", "n_embd", "d_model", "intermediate_size", "n_inner", "ffn_dim")
# What transformers adds to the metadata of a GGUF file.
_NOT_THE_MODELS = ("dtype", "torch_dtype", "architectures", "_name_or_path", "_model_name_or_path")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
# Whatever transformers, safetensors and tokenizers raise for files that are not right.
_LOADING_ERRORS = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, NotImplementedError)


def load_config(path: Path) -> dict[str, Any]:
    """Return a model's configuration as Hugging Face's config.json has it.

    Args:
        path: From :func:`~locant.extension.source.resolve_model`.

    Returns:
        The content of config.json, unchanged; of a GGUF file what transformers makes of its metadata, with the rotary
        frequencies as the file means them (transformers itself passes over their scaling).

    Raises:
        UsageError: It cannot be read.
        LocantError: The frequencies of a GGUF file cannot be expressed in a config.json.
        MissingExtraError: transformers or gguf is not installed.
    """
    source = load_source(path)
    if source.kind == "huggingface":
        return dict(source.content)
    from_file = _transformers(gguf=True).AutoConfig
    with _explained(path):
        config: dict[str, Any] = from_file.from_pretrained(
            source.path.parent, gguf_file=source.path.name, trust_remote_code=False
        ).to_diff_dict()
    rotary = to_engine_config(inspect_model(path, ask_class=False), "hf5")
    assert isinstance(rotary, dict)
    removed = {*_NOT_THE_MODELS, *(key for key, value in rotary.items() if value is None)}
    return {key: value for key, value in (config | rotary).items() if key not in removed}


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
    if source.kind == "huggingface":
        check_weights(folder)
    transformers = _transformers(gguf=source.kind == "gguf")
    content = dict(load_config(path) if config is None else config)
    if source.kind == "huggingface":
        _require_sizes(content, folder)
    if content.get(LAYOUT_MARK):
        raise UsageError(
            f"The weights at {path} were converted to the rotary layout '{content[LAYOUT_MARK]}', which transformers "
            "would read wrongly. Convert them back with locant convert-layout."
        )
    device = torch.device(device)
    if dtype is None:
        dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    with _explained(path):
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            config=_typed(transformers, content, path),
            dtype=dtype,
            trust_remote_code=False,
            output_loading_info=True,
            **_file_options(source, use_safetensors=True),
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
    transformers = _transformers(gguf=source.kind == "gguf")
    with _explained(path, "tokenizer"):
        return transformers.AutoTokenizer.from_pretrained(
            source.path.parent, trust_remote_code=False, **_file_options(source)
        )


def _file_options(source: Source, **of_folder: Any) -> dict[str, Any]:
    return {"gguf_file": source.path.name} if source.kind == "gguf" else of_folder


def _typed(transformers: Any, content: dict[str, Any], path: Path) -> Any:
    """Return a configuration as an object of the class that transformers has for the model type."""
    model_type = content.get("model_type")
    if model_type not in transformers.CONFIG_MAPPING:
        own_code = " It brings code of its own, which is never run." if content.get("auto_map") else ""
        raise UsageError(
            f"transformers {transformers.__version__} does not know the model type '{model_type}' of {path}.{own_code}"
        )
    # A configuration that quantizes or brings code is left to the errors of loading.
    return transformers.CONFIG_MAPPING[model_type].from_dict(content)


def check_weights(folder: Path) -> None:
    """Check that the weights of a folder are safetensors.

    Raises:
        UsageError: They are pickles, or there are none.
    """
    index = folder / _INDEX
    if index.is_file():
        try:
            files = {str(name) for name in read_json_file(index)["weight_map"].values()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{index} cannot be read as an index of weights: {error!r}. Copy it again.") from error
        strange = sorted(name for name in files if not name.endswith(".safetensors") or Path(name).name != name)
        if strange:
            raise UsageError(f"{index} names '{strange[0]}', which is no safetensors file of the same folder.")
        lacking = sorted(name for name in files if not (folder / name).is_file())
        if lacking:
            raise UsageError(f"{folder} lacks {lacking[0]}, which {_INDEX} names. Copy or download it.")
    elif not (folder / "model.safetensors").is_file():
        pickles = sorted(file.name for pattern in _PICKLES for file in folder.glob(pattern))
        if pickles:
            raise UsageError(
                f"{folder} holds its weights in a pickle ({pickles[0]}), which can execute code when it is opened, so "
                "it is not. Take the safetensors of the same model, or convert it where you trust it: "
                "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)."
            )
        raise UsageError(f"{folder} holds no weights: there is neither model.safetensors nor {_INDEX}.")


def weight_files(folder: Path) -> list[Path]:
    """Return the files with the weights of a folder, in the order of their names; :func:`check_weights` comes first."""
    index = folder / _INDEX
    if not index.is_file():
        return [folder / "model.safetensors"]
    return [folder / name for name in sorted(set(read_json_file(index)["weight_map"].values()))]


def _require_sizes(content: Mapping[str, Any], folder: Path) -> None:
    """Check that a configuration asks for no more layers and no wider ones than the weights have.

    Without this a number in config.json decides how much memory and time is taken before the weights are looked at.
    """
    from locant.extension.layouts.stored import stored_tensors

    tensors = stored_tensors(weight_files(folder))
    longest = max((side for tensor in tensors.values() for side in tensor.shape), default=0)
    text = text_part(content)
    for keys, most, of in ((_LAYERS, len(tensors), "tensors"), (_SIDES, longest, "rows or columns in any tensor")):
        for key in keys:
            size = text.get(key)
            if isinstance(size, int) and size > most:
                raise CheckpointError(
                    f"By config.json the {key} of {folder} is {size}, but the weights have {most} {of}."
                )


def _transformers(*, gguf: bool) -> Any:
    try:
        import transformers
    except ImportError:
        raise MissingExtraError("Loading an existing model", "transformers", EXTRA) from None
    if gguf:
        import importlib.util

        for package in ("gguf", "accelerate"):
            if importlib.util.find_spec(package) is None:
                raise MissingExtraError("Loading a GGUF file", package, EXTRA)
    return transformers


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
def _explained(path: Path, what: str = "model") -> Iterator[None]:
    """Turn what transformers raises into one error, and keep its warnings and progress bars away."""
    from safetensors import SafetensorError

    try:
        with quiet_transformers():
            yield
    except LocantError:
        raise
    except (SafetensorError, ImportError, *_LOADING_ERRORS) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        if "trust_remote_code" in str(error):
            raise UsageError(f"The {what} at {path} needs code from its folder, which is never run.") from error
        raise CheckpointError(f"The {what} at {path} cannot be loaded: {reason.rstrip('.')}.") from error
