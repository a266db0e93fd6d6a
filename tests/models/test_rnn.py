"""The recurrent model against the paper's formulas, and what search and training expect of every model."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from locant.errors import ConfigError
from locant.models import (
    RNN,
    AdditiveAttention,
    RNNConfig,
    Transformer,
    build_model,
    count_parameters,
    parse_model_config,
    require_transformer,
)
from locant.text import PAD
from locant.translation import beam_search

VOCABULARY = 12
KINDS = [("gru", 1), ("lstm", 1), ("gru", 3), ("lstm", 2)]


def tiny_rnn(seed: int = 0, sharpness: float = 1.0, **changes: Any) -> RNN:
    """A random model; ``sharpness`` scales the output so that its distributions are less even."""
    torch.manual_seed(seed)
    sizes = {"source_vocab_size": VOCABULARY, "target_vocab_size": VOCABULARY, "d_model": 6, "hidden_size": 5}
    model = RNN(RNNConfig.parse({**sizes, "tie_output": False, **changes})).eval()
    with torch.no_grad():
        # Fresh biases are zero, which would hide one that is left out.
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
        model.output.weight.mul_(sharpness)
    return model


def random_batch(rows: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 8, (rows,), generator=generator)
    source = torch.randint(4, VOCABULARY, (rows, int(lengths.max())), generator=generator)
    source[torch.arange(source.shape[1]) >= lengths.unsqueeze(1)] = PAD
    return source, lengths, torch.randint(1, 12, (rows,), generator=generator)


def test_attention_is_bahdanaus_formula() -> None:
    """Equations 5 and 6 and section A.1.2, number by number."""
    torch.manual_seed(2)
    attention = AdditiveAttention(3, 4).double()
    query, memory = torch.randn(2, 3).double(), torch.randn(2, 5, 4).double()
    mask = torch.arange(5) < torch.tensor([[5], [3]])
    context, weights = attention(query, attention.key(memory), memory, mask)
    w, u, v = attention.query.weight.tolist(), attention.key.weight.tolist(), attention.energy.weight[0].tolist()
    for row, length in enumerate((5, 3)):
        s, h = query[row].tolist(), memory[row].tolist()
        energies = []
        for j in range(length):
            inner = [sum(w[i][k] * s[k] for k in range(3)) + sum(u[i][k] * h[j][k] for k in range(4)) for i in range(3)]
            energies.append(sum(v[i] * math.tanh(inner[i]) for i in range(3)))
        total = sum(map(math.exp, energies))
        alpha = [math.exp(energy) / total for energy in energies]
        assert weights[row].tolist() == pytest.approx([*alpha, *[0.0] * (5 - length)], rel=1e-12)
        expected = [sum(alpha[j] * h[j][k] for j in range(length)) for k in range(4)]
        assert context[row].tolist() == pytest.approx(expected, rel=1e-12)


def written_out(model: RNN, source: Tensor, target: Tensor) -> Tensor:
    """The logits ``[T, V]`` of one pair, with torch's own cells and the equations of the paper."""
    config, decoder = model.config, model.decoder
    encoder = type(model.encoder)(config.d_model, config.hidden_size, config.encoder_layers, bidirectional=True)
    encoder.double().load_state_dict(model.encoder.state_dict())
    scale = math.sqrt(config.d_model)
    annotations = encoder(model.source_embedding(source) * scale)[0]
    cell = (nn.LSTMCell if config.cell == "lstm" else nn.GRUCell)(
        config.d_model + 2 * config.hidden_size, config.hidden_size
    ).double()
    weight = torch.cat((decoder.embedding_gates.weight, decoder.context_gates.weight), dim=1)
    cell.load_state_dict(
        {
            "weight_ih": weight,
            "bias_ih": decoder.embedding_gates.bias,
            "weight_hh": decoder.state_gates.weight,
            "bias_hh": decoder.state_gates.bias,
        }
    )
    first = torch.tanh(decoder.initial(annotations[0, config.hidden_size :])).view(config.decoder_layers, -1)
    s, c = first[0], torch.zeros_like(first[0])
    states, contexts = [], []
    for token in target:
        e = decoder.attention.energy(torch.tanh(decoder.attention.query(s) + decoder.attention.key(annotations)))
        context = (e.softmax(0) * annotations).sum(0)
        x = torch.cat((model.target_embedding(token) * scale, context))
        if config.cell == "lstm":
            s, c = cell(x, (s, c))
        else:
            s = cell(x, s)
        states.append(s)
        contexts.append(context)
    top = torch.stack(states)
    if decoder.upper is not None:
        begin = first[1:].contiguous()
        top = decoder.upper(top, (begin, torch.zeros_like(begin)) if config.cell == "lstm" else begin)[0]
    seen = torch.cat((top, model.target_embedding(target) * scale, torch.stack(contexts)), dim=1)
    maxout = torch.maximum(*decoder.readout(seen).chunk(2, dim=1))
    return maxout @ model.output.weight.T


@pytest.mark.parametrize(("cell", "layers"), KINDS)
@pytest.mark.parametrize("encoder_layers", [1, 2])
def test_the_model_is_what_the_paper_describes(cell: str, layers: int, encoder_layers: int) -> None:
    model = tiny_rnn(cell=cell, decoder_layers=layers, encoder_layers=encoder_layers).double()
    source, lengths, _ = random_batch(4, seed=3)
    target = torch.randint(4, VOCABULARY, (4, 6))
    logits = model(source, lengths, target)
    assert logits.shape == (4, 6, VOCABULARY)
    for row, length in enumerate(lengths.tolist()):
        expected = written_out(model, source[row, :length], target[row])
        torch.testing.assert_close(logits[row], expected, rtol=1e-10, atol=1e-12)


def test_the_papers_size() -> None:
    """RNNsearch of section 4.2 by its own matrices (A.1.2 to A.2.3, B.1), with a maxout of 620 instead of 500."""
    words, m, n = 30000, 620, 1000
    config = RNNConfig(source_vocab_size=words, target_vocab_size=words, share_embeddings=False, tie_output=False)
    with torch.device("meta"):
        model = RNN(config)
    matrices = 3 * words * m  # embeddings and output
    matrices += 2 * 3 * (n * m + n * n)  # encoder, W and U of both directions
    matrices += 3 * (n * m + n * n + 2 * n * n) + n * n  # decoder, W, U and C; W_s
    matrices += n * n + 2 * n * n + n  # W_a, U_a, v_a
    matrices += 2 * m * (n + m + 2 * n)  # U_o, V_o, C_o
    assert sum(p.numel() for p in model.parameters() if p.dim() > 1) == matrices
    assert count_parameters(model) - matrices == 2 * 2 * 3 * n + 2 * 3 * n + n + 2 * m  # biases as torch has them


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("cell", "layers"), KINDS)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), cut=st.integers(1, 5))
def test_step_by_step_equals_all_at_once(cell: str, layers: int, seed: int, cut: int) -> None:
    model = tiny_rnn(seed, cell=cell, decoder_layers=layers, encoder_layers=2)
    source, lengths, _ = random_batch(3, seed)
    target = torch.randint(4, VOCABULARY, (3, 6))
    state = model.start(model.encode(source, lengths), lengths)
    pieces = [model.step(target[:, :cut], state), *(model.step(target[:, [t]], state) for t in range(cut, 6))]
    torch.testing.assert_close(torch.cat(pieces, dim=1), model(source, lengths, target), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("cell", "layers"), KINDS)
def test_gradients_are_differences(cell: str, layers: int) -> None:
    """Along a random direction of all parameters, in float64."""
    model = tiny_rnn(cell=cell, decoder_layers=layers, share_embeddings=False).double()
    source, lengths, _ = random_batch(3, seed=1)
    target = torch.randint(4, VOCABULARY, (3, 4))

    def loss() -> Tensor:
        return nn.functional.cross_entropy(model(source, lengths, target).flatten(0, 1), target.flatten())

    loss().backward()
    parameters = dict(model.named_parameters())
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in parameters.values())
    directions = {name: torch.randn_like(parameter) for name, parameter in parameters.items()}
    slope = sum(float((parameter.grad * directions[name]).sum()) for name, parameter in parameters.items())
    values = []
    with torch.no_grad():
        for sign in (1, -2):
            for name, parameter in parameters.items():
                parameter.add_(directions[name], alpha=sign * 1e-5)
            values.append(float(loss()))
    assert (values[0] - values[1]) / 2e-5 == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_dropout_acts_in_training_alone(cell: str) -> None:
    model = tiny_rnn(cell=cell, dropout=0.5, encoder_layers=2, decoder_layers=3)
    source, lengths, _ = random_batch(3, seed=1)
    target = torch.randint(4, VOCABULARY, (3, 4))
    assert torch.equal(model(source, lengths, target), model(source, lengths, target))
    model.train()
    assert not torch.allclose(model(source, lengths, target), model(source, lengths, target))


def test_initial_weights() -> None:
    model = RNN(RNNConfig(source_vocab_size=50, target_vocab_size=50, d_model=24, hidden_size=32, cell="lstm"))
    assert model.output.weight is model.target_embedding.weight is model.source_embedding.weight
    recurrent = [model.decoder.state_gates.weight, model.encoder.weight_hh_l0, model.encoder.weight_hh_l0_reverse]
    for matrix in recurrent:
        for gate in matrix.chunk(4):
            torch.testing.assert_close(gate @ gate.T, torch.eye(32), rtol=0, atol=1e-5)
    for gate in model.decoder.context_gates.weight.chunk(4):  # Xavier: sqrt(6 / (fan in + fan out))
        assert 0.9 < float(gate.abs().max()) / math.sqrt(6 / (64 + 32)) <= 1
    for bias in (model.decoder.embedding_gates.bias + model.decoder.state_gates.bias, model.encoder.bias_ih_l0):
        torch.testing.assert_close(bias, torch.tensor([0.0, 1.0, 0.0, 0.0]).repeat_interleave(32))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("cell", "layers"), KINDS)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10_000), beam=st.integers(1, 4), sharpness=st.sampled_from([1.0, 5.0]))
def test_a_sentence_is_translated_the_same_alone_and_in_any_batch(
    cell: str, layers: int, seed: int, beam: int, sharpness: float
) -> None:
    """Finished sentences leave the batch and others are padded; neither may change a result."""
    model = tiny_rnn(seed, sharpness, cell=cell, decoder_layers=layers)
    source, lengths, limits = random_batch(7, seed)
    together = beam_search(model, source, lengths, limits, beam=beam, n_best=beam)
    for row in range(4):
        own = source[row : row + 1, : lengths[row]], lengths[row : row + 1], limits[row : row + 1]
        (alone,) = beam_search(model, *own, beam=beam, n_best=beam)
        for one, other in zip(alone, together[row], strict=True):
            assert one.tokens == other.tokens
            assert one.score == pytest.approx(other.score, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architecture": "rrn"}, "unknown architecture 'rrn'. Did you mean 'rnn'.*Known: transformer, rnn"),
        ({"heads": 4, "position": "rotary"}, "a Transformer has the options heads, position, but.*rnn has not"),
        ({"hidden": 4}, "unknown key 'hidden'. Did you mean 'hidden_size'"),
        ({"source_vocab_size": 9}, "share_embeddings needs one joint vocabulary"),
    ],
)
def test_wrong_configurations(change: dict[str, Any], message: str) -> None:
    right = {"architecture": "rnn", "source_vocab_size": 8, "target_vocab_size": 8}
    with pytest.raises(ConfigError, match=message):
        parse_model_config({**right, **change})


def test_models_are_built_from_their_configurations() -> None:
    sizes = {"source_vocab_size": 8, "target_vocab_size": 8, "d_model": 8}
    rnn = build_model(parse_model_config({**sizes, "architecture": "rnn", "hidden_size": 4}))
    transformer = build_model(parse_model_config({**sizes, "heads": 2, "d_ff": 8}))
    assert isinstance(rnn, RNN)
    assert isinstance(transformer, Transformer)
    assert require_transformer(transformer, "Looking inside") is transformer
    with pytest.raises(ConfigError, match="Looking inside needs a Transformer, but this model's architecture is rnn"):
        require_transformer(rnn, "Looking inside")
