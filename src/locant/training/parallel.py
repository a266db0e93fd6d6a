"""Training on one process or, under torchrun, on many: DDP, or FSDP for models that fill a device."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from locant.models.attention import CrossAttention
from locant.models.transformer import Transformer, count_parameters
from locant.training.optimizers import OptimizerSet

_FSDP_FROM_PARAMETERS = 150_000_000

Result = TypeVar("Result")


@contextmanager
def process_group() -> Iterator[None]:
    """Join torchrun's processes for the block; does nothing without torchrun."""
    if "WORLD_SIZE" not in os.environ or int(os.environ["WORLD_SIZE"]) == 1:
        yield
        return
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def use_device(device: torch.device) -> torch.device:
    """Make a device the one of this process, and return it."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


def rank() -> int:
    """Return the number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """Return the number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


class NodePlace(NamedTuple):
    """Where a process stands among those of its machine.

    Attributes:
        node: Number of the machine, from 0.
        rank: Number of the process on it, from 0.
        size: How many processes it has.
    """

    node: int = 0
    rank: int = 0
    size: int = 1


def node_place() -> NodePlace:
    """Return this process's place on its machine, as torchrun tells it; alone where nothing is told."""
    if not dist.is_initialized():
        return NodePlace()
    told = [os.environ.get(name) for name in ("GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE")]
    if None in told:
        return NodePlace(node=rank())
    return NodePlace(*(int(number or 0) for number in told))


def sum_over_processes(values: Tensor) -> Tensor:
    """Add a tensor up over all processes, in place."""
    if dist.is_initialized():
        dist.all_reduce(values)
    return values


def sum_of_numbers(number: int, device: torch.device) -> int:
    """Return the sum of a whole number over all processes."""
    if not dist.is_initialized():
        return number
    total = torch.tensor([number], dtype=torch.float64, device=device)
    return int(sum_over_processes(total).item())


def from_first_process(compute: Callable[[], Result]) -> Result:
    """Run ``compute`` on the first process alone and give every process its result, or its error."""
    if not dist.is_initialized():
        return compute()
    box: list[object] = [None, None]
    if rank() == 0:
        try:
            box[0] = compute()
        except Exception as error:
            box[1] = error
    dist.broadcast_object_list(box)
    if box[1] is not None:
        raise box[1]  # type: ignore[misc]
    return box[0]  # type: ignore[return-value]


def gather(value: Tensor) -> list[Tensor]:
    """Return the tensor of every process, by rank."""
    if not dist.is_initialized():
        return [value]
    values: list[Tensor | None] = [None] * world_size()
    dist.all_gather_object(values, value)
    return values  # type: ignore[return-value]


class DistributedModel:
    """The training module as this process runs it, and the way to and from the one full set of weights.

    Args:
        module: Computes the loss; holds ``model``.
        model: The model inside it, on this process's device.
        mode: ``auto``, ``ddp`` or ``fsdp``; without torchrun the module runs as it is.
    """

    def __init__(self, module: nn.Module, model: nn.Module, mode: str = "auto") -> None:
        self.model = model
        self.run: nn.Module = module
        self.sharded = False
        if not dist.is_initialized():
            return
        if mode == "auto":
            mode = "fsdp" if count_parameters(model) >= _FSDP_FROM_PARAMETERS else "ddp"
        if mode == "fsdp":
            from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method  # takes seconds to import

            self.sharded = True
            # We change no output in place, which is what this warning is about.
            warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
            for attention in (module for module in model.modules() if isinstance(module, CrossAttention)):
                # Keys and values of the source are computed before the layer itself runs.
                fully_shard(attention)
                register_fsdp_forward_method(attention, "keys_and_values")
            if isinstance(model, Transformer):
                for layer in (*model.encoder.layers, *model.decoder.layers):
                    fully_shard(layer)
            fully_shard(module)
        else:
            self.run = DistributedDataParallel(module)

    def accumulating(self, last: bool) -> AbstractContextManager[None]:
        """Return a context in which gradients stay on this process until the last batch of an update."""
        if isinstance(self.run, DistributedDataParallel) and not last:
            return self.run.no_sync()
        return nullcontext()

    def weights(self) -> dict[str, Tensor]:
        """Return the full weights by parameter name, tied ones once; every process must call this."""
        return self.whole(dict(self.model.named_parameters()))

    def optimizer_state(self, optimizer: OptimizerSet) -> dict[str, Tensor]:
        """Return the full state of the optimiser as ``kind/parameter name``; every process must call this."""
        states = {
            f"{kind}/{name}": _whole(value)
            for name, parameter in self.model.named_parameters()
            for kind, value in optimizer.state(parameter).items()
        }
        return {**states, **optimizer.counters()}

    def whole(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the full values of tensors that may be sharded; every process must call this."""
        return {name: _whole(tensor) for name, tensor in tensors.items()}

    @torch.no_grad()
    def restore(self, weights: dict[str, Tensor], optimizer: OptimizerSet, state: dict[str, Tensor]) -> None:
        """Load weights and optimiser state as :meth:`weights` and :meth:`optimizer_state` returned them."""
        kept: dict[str, dict[str, Tensor]] = {}
        counters = {}
        for path, value in state.items():
            kind, name = path.split("/", 1)
            if kind == "counter":
                counters[path] = value
            else:
                kept.setdefault(name, {})[kind] = value
        for name, parameter in self.model.named_parameters():
            parameter.copy_(_like(weights[name], parameter))
            own = kept.get(name, {})
            optimizer.restore(
                parameter, {kind: _like(value, parameter) if value.dim() else value for kind, value in own.items()}
            )
        optimizer.restore_counters(counters)

    def sharded_as(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return full values, given by the names of the parameters, sharded as those are."""
        return {name: _like(tensors[name], parameter) for name, parameter in self.model.named_parameters()}


def _whole(tensor: Tensor) -> Tensor:
    """Return a sharded tensor's full value on CPU, and any other tensor as it is."""
    return tensor.full_tensor().cpu() if hasattr(tensor, "full_tensor") else tensor.detach()


def _like(value: Tensor, parameter: Tensor) -> Tensor:
    """Put a full value where a parameter is, sharded as it is."""
    value = value.to(parameter.device)
    if not hasattr(parameter, "full_tensor"):
        return value
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(parameter, DTensor)
    return distribute_tensor(value, parameter.device_mesh, parameter.placements)
