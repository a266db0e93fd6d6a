"""The base class of positional schemes, with the three places where a Transformer can be told where a token stands.

Notation used throughout the package:
    B batch, H heads, L sequence length, Q and K numbers of queries and keys, D features of a head, E model width.

Positions are integer tensors, counted in tokens from 0, of shape ``[L]`` (the same for every row) or ``[B, L]``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from torch import Tensor, nn

from locant.errors import ConfigError, nearest

if TYPE_CHECKING:
    from locant.positions.rotary.config import RotaryConfig

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""What FlexAttention does to scores: a function of a score and the indices of batch, head, query and key."""

Place = Literal["embedding", "queries+keys", "scores"]
"""Where a scheme can act: ``embed``, ``rotate`` and ``score_bias`` are the hooks."""

_HOOKS: dict[Place, str] = {"embedding": "embed", "queries+keys": "rotate", "scores": "score_bias"}
PLACES: tuple[Place, ...] = get_args(Place)


@dataclass(frozen=True)
class AttentionShape:
    """The dimensions of a model that a scheme may depend on.

    Attributes:
        model_dim: Width of the model, ``E``.
        num_heads: Number of attention heads, ``H``; each has ``D = E / H`` features.
        causal: Whether queries see only keys at or before their own index (a decoder's self-attention).
    """

    model_dim: int
    num_heads: int
    causal: bool

    @property
    def head_dim(self) -> int:
        """Features of one head, ``D``."""
        return self.model_dim // self.num_heads


class PositionScheme(nn.Module):
    """A positional scheme: overrides the places where it acts and leaves the others alone.

    A constructor takes the dimensions as positional arguments and its options as keyword-only arguments; the
    registry reads the option names from there. What tables, figures, exporters and comparisons have to know about a
    scheme it says itself, in the facts below and in :meth:`options_for_lengths`, :meth:`code`, :meth:`distance_bias`
    and :attr:`rotary_config`.

    A scheme is called like any torch module, with what it acts on (:meth:`forward`)::

        x = sinusoidal(x, positions)                         # acts on the embedding
        q, k = rope(q, k, positions)                         # acts on queries and keys
        bias = alibi(q, k, positions)                        # acts on the scores
        q, k, bias = deberta(q, k, positions)                # acts on both
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

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Note the places whose hooks a class overrides."""
        super().__init_subclass__(**arguments)
        if "acts_on" not in cls.__dict__:
            cls.acts_on = frozenset(
                place for place, hook in _HOOKS.items() if getattr(cls, hook) is not getattr(PositionScheme, hook)
            )

    packs_texts: ClassVar[bool] = True
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
    def bias_reads_keys(self) -> bool:
        """Whether :meth:`score_bias` looks at the keys, or at their positions alone.

        A scheme that rotates keys as well and whose bias looks at positions alone may say so: then decoding with a
        cache need not rotate the keys of earlier tokens once more at every step.
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

    @classmethod
    def options_for_lengths(cls, *, head_dim: int, trained: int, longest: int) -> dict[str, Any]:
        """Return the options that follow from the lengths of a comparison, so that no scheme is at an advantage.

        Args:
            head_dim: Features of one head, ``D``.
            trained: Longest training text, in tokens.
            longest: Longest test text, in tokens.
        """
        del head_dim, trained, longest
        return {}

    def reset_parameters(self) -> None:
        """Draw the scheme's parameters anew; a scheme without parameters has nothing to do."""

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

    @property
    def wave_pairs(self) -> tuple[tuple[float, int, int], ...]:
        """The pairs of features of :meth:`code` that are sine and cosine of the position, the fastest first.

        Each is the tokens of a full turn, the index of the sine and that of the cosine; no pairs are the rule.
        """
        return ()

    @property
    def bit_features(self) -> tuple[int, ...]:
        """The features of :meth:`code` that are the binary digits of the position, the lowest digit first.

        No digits are the rule.
        """
        return ()

    def distance_bias(self, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, int] | None:
        """Return the bias of every relative position from the lowest to the highest that occurs.

        A relative position is ``k_position - q_position`` in tokens: negative for keys before the query.

        Args:
            q_positions: Integer positions ``[Q]`` or ``[B, Q]``, at least one.
            k_positions: Integer positions ``[K]`` or ``[B, K]``, at least one.

        Returns:
            The biases ``[H, n]`` and the relative position of the first; ``None``, which is the rule, where
            :meth:`score_bias` depends on more than the relative position.
        """
        del q_positions, k_positions
        return None

    def forward(
        self,
        x: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        k_positions: Tensor | None = None,
        *,
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
            k_positions: Integer positions of the keys, ``[K]`` or ``[B, K]``; those of the queries unless given.
            heads_last: Whether queries and keys are ``[B, L, H, D]`` and not ``[B, H, L, D]``; a bias is
                ``[B, H, Q, K]`` either way. Nothing is copied for that.

        Raises:
            ConfigError: The scheme acts somewhere else.
        """
        if positions is None:
            _require_place(self, not self.acts_on or "embedding" in self.acts_on, "queries, keys and positions")
            return self.embed(x, k)
        _require_place(self, self.acts_on != {"embedding"}, "embeddings and positions")
        k_positions = positions if k_positions is None else k_positions
        rotates, biases = "queries+keys" in self.acts_on, "scores" in self.acts_on
        if heads_last:
            x, k = x.transpose(1, 2), k.transpose(1, 2)
        bias = self.score_bias(x, k, positions, k_positions) if biases else None
        if biases and not rotates:
            return bias
        rotated = self.rotate(x, k, positions, k_positions)
        if heads_last:
            rotated = rotated[0].transpose(1, 2), rotated[1].transpose(1, 2)
        return (*rotated, bias) if biases else rotated

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Tell the input embeddings where they stand.

        Args:
            x: Token embeddings ``[B, L, E]``, any floating dtype.
            positions: Integer positions ``[L]`` or ``[B, L]``.

        Returns:
            Embeddings ``[B, L, E]`` of the dtype of ``x``.
        """
        del positions
        return x

    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        """Tell queries and keys where they stand.

        Args:
            q: Queries ``[B, H, Q, D]``.
            k: Keys ``[B, H, K, D]``.
            q_positions: Integer positions ``[Q]`` or ``[B, Q]``.
            k_positions: Integer positions ``[K]`` or ``[B, K]``.

        Returns:
            Queries and keys of the same shapes and dtypes.
        """
        del q_positions, k_positions
        return q, k

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

    def score_mod(
        self,
        q: Tensor,
        k: Tensor,
        q_positions: Tensor,
        k_positions: Tensor | None = None,
        *,
        max_length: int | None = None,
    ) -> ScoreMod | None:
        """Return the bias as a function for ``torch.nn.attention.flex_attention``, which gets it as ``score_mod``.

        It adds to the score of every pair what :meth:`score_bias` says. A scheme whose bias depends on the distance
        alone, and Shaw's, hold no number for each pair; the function of any other scheme holds the bias of all pairs.

        Args:
            q: Queries ``[B, H, Q, D]``, before :meth:`rotate`.
            k: Keys ``[B, H, K, D]``, before :meth:`rotate`.
            q_positions: Integer positions ``[Q]`` or ``[B, Q]``.
            k_positions: Integer positions ``[K]`` or ``[B, K]``; those of the queries unless given.
            max_length: A length in tokens that no distance between a query and a key which it sees reaches, where one
                is known. Then no position is read; in a compiled graph it keeps a bias of distances from being written
                out for all pairs.

        Returns:
            A function of a score and the indices of batch, head, query and key; ``None`` where the scheme adds nothing.
        """
        del max_length
        bias = self.score_bias(q, k, q_positions, q_positions if k_positions is None else k_positions)
        if bias is None:
            return None
        every = bias.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        return lambda score, b, h, i, j: score + every[b, h, i, j]

    def score_features(self, q: Tensor, k: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the bias of causal self-attention as products of further features, where it can be said that way.

        Then no bias has to exist for any pair. What depends on the query alone may be left out: the softmax ignores it.

        Args:
            q: Queries ``[B, H, L, D]``.
            k: Keys ``[B, H, L, D]`` at the same positions.
            k_positions: Integer positions ``[L]`` or ``[B, L]``.

        Returns:
            Features ``[B, H, L, N]`` of queries and of keys, in the dtype of ``q``, whose products are added to those
            of ``q`` and ``k`` before these are scaled, or ``None``, which is the rule.
        """
        del q, k, k_positions
        return None


def _require_place(scheme: PositionScheme, right: bool, expected: str) -> None:
    if not right:
        places = " and ".join(place for place in PLACES if place in scheme.acts_on)
        raise ConfigError(f"{type(scheme).__name__} acts on {places}: call it with {expected}.")


def require_choice(option: str, value: str, known: tuple[str, ...]) -> None:
    """Raise ConfigError unless the value of an option is one of the known ones."""
    if value not in known:
        raise ConfigError(f"Unknown {option} '{value}'.{nearest(str(value), known)} Known: {', '.join(known)}.")
