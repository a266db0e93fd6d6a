"""Entries of code of people's own in the names of transformers, known by the words that their names are made of.

Such code calls the base of sliding layers ``rope_local_base``, ``swa_rope_theta`` or ``rope_theta_sliding``, and heads
``nhead`` or ``num_attn_heads``. No list of whole names keeps up with that; the words of them are few.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from locant.positions.rotary.config import RotaryLayout
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding, in_json

_Words = frozenset[str]

ROTARY = frozenset(["rope", "rotary", "rot", "roformer"])
"""Words of names that are about rotary positions."""

_BASE = frozenset(["theta", "base", "thetas", "bases"])
_LOCAL = frozenset(["local", "sliding", "swa", "window", "windowed"])
_FULL = frozenset(["global", "full", "text"])
_EMBEDDING = frozenset(["emb", "embs", "embd", "embed", "embedding", "embeddings"])
_FILL = _EMBEDDING | {"freq", "freqs", "frequency", "value", "pos", "position", "attn", "attention"}
_OF_LAYERS = frozenset(["layer", "layers"])
_SHARE = frozenset(["pct", "percent", "percentage", "fraction", "ratio", "share", "proportion"])
_SIZE = frozenset(["dim", "dims", "ndims", "dimension", "dimensions", "size", "width", "d"])
_COUNT = frozenset(["n", "num", "number", "of"])
_OF_QUERIES = frozenset(["attention", "attn", "query", "queries", "q", "self"])
_OF_HEAD = frozenset(["per", "attn", "attention", "head"])
_EVERY = frozenset(["interval", "every", "period"])
_OF_LENGTH = frozenset(["max", "seq", "sequence", "context", "ctx", "len", "length", "n", "model", "text"])
_ROTARY_WORD = re.compile(r"rope|rotary|roformer")
_POSITIONS = frozenset(["pos", "position", "positions", "positional", "pe"])
_RECURRENT = frozenset(["ssm", "mamba", "mamba2", "rwkv", "recurrent", "rnn", "lstm"])
_OTHER_KINDS = _RECURRENT | {"conv", "linear", "lightning", "delta", "gla", "kda"}
_WHICH = frozenset(["every", "interval", "period", "pattern", "layers", "indices", "ids", "idx"])
NO_SCALING = frozenset(["none", "null", "default", "no", "false", "off", "disabled", "unscaled", "identity"])
"""Texts that say that nothing is scaled."""
_HALVES = frozenset(["neox", "gpt_neox", "half", "halves", "rotate_half", "split_half", "half_split"])
_NEIGHBOURS = frozenset(["gptj", "gpt_j", "gpt-j", "interleaved", "adjacent", "interleave"])

WIDTHS = ("hidden_size", "n_embd", "d_model", "model_dim")
"""Names of the width of a layer that many models have."""

HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
"""Names of the number of heads that many models have."""

HEAD_SIZES = ("head_dim", "kv_channels", "attention_head_dim", "hidden_size_per_head")
"""Names of the features of a head that many models have."""

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
"""Names of the number of layers that many models have."""

LAYERS_OF_A_STACK = "num_layers_per_stack"
"""The layers of each stack of a class that lets a text pass several times through them, and counts passes besides."""

LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "model_max_length", "seq_length")
"""Names of the longest text that many models have."""


@functools.lru_cache(maxsize=4096)
def words_of(name: str) -> _Words:
    """Return the words that a name is made of: ``localRopeTheta`` is of ``local``, ``rope`` and ``theta``."""
    return frozenset(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_").split("_")) - {""}


def _is_base(words: _Words) -> bool:
    return bool(words & _BASE and words & ROTARY)


def _is_base_of_all(words: _Words) -> bool:
    return _is_base(words) and words <= ROTARY | _BASE | _FILL


def is_base_of_all_layers(name: str) -> bool:
    """Whether an entry is the one base of all layers by the words of its name: ``rotary_embedding_base``."""
    return _is_base_of_all(words_of(name))


def _is_base_of_full_layers(words: _Words) -> bool:
    return _is_base(words) and words <= ROTARY | _BASE | _FILL | _FULL | _OF_LAYERS


def _is_base_of_sliding_layers(words: _Words) -> bool:
    return _is_base(words) and bool(words & _LOCAL) and words <= ROTARY | _BASE | _FILL | _LOCAL | _OF_LAYERS


def _is_share(words: _Words) -> bool:
    says = ("partial" in words and words & (_SHARE | {"factor"})) or (words & _SHARE and words != {"rope", "ratio"})
    return bool(says and words & ROTARY) and words <= ROTARY | _SHARE | _FILL | {"partial", "factor", "head"}


def _is_rotated_size(words: _Words) -> bool:
    return bool(words & ROTARY and words & _SIZE) and words <= ROTARY | _SIZE | _FILL | {"head", "n", "qk"}


def _is_still_size(words: _Words) -> bool:
    return bool("nope" in words and words & _SIZE) and words <= {"nope", "head", "qk"} | _SIZE


def _is_interval_without(words: _Words) -> bool:
    is_without = "nope" in words or words >= {"no", "rope"}
    return bool(is_without and words & _EVERY) and words <= {"nope", "no", "rope", "layer", "layers", "n"} | _EVERY


def _is_head_size(words: _Words) -> bool:
    return bool("head" in words and words & _SIZE) and words <= _OF_HEAD | _SIZE


_OF_POSITIONS = frozenset(
    ["window", "windows", "windowed", "sliding", "swa", "nope", "alibi", "rot", "chunk", "chunked"]
)


def is_about_positions(name: str) -> bool:
    """Whether a name is about positions by a word of it, or about the size of heads by all of them."""
    words = words_of(name)
    return bool(words & _OF_POSITIONS) or _is_head_size(words)


def _is_heads(words: _Words) -> bool:
    if words & {"nhead", "nheads"}:
        return len(words) == 1
    return ("heads" in words or bool("head" in words and words & _COUNT)) and words <= {
        "head",
        "heads",
        *_COUNT,
        *_OF_QUERIES,
    }


def _is_layers(words: _Words) -> bool:
    if words & {"nlayer", "nlayers", "depth"}:
        return len(words) == 1
    of = {"layer", "layers", "block", "blocks"}
    return bool(words & of and words & _COUNT) and words <= of | _COUNT | {"hidden", "transformer", "decoder"}


def sizes_meant_by(name: str) -> tuple[str, ...]:
    """Return the usual names of a number of heads or layers, or of the size of heads, that another is by its words."""
    usual = (HEADS, HEAD_SIZES, LAYERS)
    if any(name in names for names in usual):
        return ()
    kinds = zip(usual, (_is_heads, _is_head_size, _is_layers), strict=True)
    return next((names for names, is_meant in kinds if is_meant(words_of(name))), ())


def _is_length(words: _Words) -> bool:
    return words == {"block", "size"} or (
        bool(words & {"len", "length", "ctx"}) and words <= _OF_LENGTH and words != {"max", "length"}
    )


def _is_width_of_model(words: _Words) -> bool:
    return bool("model" in words and words & _SIZE) and words <= {"model"} | _SIZE


def _is_width_of_embedding(words: _Words) -> bool:
    return bool(words & _EMBEDDING and words & _SIZE | words & {"n"}) and words <= _EMBEDDING | _SIZE | {"n"}


def _is_bare_width(words: _Words) -> bool:
    return words in ({"dim"}, {"width"})


def _is_hidden_width(words: _Words) -> bool:
    return bool("hidden" in words and words & _SIZE) and words <= {"hidden"} | _SIZE


def _only(given: Mapping[str, Any], is_meant: Callable[[_Words], bool], is_value: Callable[[Any], bool]) -> str | None:
    """Return the name of the only entry that is meant, or the first of several that say the same."""
    found = [name for name, value in given.items() if is_value(value) and is_meant(words_of(name))]
    return found[0] if found and all(given[name] == given[found[0]] for name in found) else None


def is_count(value: Any) -> bool:
    """Whether a value is a positive whole number."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


class Spelled(dict[str, Any]):
    """Entries in the names of transformers.

    Attributes:
        names: What the file calls them, by the names that they have here, where that differs.
        overwritten: Numbers of the file in whose place the code of the model takes that of another entry: that entry,
            and its number.
    """

    def __init__(self, entries: Mapping[str, Any]) -> None:
        super().__init__(entries)
        self.names: dict[str, str] = {}
        self.overwritten: dict[str, tuple[str, float]] = {}

    def take(self, theirs: str | None, ours: str) -> None:
        """Give an entry the name that transformers has for it."""
        if theirs is not None and theirs != ours:
            self[ours] = self.pop(theirs)
            self.names[ours] = theirs

    def learn_names(self, translated: Mapping[str, Any]) -> None:
        """Note which numbers of the file, alone or in a list, have another name in a translation of it.

        Args:
            translated: The entries in the names of transformers, as the code of a model type is known to take them.
        """
        gone = {name: value for name, value in self.items() if name not in translated}
        for name, value in translated.items():
            if not is_number(value) or self.get(name) == value:
                continue
            theirs = [each for each, of in gone.items() if value in (of if isinstance(of, list) else [of])]
            if len(theirs) == 1:
                self.names.setdefault(name, theirs[0])
                if is_number(self.get(name)):
                    self.overwritten[name] = (theirs[0], value)

    def has_none(self, *names: str) -> bool:
        """Whether none of some entries is there."""
        return all(self.get(name) is None for name in names)

    def in_words_of_file(self, text: str) -> str:
        """Return a message with the names that the file has."""
        if not self.names:
            return text
        return re.sub(r"(?<!\w)(?:" + "|".join(self.names) + r")(?!\w)", lambda found: self.names[found[0]], text)


def in_names_of_all(entries: Mapping[str, Any], *, sizes: bool) -> Spelled:
    """Return entries of own code, with base, share and scaling by their usual names where these are free.

    Args:
        entries: The text part of config.json.
        sizes: Whether sizes of heads and layers are looked for as well: nothing else is known of the class.
    """
    given = Spelled(entries)
    for name in [name for name in entries if sizes and "-" in name]:
        if given.has_none(name.replace("-", "_")):
            given.take(name, name.replace("-", "_"))
    if given.has_none("rope_theta", "rotary_emb_base"):
        base = _only(given, _is_base_of_all, is_number) or _only(given, _is_base_of_full_layers, is_number)
        given.take(base, "rope_theta")
    if given.has_none("partial_rotary_factor", "rotary_pct", *(() if sizes else ("rotary_percent",))):
        given.take(_only(given, _is_share, is_number), "partial_rotary_factor")
    if given.has_none("rope_scaling", "rope_parameters"):
        given.take(_only(given, _is_scaling, lambda value: isinstance(value, Mapping)), "rope_scaling")
        _with_scaling_in_pieces(given)
        _with_own_yarn(given)
    if sizes:
        _with_usual_sizes(given)
        if given.has_none("rope_local_base_freq", "local_rope_theta"):
            given.take(_only(given, _is_base_of_sliding_layers, is_number), "rope_local_base_freq")
        if given.has_none("no_rope_layer_interval", "no_rope_layers"):
            given.take(_only(given, _is_interval_without, is_count), "no_rope_layer_interval")
    return given


def _is_scaling(words: _Words) -> bool:
    return words >= {"rope", "scaling"} and words <= {"rope", "scaling", "custom", "own", "text", "my", "config"}


def _with_scaling_in_pieces(given: Spelled) -> None:
    """Gather ``rope_scaling_type``, ``rope_scaling_factor`` and the like in a group."""
    kind = given.get("rope_scaling_type")
    if isinstance(kind, str) and given.get("rope_scaling") is None:
        pieces = [name for name in given if name.startswith("rope_scaling_")]
        group = {name.removeprefix("rope_scaling_"): given.pop(name) for name in pieces}
        if kind.lower() not in NO_SCALING:
            given["rope_scaling"] = group


def _with_own_yarn(given: Spelled) -> None:
    """Gather ``yarn_scale``, ``yarn_beta_fast`` and the like in a group, where ``yarn`` switches them on."""
    scale = given.get("yarn_scale")
    if given.get("yarn") is not True or not is_number(scale) or given.get("rope_scaling") is not None:
        return
    group = {name.removeprefix("yarn_"): given.pop(name) for name in [*given] if name.startswith("yarn_")}
    group["factor"] = group.pop("scale")
    for neutral in ("extrapolation_factor", "attn_factor"):
        if group.get(neutral) == 1:
            del group[neutral]
    del given["yarn"]
    if given.get("rope") is False:  # it is the other one of two rotations
        del given["rope"]
    if scale != 1:
        given["rope_scaling"] = {"rope_type": "yarn", **group}


def _with_usual_sizes(given: Spelled) -> None:
    for usual, is_meant in ((HEADS, _is_heads), (HEAD_SIZES, _is_head_size), (LAYERS, _is_layers)):
        if given.has_none(*usual):
            given.take(_only(given, is_meant, is_count), usual[0])
    with_usual_width(given)
    if given.has_none(*LENGTHS):
        given.take(_only(given, _is_length, is_count), LENGTHS[0])
    if given.has_none("qk_rope_head_dim", "rotary_dim"):
        theirs = _only(given, _is_rotated_size, is_count)
        rest = _only(given, _is_still_size, is_count)
        if theirs is not None and (rest is not None or not given.has_none("kv_lora_rank", "q_lora_rank")):
            given.take(theirs, "qk_rope_head_dim")
            given.take(rest, "qk_nope_head_dim")
        elif theirs is not None and given[theirs] <= (head_size(given) or 0):
            given.take(theirs, "rotary_dim")


def with_usual_width(given: Spelled) -> None:
    """Give the width of layers its usual name, where nothing else tells the size of heads: ProGen has ``embed_dim``.

    Args:
        given: The entries, which are changed.
    """
    if given.has_none(*WIDTHS, *HEAD_SIZES):
        kinds = (_is_width_of_model, _is_width_of_embedding, _is_bare_width, _is_hidden_width)
        widths = (_only(given, kind, is_count) for kind in kinds)
        given.take(next((width for width in widths if width is not None), None), WIDTHS[0])


def head_size(given: Mapping[str, Any]) -> int | None:
    """Return the features of a head by entries with usual names, where they tell it."""
    stated = next((given[name] for name in HEAD_SIZES if is_count(given.get(name))), None)
    width, heads = (
        next((given[name] for name in names if is_count(given.get(name))), None) for names in (WIDTHS, HEADS)
    )
    return stated if stated is not None else width // heads if width and heads else None


def sizes_of_layers(part: Mapping[str, Any]) -> bool:
    """Whether entries tell the width of layers and how many heads they have."""
    widths = (_is_width_of_model, _is_width_of_embedding, _is_bare_width, _is_hidden_width)
    names = [words_of(name) for name, value in part.items() if is_count(value)]
    return any(_is_heads(words) for words in names) and any(is_width(words) for words in names for is_width in widths)


def without_null_scaling(
    given: dict[str, Any], findings: list[Finding], *, is_known: bool, refused: Collection[str]
) -> None:
    """Take a scaling that says that there is none for none: ``false``, and ``"none"`` in code of people's own.

    Args:
        given: The entries, which are changed.
        findings: Where findings go.
        is_known: Whether the class is one of transformers, which fails for text.
        refused: Names under which the class of transformers 5 takes a group or null alone.
    """
    for name in ("rope_scaling", "rope_parameters"):
        value = given.get(name)
        is_said = isinstance(value, str) and value.lower() in NO_SCALING
        if value is None or not (value in (False, "", 0, []) or (not is_known and (is_said or value == 1))):
            continue
        fails, remedy = "releases 4 of transformers fail there", f"State null for {name}."
        if name in refused:  # as if it were left out: null may mean something else to such a class
            del given[name]
            fails, remedy = "transformers refuses it", f"Leave {name} out."
        else:
            given[name] = None
        findings.append(
            Finding(
                "warning",
                f"{name} is {in_json(value)} in config.json, which is taken for no scaling; {fails}.",
                remedy,
            )
        )


def stated_layout(part: Mapping[str, Any]) -> tuple[str, RotaryLayout] | None:
    """Return the entry of code of people's own that says how features are paired, and what it says."""
    for name, value in part.items():
        words = words_of(name)
        if isinstance(value, bool):
            if words & ROTARY and words & {"interleaved", "interleave"} and not words & {"mrope", "indexer"}:
                return name, "interleaved" if value else "half"
            if "neox" in words and words & (ROTARY | {"style"}):
                return name, "half" if value else "interleaved"
        elif isinstance(value, str) and words & ROTARY:
            if value.lower() in _NEIGHBOURS:
                return name, "interleaved"
            if value.lower() in _HALVES:
                return name, "half"
    return None


def layers_of_other_kinds(part: Mapping[str, Any]) -> list[str]:
    """Return the entries that say which layers are of another kind: ``ssm_every_n``, ``mamba_layers``."""
    found = ((name, words_of(name)) for name, value in part.items() if is_count(value) or isinstance(value, list | str))
    return [name for name, words in found if words & _OTHER_KINDS and words & _WHICH]


def names_positions(part: Mapping[str, Any]) -> str | None:
    """Return what an entry such as ``pos_emb`` or ``pe_type`` says of the kind of positions, in small letters."""
    for name, value in part.items():
        if isinstance(value, str) and words_of(name) & _POSITIONS:
            return value.lower()
    return None


def says_rotary(part: Mapping[str, Any]) -> bool:
    """Whether an entry such as ``pos_emb`` says that positions are rotary."""
    stated = names_positions(part)
    return stated is not None and _ROTARY_WORD.search(stated) is not None
