"""Names in a configuration that look as if they were about rotary positions, though nothing reads them."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from typing import Any

from locant.positions.scaling import SCALINGS
from locant.positions.scaling.fields import Fields, Finding, in_json
from locant.rotary_configs.spellings import says_rotary, sizes_meant_by

_READ = """
rope_parameters rope_scaling rope_theta rotary_emb_base rope_local_base_freq global_rope_theta local_rope_theta
partial_rotary_factor rotary_pct rotary_dim rope_interleave qk_rope_head_dim no_rope_layers no_rope_layer_interval
rope_interleaved max_position_embeddings original_max_position_embeddings head_dim global_head_dim n_positions
layer_types position_embedding_type
"""
# Of transformers and of models with code of their own: near to one that is read, or with a part of its name.
_OTHERS = """
attention_head_dim cross_head_dim index_head_dim indexer_head_dim linear_head_dim mamba_head_dim
num_head_dim qk_head_dim qk_nope_head_dim swa_head_dim v_head_dim left_max_position_embeddings
right_max_position_embeddings max_decoder_position_embeddings max_encoder_position_embeddings
max_2d_position_embeddings num_position_embeddings max_relative_positions position_embeddings_type
t2u_max_position_embeddings relation_bias_theta layer_type layers_type q_head_dim
"""
_WINDOWS = {
    name.replace("_", ""): name
    for name in ("sliding_window", "use_sliding_window", "max_window_layers", "attention_chunk_size")
}
_NEAR = 0.88
_NEARER = 0.93  # of windows, whose names are alike in many models
_STEM = 3  # letters
_OF_ONE_BASE = 2  # words, as of rotary_base: a third one may say of which layers it is
_LOOK = re.compile(r"rope|rotary|rotat|theta|yarn|ntk|logn|mscale|mrope")
_OF_TWO_WORDS = re.compile(r"freqbase|basefreq|logn|mscale")
_OF_A_SCALING = re.compile(r"type|scal|factor|ratio|ntk|yarn|alpha|interpol")
_MEANT = (("theta", "rope_theta"), ("base", "rope_theta"), ("rota", "partial_rotary_factor"), ("", "rope_scaling"))


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_KNOWN = {_letters(name): name for name in _READ.split()}
_EXPECTED = frozenset((*_READ.split(), *_OTHERS.split()))


def misplaced_names(
    part: Mapping[str, Any], known: Container[str] = (), own: Collection[str] = ()
) -> Iterator[Finding]:
    """Yield findings about entries that nothing reads, for their spelling or their place.

    An error where the name of an entry that is read was probably meant, a warning where the name only looks rotary.

    Args:
        part: The text part of a config.json, or the whole that it stands in.
        known: Names that the model's class has entries for.
        own: Those about positions and sizes; one that the file leaves out may have been meant.
    """
    left_out = tuple(sorted(name for name in own if name not in part))
    inside = {entry for scaling in SCALINGS.values() for entry in scaling.rope_entries} - {"factor"} - _EXPECTED
    for name, value in part.items():
        if value is None or name in _EXPECTED or name in known or says_rotary({name: value}):
            continue
        if name in inside:
            yield Finding(
                "warning",
                f"'{name}' stands in config.json next to rope_scaling or rope_parameters, where nothing reads it.",
                f"Move '{name}' into that group, or remove it.",
            )
            continue
        meant = None if name.startswith(("vision", "audio", "text")) else _entry_meant_by(name, left_out)
        if meant is not None:
            yield Finding(
                "error",
                f"'{name}' in config.json is not known, and passed over. Did you mean '{meant}'?",
                "Correct the name, or remove the entry; what is shown is the rotation without it.",
            )
        elif value is not False and _looks_rotary(name) and not re.search("rope|rotary", name):
            meant = next(entry for token, entry in _MEANT if token in _letters(name))
            yield Finding(
                "warning",
                f"'{name}' in config.json looks as if it were about rotary positions, and nothing known here reads it.",
                f"If it is, say it by '{meant}'; if the model's own code reads it, compare with that code.",
            )


@functools.lru_cache(maxsize=4096)  # a file is read again for each of its entries, by vLLM's classes, and in parts
def _entry_meant_by(name: str, left_out: tuple[str, ...]) -> str | None:
    """Return the entry that a name is nearly, ``None`` for a name unlike all of them.

    Args:
        name: A name that is no entry itself.
        left_out: Entries about positions and sizes that the file leaves out.
    """
    letters, own = _letters(name), {_letters(each): each for each in left_out}
    near = difflib.get_close_matches(letters, _KNOWN, n=1, cutoff=_NEAR)
    near = near or [each for each in difflib.get_close_matches(letters, _WINDOWS, 1, _NEARER) if each != letters]
    if not name.startswith("_"):  # with an underscore it is what a class kept for itself
        near = near or difflib.get_close_matches(letters, own, n=1, cutoff=_NEAR)
    near = near or [each for each, usual in own.items() if _has_same_stems(name, usual)]
    near = near or [each for each, usual in (_KNOWN | own).items() if _has_same_words(name, usual)]
    near = near or [each for each, usual in own.items() if usual in sizes_meant_by(name)]
    return (_KNOWN | _WINDOWS | own)[near[0]] if near else None


def _has_same_words(name: str, usual: str) -> bool:
    """Whether two names are of the same words in another order: ``num_heads_attention``."""
    return name != usual and sorted(name.lower().split("_")) == sorted(usual.split("_"))


def _has_same_stems(name: str, usual: str) -> bool:
    """Whether two names have as many words, each the beginning of the other's: ``head_dimension``, ``heads_dim``."""
    words, others = name.lower().split("_"), usual.split("_")
    pairs = [sorted(pair, key=len) for pair in zip(words, others, strict=False)]
    return (
        len(words) == len(others)
        and name != usual
        and all(short == long or (len(short) >= _STEM and long.startswith(short)) for short, long in pairs)
    )


def _looks_rotary(name: str) -> bool:
    """Whether a word of a name is one about rotary positions: not across two, as ``ntk`` in ``recurrent_kv``."""
    words = (_letters(word) for word in name.split("_"))
    return any(_LOOK.search(word) for word in words) or _OF_TWO_WORDS.search(_letters(name)) is not None


def _base_meant_by(name: str, left_out: Iterable[str]) -> str | None:
    """Return the base that a name means, of those that a file leaves out: one with its words, or that of all layers.

    Args:
        name: A name that nothing reads.
        left_out: Those that the class takes.
    """
    words, bases = {*name.split("_")}, [*left_out]
    if not words & {"theta", "base"}:
        return None
    same = sorted((each for each in bases if {*each.split("_")} <= words), key=len)
    return same[-1] if same else "rope_theta" if "rope_theta" in bases and len(words) == _OF_ONE_BASE else None


def says_a_scaling(name: str, value: Any) -> bool:
    """Whether an entry says that frequencies or positions are scaled, in names of code of people's own."""
    return not isinstance(value, bool) and _OF_A_SCALING.search(name) is not None


def passed_over(
    fields: Fields, names: Iterable[str], known: Iterable[str], *, likeness: float = _NEAR, bases: Collection[str] = ()
) -> list[Finding]:
    """Take the entries that nobody read, and return findings about them: errors where another name was meant.

    Args:
        fields: The group that they stand in.
        names: Those that may be meant to say how to rotate.
        known: Names that are read.
        likeness: From which likeness on, up to 1, one of them was meant.
        bases: Entries that the class of the file takes for bases; one that it leaves out may have been meant.
    """
    found = []
    for name in names:
        if name not in fields.untaken():
            continue
        value, meant = fields.get(name), difflib.get_close_matches(name, list(known), n=1, cutoff=likeness)
        if meant and meant[0] != name and not isinstance(value, bool):
            finding = Finding(
                "error",
                f"'{name}' in {fields.where} is not known, and passed over. Did you mean '{meant[0]}'?",
                "Correct the name, or remove the entry; what is shown is the rotation without it.",
            )
        else:
            shown, other = in_json(value), _base_meant_by(name, [each for each in bases if each not in fields.values])
            meant_so = f"State it by '{other}', if that is meant" if other else "Remove it"
            finding = Finding(
                "warning",
                f"'{name}' in {fields.where} is {shown:.60}, and nothing known here reads it.",
                f"{meant_so}; if the model's own code reads it, compare with that code.",
                "read by nobody",
            )
        found.append(finding)
    return found
