"""The recurrent encoder-decoder with additive attention that the Transformer replaced.

Source: Bahdanau, Cho and Bengio 2015, "Neural Machine Translation by Jointly Learning to Align and Translate",
arXiv:1409.0473, section 3 and appendix A. Differences to the paper, all common since: several layers are possible, the
cell may be an LSTM, dropout is on embeddings, between layers and before the output, embeddings may be shared and
tied as in the Transformer, and weights are drawn wider.

Notation: B sentences, S source tokens, T target tokens, E ``d_model``, N ``hidden_size``, G gates of a cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from locant.errors import ConfigError
from locant.models.dropout import Dropout
from locant.models.encoder_decoder import MOST_LAYERS, WIDEST, AlignmentStep, EncoderDecoder, EncoderDecoderConfig

_LAYERS: dict[str, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}
_GATES = {"gru": 3, "lstm": 4}


class RNNConfig(EncoderDecoderConfig):
    """Dimensions and choices of the recurrent model; the defaults are the paper's RNNsearch (section 4.2)."""

    architecture: Literal["rnn"] = "rnn"
    cell: Literal["gru", "lstm"] = "gru"
    encoder_layers: int = Field(1, ge=1, le=MOST_LAYERS)
    decoder_layers: int = Field(1, ge=1, le=MOST_LAYERS)
    d_model: int = Field(620, ge=1, le=WIDEST, description="Size of the embeddings and of what the output layer sees")
    hidden_size: int = Field(
        1000, ge=1, le=WIDEST, description="Of the decoder, of each direction of the encoder, of attention"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="On embeddings, between layers and before the output")
    share_embeddings: bool = Field(True, description="One embedding matrix for source and target (joint vocabulary)")
    tie_output: bool = Field(True, description="The output projection is the target embedding matrix")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.share_embeddings and self.source_vocab_size != self.target_vocab_size:
            raise ConfigError(
                f"share_embeddings needs one joint vocabulary, but source_vocab_size is {self.source_vocab_size} and "
                f"target_vocab_size is {self.target_vocab_size}"
            )
        return self


@dataclass
class RNNState:
    """What the decoder remembers between two steps.

    Attributes:
        memory: The encoder's output (the paper's annotations ``h_j``), ``[B, S, 2N]``.
        keys: Their share of the alignment model, ``U_a h_j``, computed once; ``[B, S, N]``.
        mask: Which source tokens are real, bool ``[B, S]``.
        hidden: State of each layer, ``[layers, B, N]``.
        cells: Cell state of each layer of an LSTM, likewise; a GRU has none.
    """

    memory: Tensor
    keys: Tensor
    mask: Tensor
    hidden: Tensor
    cells: Tensor | None

    def select(self, rows: Tensor, *, same_sources: bool = False) -> None:
        """Keep the given rows of the batch; as :meth:`locant.models.DecoderCache.select`."""
        if not same_sources:
            self.memory = self.memory.index_select(0, rows)
            self.keys = self.keys.index_select(0, rows)
            self.mask = self.mask.index_select(0, rows)
        self.hidden = self.hidden.index_select(1, rows)
        if self.cells is not None:
            self.cells = self.cells.index_select(1, rows)


class AdditiveAttention(nn.Module):
    """Attention of one decoder state to the encoder's output (section A.1.2).

    ::

        e_j = v_a . tanh(W_a s + U_a h_j)      alpha = softmax_j(e)      c = sum_j alpha_j h_j
    """

    def __init__(self, size: int, memory_size: int) -> None:
        super().__init__()
        self.query = nn.Linear(size, size, bias=False)
        self.key = nn.Linear(memory_size, size, bias=False)
        self.energy = nn.Linear(size, 1, bias=False)

    def forward(self, query: Tensor, keys: Tensor, memory: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Attend.

        Args:
            query: The state ``s``, ``[B, N]``.
            keys: ``U_a h_j``, which :attr:`key` makes of ``memory``; ``[B, S, N]``.
            memory: ``h_j``, ``[B, S, M]``.
            mask: Which of them are real, bool ``[B, S]``.

        Returns:
            The context ``c [B, M]`` and the weights ``alpha [B, S]``.
        """
        energies = self.energy(torch.tanh(self.query(query).unsqueeze(1) + keys)).squeeze(2)
        weights = energies.masked_fill(~mask, -torch.inf).softmax(1)
        return torch.bmm(weights.to(memory.dtype).unsqueeze(1), memory).squeeze(1), weights


class AttentiveDecoder(nn.Module):
    """The recurrent decoder: a layer that attends before each of its steps, and layers above it.

    The layer that attends is a GRU (section A.2.2) or LSTM cell, gates in the order of :class:`torch.nn.GRUCell` and
    :class:`torch.nn.LSTMCell`, whose input is the previous token's embedding and the context found with its previous
    state. Attention to the lowest layer alone (as in Wu et al. 2016, section 3) lets the layers above run over all
    steps at once. The readout is a maxout layer (equation 4 and section A.2.2) of top state, embedding and context.
    """

    def __init__(self, config: RNNConfig) -> None:
        super().__init__()
        size, gates = config.hidden_size, _GATES[config.cell]
        self.lstm = config.cell == "lstm"
        self.initial = nn.Linear(size, config.decoder_layers * size)
        self.attention = AdditiveAttention(size, 2 * size)
        self.embedding_gates = nn.Linear(config.d_model, gates * size)
        self.context_gates = nn.Linear(2 * size, gates * size, bias=False)
        self.state_gates = nn.Linear(size, gates * size)
        above = config.decoder_layers - 1
        self.upper = (
            _LAYERS[config.cell](size, size, above, batch_first=True, dropout=config.dropout if above > 1 else 0.0)
            if above
            else None
        )
        self.readout = nn.Linear(config.d_model + 3 * size, 2 * config.d_model)
        self.dropout = Dropout(config.dropout)

    def start(self, memory: Tensor, source_lengths: Tensor) -> RNNState:
        """Return the state before the first token: ``tanh(W_s h)`` of the encoder's backward state at the first word.

        Args:
            memory: The encoder's output ``[B, S, 2N]``.
            source_lengths: Number of real tokens of each row, ``[B]``.
        """
        size = self.attention.query.in_features
        backward = memory[:, 0, size:]
        hidden = torch.stack(self.initial(backward).tanh().split(size, dim=1))
        mask = torch.arange(memory.shape[1], device=memory.device) < source_lengths.unsqueeze(1)
        cells = torch.zeros_like(hidden) if self.lstm else None
        return RNNState(memory, self.attention.key(memory), mask, hidden, cells)

    def forward(self, x: Tensor, state: RNNState) -> Tensor:
        """Decode embeddings ``[B, T, E]`` of the tokens that follow, and go on with the state.

        Returns:
            The readout ``[B, T, E]``.
        """
        hidden = state.hidden[0]
        cell = state.cells[0] if state.cells is not None else None
        states, contexts = [], []
        for embedded in self.embedding_gates(x).unbind(1):
            context, _ = self.attention(hidden, state.keys, state.memory, state.mask)
            hidden, cell = self._cell(embedded + self.context_gates(context), hidden, cell)
            states.append(hidden)
            contexts.append(context)
        top, new_hidden = torch.stack(states, dim=1), hidden.unsqueeze(0)
        new_cells = cell.unsqueeze(0) if cell is not None else None
        if self.upper is not None:
            upper_hidden = state.hidden[1:].contiguous()
            if isinstance(self.upper, nn.LSTM):
                assert state.cells is not None
                assert new_cells is not None
                top, (upper_hidden, upper_cells) = self.upper(
                    self.dropout(top), (upper_hidden, state.cells[1:].contiguous())
                )
                new_cells = torch.cat((new_cells, upper_cells))
            else:
                top, upper_hidden = self.upper(self.dropout(top), upper_hidden)
            new_hidden = torch.cat((new_hidden, upper_hidden))
        state.hidden, state.cells = new_hidden, new_cells
        seen = torch.cat((top, x, torch.stack(contexts, dim=1)), dim=2)
        return self.dropout(torch.maximum(*self.readout(seen).chunk(2, dim=2)))

    def _cell(self, given: Tensor, hidden: Tensor, cell: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Do one step from the inputs' share of the gates ``[B, G * N]``."""
        recurrent = self.state_gates(hidden)
        if cell is None:
            size = hidden.shape[1]
            reset, update = (given[:, : 2 * size] + recurrent[:, : 2 * size]).sigmoid().chunk(2, dim=1)
            proposed = torch.tanh(given[:, 2 * size :] + reset * recurrent[:, 2 * size :])
            return torch.lerp(proposed, hidden, update), None
        entry, forget, proposed, exit_ = (given + recurrent).chunk(4, dim=1)
        cell = forget.sigmoid() * cell + entry.sigmoid() * proposed.tanh()
        return exit_.sigmoid() * cell.tanh(), cell


class RNN(EncoderDecoder[RNNState]):
    """Recurrent encoder-decoder with additive attention over token ids.

    Args:
        config: Dimensions and choices.

    Example:
        >>> model = RNN(RNNConfig(source_vocab_size=100, target_vocab_size=100, d_model=16, hidden_size=32))
        >>> logits = model(torch.ones(2, 5, dtype=torch.long), torch.tensor([5, 3]), torch.ones(2, 7, dtype=torch.long))
        >>> logits.shape
        torch.Size([2, 7, 100])
    """

    def __init__(self, config: RNNConfig) -> None:
        super().__init__()
        self.config: RNNConfig = config
        self.target_embedding = nn.Embedding(config.target_vocab_size, config.d_model)
        if config.share_embeddings:
            self.source_embedding = self.target_embedding
        else:
            self.source_embedding = nn.Embedding(config.source_vocab_size, config.d_model)
        layers = config.encoder_layers
        self.encoder = _LAYERS[config.cell](
            config.d_model,
            config.hidden_size,
            layers,
            batch_first=True,
            bidirectional=True,
            dropout=config.dropout if layers > 1 else 0.0,
        )
        self.decoder = AttentiveDecoder(config)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.d_model, config.target_vocab_size, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw orthogonal recurrent matrices (section B.1), Xavier-uniform others, and set the biases to zero.

        Embeddings are drawn as those of the Transformer. The forget gates of an LSTM have a bias of 1 (Jozefowicz et
        al. 2015, section 2.2).
        """
        if self.config.tie_output:
            self.output.weight = self.target_embedding.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() == 1:
                nn.init.zeros_(parameter)
                if self.config.cell == "lstm" and ("bias_ih" in name or "embedding_gates" in name):
                    nn.init.ones_(parameter.chunk(4)[1])
            elif "embedding." in name:
                # Times sqrt(E) at the input this has unit variance; untouched, it suits the tied output.
                nn.init.normal_(parameter, std=self.config.d_model**-0.5)
            else:
                recurrent = "weight_hh" in name or "state_gates" in name
                gated = recurrent or "weight_ih" in name or name.endswith("_gates.weight")
                for matrix in parameter.chunk(_GATES[self.config.cell] if gated else 1):
                    (nn.init.orthogonal_ if recurrent else nn.init.xavier_uniform_)(matrix)

    def encode(self, source: Tensor, source_lengths: Tensor) -> Tensor:
        """Return forward and backward states of every source token (section 3.2), ``[B, S, 2N]``.

        Args:
            source: Integer ids ``[B, S]``, padded on the right.
            source_lengths: Number of real tokens of each row, ``[B]``.
        """
        # Packed, so that the backward direction begins at the last real token of each row.
        packed = pack_padded_sequence(
            self._embed(self.source_embedding, source), source_lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        memory, _ = pad_packed_sequence(self.encoder(packed)[0], batch_first=True, total_length=source.shape[1])
        return memory

    def start(self, memory: Tensor, source_lengths: Tensor) -> RNNState:
        """Return the state for decoding step by step from the encoder's output ``[B, S, 2N]``."""
        return self.decoder.start(memory, source_lengths)

    def step(self, target: Tensor, cache: RNNState) -> Tensor:
        """Decode the next target ids ``[B, T]``, go on with the state and return logits ``[B, T, V]``."""
        return self.output(self.decoder(self._embed(self.target_embedding, target), cache))

    def hidden(self, source: Tensor, source_lengths: Tensor, target: Tensor) -> Tensor:
        """Return the decoder's readout ``[B, T, E]``, before the projection to the vocabulary."""
        state = self.start(self.encode(source, source_lengths), source_lengths)
        return self.decoder(self._embed(self.target_embedding, target), state)

    def alignment_weights(
        self,
        source: Tensor,
        source_lengths: Tensor,
        target: Tensor,
        *,
        layer: int | None = None,
        step: AlignmentStep | None = None,
    ) -> Tensor:
        """Return from which source tokens each target token comes, ``[B, T, S]``, see the base class.

        The weights are always those with which the token is predicted (section 3.1), and only one layer attends.
        """
        del layer, step
        state = self.start(self.encode(source, source_lengths), source_lengths)
        rows = [torch.zeros(source.shape, device=source.device)]
        for number in range(target.shape[1] - 1):
            _, weights = self.decoder.attention(state.hidden[0], state.keys, state.memory, state.mask)
            rows.append(weights.float())
            self.decoder(self._embed(self.target_embedding, target[:, number : number + 1]), state)
        return torch.stack(rows, dim=1)

    def _embed(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        return self.dropout(embedding(ids) * math.sqrt(self.config.d_model))
