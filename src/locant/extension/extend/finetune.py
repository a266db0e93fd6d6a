"""Fine-tuning of an extended model on long texts, with LoRA or in full, and its state on disk."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from locant.errors import CheckpointError, ConfigError, DataError, TrainingError
from locant.extension.evaluate.perplexity import next_token_loss
from locant.lazy import require_package
from locant.training.budget import Budget
from locant.training.checkpoint import read_about, read_state, step_name, write_state
from locant.training.loop import DivergedError, LoopProgress, TrainingLoop, Update
from locant.training.optimizers import OptimizerSet
from locant.training.parallel import DistributedModel

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_MOMENTS = ("exp_avg", "exp_avg_sq")


class TrainingState:
    """What is saved of a training, without pickles: trained weights, the optimizer's moments and the step."""

    def __init__(
        self, folder: Path, weights: dict[str, nn.Parameter], optimizer: torch.optim.Optimizer, about: dict[str, Any]
    ) -> None:
        self.folder, self.weights, self.optimizer = folder, weights, optimizer
        self.about: dict[str, Any] = json.loads(json.dumps(about))

    def save(self, step: int) -> None:
        """Save the state of a step, then remove the one before."""
        older = self._saved()
        moments = {
            f"{kind}:{name}": self.optimizer.state[weight][kind].cpu()
            for name, weight in self.weights.items()
            for kind in _MOMENTS
        }
        weights = {name: each.cpu() for name, each in self.weights.items()}
        folder = self.folder / step_name(step)
        write_state(folder, weights, moments, {"step": step, "of": self.about})
        for path in older:
            if path != folder:
                shutil.rmtree(path, ignore_errors=True)

    def load(self) -> int:
        """Load the last state, and return its step; 0 where there is none."""
        saved = self._saved()
        if not saved:
            return 0
        from safetensors import SafetensorError

        folder = saved[-1]
        found = read_about(folder)
        if found.get("of") != self.about:
            raise CheckpointError(
                f"{self.folder} holds the state of another training (another model, method, text or setting). Start "
                "that one again as it was, or remove the folder."
            )
        try:
            weights, moments, _ = read_state(folder)
            with torch.no_grad():
                for name, weight in self.weights.items():
                    weight.copy_(weights[name])
                    kept: dict[str, Any] = {kind: moments[f"{kind}:{name}"].to(weight.device) for kind in _MOMENTS}
                    self.optimizer.state[weight] = kept | {"step": torch.tensor(float(found["step"]))}
            return int(found["step"])
        except (SafetensorError, OSError, KeyError, RuntimeError, ValueError, TypeError) as error:
            raise CheckpointError(f"The state in {folder} is damaged: {error}. Remove that folder.") from error

    def _saved(self) -> list[Path]:
        return sorted(self.folder.glob("step-*"))


_RATES = {"lora": 2e-4, "full": 2e-5}
_WARM_UP = 20
_BETAS = (0.9, 0.95)
_LARGEST_GRADIENT = 1.0


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """How to adapt a model.

    Args:
        texts: Files of UTF-8 text.
        steps: Number of updates; each one reads one piece of text.
        length: Tokens of a piece; where it is ``None`` the target length of the extension, of ``drope`` the original.
        kind: ``lora`` or ``full``.
        rank: Of LoRA's matrices.
        learning_rate: After the warm-up; 2e-4 for LoRA and 2e-5 in full where it is ``None``.
        save_every: Steps after which the state is saved, to go on from after an interruption.
        seed: Of the choice of pieces, and of LoRA's first matrices.
    """

    texts: tuple[Path, ...]
    steps: int
    length: int | None = None
    kind: str = "lora"
    rank: int = 16
    learning_rate: float | None = None
    save_every: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the numbers, and fill in the learning rate."""
        if self.kind not in _RATES:
            raise ConfigError(f"Fine-tuning is of the kind lora or full; got '{self.kind}'.")
        for name in ("steps", "rank", "save_every"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} of fine-tuning must be at least 1; got {getattr(self, name)}.")
        if self.length is not None and self.length < 2:
            raise ConfigError(f"A piece of text for fine-tuning must have at least 2 tokens; got {self.length}.")
        if self.learning_rate is None:
            object.__setattr__(self, "learning_rate", _RATES[self.kind])
        elif not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ConfigError(f"The learning rate must be a number above 0; got {self.learning_rate:g}.")


@dataclass(frozen=True)
class FineTuningStep:
    """How far fine-tuning is.

    Attributes:
        step: Updates so far.
        steps: Updates in all.
        loss: Mean negative log-likelihood of a token in the last piece, in nats.
    """

    step: int
    steps: int
    loss: float


def read_tokens(texts: Sequence[Path], tokenizer: Any, length: int) -> Tensor:
    """Return the tokens of texts, one after the other.

    Args:
        texts: Files of UTF-8 text.
        tokenizer: The model's.
        length: Tokens that are needed at least.

    Raises:
        DataError: A file cannot be read, or the texts are shorter.
    """
    found: list[int] = []
    for path in texts:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read as UTF-8 text: {error}.") from error
        found += tokenizer(text, verbose=False)["input_ids"]
    if len(found) < length:
        raise DataError(
            f"{', '.join(map(str, texts))} {'has' if len(texts) == 1 else 'have'} {len(found):,} tokens; at least "
            f"{length:,} are needed."
        )
    return torch.tensor(found)


def check_finetuning(settings: FineTuning) -> None:
    """Raise MissingExtraError or DataError for what would stop fine-tuning only after the model was loaded."""
    if settings.kind == "lora":
        require_package("peft", "Fine-tuning with LoRA")
    for path in settings.texts:
        if not path.is_file():
            raise DataError(f"There is no file {path} with text for fine-tuning.")


def finetune(
    model: PreTrainedModel,
    tokens: Tensor,
    settings: FineTuning,
    work: Path,
    *,
    identity: str,
    on_step: Callable[[FineTuningStep], None] | None = None,
) -> PreTrainedModel:
    """Train a model on pieces of a text, with gradient checkpointing, and return it with what it learnt merged in.

    On CUDA, products are computed in bfloat16 while trained weights are float32. An interrupted training goes on from
    its last saved state when it is started again with the same arguments; pieces and updates are then those of a
    training without interruption.

    Args:
        model: Loaded with the extended configuration; it is changed.
        tokens: The text, ``[N]``, longer than a piece.
        settings: How to train; ``length`` is stated.
        work: Folder for the state, next to the result; the caller removes it when the result is safe.
        identity: What else the state depends on, for instance model and method; a state of another one is refused.
        on_step: Called after each update.

    Raises:
        CheckpointError: ``work`` holds the state of another training, or cannot be written.
        TrainingError: The loss is no longer a number.
        MissingExtraError: peft is not installed.
    """
    assert settings.length is not None
    torch.manual_seed(settings.seed)
    trained: Any = _with_lora(model, settings) if settings.kind == "lora" else model.requires_grad_(True)
    model.config.use_cache = False
    _save_memory(model)
    trained.train()
    weights = {name: each for name, each in trained.named_parameters() if each.requires_grad}
    optimizer = torch.optim.AdamW(weights.values(), lr=settings.learning_rate or 0.0, betas=_BETAS, weight_decay=0.0)
    state = TrainingState(work, weights, optimizer, _fingerprint(settings, tokens, identity))
    device = next(model.parameters()).device
    done = state.load()
    loop: TrainingLoop[_Piece] = TrainingLoop(
        DistributedModel(_PieceLoss(model), model, "auto", device),
        OptimizerSet([optimizer]),
        lambda step, _: (settings.learning_rate or 0.0) * min(1.0, step / _WARM_UP),
        Budget(steps=settings.steps),
        device=device,
        max_grad_norm=_LARGEST_GRADIENT,
        progress=LoopProgress(done),
    )

    def after_update(update: Update) -> None:
        step = loop.progress.step
        if step % settings.save_every == 0 or step == settings.steps:
            state.save(step)
        if on_step is not None:
            on_step(FineTuningStep(step, settings.steps, update.loss / update.tokens))

    try:
        loop.run((_Piece(_piece(tokens, settings, step)) for step in count(done + 1)), after_update)
    except DivergedError as error:
        raise TrainingError(
            f"Fine-tuning stopped at step {error.step}: {error.found}. Lower the learning rate."
        ) from None
    model.config.use_cache = True
    merged: Any = trained.merge_and_unload() if settings.kind == "lora" else model
    return merged.eval().requires_grad_(False)


def _with_lora(model: PreTrainedModel, settings: FineTuning) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=settings.rank, lora_alpha=2 * settings.rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    return get_peft_model(model, config)


def _save_memory(model: Any) -> None:
    """Let layers compute their activations again for the gradient instead of keeping them."""
    options = {"use_reentrant": False}
    if hasattr(model, "activation_checkpointing_enable"):  # its name in later releases of transformers 5
        model.activation_checkpointing_enable(activation_checkpointing_kwargs=options)
    else:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)


def _piece(tokens: Tensor, settings: FineTuning, step: int) -> Tensor:
    """Return the piece of text of a step, which depends on nothing but seed and step."""
    assert settings.length is not None
    generator = torch.Generator().manual_seed(settings.seed * 1_000_003 + step)
    start = int(torch.randint(len(tokens) - settings.length + 1, (), generator=generator))
    return tokens[start : start + settings.length]


@dataclass(frozen=True)
class _Piece:
    """A piece of text as a batch: its tokens ``[L]``."""

    tokens: Tensor

    @property
    def target_tokens(self) -> int:
        return len(self.tokens) - 1

    def to(self, device: torch.device) -> _Piece:
        return _Piece(self.tokens.to(device))


class _PieceLoss(nn.Module):
    """The summed negative log-likelihood of a piece, with gradients and without; on CUDA of products in bfloat16."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, piece: _Piece) -> tuple[Tensor, Tensor]:
        kind = piece.tokens.device.type
        with torch.autocast(kind, torch.bfloat16, enabled=kind != "cpu"):
            loss = next_token_loss(self.model, piece.tokens[None]) * piece.target_tokens
        return loss, loss.detach()


def _fingerprint(settings: FineTuning, tokens: Tensor, identity: str) -> dict[str, Any]:
    said = {key: value for key, value in asdict(settings).items() if key not in ("texts", "steps", "save_every")}
    return said | {"text": hashlib.sha256(tokens.numpy().tobytes()).hexdigest(), "identity": identity}
