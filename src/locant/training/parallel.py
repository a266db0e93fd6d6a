"""Training on one process or, under torchrun, on many: DDP, or FSDP for models that fill a device.

What processes tell each other besides gradients goes over a group of its own, on CPU, whose members wait for hours:
while the text is prepared or a model validated, all wait for the first.
"""

from __future__ import annotations

import os
import platform
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from locant.errors import ConfigError, TrainingError
from locant.models.attention import CrossAttention
from locant.models.transformer import Transformer, count_parameters

_FSDP_FROM_PARAMETERS = 150_000_000
_PATIENCE = timedelta(hours=48)
"""How long processes wait for one that prepares text or validates; one that ends is noticed at once."""

# What the backends say when a process has gone.
_LOST = re.compile(r"gloo|nccl|connection|broken pipe|socket|timed? ?out|store", re.IGNORECASE)

Result = TypeVar("Result")
_talking: list[dist.ProcessGroup] = []


@contextmanager
def process_group() -> Iterator[None]:
    """Join torchrun's processes for the block; does nothing without torchrun.

    Raises:
        TrainingError: Another process has ended, or the network failed.
    """
    if "WORLD_SIZE" not in os.environ or int(os.environ["WORLD_SIZE"]) == 1:
        yield
        return
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    _talking.append(dist.new_group(backend="gloo", timeout=_PATIENCE))
    me = f"Process {rank()} of {world_size()} on {platform.node()}"
    try:
        yield
    except RuntimeError as error:
        if not (isinstance(error, dist.DistError) or _LOST.search(str(error))):
            raise
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise TrainingError(
            f"{me} has lost the others: one of them has ended, whose own message says why, or the network failed "
            f"({said}). The newest checkpoint is whole; go on with --resume or --resume-if-exists."
        ) from None
    finally:
        _talking.clear()
        dist.destroy_process_group()


def rank() -> int:
    """Return the number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """Return the number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


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
    dist.broadcast_object_list(box, group=_talking[0])
    if box[1] is not None:
        raise box[1]  # type: ignore[misc]
    return box[0]  # type: ignore[return-value]


def gather(value: Result) -> list[Result]:
    """Return what every process has, by rank."""
    if not dist.is_initialized():
        return [value]
    values: list[Result | None] = [None] * world_size()
    dist.all_gather_object(values, value, group=_talking[0])
    return values  # type: ignore[return-value]


def require_same(facts: Mapping[str, str]) -> None:
    """Refuse processes that would train differently: ConfigError says which of the named facts is not the same."""
    host, first = platform.node(), from_first_process(lambda: dict(facts))
    found = gather(next((name for name in facts if facts[name] != first[name]), None))
    hosts = gather(host)
    if any(found):
        other = next(number for number, name in enumerate(found) if name)
        raise ConfigError(
            f"The processes do not begin alike: {found[other]} of process {other} (on {hosts[other]}) is not that of "
            f"process 0 (on {hosts[0]}). Give all of them the same command, files and version of Locant."
        )


class DistributedModel:
    """The training module as this process runs it.

    Args:
        module: Computes the loss; holds ``model``.
        model: The model inside it, with the same weights in every process, which goes to the device.
        mode: ``ddp``, ``fsdp`` for a sharded model, or ``auto``, which shards a large one; without torchrun the module
            runs as it is.
        device: That of this process.
    """

    def __init__(self, module: nn.Module, model: nn.Module, mode: str, device: torch.device) -> None:
        self.model = model
        self.run: nn.Module = module
        large = count_parameters(model) >= _FSDP_FROM_PARAMETERS
        self.sharded = dist.is_initialized() and (mode == "fsdp" or (mode == "auto" and large))
        if self.sharded:
            _shard(module, model, device)
            return
        model.to(device)
        if dist.is_initialized():
            self.run = DistributedDataParallel(module)

    def accumulating(self, last: bool) -> AbstractContextManager[None]:
        """Return a context in which gradients stay on this process until the last batch of an update."""
        if isinstance(self.run, DistributedDataParallel) and not last:
            return self.run.no_sync()
        return nullcontext()


def _shard(module: nn.Module, model: nn.Module, device: torch.device) -> None:
    """Shard a model layer by layer, so that no device ever holds more of it than its share and one layer."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method  # takes seconds to import

    mesh = init_device_mesh(device.type, (world_size(),))
    # We change no output in place, which is what this warning is about.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    for attention in (part for part in model.modules() if isinstance(part, CrossAttention)):
        # Keys and values of the source are computed before the layer itself runs.
        fully_shard(attention, mesh=mesh)
        register_fsdp_forward_method(attention, "keys_and_values")
    if isinstance(model, Transformer):
        for layer in (*model.encoder.layers, *model.decoder.layers):
            fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)


def gathered(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the full values of tensors that may be sharded, on CPU if they are.

    Every process must call this. The first gets all; the others get none, so that only one holds a whole model.
    """
    found = {}
    for name, tensor in tensors.items():
        value = tensor.full_tensor().cpu() if hasattr(tensor, "full_tensor") else tensor.detach()
        if rank() == 0:
            found[name] = value
    return found


def like(value: Tensor, parameter: Tensor) -> Tensor:
    """Put a full value where a parameter is, sharded as it is; every process must call this."""
    value = value.to(parameter.device)
    if not hasattr(parameter, "full_tensor"):
        return value
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(parameter, DTensor)
    return distribute_tensor(value, parameter.device_mesh, parameter.placements)
