"""Optimisers of a model's weights, chosen by name, and what a checkpoint keeps of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.swa_utils import get_ema_multi_avg_fn

from locant.errors import ConfigError
from locant.lazy import require_package
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.stacked_linear import StackedLinear
from locant.positions import PositionScheme
from locant.runtime import has_fast_bfloat16
from locant.training.settings import TrainingSettings

# What the schedule-free optimiser counts for a whole group of parameters; the last is a switch and is not saved.
_COUNTED = ("k", "weight_sum", "lr_max")
_A, _B, _C = 3.4445, -4.7750, 2.0315
"""Coefficients of the quintic iteration (Jordan et al. 2024): steep at zero, singular values end near one."""
_ITERATIONS = 5
_SMALLEST_NORM = 1e-7


class OptimizerSet:
    """The optimisers of one model, used as one; no parameter belongs to two of them."""

    def __init__(self, optimizers: Iterable[Optimizer]) -> None:
        self.optimizers = list(optimizers)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of all."""
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of every group, times its ``lr_scale`` where it has one."""
        for group in self.param_groups:
            group["lr"] = rate * group.get("lr_scale", 1.0)

    def step(self) -> None:
        """Update the weights."""
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self) -> None:
        """Drop the gradients."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def state(self, parameter: Tensor) -> dict[str, Any]:
        """Return what is kept for a parameter, by kind; empty for one that is not trained."""
        for optimizer in self.optimizers:
            if parameter in optimizer.state:
                return dict(optimizer.state[parameter])
        return {}

    def restore(self, parameter: Tensor, state: Mapping[str, Tensor]) -> None:
        """Set what is kept for a parameter, on the device where that is; a fused AdamW wants its counter there too."""
        for optimizer in self.optimizers:
            if any(parameter is own for group in optimizer.param_groups for own in group["params"]):
                optimizer.state[parameter] = {kind: value.to(parameter.device) for kind, value in state.items()}

    def counters(self) -> dict[str, Tensor]:
        """Return what is counted for whole groups, as ``counter/number of the group/name``."""
        return {
            f"counter/{number}/{name}": torch.tensor(float(group[name]), dtype=torch.float64)
            for number, group in enumerate(self.param_groups)
            for name in _COUNTED
            if name in group
        }

    def restore_counters(self, counters: Mapping[str, Tensor]) -> None:
        """Set what :meth:`counters` returned."""
        for number, group in enumerate(self.param_groups):
            for name in _COUNTED:
                if name in group:
                    group[name] = type(group[name])(counters[f"counter/{number}/{name}"].item())

    @contextmanager
    def evaluated_weights(self) -> Iterator[None]:
        """Put the weights that are to be evaluated and saved into the model for a block.

        Schedule-free optimisers compute gradients elsewhere than at the average that they converge to.
        """
        averaging: list[Any] = [optimizer for optimizer in self.optimizers if "weight_sum" in optimizer.defaults]
        for optimizer in averaging:
            optimizer.eval()
        try:
            yield
        finally:
            for optimizer in averaging:
                optimizer.train()


def build_optimizer(
    model: EncoderDecoder[Any],
    settings: TrainingSettings,
    *,
    sharded: bool = False,
    lr_scales: Mapping[str, float] | None = None,
) -> OptimizerSet:
    """Return the optimiser of a model's weights that require gradients, on their device.

    ``sharded`` says whether each process holds a part of every weight (FSDP). ``lr_scales`` are factors of the learning
    rate by the names of parameters; 1 where one is not named.

    Raises:
        ConfigError: The optimiser cannot be used with sharded weights.
        MissingExtraError: The package of the optimiser is not installed.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if settings.optimizer == "adamw":
        found = [_adamw(parameters, settings)]
    elif settings.optimizer == "schedule_free":
        found = [_schedule_free(parameters, settings)]
    elif sharded:
        raise ConfigError(
            "training.optimizer muon needs whole matrices, which FSDP splits over the processes. Set "
            "training.parallel=ddp, or training.optimizer=adamw."
        )
    else:
        found = _muon(model, parameters, settings)
    scales = {id(parameter): (lr_scales or {}).get(name, 1.0) for name, parameter in model.named_parameters()}
    for optimizer in found:  # groups are divided whose parameters have different factors of the learning rate
        groups = []
        for group in optimizer.param_groups:
            parts: dict[float, list[Tensor]] = {}
            for parameter in group["params"]:
                parts.setdefault(scales[id(parameter)], []).append(parameter)
            groups += [
                {**group, "params": params, **({"lr_scale": scale} if scale != 1 else {})}
                for scale, params in parts.items()
            ]
        optimizer.param_groups[:] = groups
    return OptimizerSet(found)


def _adamw(parameters: list[nn.Parameter], settings: TrainingSettings) -> Optimizer:
    return AdamW(
        parameters,
        betas=(settings.adam_beta1, settings.adam_beta2),
        eps=settings.adam_epsilon,
        weight_decay=settings.weight_decay,
        fused=True,
    )


def _muon(model: EncoderDecoder[Any], parameters: list[nn.Parameter], settings: TrainingSettings) -> list[Optimizer]:
    """Return Muon for the matrices of hidden layers, and AdamW for embeddings, output projection and vectors."""
    groups: dict[tuple[int, ...], list[Tensor]] = {}
    schemes = [module for module in model.modules() if isinstance(module, PositionScheme)]
    apart = {id(model.output.weight)} | {id(parameter) for scheme in schemes for parameter in scheme.parameters()}
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.weight.requires_grad and id(module.weight) not in apart:
            heights = module.heights if isinstance(module, StackedLinear) and len(module.heights) > 1 else ()
            groups.setdefault(heights, []).append(module.weight)
    matrices = {id(matrix) for group in groups.values() for matrix in group}
    rest = [parameter for parameter in parameters if id(parameter) not in matrices]
    muon = [{"params": group, "heights": heights} for heights, group in groups.items()]
    optimizers: list[Optimizer] = [Muon(muon, weight_decay=settings.weight_decay)] if muon else []
    return optimizers + ([_adamw(rest, settings)] if rest else [])


def _schedule_free(parameters: list[nn.Parameter], settings: TrainingSettings) -> Optimizer:
    """Return AdamW without a schedule (Defazio et al. 2024, "The Road Less Scheduled", arXiv:2405.15682)."""
    package = require_package("schedulefree", "training.optimizer schedule_free")
    optimizer: Optimizer = package.AdamWScheduleFree(
        parameters,
        betas=(settings.adam_beta1, settings.adam_beta2),
        eps=settings.adam_epsilon,
        weight_decay=settings.weight_decay,
    )
    optimizer.train()  # type: ignore[attr-defined]
    return optimizer


def orthogonalized(matrices: Tensor) -> Tensor:
    """Return matrices ``[N, R, C]`` with singular values moved to about one (0.7 to 1.2), in float32.

    The iteration runs in bfloat16 where the hardware is quick with it, and in float32 elsewhere.
    """
    x = matrices.bfloat16() if has_fast_bfloat16(matrices.device) else matrices.float()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / x.flatten(1).norm(dim=1).clamp(min=_SMALLEST_NORM)[:, None, None]
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x, beta=_A)
    return (x.mT if tall else x).float()


class Muon(Optimizer):
    """Muon for matrices: momentum whose update of each matrix is orthogonalised by a Newton-Schulz iteration.

    Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"
    (https://kellerjordan.github.io/posts/muon/); the size of the update follows Liu et al. 2025, "Muon is Scalable for
    LLM Training", arXiv:2502.16982, equation 4, so that learning rate and weight decay mean what they mean in AdamW.

    It is equal to ``torch.optim.Muon`` with ``adjust_lr_fn="match_rms_adamw"``. PyTorch's takes one matrix after the
    other, in bfloat16 on any processor, which on a CPU without bfloat16 takes longer than the rest of a training step.
    This one takes all matrices of a shape together, in the type that the machine computes fast, and the matrices that
    are stacked in one parameter each for itself.

    Args:
        params: Groups whose ``params`` are matrices. A group may say in ``heights`` how many rows each of the matrices
            has that are stacked in each of its parameters.
        lr: Learning rate.
        weight_decay: Decoupled, times the learning rate.
        momentum: Decay of the momentum, which is Nesterov's.
    """

    def __init__(
        self,
        params: Iterable[dict[str, Any]],
        lr: float = 1e-3,
        *,
        weight_decay: float = 0.0,
        momentum: float = 0.95,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "heights": ()})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the parameters that have a gradient."""
        waiting: dict[tuple[int, ...], list[tuple[Tensor, Tensor, dict[str, Any]]]] = defaultdict(list)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                buffer = state["momentum_buffer"].lerp_(parameter.grad, 1 - group["momentum"])
                update = parameter.grad.lerp(buffer, group["momentum"])
                heights = group["heights"] or len(parameter)
                for block, change in zip(parameter.split(heights), update.split(heights), strict=True):
                    waiting[tuple(block.shape)].append((block, change, group))
        for shape, members in waiting.items():
            updates = orthogonalized(torch.stack([change for _, change, _ in members]))
            for (block, _, group), update in zip(members, updates, strict=True):
                if group["weight_decay"]:
                    block.mul_(1 - group["lr"] * group["weight_decay"])
                block.add_(update, alpha=-0.2 * group["lr"] * math.sqrt(max(shape)))


class WeightAverage:
    """Exponential moving average of a model's weights (Polyak averaging, as in Adam's section 7.2).

    ``average <- d * average + (1 - d) * weights`` after every update; ``d`` rises from 0.1 to ``decay`` as
    ``(1 + n) / (10 + n)`` with the updates ``n``, so that the first, random weights are soon forgotten.

    Args:
        parameters: Names and parameters, sharded ones too; the average begins as a copy of them.
        decay: From 0 to below 1; 0.999 looks back over about a thousand updates.
    """

    def __init__(self, parameters: Iterable[tuple[str, nn.Parameter]], decay: float) -> None:
        self.decay = decay
        named = dict(parameters)
        self._parameters = [parameter.detach() for parameter in named.values()]
        self.tensors: dict[str, Tensor] = {name: parameter.detach().clone() for name, parameter in named.items()}

    def update(self, number: int) -> None:
        """Take in the weights after an update; ``number`` counts those taken in, this one included."""
        decay = min(self.decay, (1 + number) / (10 + number))
        take_in = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        take_in(list(self.tensors.values()), self._parameters, number)
