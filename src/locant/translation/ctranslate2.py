"""The CTranslate2 engine (https://github.com/OpenNMT/CTranslate2), and a Locant model in CTranslate2's format.

CTranslate2 describes a Transformer by a *spec*, a tree of modules that takes post-norm and pre-norm layers, gated
feed-forwards and any table of positions that is added to the embeddings, so no other format is between. Its tokens
are those of SentencePiece.

Tokens, limits of length and the length penalty are Locant's. Greedy search is the same, and in float32 so are its
translations. Two things differ. CTranslate2 keeps its beam wide when a hypothesis ends and stops when as many have
ended as the beam is wide; Locant's beam becomes narrower. And log-probabilities are among the tokens that may be
written, while Locant's count padding and BOS too, which a trained model gives next to nothing.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from locant.errors import ConfigError, LocantError, nearest
from locant.files import cache_folder, replacing_folder
from locant.lazy import require_package
from locant.locks import thread_lock
from locant.models.architectures import require_transformer
from locant.models.config import require_served
from locant.models.decoding_settings import DecodingSettings
from locant.models.model_card import weights_digest
from locant.models.model_folder import ModelFolder, load_model_folder
from locant.models.transformer import Transformer
from locant.rotary_configs import write_ctranslate2
from locant.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from locant.translation.hypotheses import Hypothesis, length_penalty
from locant.translation.kernel_weights import PositionCodes, PositionRotations, stack_positions
from locant.translation.module_names import ModuleNames, module_names
from locant.translation.search import require_ids
from locant.version import __version__

QUANTIZATIONS = ("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16", "float32")
"""The types of weights that CTranslate2 stores."""

COMPUTE_TYPES = ("default", "auto", *QUANTIZATIONS)
"""The types that CTranslate2 computes in, in its own words; ``default`` is float32."""

_UNUSED_DAYS = 30
"""Conversions that nobody used for so long are removed from the cache."""

ACTIVATIONS = {
    "relu": (0, False),
    "gelu": (3, False),
    "silu": (2, False),
    "glu": (6, True),
    "reglu": (0, True),
    "geglu": (3, True),
    "swiglu": (2, True),
}
"""The number of CTranslate2's activation for each kind of feed-forward, and whether it gates."""

_EXPORT = "Export to CTranslate2"


_LOADED: weakref.WeakSet[CTranslate2Engine] = weakref.WeakSet()


def _forget_in_child() -> None:
    """Let engines refuse to work in a forked process, where the threads that they had are missing."""
    for engine in list(_LOADED):
        if engine._loaded is not None:
            # To take it down would wait for those threads.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine._loaded))
            engine._loaded, engine._forked = None, True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


class CTranslate2Engine:
    """The engine of CTranslate2. The model is converted once and kept in Locant's cache folder for its weights.

    Args:
        found: The model folder; its model may be on the device ``meta``, because the weights are read when they are
            converted.
        device: ``auto``, ``cpu`` or ``cuda``, with or without an index.
        compute_type: One of :data:`COMPUTE_TYPES`.

    Raises:
        CheckpointError: The folder cannot be read, or the cache folder not written.
        ConfigError: CTranslate2 cannot express the model, or a value is unknown or not possible on this machine.
        MissingExtraError: The package ``ctranslate2`` is not installed.
    """

    def __init__(self, found: ModelFolder, *, device: str = "auto", compute_type: str = "default") -> None:
        ctranslate2 = require_package("ctranslate2", "The engine ctranslate2")
        if compute_type not in COMPUTE_TYPES:
            raise ConfigError(
                f"Unknown compute type '{compute_type}'.{nearest(compute_type, COMPUTE_TYPES)} "
                f"Known: {', '.join(COMPUTE_TYPES)}."
            )
        self._converted = _conversion(found.folder, ctranslate2.__version__)
        self._device, self._compute_type = device, compute_type
        self._loaded: Any = None
        self._forked = False
        self._loading = thread_lock()
        self._translator  # noqa: B018 - what is wrong is said now
        self._source_end = len(found.tokenizers.source_end)
        self._source_tokens = _tokens(found.tokenizers.source)
        self._target_tokens = _tokens(found.tokenizers.target)
        self._target_ids = {token: index for index, token in enumerate(self._target_tokens)}

    @property
    def _translator(self) -> Any:
        """CTranslate2's own, loaded in this process."""
        with self._loading:
            if self._loaded is None:
                if self._forked:
                    raise LocantError(
                        "CTranslate2 was loaded before this process was forked, and its threads did not come along. "
                        "Load the translator in the child, or use the compiled engine."
                    )
                import ctranslate2

                kind, (device, _, index) = self._compute_type, self._device.partition(":")
                try:
                    options: dict[str, Any] = {"device_index": int(index)} if index else {}
                    if "int8" in kind:
                        # So fast that threads of one sentence wait for each other: several sentences run side by side.
                        threads = int(os.environ.get("OMP_NUM_THREADS", 0)) or torch.get_num_threads()
                        options |= {"inter_threads": threads, "intra_threads": 1}
                    self._loaded = ctranslate2.Translator(
                        str(self._converted), device=device, compute_type=kind, **options
                    )
                except (RuntimeError, ValueError) as error:
                    where = f"{kind} on the device '{self._device}'"
                    raise ConfigError(f"CTranslate2 cannot use {where}: {error}") from None
                _LOADED.add(self)
            return self._loaded

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has, which loads the weights when it first translates."""
        return {**self.__dict__, "_loaded": None, "_loading": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _loading=thread_lock())

    @property
    def name(self) -> str:
        """The name of CTranslate2 and the type that it computes in."""
        return f"CTranslate2, {self._translator.compute_type}"

    def translate(
        self,
        sources: Sequence[list[int]],
        max_lengths: Sequence[int],
        prefix: Sequence[int],
        settings: DecodingSettings,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Search for translations; see :meth:`locant.translation.Engine.translate`.

        Raises:
            ConfigError: The settings ask for sampling, which CTranslate2 cannot repeat.
        """
        if settings.sampling:
            raise ConfigError(
                "CTranslate2 draws random numbers of its own, which no seed repeats. Sample with the engine pytorch or "
                "compiled."
            )
        for source in sources:
            require_ids(source, len(self._source_tokens), "source")
        require_ids(prefix, len(self._target_tokens), "target")
        # All at once: CTranslate2 makes the batches, and runs several where it has several workers. It adds EOS to a
        # source, and begins to write with the first id of the prefix, by itself.
        ended = self._source_end
        tokens = [[self._source_tokens[index] for index in source[: len(source) - ended]] for source in sources]
        forced = [self._target_tokens[index] for index in prefix[1:]]
        again: dict[int, list[int]] = {}
        highest = max(max_lengths, default=0)
        for index, found in enumerate(self._run(tokens, forced, highest, settings)):
            own = max_lengths[index]
            # CTranslate2 has one limit for all; a sentence that went beyond its own is translated again with that.
            if own < highest and any(len(written) >= own for written, _ in found):
                again.setdefault(own, []).append(index)
            else:
                yield index, _scored(found, own, settings)
        for limit, group in again.items():
            repeated = self._run([tokens[index] for index in group], forced, limit, settings)
            for index, found in zip(group, repeated, strict=True):
                yield index, _scored(found, limit, settings)

    def _run(
        self, sources: list[list[str]], prefix: list[str], limit: int, settings: DecodingSettings
    ) -> list[list[tuple[list[int], float]]]:
        """Return tokens and log-probability of each hypothesis that CTranslate2 found for each source."""
        beam = settings.beam
        # With a length penalty of 0 it would stop at the first hypothesis to end; 1 divides by the length.
        penalty = 0 if beam == 1 else 1
        longest = limit + len(prefix)
        try:
            found = self._translator.translate_batch(
                sources,
                target_prefix=[prefix] * len(sources) if prefix else None,
                max_batch_size=max(1, settings.batch_tokens // beam),
                batch_type="tokens",
                beam_size=beam,
                num_hypotheses=beam,
                length_penalty=penalty,
                max_input_length=0,
                min_decoding_length=0,
                max_decoding_length=longest,
                return_scores=True,
            )
        except (RuntimeError, ValueError) as error:
            raise LocantError(f"CTranslate2 could not translate: {error}") from None
        ids = self._target_ids
        return [
            [
                # The length that CTranslate2 divides by counts the prefix and EOS.
                ([ids[token] for token in tokens[len(prefix) :]], score * min(len(tokens) + 1, longest) ** penalty)
                for tokens, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in found
        ]


def _scored(hypotheses: list[tuple[list[int], float]], limit: int, settings: DecodingSettings) -> list[Hypothesis]:
    """Return the hypotheses with Locant's scores, best first, as many as asked for."""
    alpha = settings.length_penalty
    scored = [
        Hypothesis(tokens, total / length_penalty(min(len(tokens) + 1, limit), alpha), total)
        for tokens, total in hypotheses
    ]
    return sorted(scored, key=lambda hypothesis: -hypothesis.score)[: settings.n_best]


def _conversion(folder: Path, engine_version: str) -> Path:
    """Return the CTranslate2 folder of a model folder's present content; made where it is not in the cache."""
    digest = hashlib.sha256(f"{__version__} {engine_version} {weights_digest(folder)}".encode())
    for path in sorted([folder / "config.json", *folder.glob("tokenizer.*")]):
        digest.update(path.read_bytes())
    cache = cache_folder() / "ctranslate2"
    converted = cache / digest.hexdigest()[:32]
    if not converted.is_dir():
        # Two processes may convert at once; what the first has made stays.
        with replacing_folder(converted, existing="keep") as temporary:
            write_model(load_model_folder(folder, device="cpu"), temporary)
    with suppress(OSError):  # not every cache can be written
        os.utime(converted)
        oldest = time.time() - _UNUSED_DAYS * 86_400
        for path in cache.iterdir():
            with suppress(FileNotFoundError):  # another process may have removed it
                if path.stat().st_mtime < oldest:
                    shutil.rmtree(path, ignore_errors=True)
    return converted


def write_model(found: ModelFolder, folder: Path, quantization: str | None = None, *, least_positions: int = 0) -> None:
    """Write a model, with its weights, and its tokenizers in CTranslate2's format into an empty folder.

    ``quantization`` is one of :data:`QUANTIZATIONS`; ``None`` keeps float32. The tables of positions have at least
    ``least_positions``; else as many as the search settings of the model need.

    Raises:
        ConfigError: CTranslate2 cannot express the model.
    """
    from ctranslate2 import specs

    model = require_transformer(found.model, _EXPORT)
    languages, target = found.tokenizers.languages, found.tokenizers.target
    positions = max(found.decoding.longest_sequence(languages), least_positions)
    spec = transformer_spec(model, positions, specs)
    spec.register_source_vocabulary(_tokens(found.tokenizers.source))
    spec.register_target_vocabulary(_tokens(target))
    names = {index: target.token(index) for index in (UNK, BOS, EOS)}
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = names[UNK], names[BOS], names[EOS]
    spec.config.decoder_start_token = names[languages.decoder_start if languages else BOS]
    spec.config.add_source_eos = found.tokenizers.ends_source
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))


def transformer_spec(model: Transformer, positions: int, specs: Any) -> Any:
    """Return the spec of a model, with tables of that many positions; ``specs`` is ``ctranslate2.specs``.

    Raises:
        ConfigError: CTranslate2 cannot express the model's positions.
    """
    config, kinds = model.config, require_positions(model)
    activation, gated = ACTIVATIONS[config.feed_forward]
    shared = {
        "num_heads": config.heads,
        "pre_norm": config.norm == "pre",
        "activation": specs.Activation(activation),
        "ffn_glu": gated,
    }
    # Where there are rotations, the decoder has no place for a table; an encoder leaves its own out.
    shared |= _rotary_options(kinds[1]) if isinstance(kinds[1], PositionRotations) else {}
    spec = specs.TransformerSpec(
        specs.transformer_spec.TransformerEncoderSpec(config.encoder_layers, **shared),
        specs.transformer_spec.TransformerDecoderSpec(config.decoder_layers, **shared),
    )
    state = model.state_dict()
    layers = (config.encoder_layers, config.decoder_layers)
    for name, count, kind in zip(("encoder", "decoder"), layers, kinds, strict=True):
        part = getattr(spec, name)
        part.scale_embeddings = True
        if isinstance(kind, PositionCodes):
            part.position_encodings.encodings = _array(kind.table(min(positions, kind.most or positions)))
        for module in module_names(name, count, norm=config.norm, gated=gated):
            theirs = module.ctranslate2
            for own, value in zip(("weight", "bias"), value_names(module), strict=True):
                for place, rows in zip(theirs, state[f"{module.locant}.{own}"].chunk(len(theirs)), strict=True):
                    setattr(_node(spec, place), value, _array(rows))
    spec.encoder.embeddings[0].weight = _array(model.source_embedding.weight)
    spec.decoder.embeddings.weight = _array(model.target_embedding.weight)
    spec.decoder.projection.weight = _array(model.output.weight)
    # Locant never writes these two.
    bias = torch.zeros(config.target_vocab_size)
    bias[[PAD, BOS]] = -torch.inf
    spec.decoder.projection.bias = _array(bias)
    return spec


def value_names(module: ModuleNames) -> tuple[str, str]:
    """Return what CTranslate2 calls weight and bias of a module."""
    return ("gamma", "beta") if module.is_norm else ("weight", "bias")


def _node(spec: Any, path: str) -> Any:
    """Return the part of a spec that a name leads to; of ``layer_0`` it may have a list, ``layer``."""
    for name in path.split("/"):
        several, _, number = name.rpartition("_")
        spec = getattr(spec, name) if hasattr(spec, name) else getattr(spec, several)[int(number)]
    return spec


def require_positions(model: Transformer) -> list[PositionCodes | PositionRotations]:
    """Return the positions of encoder and decoder.

    Raises:
        ConfigError: CTranslate2 cannot express the model: its positions, or blocks beyond the paper's.
    """
    require_served(model.config, _EXPORT, "Use the engine pytorch.")
    found, width = [], model.config.d_model
    for stack in (model.encoder, model.decoder):
        positions = stack_positions(stack, width, _EXPORT, "Train a model with model.position=rotary, for instance.")
        if positions is None:
            raise ConfigError(f"{_EXPORT} needs positions. Train a model with model.position=rotary, for instance.")
        if isinstance(positions, PositionRotations):
            _rotary_options(positions)
        found.append(positions)
    return found


def _rotary_options(positions: PositionRotations) -> dict[str, Any]:
    """Return the options of a spec; ConfigError where the rotations have a scaling that is more than another base."""
    written = write_ctranslate2(positions.config)
    del written["head_dim"]  # it follows from the width
    options = {name: written.pop(name) for name in ("rotary_dim", "rotary_interleave", "rotary_base")}
    if written:
        raise ConfigError(
            f"{_EXPORT} knows rotary positions without a scaling, but this model's have "
            f"'{positions.config.scaling.name}'. Train a model without model.position_options.scaling."
        )
    return options


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().contiguous().numpy()


def _tokens(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.token(index) for index in range(tokenizer.vocab_size)]
