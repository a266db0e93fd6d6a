"""Conformance checks of positional schemes: what Locant's own tests demand of every scheme, for anybody's.

The checks need torch and safetensors, and no test framework. They build small models with the scheme and compare what
must be equal; they run on the CPU and take some seconds a scheme.
"""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch._dynamo.backends.debugging import aot_eager

from locant.analysis.properties import carried, hooked
from locant.errors import ConfigError
from locant.models.language_model import LanguageModel, LanguageModelConfig
from locant.positions import (
    SCHEMES,
    AttentionShape,
    Mask,
    PositionScheme,
    Rotary,
    attend_with_positions,
    build_scheme,
)

_Module = TypeVar("_Module", bound=nn.Module)
_SHAPE = AttentionShape(model_dim=32, num_heads=4, causal=True)
_VOCABULARY = 30
_LENGTH = 20
_TOLERANCE = 1e-4
# Where precision is looked at: a position whose bfloat16 neighbours are 16 tokens away.
_FAR = 4000


@dataclass(frozen=True)
class SchemeReport:
    """All checks of one scheme.

    Attributes:
        scheme: Name of its class.
        problems: What is wrong, as a sentence, by the name of the check in :data:`CHECKS`.
    """

    scheme: str
    problems: dict[str, str]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return not self.problems

    def __str__(self) -> str:
        if self.passed:
            return f"{self.scheme} passed all {len(CHECKS)} checks."
        said = [f"  {name}: {problem}" for name, problem in self.problems.items()]
        return "\n".join((f"{self.scheme} failed {len(said)} of {len(CHECKS)} checks:", *said))


class SchemeCheckError(AssertionError):
    """A scheme failed checks; the message names each of them.

    Attributes:
        report: All results.
    """

    def __init__(self, report: SchemeReport) -> None:
        super().__init__(str(report))
        self.report = report


def check_scheme(scheme: type[PositionScheme], /, **options: Any) -> SchemeReport:
    """Run every check on a scheme.

    The scheme need not be registered. Give options that let short texts of 20 tokens exercise it, such as a window of
    4 tokens where the default is 1,024.

    Args:
        scheme: The class.
        options: Its options.

    Returns:
        The report, when every check passed.

    Raises:
        SchemeCheckError: At least one check failed; its ``report`` has all results, and its message every failure.

    Example:
        >>> from locant.positions import Shaw
        >>> print(check_scheme(Shaw, max_distance=4))
        Shaw passed all 11 checks.
    """
    report = examine_scheme(scheme, options)
    if not report.passed:
        raise SchemeCheckError(report)
    return report


def examine_scheme(scheme: type[PositionScheme], options: Mapping[str, Any] | None = None) -> SchemeReport:
    """Run every check on a scheme and return the report, whatever it says.

    Args:
        scheme: The class.
        options: Its options.
    """
    problems = {}
    with _named(scheme) as name, torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of compilers about their own parts
        subject = _Subject(scheme, name, dict(options or {}))
        for check, function in CHECKS.items():
            torch.manual_seed(0)
            try:
                function(subject)
            except _CheckError as failure:
                problems[check] = str(failure)
            except Exception as error:  # whatever a scheme raises is what is wrong with it
                doing = (function.__doc__ or "").split(":")[0]
                problems[check] = f"{doing} raised {type(error).__name__}: {str(error).strip() or 'no message'}"
    return SchemeReport(scheme.__name__, problems)


class _CheckError(Exception):
    """What a check found wrong."""


@contextmanager
def _named(scheme: type[PositionScheme]) -> Iterator[str]:
    """Give a scheme that is not registered a name for the time of the checks."""
    known = next((name for name, other in SCHEMES.items() if other is scheme), None)
    if known is not None:
        yield known
        return
    name = f"checked-{id(scheme)}"
    SCHEMES[name] = scheme
    try:
        yield name
    finally:
        del SCHEMES[name]


@dataclass(frozen=True)
class _Subject:
    kind: type[PositionScheme]
    name: str
    options: dict[str, Any]

    def scheme(self, *, causal: bool = True) -> PositionScheme:
        shape = AttentionShape(_SHAPE.model_dim, _SHAPE.num_heads, causal)
        return _lively(build_scheme(self.name, shape, self.options)).eval()

    def model(self, seed: int = 1) -> LanguageModel:
        torch.manual_seed(seed)
        sizes = {"layers": 2, "d_model": _SHAPE.model_dim, "d_ff": 48, "heads": _SHAPE.num_heads, "tie_output": False}
        chosen = {"position": self.name, "position_options": self.options}
        model = LanguageModel(LanguageModelConfig.parse({"vocab_size": _VOCABULARY, **sizes, **chosen}))
        return _lively(model).eval()


def _lively(module: _Module) -> _Module:
    """Move parameters away from initial values that do nothing, such as zeros."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() < 2 or not parameter.any():
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return module


def _ids(rows: int, length: int = _LENGTH) -> Tensor:
    return torch.randint(1, _VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(rows + 100 * length))


def _heads(length: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, _SHAPE.num_heads, length, _SHAPE.head_dim, generator=generator)


def _embeddings(length: int) -> Tensor:
    return torch.randn(2, length, _SHAPE.model_dim, generator=torch.Generator().manual_seed(7))


def _same(found: Tensor, expected: Tensor, problem: str, tolerance: float = _TOLERANCE) -> None:
    if found.shape != expected.shape:
        raise _CheckError(f"{problem} The shape is {list(found.shape)} instead of {list(expected.shape)}.")
    difference = (found.double() - expected.double()).abs()
    if not bool((difference <= tolerance).all()):
        raise _CheckError(
            f"{problem} The largest difference is {float(difference.nan_to_num(float('inf')).max()):.2g}."
        )


def _hooks(scheme: PositionScheme, x: Tensor, q: Tensor, k: Tensor, positions: Tensor) -> list[Tensor]:
    """Return what the hooks make of embeddings, queries and keys at the same positions."""
    rotated_q, rotated_k, bias = hooked(scheme, q, k, positions, positions, scheme.prepare(x, positions))
    results = [scheme.embed(x, positions), rotated_q, rotated_k]
    return results if bias is None else [*results, bias.expand(2, _SHAPE.num_heads, *bias.shape[-2:])]


def _broadcasts(bias: Tensor, pairs: tuple[int, ...]) -> bool:
    try:
        return bias.expand(pairs).shape == pairs
    except RuntimeError:
        return False


def _check_hooks(subject: _Subject) -> None:
    """Calling the hooks: shapes, dtypes, and ``acts_on`` says where the scheme acts."""
    scheme, positions = subject.scheme(), torch.arange(6)
    for dtype in (torch.float32, torch.bfloat16):
        x, q, k = _embeddings(6).to(dtype), _heads(6).to(dtype), _heads(6, 1).to(dtype)
        embedded, state = scheme.embed(x, positions), scheme.prepare(x, positions)
        for part in state or ():
            if part is not None and part.shape[:3] != (2, _SHAPE.num_heads, 6):
                raise _CheckError(f"prepare returned {list(part.shape)}; every part must be [B, H, L, ...].")
        rotated_q, rotated_k, bias = hooked(scheme, q, k, positions, positions, state)
        wide = (*q.shape[:-1], max(q.shape[-1], rotated_k.shape[-1]))  # queries and keys may become wider, but alike
        for hook, found, given, shape in (
            ("embed", embedded, x, x.shape),
            ("rotate", rotated_q, q, wide),
            ("rotate", rotated_k, k, wide),
        ):
            if (found.shape, found.dtype) != (shape, given.dtype):
                raise _CheckError(
                    f"{hook} got {list(given.shape)} of {given.dtype} and returned {list(found.shape)} of "
                    f"{found.dtype}; shape and dtype must stay."
                )
        pairs = (2, _SHAPE.num_heads, 6, 6)
        if bias is not None and not _broadcasts(bias, pairs):
            raise _CheckError(f"score_bias returned {list(bias.shape)}, which does not broadcast to [B, H, Q, K].")
        acts = {"embedding": embedded is not x, "scores": bias is not None}
        acts["queries+keys"] = rotated_q is not q or rotated_k is not k
        for place, found_there in acts.items():
            if found_there and place not in scheme.acts_on:
                raise _CheckError(f"the scheme acts on {place}, but acts_on does not name it.")


def _check_claims(subject: _Subject) -> None:
    """Comparing facts with hooks: what a scheme says about a hook is what the hook does."""
    scheme = subject.scheme()
    most = min(scheme.max_positions or 64, 64)
    at, behind = torch.arange(most - 6, most), torch.arange(6)
    x, q, k, other = _embeddings(6), _heads(6), _heads(6, 1), _heads(6, 2)
    with torch.no_grad():
        if (codes := scheme.code(at)) is not None:
            _same(
                scheme.embed(x, at), x + codes, "code says what is added to embeddings, and embed adds something else."
            )
        state = carried(scheme, x, at, behind)
        *expected, bias = hooked(scheme, q, k, at, behind, state)
        given = scheme.state_for("rotate", state)
        for found, turned in zip(scheme.rotation(at, behind)(q, k, *given), expected, strict=True):
            _same(found, turned, "rotation and rotate turn differently.")
        if (config := scheme.rotary_config) is not None:
            problem = "rotary_config says by which angles rotate turns, and rotate does something else."
            for found, turned in zip(Rotary.from_config(config).rotate(q, k, at, behind), expected, strict=True):
                _same(found, turned, problem)
            if scheme.acts_on != {"queries+keys"}:
                raise _CheckError("rotary_config says that the scheme rotates and does nothing else; it does.")
        if bias is not None and not scheme.bias_reads_content:
            problem = (
                "bias_reads_content is false, and the bias of other queries or keys at the same positions differs."
            )
            for queries, keys in ((other, k), (q, other)):
                again = hooked(scheme, queries, keys, at, behind, state)[2]
                _same(torch.zeros(()) if again is None else again, bias, problem)
        if (row := scheme.distance_bias(at, behind)) is not None:
            distance = behind[None] - at[:, None] - row[1]
            problem = "distance_bias says what score_bias adds to every distance, and it adds something else."
            _same(torch.zeros(()) if bias is None else bias[0], row[0][:, distance].to(q.dtype), problem)


def _check_causality(subject: _Subject) -> None:
    """Reading a text: no output depends on a later token."""
    model, text = subject.model(), _ids(2)
    with torch.no_grad():
        expected = model(text)
        for length in (1, 7, _LENGTH - 1):
            problem = f"the outputs of the first {length} tokens change when later tokens are left out."
            _same(model(text[:, :length]), expected[:, :length], problem)
            other = text.clone()
            other[:, length:] = other[:, length:] % (_VOCABULARY - 1) + 1
            problem = f"the outputs of the first {length} tokens change when later tokens change."
            _same(model(other)[:, :length], expected[:, :length], problem)


def _check_padding(subject: _Subject) -> None:
    """Padding a text: its outputs stay, whether padding is on the left or the right."""
    model, text = subject.model(), _ids(1, 8)
    blank = torch.zeros(1, 5, dtype=torch.long)
    real = torch.arange(13)
    with torch.no_grad():
        expected = model(text)
        right = Mask(causal=True, keys=(real < 8)[None, None, None])
        found = model(torch.cat((text, blank), dim=1), mask=right)[:, :8]
        _same(found, expected, "padding on the right changes the outputs of a text.")
        positions = torch.cat((torch.zeros(1, 5, dtype=torch.long), torch.arange(8)[None]), dim=1)
        left = Mask(causal=True, keys=(real >= 5)[None, None, None])
        found = model(torch.cat((blank, text), dim=1), positions=positions, mask=left)[:, 5:]
        _same(found, expected, "padding on the left, with positions that begin after it, changes a text's outputs.")
        try:
            scheme = subject.scheme(causal=False)
        except ConfigError:
            return  # it serves decoders alone
        x, parts = _embeddings(13), [_heads(13, seed) for seed in range(3)]

        def read(length: int, mask: Mask) -> Tensor:
            q, k, v = (part[:, :, :length] for part in parts)
            at = real[:length]
            return attend_with_positions(q, k, v, scheme, at, at, mask, state=scheme.prepare(x[:, :length], at))

        alone, padded = read(8, Mask()), read(13, Mask(keys=(real < 8)[None, None, None]))
        _same(padded[:, :, :8], alone, "padding on the right changes what an encoder reads.")


def _check_packing(subject: _Subject) -> None:
    """Packing texts: several in one row give what each gives alone."""
    if not subject.scheme().packs_texts:
        return
    model, sizes = subject.model(), [6, 9, 5]
    texts = [_ids(2, size) for size in sizes]
    positions = torch.cat([torch.arange(size) for size in sizes]).expand(2, -1)
    text = torch.repeat_interleave(torch.arange(3), torch.tensor(sizes))
    mask = Mask(causal=True, keys=(text[:, None] == text)[None, None])
    with torch.no_grad():
        found = model(torch.cat(texts, dim=1), positions=positions, mask=mask)
        expected = torch.cat([model(each) for each in texts], dim=1)
    _same(
        found,
        expected,
        "texts packed in one row change each other; a scheme that cannot help it says packs_texts = False.",
    )


def _check_cache(subject: _Subject) -> None:
    """Decoding with a cache: equals one pass over the whole text."""
    model, text = subject.model(), _ids(3)
    with torch.no_grad():
        expected = model(text)
        for what, chunks in (("token by token", [1] * _LENGTH), ("in chunks", [3, 1, 14, 2])):
            cache = model.start()
            found = torch.cat([model.step(part, cache) for part in torch.split(text, chunks, dim=1)], dim=1)
            _same(found, expected, f"decoding {what} with a cache differs from one pass.")
        cache, rows = model.start(), torch.tensor([2, 0, 0])
        model.step(text[:, :5], cache)
        cache.select(rows)
        found, kept = model.step(text[:, 5:], cache), torch.cat((text[rows, :5], text[:, 5:]), dim=1)
        _same(found, model(kept)[:, 5:], "decoding goes wrong after rows of the cache were selected.")


def _check_precision(subject: _Subject) -> None:
    """Casting to half precision: positions keep theirs."""
    limit = subject.scheme().max_positions
    start = _FAR if limit is None else max(0, min(_FAR, limit - _LENGTH))
    positions = torch.arange(start, start + min(_LENGTH, limit or _LENGTH))
    x, q, k = _embeddings(len(positions)), _heads(len(positions)), _heads(len(positions), 1)
    casts: dict[torch.dtype, Callable[[nn.Module], nn.Module]] = {
        torch.bfloat16: lambda scheme: scheme.to(torch.bfloat16),
        torch.float16: lambda scheme: scheme.half(),
    }
    with torch.no_grad():
        for dtype, cast in casts.items():
            torch.manual_seed(1)
            scheme = subject.scheme()
            for parameter in scheme.parameters():
                parameter.copy_(parameter.to(dtype))
            given = [tensor.to(dtype) for tensor in (x, q, k)]
            expected = _hooks(scheme, *(tensor.float() for tensor in given), positions)  # type: ignore[call-arg]
            found = _hooks(cast(copy.deepcopy(scheme)), *given, positions)  # type: ignore[call-arg,arg-type]
            for a, b in zip(found, expected, strict=True):
                problem = f"after a cast to {str(dtype).removeprefix('torch.')} positions from {start} on are wrong."
                _same(a, b, problem, 0.03 * max(1.0, float(b.abs().max())))


def _check_gradients(subject: _Subject) -> None:
    """Training: gradients are finite and reach every parameter."""
    model, text = subject.model().train(), _ids(3)
    loss = nn.functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    if not bool(loss.isfinite()):
        raise _CheckError("the loss of a training step is not finite.")
    loss.backward()  # type: ignore[no-untyped-call]
    for name, parameter in model.named_parameters():
        if parameter.grad is None or not bool(parameter.grad.any()):
            raise _CheckError(f"no gradient reaches the parameter '{name}'.")
        if not bool(parameter.grad.isfinite().all()):
            raise _CheckError(f"the gradient of the parameter '{name}' is not finite.")


def _check_saving(subject: _Subject) -> None:
    """Saving and loading: another model with the saved weights gives the same outputs."""
    from safetensors.torch import load, save

    model, other, text = subject.model(), subject.model(seed=2), _ids(2)
    with torch.no_grad():
        expected = model(text)
        other.load_state_dict(load(save(model.state_dict())))
        _same(other(text), expected, "a model with the saved weights gives other outputs.", 0.0)


def _check_copying(subject: _Subject) -> None:
    """Copying: deepcopy and pickle give a model that computes the same."""
    model, text = subject.model(), _ids(2)
    with torch.no_grad():
        expected = model(text)
        buffer = io.BytesIO()
        _same(copy.deepcopy(model)(text), expected, "a deep copy gives other outputs.", 0.0)
        try:
            pickle.dump(model.stack.schemes, buffer)
        except Exception as error:
            raise _CheckError(f"the scheme cannot be pickled: {error}") from None
        buffer.seek(0)
        model.stack.schemes = pickle.load(buffer)
        _same(model(text), expected, "an unpickled scheme gives other outputs.", 0.0)


class _Attention(nn.Module):
    """A module whose forward pass calls the hooks, and attends."""

    def __init__(self, scheme: PositionScheme) -> None:
        super().__init__()
        self.scheme = scheme

    def forward(self, x: Tensor, q: Tensor, k: Tensor, positions: Tensor) -> list[Tensor]:
        state = self.scheme.prepare(x, positions)
        found = attend_with_positions(q, k, k, self.scheme, positions, positions, Mask(causal=True), state=state)
        return [found, *_hooks(self.scheme, x, q, k, positions)]


_LENGTHS = (6, 9, 17)


def _check_compiling(subject: _Subject) -> None:
    """Compiling: torch.compile and, of a traceable scheme, torch.export give the same, by one graph for all lengths."""
    scheme = subject.scheme()
    module = _Attention(scheme)
    given = [(_embeddings(n), _heads(n), _heads(n, 1), torch.arange(n)) for n in _LENGTHS]
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return aot_eager(graph, inputs)

    torch.compiler.reset()
    with torch.no_grad():
        expected = [module(*inputs) for inputs in given]
        compiled = torch.compile(module, backend=backend, fullgraph=scheme.traceable, dynamic=True)
        made = []
        for inputs, known in zip(given, expected, strict=True):
            for a, b in zip(compiled(*inputs), known, strict=True):
                _same(a, b, "a compiled scheme gives other results.")
            made.append(len(graphs))
        if not scheme.traceable:
            return
        if made[-1] > made[0]:
            raise _CheckError("a text of another length is compiled again: one graph must serve all lengths.")
        length = torch.export.Dim("length", min=2, max=4096)
        shapes = {name: {axis: length} for name, axis in (("x", 1), ("q", 2), ("k", 2), ("positions", 0))}
        exported = torch.export.export(module, given[0], dynamic_shapes=shapes).module()
        for inputs, known in zip(given, expected, strict=True):
            for a, b in zip(exported(*inputs), known, strict=True):
                _same(a, b, "an exported scheme gives other results.")


CHECKS: dict[str, Callable[[_Subject], None]] = {
    "hooks": _check_hooks,
    "claims": _check_claims,
    "causality": _check_causality,
    "padding": _check_padding,
    "packing": _check_packing,
    "cached decoding": _check_cache,
    "precision": _check_precision,
    "gradients": _check_gradients,
    "saving": _check_saving,
    "copying": _check_copying,
    "compiling": _check_compiling,
}
"""Every check by name."""
