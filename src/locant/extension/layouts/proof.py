"""Logits before and after a conversion: of the class as it is, and of converted weights with pairs turned otherwise."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from locant.errors import CheckpointError, LocantError
from locant.extension.inspect.model_class.observe import ATTENTION
from locant.extension.inspect.model_class.small_model import quiet
from locant.extension.layouts.rows import RotatedRows, RotatingLayer, permute_rows
from locant.extension.layouts.turned import turned_by_locant
from locant.extension.load import quiet_transformers
from locant.positions.rotary.config import RotaryLayout

if TYPE_CHECKING:
    from torch import Tensor, nn

_LENGTHS = (29, 31, 37)
ROUNDING = 2e-3
"""The most that logits may differ by, of the largest logit and of what turning the wrong pairs makes of them."""


@dataclass(frozen=True)
class LayoutProof:
    """How far logits are apart before and after a conversion: the largest difference of any logit of random token ids.

    Attributes:
        weights: Whose weights they are: ``random`` ones in the class of the model, or ``its own``.
        tokens: How many tokens were read.
        largest: The largest logit before.
        rotation: Before, with Locant's rotation in the place of the class's, in the same layout: what rounding makes.
        converted: After, with pairs turned in the new layout.
        unturned: After, but with pairs turned in the old layout, which is wrong.
    """

    weights: str
    tokens: int
    largest: float
    rotation: float
    converted: float
    unturned: float

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        return asdict(self)

    @property
    def holds(self) -> bool:
        """Whether the conversion changes no more than rounding does."""
        return max(self.rotation, self.converted) <= ROUNDING * min(self.unturned, self.largest)

    def require(self, name: str) -> None:
        """Raise LocantError where the conversion changes more than rounding does.

        Args:
            name: Name of the class, for the message.
        """
        if not self.holds:
            raise LocantError(
                f"The converted weights of {name} were tried and are not equivalent: logits differ by up to "
                f"{self.converted:.1e} ({self.rotation:.1e} by the rotation alone), with wrong pairs by "
                f"{self.unturned:.1e}. Nothing was written."
            )


def prove(
    model: nn.Module,
    layers: Sequence[RotatingLayer],
    rows: Mapping[str, RotatedRows],
    source: RotaryLayout,
    target: RotaryLayout,
    switched: nn.Module | None = None,
) -> LayoutProof:
    """Convert a model with random weights, and compare its logits.

    In float32; where logits differ by more, as layers that attend sharply enlarge what rounding does, again in float64.

    Args:
        model: From :func:`~locant.extension.layouts.low_rank.build_low_rank`; its weights are converted.
        layers: Its layers that are converted.
        rows: Their rows, in the source layout.
        source: Layout of the weights.
        target: Layout that they shall have.
        switched: The same class with the switch turned that lets it pair features as the target.
    """
    _let_attend(model)
    proof = _proof_of_random(model, layers, rows, source, target, switched)
    if proof.holds:
        return proof
    permute_rows(model, {name: replace(each, layout=target) for name, each in rows.items()}, source)
    try:
        return _proof_of_random(
            model.double(), layers, rows, source, target, None if switched is None else switched.double()
        )
    except (RuntimeError, TypeError, ValueError):  # of a class that computes in float32 whatever its weights are
        return proof


def _proof_of_random(
    model: nn.Module,
    layers: Sequence[RotatingLayer],
    rows: Mapping[str, RotatedRows],
    source: RotaryLayout,
    target: RotaryLayout,
    switched: nn.Module | None,
) -> LayoutProof:
    """Return the proof by a model whose weights are converted, and stay so."""
    ids = token_ids(model)
    before, by_locant = read_in(model, layers, source, ids), read_in(model, layers, source, ids, by_class=False)
    permute_rows(model, rows, target)
    wrong = read_in(model, layers, source, ids)
    if switched is None:
        after = read_in(model, layers, target, ids)
    else:
        _let_attend(switched)
        switched.load_state_dict(model.state_dict())
        after = logits_of(switched, ids)
    return proof_of("random", before, by_locant, after, wrong)


def _let_attend(model: Any) -> None:
    """Let a model whose attention was watched attend again, with the plainest function."""
    if model.config._attn_implementation == ATTENTION:
        with quiet():
            model.set_attn_implementation("eager")


def proof_of(weights: str, before: Tensor, by_locant: Tensor, after: Tensor, wrong: Tensor) -> LayoutProof:
    """Return the proof of logits ``[L, V]``."""
    differences = [float((before - each).abs().max()) for each in (by_locant, after, wrong)]
    return LayoutProof(weights, before.shape[0], float(before.abs().max()), *differences)


def read_in(
    model: nn.Module, layers: Sequence[RotatingLayer], layout: RotaryLayout, ids: Tensor, *, by_class: bool = True
) -> Tensor:
    """Return the logits of a model whose weights are read in a layout.

    Args:
        model: A model of transformers.
        layers: Layers that rotate.
        layout: How their pairs are turned: by the class where it has that layout, otherwise by Locant.
        ids: Token ids ``[1, L]``.
        by_class: Whether the class may do it.

    Returns:
        ``[L, V]``, float32.
    """
    own = by_class and all(layer.layout == layout for layer in layers)
    with nullcontext() if own else turned_by_locant(model, layers, layout, ids.shape[-1]):
        return logits_of(model, ids)


def token_ids(model: nn.Module) -> Tensor:
    """Return random token ids ``[1, L]`` of a length that is not that of another axis of queries."""
    config: Any = model.config.get_text_config()  # type: ignore[union-attr, operator]
    taken = {value for value in vars(config).values() if isinstance(value, int)}
    length = next((each for each in _LENGTHS if each not in taken), _LENGTHS[0])
    generator = torch.Generator().manual_seed(0)
    return torch.randint(3, int(getattr(config, "vocab_size", None) or 64), (1, length), generator=generator)


@torch.no_grad()
def logits_of(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the logits ``[L, V]``, float32, of a model, or its last hidden states where it has none."""
    accepted = inspect.signature(model.forward).parameters
    given = {"input_ids": ids, "decoder_input_ids": ids, "use_cache": False}
    with quiet():
        output = model(**{name: value for name, value in given.items() if name in accepted})
    found = getattr(output, "logits", None)
    if found is None and isinstance(output, tuple):
        found = next(each for each in output if isinstance(each, torch.Tensor) and each.ndim == 3)
    found = output.last_hidden_state if found is None else found
    result: Tensor = found[0].float()
    return result


def prove_with_weights(
    found: Any,
    configs: tuple[Any, Any],
    folders: tuple[Path, Path],
    layers: Sequence[RotatingLayer],
    source: RotaryLayout,
    target: RotaryLayout,
    *,
    switched: bool,
) -> LayoutProof:
    """Compare logits of a checkpoint with those of the converted one, each loaded whole, one after the other.

    Args:
        found: Their class.
        configs: Its configuration before and after.
        folders: Where the checkpoints are.
        layers: Their layers that were converted.
        source: Layout of the first.
        target: Layout of the second.
        switched: Whether the class reads the second as it is.

    Raises:
        CheckpointError: A checkpoint cannot be loaded.
    """
    model = _loaded(found, configs[0], folders[0])
    ids = token_ids(model)
    before, by_locant = read_in(model, layers, source, ids), read_in(model, layers, source, ids, by_class=False)
    del model
    model = _loaded(found, configs[1], folders[1])
    after = logits_of(model, ids) if switched else read_in(model, layers, target, ids)
    wrong = read_in(model, layers, source, ids, by_class=not switched)
    return proof_of("its own", before, by_locant, after, wrong)


def _loaded(found: Any, config: Any, folder: Path) -> nn.Module:
    try:
        with quiet_transformers():
            model = found.from_pretrained(folder, config=config, dtype=torch.float32, use_safetensors=True)
    except Exception as error:  # whatever transformers raises
        raise CheckpointError(f"The model at {folder} cannot be loaded: {error}") from error
    loaded: nn.Module = model.eval()
    return loaded
