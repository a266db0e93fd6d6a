"""A kernel as an operator of PyTorch, and the short way past PyTorch's dispatcher where nothing watches it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from locant.errors import ConfigError

NAMESPACE = "locant"
"""The operators are ``torch.ops.locant.NAME``."""

OPERATORS: dict[str, Operator] = {}
"""The operators that are registered, by name; importing :mod:`locant.kernels.operators` registers all of them."""

_LIBRARY: Any = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
# Compilers hand over inputs as they lay in memory when the strides of the results were found.
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)


_transforms, _modes = torch._C._are_functorch_transforms_active, torch._C._len_torch_dispatch_stack
_any_requires_grad = torch._C._any_requires_grad
_Keys = torch._C.DispatchKeySet
_BELOW_AUTOGRAD = torch._C._after_autograd_keyset
# The dispatcher's keys of a call on plain tensors, as a number: comparing keys takes longer than a small kernel.
_PLAIN_KEYS = (_Keys(torch._C.DispatchKey.CPU) | _Keys(torch._C.DispatchKey.AutogradCPU)).raw_repr()


def is_transformed() -> bool:
    """Return whether a compiler, an exporter or a transform of ``torch.func`` runs the code that asks."""
    return torch.compiler.is_compiling() or _transforms()


class Gradient(NamedTuple):
    """How an operator is differentiated.

    Attributes:
        keep: Keeps what the backward pass needs: ``keep(ctx, inputs, output)``.
        backward: Takes the context and the gradient of each output, and returns that of each input, by PyTorch's
            operations and by operators alone.
        of_first: Whether the first result alone is differentiated and of use to callers, the others being for the
            backward pass, which is not given their gradients.
    """

    keep: Callable[[Any, tuple[Any, ...], Any], None]
    backward: Callable[..., Any]
    of_first: bool = False


class Operator:
    """A kernel that is called as a function and is registered as an operator.

    A call goes straight to the kernel, because the way through PyTorch's dispatcher and back into Python costs as much
    as small kernels themselves; unless a compiler, an exporter, a dispatch mode or a transform looks, which sees one
    operator.

    Args:
        schema: Name, arguments without defaults, and results, in PyTorch's language of schemas.
        kernel: Computes the results.
        plain: Computes the same by PyTorch's operations, on any device and of any shape and dtype: for what the kernel
            does not read, and where operators are decomposed.
        reads: Whether the kernel reads these arguments and can be used now.
        fake: Returns empty results of the right shapes, dtypes and strides.
        gradient: How it is differentiated; ``None`` where it is not.
        autocast: Returns what the arguments become under autocast on the CPU; ``None`` where they stay as they are.
    """

    def __init__(
        self,
        schema: str,
        *,
        kernel: Callable[..., Any],
        plain: Callable[..., Any],
        reads: Callable[..., bool],
        fake: Callable[..., Any],
        gradient: Gradient | None = None,
        autocast: Callable[..., tuple[Any, ...]] | None = None,
    ) -> None:
        self.name = schema.partition("(")[0]
        self.plain = plain
        self._kernel, self._reads, self._autocast = kernel, reads, autocast
        self._takes_list = "[]" in schema
        self._gives_first = gradient is not None and gradient.of_first
        _LIBRARY.define(schema, tags=_TAGS)
        self.overload = getattr(getattr(torch.ops, NAMESPACE), self.name).default
        qualified = f"{NAMESPACE}::{self.name}"
        _LIBRARY.impl(self.name, self._run, "CompositeExplicitAutograd")
        torch.library.register_fake(qualified, _of_one_device(self.name, fake), lib=_LIBRARY)
        self._others = len(self.overload._schema.arguments) - 1  # asked here, because asking takes a microsecond
        self._function: type[torch.autograd.Function] | None = None
        self._whole: type[torch.autograd.Function] | None = None
        self._recorded: type[torch.autograd.Function] | None = None
        self._transformed: type[torch.autograd.Function] | None = None
        if gradient is not None:
            seen = _hiding_others(gradient) if gradient.of_first else gradient
            self._transformed = self._for_transforms(seen)
            self._function = self._for_autograd(kernel, gradient, direct=True, first=gradient.of_first)
            self._whole = self._for_autograd(kernel, seen, direct=True) if gradient.of_first else self._function
            self._recorded = self._for_autograd(self._redispatched, seen, direct=False)
            # Not by torch.library.register_autograd, whose way to the kernel costs as much as a small kernel.
            _LIBRARY.impl(self.name, self._under_autograd, "Autograd", with_keyset=True)
        if "!" not in schema:
            torch.library.register_vmap(qualified, partial(_each, self.overload), lib=_LIBRARY)
        if autocast is not None:
            _LIBRARY.impl(self.name, self._under_autocast, "AutocastCPU")
        OPERATORS[self.name] = self

    def __call__(self, *inputs: Any) -> Any:
        """Compute the results for arguments that the kernel reads, with gradients.

        Returns:
            As the operator, or its first result where the others are for the backward pass.
        """
        if torch.compiler.is_compiling() or _modes() or _transforms():
            found = self.seen(*inputs)
        elif self._function is not None and torch.is_grad_enabled() and _any_requires_grad(*inputs):
            recorded = self._function.apply(*self._flat(inputs))  # type: ignore[no-untyped-call]
            return list(recorded) if self._takes_list else recorded
        else:
            found = self._kernel(*inputs)
        return found[0] if self._gives_first else found

    def seen(self, *inputs: Any) -> Any:
        """Compute the results for any arguments, with gradients, through the dispatcher."""
        if (
            self._transformed is None
            or torch.compiler.is_compiling()
            or not torch._C._are_functorch_transforms_active()
        ):
            return self.overload(*inputs)
        # PyTorch's transforms ask more of what is differentiated than its own way to register a gradient gives them.
        found = self._transformed.apply(*self._flat(inputs))  # type: ignore[no-untyped-call]
        return list(found) if self._takes_list else found

    def following(self, ctx: Any) -> Callable[..., Any]:
        """Return what a backward pass calls: what came through the dispatcher may be what no kernel reads."""
        return self if getattr(ctx, "is_direct", False) else self.seen

    def _run(self, *inputs: Any) -> Any:
        return self._kernel(*inputs) if self._reads(*inputs) else self.plain(*inputs)

    def _under_autograd(self, keys: Any, *inputs: Any) -> Any:
        is_plain = keys.raw_repr() == _PLAIN_KEYS
        if torch.is_grad_enabled() and _any_requires_grad(*inputs):
            assert self._whole is not None
            assert self._recorded is not None
            if is_plain and self._reads(*inputs):
                found = self._whole.apply(*self._flat(inputs))  # type: ignore[no-untyped-call]
            else:
                found = self._recorded.apply(*self._flat(inputs), keys)  # type: ignore[no-untyped-call]
            return list(found) if self._takes_list else found
        if is_plain:
            return (self._kernel if self._reads(*inputs) else self.plain)(*inputs)  # where the dispatcher would end
        return self._redispatched(*inputs, keys)

    def _redispatched(self, *inputs_and_keys: Any) -> Any:
        *inputs, keys = inputs_and_keys
        with torch._C._AutoDispatchBelowAutograd():
            return self.overload.redispatch(keys & _BELOW_AUTOGRAD, *inputs)

    def _under_autocast(self, *inputs: Any) -> Any:
        assert self._autocast is not None
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)):
            return self.overload(*self._autocast(*inputs))

    def _flat(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments with the tensors of a list, which is the first one, behind the others."""
        return (*inputs[1:], *inputs[0]) if self._takes_list else tuple(inputs)

    def _unflat(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if not self._takes_list:
            return tuple(inputs)
        return (list(inputs[self._others :]), *inputs[: self._others])

    def _for_autograd(
        self, compute: Callable[..., Any], gradient: Gradient, *, direct: bool, first: bool = False
    ) -> type[torch.autograd.Function]:
        """Return what records an operator for the backward pass.

        Args:
            compute: Computes the results.
            gradient: How they are differentiated.
            direct: Whether that is the kernel, which reads the arguments. If not, the last argument is the
                dispatcher's keys, which belong to ``compute`` alone.
            first: Whether the first result alone is wanted.
        """

        def forward(ctx: Any, *given: Any) -> Any:
            inputs = self._unflat(given if direct else given[:-1])
            output = compute(*inputs) if direct else compute(*inputs, given[-1])
            ctx.is_direct = direct
            gradient.keep(ctx, inputs, output)
            if first:
                return output[0]
            return tuple(output) if self._takes_list else output

        def backward(ctx: Any, *outer: Any) -> Any:
            found = (
                self._flat(gradient.backward(ctx, list(outer))) if self._takes_list else gradient.backward(ctx, *outer)
            )
            return found if direct else (*found, None)

        members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        return type(f"{NAMESPACE}_{self.name}", (torch.autograd.Function,), members)

    def _for_transforms(self, gradient: Gradient) -> type[torch.autograd.Function]:
        """Return what the transforms of ``torch.func`` differentiate."""

        def forward(*inputs: Any) -> Any:
            found = self.overload(*self._unflat(inputs))
            return tuple(found) if self._takes_list else found

        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            gradient.keep(ctx, self._unflat(inputs), output)

        def backward(ctx: Any, *outer: Any) -> Any:
            return (
                self._flat(gradient.backward(ctx, list(outer))) if self._takes_list else gradient.backward(ctx, *outer)
            )

        def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> Any:
            return _each(made.apply, info, in_dims, *inputs)

        functions = (forward, setup_context, backward, vmap)
        members = {given.__name__: staticmethod(given) for given in functions}
        made: Any = type(f"{NAMESPACE}_{self.name}", (torch.autograd.Function,), members)
        return made


def once(sentence: str) -> Gradient:
    """Return the gradient of what cannot be differentiated, which is an error when it is asked for.

    Args:
        sentence: What the error says.
    """

    def backward(ctx: Any, *outer: Any) -> Any:
        raise RuntimeError(sentence)

    return Gradient(lambda ctx, inputs, output: None, backward)


def _hiding_others(gradient: Gradient) -> Gradient:
    """Return the gradient for where all results are seen: those but the first one have none."""

    def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*output[1:])
        gradient.keep(ctx, inputs, output)

    def backward(ctx: Any, outer: Any, *_: None) -> Any:
        return (None,) * len(ctx.needs_input_grad) if outer is None else gradient.backward(ctx, outer)

    return Gradient(keep, backward)


def _of_one_device(name: str, fake: Callable[..., Any]) -> Callable[..., Any]:
    """Return what refuses tensors without memory ("meta") beside others, from which nothing can be computed."""

    def checked(*inputs: Any) -> Any:
        tensors = [x for x in pytree.tree_leaves(inputs) if isinstance(x, Tensor)]
        are_meta = [x.device.type == "meta" for x in tensors]
        # As PyTorch's operations, they take numbers such as a seed from the CPU.
        if any(are_meta) and not (
            are_meta[0] and all(meta or x.dim() == 0 for meta, x in zip(are_meta, tensors, strict=True))
        ):
            devices = ", ".join(str(x.device) for x in tensors)
            raise ConfigError(f"{NAMESPACE}::{name} takes tensors of one device; these are on {devices}.")
        return fake(*inputs)

    return checked


def _each(function: Callable[..., Any], info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, Any]:
    """Call a function for each element of a batch, as ``torch.vmap`` asks for what it knows no rule of."""
    values, structure = pytree.tree_flatten(inputs)
    places = pytree.tree_leaves(in_dims)
    size = info.batch_size
    if not size:  # an element of zeros shows of what shape the results are
        values = [x if at is None else _lengthened(x, at) for x, at in zip(values, places, strict=True)]
    found = []
    for row in range(max(size, 1)):
        one = [x if at is None else x.select(at, row) for x, at in zip(values, places, strict=True)]
        found.append(function(*pytree.tree_unflatten(one, structure)))
    stacked = pytree.tree_map(lambda *rows: torch.stack(rows)[:size], *found)
    return stacked, pytree.tree_map(lambda _: 0, stacked)


def _lengthened(x: Tensor, dim: int) -> Tensor:
    shape = list(x.shape)
    shape[dim] = 1
    return torch.cat((x, x.new_zeros(shape)), dim)
