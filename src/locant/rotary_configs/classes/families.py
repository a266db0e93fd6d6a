"""Facts of Hugging Face's model classes that config.json does not state, by ``model_type``.

``model_types.json`` holds what the classes of transformers 5.24 do with a small model's queries and keys; it is
generated (``tests/support/zoo/facts.py``), and the tests compare it with the version that is installed. Classes that
come with their checkpoints stand in :mod:`locant.rotary_configs.classes.own_code`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from locant.positions.rotary.config import RotaryLayout
from locant.rotary_configs.classes.model_types import ModelType, from_facts

LOOKS_BOTH_WAYS = frozenset(["embedding_gemma2_text", "modernbert", "neomme", "openai_privacy_filter", "ultrabert"])
"""Model types whose windows reach as many tokens ahead as back, beyond the token itself."""

WINDOW_OF_FULL_ATTENTION = frozenset(["minimax", "minimax_text_01", "minimax_m1"])
"""Model types whose layers of full attention have the ``sliding_window`` of the file."""

WINDOW_OF_FIRST_LAYERS = frozenset(["qwen2_moe"])
"""Model types with ``use_sliding_window`` of which every other layer before ``max_window_layers`` has the window."""

HALVES_ITS_WINDOW = frozenset(["t5gemma2_text"])
"""Model types whose encoders look back over half of their window, rounded up, and ahead over the rest."""

HALVES_FOR_BOTH_WAYS = frozenset(["diffusion_gemma_text", "gemma3_text", "gemma4_text", "gemma4_unified_text"])
"""Model types whose classes halve their window where ``use_bidirectional_attention`` lets all tokens look ahead."""

WINDOW_WITHOUT_POSITIONS = frozenset(["smollm3"])
"""Model types with ``use_sliding_window`` whose layers without positions, and no others, have the window."""

INDEXERS: dict[str, tuple[RotaryLayout, Literal["first", "last"]]] = {
    **dict.fromkeys(("axk2", "deepseek_v32", "minimax_m3_vl_text", "qwen4_exp_text"), ("half", "first")),
    **dict.fromkeys(("dots3_note_text", "glm_moe_dsa", "mistral_large4_text"), ("interleaved", "first")),
    "deepseek_v4": ("interleaved", "last"),
    "hy_v4": ("half", "last"),
    "hy_v4_vl_text": ("interleaved", "last"),
}
"""How the indexers of sparse attention pair features, and which of their features they rotate."""

TURNS_BEFORE_PROJECTIONS: Mapping[str, tuple[str, ...]] = {
    "wav2vec2-bert": ("relative", "relative_key"),
    "wav2vec2-conformer": ("relative",),
}
"""Model types that turn hidden states before queries and keys are projected from them, where their
``position_embeddings_type`` is ``rotary``, with the other ones that they know, which are of relative positions; the
last one is what they have where a file leaves it out."""

REFUSES_OTHER_WORDS = frozenset(["wav2vec2-bert"])
"""Those of them that refuse a file with a word that they do not know; the others have no positions then."""

HEEDS_MSCALE = frozenset(["phimoe"])
"""Model types whose classes scale by ``short_mscale`` and ``long_mscale``."""

_SCALED_SCORES = """
axk1 axk2 bailing_hybrid deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa hy_v4 hy_v4_vl_text
longcat_flash minicpm3 mistral4 mistral_large4_text sarvam_mla youtu
"""
SCALES_SCORES = frozenset(_SCALED_SCORES.split())
"""Model types whose classes multiply scores by the square of 0.1 * mscale_all_dim * ln(factor) + 1."""

TAKES_ROTARY_EMB_BASE = frozenset(["gpt_neox", "gpt_neox_japanese"])
"""Model types whose classes take ``rotary_emb_base`` for the base, and pass over ``rope_theta`` beside it."""

_OWN_BASES = """
beam diffusion_gemma_text embedding_gemma2_text gemma4_text gemma4_unified_text gpt_neox gpt_neox_japanese laguna mellum
mimo_v2_flash modernbert modernbert-decoder zaya
"""
PASSES_OVER_BASE = frozenset(_OWN_BASES.split())
"""Model types whose classes never read a ``rope_theta`` beside groups (``convert_rope_params_to_dict``)."""

PASSES_OVER_GROUPS = frozenset(["clvp_encoder", "codegen", "gptj", "roformer"])
"""Model types whose classes read neither a group of rotary parameters nor a share beside it."""

READS_NEW_NAME_ALONE = frozenset(["cohere2_moe"])
"""Model types whose classes have a field ``rope_scaling`` that nothing reads, and take ``rope_parameters`` as it is."""

MERGES_INTO_FULL_LAYERS = frozenset(["gemma3_text", "gemma3n_text", "olmo3", "t5gemma2_decoder", "t5gemma2_text"])
"""Model types whose classes merge one ``rope_scaling``, by its ``rope_type``, into the group of full attention."""

MERGES_INTO_ALL_LAYERS = frozenset(["modernbert", "modernbert-decoder"])
"""Model types whose classes merge one ``rope_scaling``, by its ``rope_type``, into the groups of all layer types."""

NULL_GROUP_STANDS_STILL = frozenset(["beam", "cohere_compass_text"])
"""Model types whose classes do not rotate layers of a type with null in the place of its group."""

TURNS_BACKWARDS = frozenset(["nanochat"])
"""Model types whose classes turn pairs by minus the angle."""

ONE_POSITION_FOR_ALL_AXES = frozenset(["minicpm_ocr", "minicpmv4_6"])
"""Model types whose text part has several axes, all of which the class around it gives the same position."""

LEARNS_FREQUENCIES = frozenset(["mistral_large4_text"])
"""Model types whose classes multiply frequencies by numbers that are learned with the weights."""


def model_type(name: str | None) -> ModelType | None:
    """Return the facts of a model type, ``None`` where they are not known here."""
    return _all_types().get(name or "")


def known_model_types() -> tuple[str, ...]:
    """Return the names of all model types that are known here."""
    return tuple(_all_types())


def is_in_transformers(name: str | None) -> bool:
    """Whether transformers has a class of that model type itself."""
    from locant.rotary_configs.classes.own_code import OWN_CODE

    return name in _all_types() and name not in OWN_CODE


_HEADS = re.compile(r"(For[A-Z]\w+|PreTrainedModel|LMHeadModel|TextModel|Model|Config)$")


def type_of_class(name: str) -> ModelType | None:
    """Return the facts of the model type whose class has a name, by its stem: ``LlamaForCausalLM``."""
    stem = _HEADS.sub("", name) if _HEADS.search(name) else ""
    return model_type(_types_by_letters().get(stem.lower()))


def type_at_the_end(name: str) -> ModelType | None:
    """Return the facts of the model type with whose class the name of another ends: ``BunnyPhi3ForCausalLM``."""
    words = (name[each.start() :] for each in re.finditer(r"[A-Z]", name))
    return next((kind for word in words if (kind := type_of_class(word)) is not None), None)


@functools.cache
def _types_by_letters() -> Mapping[str, str]:
    return {name.replace("_", "").replace("-", "").lower(): name for name in known_model_types()}


def layout_of(name: str | None, interleave: bool | None, kind: ModelType | None = None) -> RotaryLayout:
    """Return the layout of a model type, halves where it is not known.

    Args:
        name: ``model_type`` of config.json.
        interleave: ``rope_interleave`` of config.json.
        kind: Its facts, where they are not among those that are known here.
    """
    found = model_type(name) or kind
    if found is None:
        return "half"
    if found.text_type is not None and not found.defaults:
        found = model_type(found.text_type) or found
    return "half" if found.can_turn_to_halves and interleave is False else found.layout


class _ModelTypes(Mapping[str, ModelType]):
    """Model types by name, each made of its stored entry when it is first asked for: a file is of one or two of them.

    Args:
        own: Those of code that comes with checkpoints.
        stored: The entries of ``model_types.json``, which count where a name is in both.
    """

    def __init__(self, own: Mapping[str, ModelType], stored: Mapping[str, Any]) -> None:
        self._names = dict.fromkeys((*own, *stored))
        self._stored = stored
        self._made = {name: kind for name, kind in own.items() if name not in stored}

    def __getitem__(self, name: str) -> ModelType:
        if name not in self._made:
            self._made[name] = from_facts(name, self._stored[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@functools.cache
def _all_types() -> Mapping[str, ModelType]:
    from locant.rotary_configs.classes.own_code import OWN_CODE

    stored = json.loads((Path(__file__).parent / "model_types.json").read_text(encoding="utf-8"))
    return _ModelTypes(OWN_CODE, stored)
