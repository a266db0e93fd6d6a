"""The kernels as operators: PyTorch's own check of each, and what compilers, exporters, transforms and modes see."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch._inductor import config as inductor
from torch.autograd import forward_ad
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.checkpoint import checkpoint
from with_kernels import kernels, needs_compiler

from locant.errors import ConfigError
from locant.kernels.operator import OPERATORS
from locant.kernels.operators import decompositions
from locant.models.dropout import Dropout
from locant.models.layer_norm import add_and_norm
from locant.positions import Mask, Rotary, attend
from locant.training import projected_cross_entropy

pytestmark = needs_compiler
FLOAT32, BFLOAT16 = torch.float32, torch.bfloat16


@pytest.fixture(autouse=True)
def _of_any_size() -> Iterator[None]:
    with kernels(True):
        yield
    torch.compiler.reset()


def _random(*shape: int, dtype: torch.dtype = FLOAT32, grad: bool = True) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype).requires_grad_(grad)


def _heads(batch: int, heads: int, length: int, features: int, dtype: torch.dtype) -> Tensor:
    """Return heads [B, H, L, D] as a projection lays them out."""
    return _random(batch, length, heads, features, dtype=dtype).detach().transpose(1, 2).requires_grad_()


def _attention(dtype: torch.dtype, queries: int, keys: int, features: int, causal: bool, masked: bool) -> Any:
    q, k, v = (_heads(2, 3, length, features, dtype) for length in (queries, keys, keys))
    mask = (torch.arange(keys) < torch.tensor([[keys], [1]]))[:, None, None] if masked else None
    return q, k, v, mask, causal


def _norm(dtype: torch.dtype, out: torch.dtype, width: int, adds: bool, dropped: int) -> Any:
    x, residual = (_random(2, 5, width, dtype=dtype) for _ in range(2))
    seed = torch.tensor(-123456789123456789) if dropped else None
    weight, bias = _random(width).detach().abs().requires_grad_(), _random(width)
    return x, residual if adds else None, weight, bias, seed, dropped, 1e-5, out


def _norm_backward(dtype: torch.dtype, width: int, dropped: int) -> Any:
    outer, normalised = (_random(2, 5, width, dtype=dtype, grad=False) for _ in range(2))
    seed = torch.tensor(987654321) if dropped else None
    inverse, weight = _random(2, 5, grad=False).abs(), _random(width, grad=False)
    return outer, normalised, inverse, weight, seed, dropped, dropped > 0, FLOAT32 if dropped else dtype


def _attention_backward(dtype: torch.dtype) -> Any:
    q, k, v = (_heads(2, 3, length, 32, dtype).detach() for length in (5, 7, 7))
    _, probabilities = torch.ops.locant.attention(q, k, v, None, False)
    return _heads(2, 3, 5, 32, dtype).detach(), q, k, v, probabilities


def _rotation(dtype: torch.dtype, table: tuple[int, ...], interleaved: bool) -> Any:
    angles = _random(*table, grad=False)
    features = [_heads(2, heads, 6, 20, dtype).detach() for heads in (3, 1)]
    return features, angles.cos(), angles.sin(), interleaved


def _loss(dtype: torch.dtype, of_hidden: bool, of_weight: bool) -> Any:
    labels = torch.tensor([[3, 0, 8], [1, 2, 0]])
    hidden, weight = _random(2, 3, 16, dtype=dtype, grad=of_hidden), _random(9, 16, grad=of_weight)
    return hidden, weight, labels, 0.1, 0, of_hidden, of_weight


# Inputs that the kernels read, by operator.
CASES: list[tuple[str, Callable[[], Any]]] = [
    ("attention", lambda: _attention(FLOAT32, 5, 7, 16, False, True)),
    ("attention", lambda: _attention(BFLOAT16, 17, 17, 32, True, False)),
    ("attention", lambda: _attention(FLOAT32, 4, 4, 48, True, True)),
    ("attention_backward", lambda: _attention_backward(FLOAT32)),
    ("attention_backward", lambda: _attention_backward(BFLOAT16)),
    ("layer_norm", lambda: _norm(FLOAT32, FLOAT32, 64, True, 0)),
    ("layer_norm", lambda: _norm(FLOAT32, BFLOAT16, 128, False, 0)),
    ("layer_norm", lambda: _norm(BFLOAT16, BFLOAT16, 64, True, 77)),
    ("layer_norm", lambda: _norm(FLOAT32, FLOAT32, 128, True, 26)),
    ("layer_norm_backward", lambda: _norm_backward(FLOAT32, 64, 0)),
    ("layer_norm_backward", lambda: _norm_backward(BFLOAT16, 128, 77)),
    ("rotate", lambda: _rotation(FLOAT32, (6, 10), False)),
    ("rotate", lambda: _rotation(BFLOAT16, (2, 1, 6, 4), True)),
    ("projected_cross_entropy", lambda: _loss(FLOAT32, True, True)),
    ("projected_cross_entropy", lambda: _loss(BFLOAT16, True, True)),
    ("projected_cross_entropy", lambda: _loss(FLOAT32, False, True)),
    ("projected_cross_entropy_backward", lambda: (*(_random(3, 4, grad=False) for _ in range(3)), torch.tensor(2.5))),
]
# Inputs that they do not read, so that PyTorch's operations serve.
OTHERS: list[tuple[str, Callable[[], Any]]] = [
    ("attention", lambda: _attention(torch.float64, 5, 7, 12, True, True)),
    ("layer_norm", lambda: _norm(torch.float64, torch.float64, 12, True, 77)),
    ("rotate", lambda: _rotation(torch.float64, (1, 10), False)),
]


def _named(cases: list[tuple[str, Callable[[], Any]]]) -> Any:
    return [pytest.param(*case, id=f"{case[0]}-{index}") for index, case in enumerate(cases)]


def test_every_operator_has_a_case_and_is_registered_by_one_import() -> None:
    code = "from locant.kernels.operators import OPERATORS; print(*OPERATORS)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name for name, _ in CASES} == set(OPERATORS) == set(run.stdout.split())


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "inputs"), _named(CASES + OTHERS))
def test_pytorch_accepts_the_operator(name: str, inputs: Callable[[], Any]) -> None:
    torch.library.opcheck(OPERATORS[name].overload, inputs())


def _results(function: Callable[..., Any], inputs: Any) -> list[Tensor]:
    """Return what a function returns and what it writes."""
    with torch.no_grad():
        inputs = [x.clone() if isinstance(x, Tensor) else x for x in inputs]
        found = function(*inputs)
    found = [found] if isinstance(found, Tensor) else list(found or ())
    return [*found, *(x for x in inputs if isinstance(x, Tensor))]


@pytest.mark.parametrize(("name", "inputs"), _named(CASES))
def test_pytorchs_operations_do_the_same(name: str, inputs: Callable[[], Any]) -> None:
    """Random numbers too: the same elements are dropped."""
    operator = OPERATORS[name]
    found, expected = _results(operator.overload, inputs()), _results(operator.plain, inputs())
    if name == "attention":  # beyond the queries the probabilities mean nothing
        found[1], expected[1] = (x[..., : found[0].shape[2]] for x in (found[1], expected[1]))
    for one, right in zip(found, expected, strict=True):
        close = {"atol": 2e-2, "rtol": 2e-2} if one.dtype == BFLOAT16 else {"atol": 2e-5, "rtol": 2e-5}
        torch.testing.assert_close(one, right, **close)
        assert one.stride() == right.stride()


class Block(nn.Module):
    """Everything that has a kernel, one after the other."""

    def __init__(self, p: float = 0.25) -> None:
        super().__init__()
        self.rope, self.dropout, self.norm = Rotary(16), Dropout(p), nn.LayerNorm(64)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        heads = x.unflatten(-1, (4, 16)).transpose(1, 2)
        q, k = self.rope.rotate(heads, heads, positions, positions)
        attended = attend(q, k, heads, Mask(causal=True)).transpose(1, 2).flatten(2)
        return add_and_norm(self.dropout(attended), x, self.dropout, self.norm)


IN_A_BLOCK = {"attention", "layer_norm", "rotate"}
IN_TRAINING = IN_A_BLOCK - {"rotate"}


def _block() -> tuple[Block, Tensor, Tensor]:
    torch.manual_seed(0)
    return Block(), _random(2, 5, 64), torch.arange(5)


def _with_gradients(run: Callable[..., Tensor], block: Block, x: Tensor, positions: Tensor) -> list[Tensor]:
    torch.manual_seed(1)
    out = run(x, positions)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), (x, block.norm.weight, block.norm.bias))]


class Seen(TorchDispatchMode):
    """The operators that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.namespace == "locant":
            self.names.append(function.name().removeprefix("locant::"))
        return function(*args, **(kwargs or {}))


def _names(graph: torch.fx.Graph) -> set[str]:
    return {str(node.target).split(".")[1] for node in graph.nodes if str(node.target).startswith("locant.")}


def _keeping(backend: str = "eager") -> tuple[list[set[str]], Any]:
    """Return a backend for ``torch.compile``, and where it writes down the operators of each graph."""
    graphs: list[set[str]] = []

    def compiled(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(_names(graph.graph))
        return torch._dynamo.lookup_backend(backend)(graph, inputs)

    return graphs, compiled


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_a_block_is_compiled_in_one_graph(backend: str) -> None:
    block, x, positions = _block()
    expected = _with_gradients(block, block, x, positions)
    graphs, keeping = _keeping(backend)
    compiled = torch.compile(block, fullgraph=True, backend=keeping)
    with inductor.patch(fallback_random=True):  # else Inductor draws other random numbers
        found = _with_gradients(compiled, block, x, positions)
    assert graphs == [IN_TRAINING]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(found[1] == 0, expected[1] == 0), "the same elements are dropped"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("strict", [True, False])
def test_an_exported_model_holds_the_operators(strict: bool, tmp_path: Path) -> None:
    block, x, positions = _block()
    block.eval()
    program = torch.export.export(block, (x.detach(), positions), strict=strict)
    assert _names(program.graph) == IN_A_BLOCK
    torch.export.save(program, tmp_path / "block.pt2")
    loaded = torch.export.load(tmp_path / "block.pt2").module()
    torch.testing.assert_close(loaded(x, positions), block(x, positions), atol=1e-5, rtol=1e-5)
    plain = program.run_decompositions({**torch.export.default_decompositions(), **decompositions()})
    assert _names(plain.graph) == set()
    torch.testing.assert_close(plain.module()(x, positions), block(x, positions), atol=1e-5, rtol=1e-5)


def test_free_sizes_are_exported() -> None:
    """Attention is by the kernel only where every length is short enough."""
    block, x, positions = _block()
    block.eval()
    for most, more in ((64, {"attention"}), (4096, set())):
        length = torch.export.Dim("length", min=2, max=most)
        program = torch.export.export(block, (x.detach(), positions), dynamic_shapes=({1: length}, {0: length}))
        assert _names(program.graph) == {"layer_norm", "rotate"} | more
        x, positions = _random(2, 33, 64), torch.arange(33)
        torch.testing.assert_close(program.module()(x, positions), block(x, positions), atol=1e-5, rtol=1e-5)


def test_onnx_knows_nothing_of_locant(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    block, x, positions = _block()
    path = tmp_path / "block.onnx"
    torch.onnx.export(block.eval(), (x.detach(), positions), path, dynamo=True, verbose=False)
    assert {domain.domain for domain in onnx.load(path).opset_import} <= {"", "pkg.onnxscript.torch_lib.common"}


@pytest.mark.parametrize("compiled", [False, True])
def test_a_sharded_block_keeps_the_operators(compiled: bool, tmp_path: Path) -> None:
    block, x, positions = _block()
    torch.manual_seed(1)
    expected = block(x, positions)
    (right,) = torch.autograd.grad(expected.square().sum(), block.norm.weight)
    graphs, keeping = _keeping()
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        fully_shard(block, mesh=init_device_mesh("cpu", (1,)))
        if compiled:
            block.forward = torch.compile(block.forward, fullgraph=True, backend=keeping)  # type: ignore[method-assign]
        torch.manual_seed(1)
        with nullcontext() if compiled else Seen() as seen:
            out = block(x, positions)
            out.square().sum().backward()
    finally:
        dist.destroy_process_group()
    if seen is None:
        assert graphs == [IN_TRAINING]
    else:
        assert set(seen.names) == IN_TRAINING | {"attention_backward", "layer_norm_backward", "rotate"}
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(block.norm.weight.grad.to_local(), right, atol=1e-5, rtol=1e-5)  # type: ignore[union-attr]


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_checkpoints_drop_the_same_elements_again(backend: str | None) -> None:
    block, x, positions = _block()
    expected = _with_gradients(block, block, x, positions)

    def again(x: Tensor, positions: Tensor) -> Tensor:
        return checkpoint(block, x, positions, use_reentrant=False)  # type: ignore[no-any-return]

    run = again if backend is None else torch.compile(again, backend=backend)
    torch.testing.assert_close(_with_gradients(run, block, x, positions), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["attention", "layer_norm"])
def test_there_are_no_second_derivatives_and_an_error_says_so(name: str) -> None:
    x, *others = next(inputs for case, inputs in CASES if case == name)()
    out, *_ = OPERATORS[name].overload(x, *others)
    (first,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="LOCANT_KERNELS=0"):
        first.sum().backward()


def test_transforms_of_the_loss() -> None:
    hidden, weight, labels = (
        _random(2, 3, 16, grad=False),
        _random(9, 16, grad=False),
        torch.tensor([[3, 0, 8], [1, 2, 0]]),
    )

    def loss(hidden: Tensor) -> Tensor:
        return projected_cross_entropy(hidden, weight, labels, smoothing=0.1, ignore=0)[0]

    (right,) = torch.autograd.grad(loss(leaf := hidden.clone().requires_grad_()), leaf)
    torch.testing.assert_close(torch.func.grad(loss)(hidden), right)
    along = torch.func.jvp(loss, (hidden,), (torch.ones_like(hidden),))[1]
    torch.testing.assert_close(along, right.sum(), atol=1e-5, rtol=1e-5)
    compiled = torch.compile(torch.func.grad(loss), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(hidden), right)
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(loss(forward_ad.make_dual(hidden, torch.ones_like(hidden))))
        torch.testing.assert_close(dual.tangent, right.sum(), atol=1e-5, rtol=1e-5)


def _refused(operator: Any, inputs: Any) -> bool:
    """Return whether PyTorch's operations refuse what no kernel reads, as they do where sizes do not fit."""
    try:
        operator.overload(*inputs)
    except RuntimeError:
        return True
    return False


def test_gradients_of_other_sizes_are_no_kernel_s() -> None:
    """Kernels would read what lies behind them in memory."""
    outer, q, k, v, probabilities = _attention_backward(FLOAT32)
    backward = OPERATORS["attention_backward"]
    for changed in (
        (outer[:, :, :2], q, k, v, probabilities),
        (outer, q, k, v, probabilities[..., :3]),
        (outer, q, k, v, probabilities[:, :, :2]),
    ):
        assert _refused(backward, changed)
    right = backward.overload(outer, q, k, v, probabilities)
    moved = probabilities.transpose(0, 1).contiguous().transpose(0, 1)
    torch.testing.assert_close(backward.overload(outer, q, k, v, moved), right, atol=1e-5, rtol=1e-5)
    outer, normalised, inverse, *others = _norm_backward(FLOAT32, 64, 0)
    for changed in ((outer, normalised[:1, :2], inverse), (outer, normalised, inverse[:, :3])):
        assert _refused(OPERATORS["layer_norm_backward"], (*changed, *others))


@pytest.mark.parametrize(("name", "make"), CASES)
def test_tensors_in_no_memory_are_not_mixed_with_others(name: str, make: Callable[[], Any]) -> None:
    """Results on the CPU would be what happens to lie in their memory."""
    leaves, structure = tree_flatten(make())
    places = [place for place, x in enumerate(leaves) if isinstance(x, Tensor) and x.dim()]
    for place in places if len(places) > 1 else ():
        mixed = [x.detach().to("meta") if at == place else x for at, x in enumerate(leaves)]
        with pytest.raises(ConfigError, match=rf"{name}\b.*meta"):
            OPERATORS[name].overload(*tree_unflatten(mixed, structure))
