"""The base class of positional schemes, with the three places where a Transformer can learn where a token is.

Notation used throughout the package:
    B batch, H heads, L sequence length, Q and K numbers of queries and keys, D features of a head, E model width.

Positions are integer tensors, counted in tokens from 0, of shape ``[L]`` (the same for every row) or ``[B, L]``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeVar, get_args

from torch import Tensor, nn

from locant.errors import ConfigError, DataError, nearest

if TYPE_CHECKING:
    from locant.positions.rotary.config import RotaryConfig

Rotation = Callable[..., tuple[Tensor, Tensor]]
"""What rotates queries ``[B, H, Q, D]`` and keys ``[B, H, K, D]``, with all that depends on their positions in it."""

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""What FlexAttention does to scores: a function of a score and the indices of batch, head, query and key."""

Place = Literal["embedding", "queries+keys", "scores"]
"""Where a scheme can act: ``embed``, ``rotate`` and ``score_bias`` are the hooks."""

_HOOKS: dict[str, Place] = {
    "embed": "embedding",
    "rotate": "queries+keys",
    "rotation": "queries+keys",
    "score_bias": "scores",
}
PLACES: tuple[Place, ...] = get_args(Place)


_Fact = TypeVar("_Fact")


def describes(*hooks: str) -> Callable[[_Fact], _Fact]:
    """Mark a fact of a scheme, a method or a property, as a claim about hooks.

    It holds for the hooks of the class that makes it. A class that overrides one of these and not the fact has what the
    classes before said whose claim is not about that hook: in the end the default of :class:`PositionScheme`, nothing.

    Args:
        hooks: Names of the methods that the fact describes.
    """

    def mark(fact: _Fact) -> _Fact:
        (fact.fget if isinstance(fact, property) else fact).describes = hooks  # type: ignore[union-attr]
        return fact

    return mark


@dataclass(frozen=True)
class AttentionShape:
    """The dimensions of a model that a scheme may depend on.

    Attributes:
        model_dim: Width of the model, ``E``.
        num_heads: Number of attention heads, ``H``.
        causal: Whether queries see only keys at or before their own index (a decoder's self-attention).
        head_size: Features of a head where they are not ``E / H``.
        key_heads: Heads of keys and values where they are fewer.
    """

    model_dim: int
    num_heads: int
    causal: bool
    head_size: int | None = None
    key_heads: int | None = None

    @property
    def head_dim(self) -> int:
        """Features of one head, ``D``."""
        return self.head_size or self.model_dim // self.num_heads


class Prepared(NamedTuple):
    """What tokens carry into attention beside queries and keys, as :meth:`PositionScheme.prepare` made it.

    Attributes:
        queries: What a token's queries carry, ``[B, H, Q, ...]``.
        keys: What a token's keys carry, ``[B, H, K, ...]``; a cache keeps it with the keys.
    """

    queries: Tensor | None = None
    keys: Tensor | None = None

    def part(self, queries: slice, keys: slice) -> Prepared:
        """Return what is carried by some of the queries and some of the keys."""
        q, k = self
        return Prepared(None if q is None else q[:, :, queries], None if k is None else k[:, :, keys])


class PositionScheme(nn.Module):
    """A positional scheme: overrides the places where it acts and leaves the others alone.

    A constructor takes the dimensions as positional arguments and its options as keyword-only arguments; the
    registry reads the option names from there. What tables, figures, exporters and comparisons have to know about a
    scheme it says itself, in the facts below and in :meth:`code`, :meth:`distance_bias` and :attr:`rotary_config`.

    A scheme is called like any torch module, with what it acts on (:meth:`forward`)::

        x = sinusoidal(x, positions)                         # acts on the embedding
        q, k = rope(q, k, positions)                         # acts on queries and keys
        bias = alibi(q, k, positions)                        # acts on the scores
        q, k, bias = deberta(q, k, positions)                # acts on both
        bias = fox(q, k, positions, state=fox.prepare(x, positions))

    A scheme that reads the layer's input, as the last does, overrides :meth:`prepare` too. Its hooks that have an
    argument ``state`` after the positions are then given what it returned.
    """

    name: ClassVar[str] = ""
    """The name that it is registered under; :func:`~locant.positions.register_scheme` sets it."""

    title: ClassVar[str] = ""
    """Its name in tables and figures, as its paper writes it; the registered name where a class says nothing."""

    paper: ClassVar[str] = ""
    """The paper it comes from, as in ``Press et al. 2022``."""

    per_layer: ClassVar[bool] = False
    """Whether every layer has an instance (and parameters) of its own; otherwise a stack's layers share one."""

    acts_on: frozenset[Place] = frozenset()
    """The places where it acts; of a class, unless it says otherwise, those whose hooks it overrides."""

    reads_state: frozenset[str] = frozenset()
    """The hooks that read what :meth:`prepare` returns; of a class, those with an argument ``state``."""

    axes: int = 1
    """Coordinates that a token may have: positions are then ``[B, L, axes]`` as well."""

    head_dim: int | None = None
    """Features of the heads that it is made for, where it is made for some."""

    num_heads: int | None = None
    """Number of the heads that it is made for, where it is made for some."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Note the places whose hooks a class overrides, drop claims about hooks that it overrides, guard its hooks."""
        super().__init_subclass__(**arguments)
        if "acts_on" not in cls.__dict__:
            cls.acts_on = frozenset(
                place for hook, place in _HOOKS.items() if getattr(cls, hook) is not getattr(PositionScheme, hook)
            )
        _drop_claims(cls)
        hooks = ("rotate", "score_bias")
        cls.reads_state = frozenset(hook for hook in hooks if "state" in signature(getattr(cls, hook)).parameters)
        for hook in vars(cls).keys() & {"embed", "rotate", "score_bias"}:
            setattr(cls, hook, _guarded(hook, vars(cls)[hook]))

    packs_texts: bool = True
    """Whether texts packed in one row, each with positions from 0 on, are kept apart by the mask alone."""

    traceable: bool = False
    """Whether ``torch.compile(fullgraph=True)`` and ``torch.export`` can trace the hooks. Where a scheme reads numbers
    from the positions they cannot; ``torch.compile`` then breaks its graph there and goes on. Of Locant's own schemes
    only frequencies that follow the length of the text, and positions that are drawn in training, are like that."""

    @property
    def caches_unrotated_keys(self) -> bool:
        """Whether a key's rotation depends on the query that sees it, so that a cache must keep keys unrotated."""
        return False

    @property
    def bias_reads_content(self) -> bool:
        """Whether :meth:`score_bias` looks at queries or keys, or at their positions alone.

        A bias of positions alone is computed once for all layers, and of queries and keys it sees no more than their
        shape and dtype. If the scheme rotates as well, decoding with a cache need not rotate the keys of earlier tokens
        once more at every step.
        """
        return "scores" in self.acts_on

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for one stack of a model.

        Args:
            shape: The dimensions of the stack's self-attention.
            options: The scheme's own keyword-only options.

        Raises:
            ConfigError: An option's value is out of range, or contradicts the dimensions.
        """
        del shape
        return cls(**options)

    def reset_parameters(self) -> None:
        """Draw the scheme's parameters again; a scheme without parameters has nothing to do."""

    @property
    def max_positions(self) -> int | None:
        """Number of positions the scheme knows (0 up to one less), or ``None`` when there is no limit."""
        return None

    @property
    def rotary_config(self) -> RotaryConfig | None:
        """The configuration of a scheme that is rotary embedding (scaled or not) and nothing else, or ``None``."""
        return None

    def code(self, positions: Tensor) -> Tensor | None:
        """Return the codes ``[..., E]`` that are added to the embeddings at integer positions ``[...]``.

        ``None`` where the scheme does not add a code to all features of the embeddings, which is the rule.
        """
        del positions
        return None

    def distance_bias(
        self, q_positions: Tensor, k_positions: Tensor, *, max_length: int | None = None
    ) -> tuple[Tensor, int] | None:
        """Return the bias of every relative position from the lowest to the highest that occurs.

        A relative position is ``k_position - q_position`` in tokens: negative for keys before the query.

        Args:
            q_positions: Integer positions ``[Q]`` or ``[B, Q]``, at least one.
            k_positions: Integer positions ``[K]`` or ``[B, K]``, at least one.
            max_length: A length in tokens that no distance which counts reaches, where one is known: then those below
                it are given, and no position is read for that.

        Returns:
            The biases ``[H, n]`` and the relative position of the first; ``None``, which is the rule, where
            :meth:`score_bias` depends on more than the relative position.
        """
        del q_positions, k_positions, max_length
        return None

    def forward(
        self,
        x: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        k_positions: Tensor | None = None,
        *,
        state: Prepared | None = None,
        heads_last: bool = False,
    ) -> Tensor | tuple[Tensor | None, ...] | None:
        """Apply the scheme to what it acts on.

        Two tensors are embeddings and their positions, three or four are queries, keys and positions:

        * ``scheme(x, positions)`` returns the embeddings, as :meth:`embed`.
        * ``scheme(q, k, positions, k_positions=None)`` returns rotated queries and keys ``(q, k)`` (:meth:`rotate`), a
          bias (:meth:`score_bias`) or, of a scheme that does both, ``(q, k, bias)``.

        A scheme that acts nowhere returns what it was given.

        Args:
            x: Embeddings ``[B, L, E]``, or queries ``[B, H, Q, D]``.
            k: Keys ``[B, H, K, D]``; for embeddings, their integer positions ``[L]`` or ``[B, L]``.
            positions: Integer positions of the queries, ``[Q]`` or ``[B, Q]``.
            k_positions: Integer positions of the keys, ``[K]`` or ``[B, K]``; may be left out where the keys are those
                of the same tokens.
            state: What :meth:`prepare` returned, where the scheme reads the layer's input.
            heads_last: Whether queries and keys are ``[B, L, H, D]`` and not ``[B, H, L, D]``; a bias is
                ``[B, H, Q, K]`` either way. Nothing is copied for that.

        Raises:
            ConfigError: The scheme acts somewhere else, is made for other heads, or lacks its state.
            DataError: There are more or fewer positions than tokens.
        """
        if positions is None:
            _require_place(self, not self.acts_on or "embedding" in self.acts_on, "queries, keys and positions")
            return self.embed(x, k)
        _require_place(self, self.acts_on != {"embedding"}, "embeddings and positions")
        k_positions = positions if k_positions is None else k_positions  # right for keys of the same tokens alone
        rotates, biases = "queries+keys" in self.acts_on, "scores" in self.acts_on
        if heads_last:
            x, k = x.transpose(1, 2), k.transpose(1, 2)
        given = (x, k, positions, k_positions)
        bias = self.score_bias(*given, *self.state_for("score_bias", state)) if biases else None
        if biases and not rotates:
            return bias
        rotated = self.rotate(*given, *self.state_for("rotate", state))
        if heads_last:
            rotated = rotated[0].transpose(1, 2), rotated[1].transpose(1, 2)
        return (*rotated, bias) if biases else rotated

    def prepare(self, x: Tensor, positions: Tensor) -> Prepared | None:
        """Return what each token carries into attention beside its query and key.

        A model calls it once in every layer, of schemes with a hook that has an argument ``state``. Each token's part
        must come from its own ``x`` and position alone, because a cache keeps it. What depends on other tokens, as a
        sum over those between a query and a key does, is for the hooks: they are given the parts of all keys, those
        in a cache first. Where the mask is causal the queries are the last of them.

        Args:
            x: What the layer's self-attention reads, ``[B, L, E]``.
            positions: Integer positions ``[L]`` or ``[B, L]``.

        Returns:
            What the tokens' queries and keys carry; ``None``, which is the rule, for nothing.
        """
        del x, positions
        return None

    def state_for(self, hook: str, state: Prepared | None) -> tuple[Prepared, ...]:
        """Return the arguments that a hook takes after the positions: the state, of a hook that reads it.

        Raises:
            ConfigError: It reads one, and there is none.
        """
        if hook not in self.reads_state:
            return ()
        if state is None:
            raise ConfigError(f"{type(self).__name__} reads a state: give state=scheme.prepare(x, positions).")
        return (state,)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Add or concatenate positions to the input embeddings.

        Args:
            x: Token embeddings ``[B, L, E]``, any floating dtype.
            positions: Integer positions ``[L]`` or ``[B, L]``.

        Returns:
            Embeddings ``[B, L, E]`` of the dtype of ``x``.
        """
        del positions
        return x

    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        """Rotate or change queries and keys by their positions.

        A scheme may have one more argument, ``state``: what :meth:`prepare` returned for these queries and keys. Where
        a key's rotation depends on other tokens, :attr:`caches_unrotated_keys` says so.

        Args:
            q: Queries ``[B, H, Q, D]``.
            k: Keys ``[B, H, K, D]``.
            q_positions: Integer positions ``[Q]`` or ``[B, Q]``.
            k_positions: Integer positions ``[K]`` or ``[B, K]``.

        Returns:
            Queries and keys of the same shapes and dtypes. Both may have more features than before, as many as each
            other: scores are their products over the square root of the features that they have then.
        """
        del q_positions, k_positions
        return q, k

    def rotation(self, q_positions: Tensor, k_positions: Tensor | None = None) -> Rotation:
        """Return :meth:`rotate` at these positions, with all that depends on positions alone computed.

        The layers of a model share it. A scheme overrides this or :meth:`rotate`, and nothing more where it computes
        nothing of positions alone.

        Args:
            q_positions: Integer positions ``[Q]`` or ``[B, Q]``.
            k_positions: Integer positions ``[K]`` or ``[B, K]``; those of the queries unless given.
        """
        keys = q_positions if k_positions is None else k_positions
        return lambda q, k, *state: self.rotate(q, k, q_positions, keys, *state)

    def drawn(self, positions: Tensor) -> Tensor:
        """Return the positions that tokens take, of the same shape: what all hooks of a forward pass are given.

        A model asks once, before its first layer. A scheme that draws positions in training overrides it; those of
        others are the given ones.

        Args:
            positions: Integer positions, counted in tokens from 0.
        """
        return positions

    def query_blocks(self, q_positions: Tensor) -> list[slice]:
        """Return the runs of queries that :meth:`rotate` can serve together with one rotation of the keys.

        One run is the rule. A scheme whose frequencies depend on how much text a query has before it returns several,
        and attention takes them one after the other; that is what makes a full pass equal token by token decoding.

        Args:
            q_positions: Integer positions ``[Q]`` or ``[B, Q]``.

        Returns:
            Slices of the queries' axis that together cover it, in order.
        """
        return [slice(0, q_positions.shape[-1])]

    def score_bias(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor | None:
        """Return what is added to the scaled attention scores.

        A scheme may have one more argument, ``state``: what :meth:`prepare` returned for these queries and keys.

        Args:
            q: Queries ``[B, H, Q, D]``, before :meth:`rotate`.
            k: Keys ``[B, H, K, D]``, before :meth:`rotate`.
            q_positions: Integer positions ``[Q]`` or ``[B, Q]``.
            k_positions: Integer positions ``[K]`` or ``[B, K]``.

        Returns:
            A tensor that broadcasts to ``[B, H, Q, K]``, or ``None`` when the scheme adds nothing.
        """
        del q, k, q_positions, k_positions
        return None


def _drop_claims(cls: type[PositionScheme]) -> None:
    """Give a class the first definition of every fact whose hooks no class before it overrides."""
    order = cls.__mro__[: cls.__mro__.index(PositionScheme) + 1]
    for name in dict.fromkeys(name for base in order for name in vars(base)):
        made = [(place, vars(base)[name]) for place, base in enumerate(order) if name in vars(base)]
        for place, fact in made:
            hooks = getattr(fact.fget if isinstance(fact, property) else fact, "describes", ())
            if not any(hook in vars(base) for base in order[:place] for hook in hooks):
                if fact is not made[0][1]:
                    setattr(cls, name, fact)
                break


def _guarded(hook: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook that looks at the shapes it is given first, which costs nothing under a compiler."""

    @wraps(function)
    def embed(self: PositionScheme, x: Tensor, positions: Tensor) -> Any:
        _require_fit(self, "token", x, positions)
        return function(self, x, positions)

    @wraps(function)
    def attend(
        self: PositionScheme, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, *state: Any, **named: Any
    ) -> Any:
        require_fit(self, q, k, q_positions, k_positions)
        return function(self, q, k, q_positions, k_positions, *state, **named)

    return embed if hook == "embed" else attend


def require_fit(scheme: PositionScheme, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> None:
    """Raise an error unless a scheme is made for such queries and keys, and each has a position.

    Args:
        scheme: The scheme.
        q: Queries ``[B, H, Q, D]``.
        k: Keys ``[B, H, K, D]``, of all heads or of fewer.
        q_positions: Integer positions ``[Q]`` or ``[B, Q]``.
        k_positions: Integer positions ``[K]`` or ``[B, K]``.

    Raises:
        ConfigError: The scheme is made for other heads.
        DataError: There are more or fewer positions than tokens.
    """
    _require_fit(scheme, "query", q, q_positions)
    _require_fit(scheme, "key", k, k_positions)
    name = type(scheme).__name__
    if scheme.head_dim is not None and scheme.head_dim != q.shape[-1]:
        raise ConfigError(f"{name} is made for heads of {scheme.head_dim} features, and these have {q.shape[-1]}.")
    if q.dim() == 4 and scheme.num_heads is not None and scheme.num_heads != q.shape[1]:
        raise ConfigError(f"{name} is made for {scheme.num_heads} heads of queries, and these are {q.shape[1]}.")


def _require_fit(scheme: PositionScheme, what: str, x: Tensor, positions: Tensor) -> None:
    """Raise DataError unless there is a position for every token of ``x [B, ..., L, D]``."""
    shape = positions.shape[:-1] if positions.dim() == 3 and scheme.axes > 1 else positions.shape
    rows = x.shape[0] if x.dim() > 2 else 1
    fits = len(shape) in (1, 2) and shape[-1] == x.shape[-2] and (len(shape) == 1 or shape[0] == 1 or shape[0] == rows)
    if not fits:
        several = f", or coordinates [B, L, {scheme.axes}]" if scheme.axes > 1 else ""
        missing = " Give k_positions where keys are not those of the same tokens." if what == "key" else ""
        raise DataError(
            f"Positions of the shape {list(positions.shape)} are not one for every {what}: there are {rows} rows of "
            f"{x.shape[-2]}, so that they are [L] or [B, L]{several}.{missing}"
        )


def _require_place(scheme: PositionScheme, right: bool, expected: str) -> None:
    if not right:
        places = " and ".join(place for place in PLACES if place in scheme.acts_on)
        raise ConfigError(f"{type(scheme).__name__} acts on {places}: call it with {expected}.")


def require_choice(option: str, value: str, known: tuple[str, ...]) -> None:
    """Raise ConfigError unless the value of an option is one of the known ones."""
    if value not in known:
        raise ConfigError(f"Unknown {option} '{value}'.{nearest(str(value), known)} Known: {', '.join(known)}.")
