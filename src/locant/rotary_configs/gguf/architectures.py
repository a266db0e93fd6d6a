"""What llama.cpp does with the rotary positions of each architecture of GGUF files, in one table.

Source of ``architectures.json``: ``llama_model_rope_type``, and ``load_arch_hparams``, ``load_arch_tensors`` and the
graphs in ``src/models`` of llama.cpp, checked against what build b11739 computes (October 2026).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryLayout
from locant.rotary_configs.fields import Fields
from locant.rotary_configs.reading import NoRotaryPositionsError


@dataclass(frozen=True)
class Windows:
    """Which layers have a sliding window, and how many tokens they see."""

    period: int | None = 4  # one layer in this many has none, if the file states no other; None: it must list them
    full_first: bool = False  # that is the first of a period, not the last
    everywhere: bool = False  # all layers have it
    usual: int | None = None  # of files that state none
    fixed: int | None = None  # whatever the file states, unless it states 0
    both_ways: bool = False  # half of it lies ahead of a token
    depth: int | None = None  # number of layers of the models with windows, where others have none
    chunked: bool = False  # it is the chunk of the text that a token is in


@dataclass(frozen=True)
class Sliding:
    """How layers with a window rotate, where they may rotate otherwise than those of full attention."""

    base: float | None = None  # of files without rope.freq_base_swa; None: that of full attention
    reads_base: bool = True  # the graph takes rope.freq_base_swa
    scaled: bool = False  # the scaling of the file holds for them
    magnified: bool = False  # rope.scaling.attn_factor does, although they are not scaled
    own: Literal["heads", "rotated"] | None = None  # sizes of their own: of heads, or of the rotated part alone


@dataclass(frozen=True)
class NoRope:
    """Which layers of attention are without RoPE."""

    every: int | None = None  # one layer in that many
    first: bool = False  # that is the first, not the last
    with_windows: bool = False  # that is so only where some layers have a window
    full: bool = False  # those of full attention, where others have a window
    dense: bool = False  # but for the layers before the experts


@dataclass(frozen=True)
class Architecture:
    """What llama.cpp does with the rotary positions of an architecture, ``general.architecture`` of files."""

    name: str
    instead: str | None = None  # what it has in place of RoPE
    neighbours: bool = False  # neighbouring features are paired, not those of two halves
    permuted: bool = False  # the converter permuted queries and keys from halves to neighbours
    model_type: str = ""  # of the config.json that files are converted from; that or a similar one
    axes: Literal["sections", "alternating", "if stated"] | None = None  # one after the other, or in turn
    part: Literal["whole", "separate", "latent", "half"] | None = None
    """What is rotated of a head: the whole alone, a separate part that is a head of its own here, such a one whose size
    must be stated since the head's is that of the latent, or half of the stated features in full attention."""
    factors: Literal["freqs", "lists", "either"] | None = None  # rope_freqs.weight, LongRoPE's two, or by the type
    base: float | None = None  # of the graph, whatever the file states
    scaled: bool = True  # the graph has scalings
    magnified: bool = True  # they multiply cosine and sine by an attention scale
    alpha: bool = False  # rope.scaling.alpha raises the base
    beta_fast: float | None = None  # of files without yarn_beta_fast; None: 32 and 1 whatever they state
    log_unit: float | None = None  # yarn_log_multiplier is that many times mscale_all_dim; None: it is not read
    cancelled: bool = False  # mscale is mscale_all_dim there, not 1
    switched: bool = False  # rope.scaling.finetuned false is a model without RoPE
    depth: int | None = None  # number of layers of the models that rotate, where others do not
    attention_every: int | None = None  # one layer in that many attends, unless the file says otherwise
    no_rope: NoRope = NoRope()
    windows: Windows | None = None
    sliding: Sliding | None = None

    @property
    def layout(self) -> RotaryLayout:
        """The layout of positions with one axis; those with several axes are in halves."""
        return "interleaved" if self.neighbours else "half"


_PARTS = {"no_rope": NoRope, "windows": Windows, "sliding": Sliding}


@functools.cache
def known_architectures() -> Mapping[str, Architecture]:
    """Return every architecture of ``architectures.json`` by its name."""
    stored: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    table = {}
    for name, facts in stored.items():
        made = {key: _PARTS[key](**value) if key in _PARTS else value for key, value in facts.items()}
        table[name] = Architecture(name, **{"model_type": name.replace("-", "_"), **made})
    return table


def architecture_of(name: str) -> Architecture:
    """Return what llama.cpp does with an architecture.

    Args:
        name: ``general.architecture`` of a file.

    Raises:
        NoRotaryPositionsError: It has other positions than rotary ones.
        ConfigError: It is unknown.

    Example:
        >>> architecture_of("command-r").layout, architecture_of("phi3").factors
        ('interleaved', 'lists')
    """
    table = known_architectures()
    if name not in table:
        raise ConfigError(
            f"Unknown architecture '{name:.60}' of GGUF, which decides about pairs.{nearest(name[:60], table)} "
            f"{len(table)} are known."
        )
    if table[name].instead is not None:
        raise NoRotaryPositionsError(f"Models of the architecture '{name}' have no RoPE, but {table[name].instead}.")
    return table[name]


def keys_of(metadata: Mapping[str, Any]) -> tuple[Architecture, Fields]:
    """Return the architecture of a file, and its keys without the architecture's name.

    Raises:
        ConfigError: What :func:`architecture_of` raises, or there is no architecture.
    """
    name = metadata.get("general.architecture")
    if not isinstance(name, str):
        raise ConfigError("The GGUF metadata have no general.architecture, which all other keys begin with.")
    prefix = f"{name}."
    own = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
    return architecture_of(name), Fields(own, f"the GGUF metadata of '{name:.60}'")
