"""Fine-tuning of an extended model on long texts, with LoRA or in full, and its state on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.optim import AdamW

from locant.errors import CheckpointError, DataError, TrainingError
from locant.extension.evaluate.documents import read_texts
from locant.extension.evaluate.perplexity import next_token_loss
from locant.files import read_json, write_json
from locant.lazy import require_package
from locant.settings import Settings
from locant.training.budget import Budget
from locant.training.checkpoint import Checkpoint, Progress, checkpoint_folders, find_newest_checkpoint, save_checkpoint
from locant.training.loop import DivergedError, LoopProgress, TrainingLoop, Update
from locant.training.optimizers import OptimizerSet
from locant.training.parallel import DistributedModel

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_RATES = {"lora": 2e-4, "full": 2e-5}
_WARM_UP = 20
_LARGEST_GRADIENT = 1.0


class FineTuning(Settings):
    """How to adapt a model.

    Attributes:
        texts: Files of UTF-8 text.
        steps: Number of updates; each one reads one piece of text.
        length: Tokens of a piece; where it is ``None`` the target length of the extension, of ``drope`` the original.
        kind: ``lora`` or ``full``.
        rank: Of LoRA's matrices.
        learning_rate: After the warm-up; 2e-4 for LoRA and 2e-5 in full where it is ``None``.
        save_every: Steps after which the state is saved, to go on from after an interruption.
        seed: Of the choice of pieces, and of LoRA's first matrices.
    """

    texts: Annotated[tuple[Path, ...], Field(min_length=1)]
    steps: PositiveInt
    length: Annotated[int, Field(ge=2)] | None = None
    kind: Literal["lora", "full"] = "lora"
    rank: PositiveInt = 16
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    save_every: PositiveInt = 50
    seed: int = 0

    @property
    def rate(self) -> float:
        """The learning rate after the warm-up."""
        return self.learning_rate or _RATES[self.kind]


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
    found = [token for text in read_texts(texts) for token in tokenizer(text.text, verbose=False)["input_ids"]]
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
    trained: Any = model.requires_grad_(settings.kind == "full")
    if settings.kind == "lora":
        from peft import LoraConfig, get_peft_model

        alpha = 2 * settings.rank
        lora = LoraConfig(r=settings.rank, lora_alpha=alpha, target_modules="all-linear", task_type="CAUSAL_LM")
        trained = get_peft_model(model, lora)
    model.config.use_cache = False
    memory: Any = model  # layers compute their activations again for the gradient instead of keeping them
    if hasattr(memory, "activation_checkpointing_enable"):  # its name in later releases of transformers 5
        memory.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
    else:
        memory.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    trained.train()
    weights = {name: each for name, each in trained.named_parameters() if each.requires_grad}
    optimizer = OptimizerSet([AdamW(weights.values(), betas=(0.9, 0.95), weight_decay=0.0, fused=True)])
    _require_same(work / "training.json", settings, tokens, identity)
    done = 0
    if (found := find_newest_checkpoint(work)) is not None:
        done, found = found.progress.step, found.read()
        with torch.no_grad():
            for name, weight in weights.items():
                weight.copy_(found.weights[name])
                kinds = ("exp_avg", "exp_avg_sq", "step")
                optimizer.restore(weight, {kind: found.optimizer[f"{kind}:{name}"] for kind in kinds})
    device = next(model.parameters()).device
    loop: TrainingLoop[_Piece] = TrainingLoop(
        DistributedModel(_PieceLoss(model), model, "auto", device),
        optimizer,
        lambda step, _: settings.rate * min(1.0, step / _WARM_UP),
        Budget(steps=settings.steps),
        device=device,
        max_grad_norm=_LARGEST_GRADIENT,
        progress=LoopProgress(done),
    )

    def after_update(update: Update) -> None:
        step = loop.progress.step
        if step % settings.save_every == 0 or step == settings.steps:
            states = {
                f"{kind}:{name}": state.cpu()
                for name, weight in weights.items()
                for kind, state in optimizer.state(weight).items()
            }
            save_checkpoint(work, Checkpoint({n: each.cpu() for n, each in weights.items()}, states, Progress(step)))
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


def _require_same(path: Path, settings: FineTuning, tokens: Tensor, identity: str) -> None:
    """Write what a training is of, or raise CheckpointError where the file tells of another one."""
    about = settings.model_dump(exclude={"texts", "steps", "save_every"}) | {"learning_rate": settings.rate}
    about |= {"text": hashlib.sha256(tokens.numpy().tobytes()).hexdigest(), "identity": identity}
    if path.exists() and read_json(path) != about and checkpoint_folders(path.parent):
        raise CheckpointError(
            f"{path.parent} holds the state of another training (another model, method, text or setting). Start that "
            "one again as it was, or remove the folder."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, about)


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
