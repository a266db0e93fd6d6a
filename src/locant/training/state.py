"""The state of a training that a checkpoint keeps, taken from its parts and given back to them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.models.encoder_decoder import EncoderDecoder
from locant.training import parallel
from locant.training.checkpoint import Checkpoint, Progress, StoredCheckpoint
from locant.training.optimizers import OptimizerSet, WeightAverage

# Begins the names of a checkpoint's tensors that hold the moving average of the weights.
_AVERAGE = "average/"


class TrainingState:
    """Weights, state of the optimiser, moving average of the weights and random numbers.

    Args:
        model: The model that is trained.
        distributed: The same model as the processes hold it.
        optimizer: Its optimiser.
        average: The moving average of the weights, if there is one.
        device: Where the model is trained; its random numbers are kept.
    """

    def __init__(
        self,
        model: EncoderDecoder[Any],
        distributed: parallel.DistributedModel,
        optimizer: OptimizerSet,
        average: WeightAverage | None,
        device: torch.device,
    ) -> None:
        self.model, self.distributed, self.optimizer = model, distributed, optimizer
        self.average, self.device = average, device

    def content(self, progress: Progress, *, evaluated: bool) -> Checkpoint:
        """Return what a checkpoint holds, on the first process; every process must call this.

        Args:
            progress: How far training has come.
            evaluated: Whether the optimiser has put the weights in place that are evaluated.
        """
        weights, states = self.distributed.weights(), self.distributed.optimizer_state(self.optimizer)
        if self.average:
            states |= {f"{_AVERAGE}{name}": tensor for name, tensor in self.average.tensors.items()}
        weights, states = self.distributed.whole(weights), self.distributed.whole(states)
        for number, generators in enumerate(parallel.gather(_random_states(self.device))):
            states |= {f"random/{kind}/{number}": state for kind, state in generators.items()}
        return Checkpoint(weights, states, progress, evaluated)

    def usable_weights(self, content: Checkpoint) -> dict[str, Tensor]:
        """Return the weights that translate: those of the moving average where there is one."""
        return (
            {name: content.optimizer[f"{_AVERAGE}{name}"] for name in content.weights}
            if self.average
            else content.weights
        )

    def restore_stored(self, stored: StoredCheckpoint) -> None:
        """Go back to a checkpoint on disk.

        Raises:
            ConfigError: The model is not the one that the checkpoint was written of.
        """
        mine: list[Checkpoint] = []
        parallel.from_first_process(lambda: mine.append(stored.read()))
        # The others get the tensors one by one when they are put in their places.
        weights, states = (mine[0].weights, mine[0].optimizer) if mine else ({}, {})
        self.restore(Checkpoint(weights, states, stored.progress, stored.evaluated))

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint in memory; its tensors are those of the first process.

        Raises:
            ConfigError: The model is not the one that the checkpoint is of.
        """
        shapes = {name: list(weight.shape) for name, weight in checkpoint.weights.items()}
        parallel.from_first_process(lambda: _require_same_model(self.model, shapes))
        states, average, mine = _apart(checkpoint.optimizer)
        generators = parallel.from_first_process(lambda: mine)
        with self.optimizer.evaluated_weights() if checkpoint.evaluated else nullcontext():
            self.distributed.restore(checkpoint.weights, self.optimizer, states)
        if self.average:
            self.average.restore(self.distributed.sharded_as(average or checkpoint.weights))
        rank = parallel.rank()
        if (own := generators.get(f"random/cpu/{rank}")) is not None:  # on a GPU earlier versions did not keep it
            torch.set_rng_state(own)
        if self.device.type == "cuda" and (own := generators.get(f"random/cuda/{rank}")) is not None:
            torch.cuda.set_rng_state(own, self.device)


def average_in(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Return the moving average that a checkpoint keeps, by the names of the weights; empty where it keeps none."""
    return _apart(checkpoint.optimizer)[1]


def _apart(states: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    """Return the state of the optimiser, the moving average and the random states of what a checkpoint keeps."""
    generators = {name: state for name, state in states.items() if name.startswith("random/")}
    average = {name: state for name, state in states.items() if name.startswith(_AVERAGE)}
    rest = {name: state for name, state in states.items() if name not in generators and name not in average}
    return rest, {name.removeprefix(_AVERAGE): state for name, state in average.items()}, generators


def _require_same_model(model: EncoderDecoder[Any], before: Mapping[str, list[int]]) -> None:
    """Raise ConfigError where a checkpoint's weights are not those of a model, by names and shapes."""
    now = {name: list(weight.shape) for name, weight in model.named_parameters()}
    different = [name for name in (*before, *now) if before.get(name) != now.get(name)]
    if different:
        name = different[0]
        raise ConfigError(
            f"The run's checkpoint holds another model: {name} is {before.get(name, 'missing')} there and "
            f"{now.get(name, 'missing')} in the model of the recipe. A resumed run keeps its model: leave the sizes in "
            "model.* and the tokenizer as they were, or begin a new run."
        )


def _random_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the generators that a training draws from, by the type of their device.

    Some positions are drawn on the CPU wherever the model is.
    """
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states
