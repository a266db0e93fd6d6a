"""What must hold for every positional scheme, before and after the norm: only the past and only real tokens count."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from locant.errors import DataError
from locant.models import CrossAttention, SelfAttention, Transformer, TransformerConfig, count_parameters, preset
from locant.models.blocks import FeedForward
from locant.models.dropout import Dropout
from locant.positions import SCHEMES

every_scheme = pytest.mark.parametrize("position", sorted(set(SCHEMES) - {"fox"}))  # those of an encoder
both_norms = pytest.mark.parametrize("norm", ["post", "pre"])


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def ids(rows: int, length: int) -> Tensor:
    return torch.randint(1, 30, (rows, length), generator=torch.Generator().manual_seed(100 * rows + length))


LENGTHS = torch.tensor([6, 3, 1])


@pytest.mark.sampled(8)
@every_scheme
@both_norms
def test_no_output_depends_on_a_later_token(build_model: Any, position: str, norm: str) -> None:
    model, source, target = build_model(position=position, norm=norm), ids(3, 6), ids(3, 8)
    expected = model(source, LENGTHS, target)
    for changed in range(1, 8):
        other = target.clone()
        other[:, changed] = 31 - other[:, changed] - 1
        assert (other[:, changed] != target[:, changed]).any()
        logits = model(source, LENGTHS, other)
        assert torch.allclose(logits[:, :changed], expected[:, :changed], rtol=0, atol=1e-6)
        assert not torch.allclose(logits[:, changed], expected[:, changed], atol=1e-3)


@pytest.mark.sampled(8)
@every_scheme
@both_norms
def test_a_sentence_alone_is_a_sentence_in_a_batch(build_model: Any, position: str, norm: str) -> None:
    model, source, target = build_model(position=position, norm=norm), ids(3, 6), ids(3, 8)
    together, memory = model(source, LENGTHS, target), model.encode(source, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        one = slice(row, row + 1)
        assert torch.allclose(memory[one, :length], model.encode(source[one, :length], LENGTHS[one]), rtol=0, atol=1e-5)
        alone = model(source[one, :length], LENGTHS[one], target[one, :5])
        assert torch.allclose(together[one, :5], alone, rtol=0, atol=1e-5)
    other = source.clone()
    other[torch.arange(6) >= LENGTHS[:, None]] = 29
    assert torch.allclose(model(other, LENGTHS, target), together, rtol=0, atol=1e-6)


@pytest.mark.sampled(16)
@every_scheme
@both_norms
@pytest.mark.parametrize("chunks", [[1] * 20, [3, 1, 14, 2], [20]], ids=["tokens", "chunks", "whole"])
def test_decoding_with_a_cache_equals_decoding_at_once(
    build_model: Any, position: str, norm: str, chunks: list[int]
) -> None:
    model, source, target = build_model(position=position, norm=norm), ids(3, 6), ids(3, 20)
    cache = model.start(model.encode(source, LENGTHS), LENGTHS)
    logits = torch.cat([model.step(part, cache) for part in target.split(chunks, dim=1)], dim=1)
    assert cache.length == 20
    assert torch.allclose(logits, model(source, LENGTHS, target), rtol=0, atol=1e-4)


@pytest.mark.sampled(10)
@every_scheme
def test_a_cache_follows_the_rows_it_is_asked_to_keep(build_model: Any, position: str) -> None:
    model, source, start = build_model(position=position), ids(3, 6), ids(3, 5)
    cache = model.start(model.encode(source, LENGTHS), LENGTHS)
    model.step(start, cache)
    rows = torch.tensor([2, 0, 0, 1])
    cache.select(rows)
    rest = ids(4, 14)
    logits = torch.cat([model.step(part, cache) for part in rest.split([1, 13], dim=1)], dim=1)
    expected = model(source[rows], LENGTHS[rows], torch.cat((start[rows], rest), dim=1))
    assert torch.allclose(logits, expected[:, 5:], rtol=0, atol=1e-4)


@pytest.mark.sampled(20)
@every_scheme
@both_norms
def test_only_a_model_without_positions_reads_a_bag_of_words(build_model: Any, position: str, norm: str) -> None:
    model, source = build_model(position=position, norm=norm), torch.arange(1, 7).unsqueeze(0)
    order, length = torch.tensor([3, 0, 5, 1, 4, 2]), torch.tensor([6])
    permuted = model.encode(source[:, order], length)
    same = torch.allclose(permuted, model.encode(source, length)[:, order], rtol=0, atol=1e-5)
    assert same is (position == "none")


@pytest.mark.sampled(4)
@every_scheme
def test_every_scheme_trains(build_model: Any, position: str) -> None:
    model = build_model(position=position).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    source, target = ids(3, 6), ids(3, 7)
    losses = []
    with torch.enable_grad():
        for _ in range(8):
            optimizer.zero_grad()
            logits = model(source, LENGTHS, target[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    for name, parameter in model.named_parameters():
        if "scheme" in name:
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
    assert losses[-1] < losses[0]


def test_the_limit_of_learned_positions_is_the_limit_of_the_model(build_model: Any) -> None:
    model = build_model(position="learned", position_options={"max_positions": 6})
    assert model.max_positions == 6
    assert build_model().max_positions is None
    model(ids(3, 6), LENGTHS, ids(3, 6))
    with pytest.raises(DataError, match="Position 6 is outside the 6 known positions"):
        model(ids(3, 6), LENGTHS, ids(3, 7))


# Sizes and initial values


def expected_size(vocabulary: int, layers: int, dim: int, inner: int) -> int:
    attention, norm, feed_forward = 4 * (dim * dim + dim), 2 * dim, 2 * dim * inner + dim + inner
    encoder_layer, decoder_layer = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    return vocabulary * dim + layers * (encoder_layer + decoder_layer)


@pytest.mark.parametrize(
    ("name", "paper", "sizes"),
    [
        ("base", 65e6, (6, 512, 2048)),  # Table 3
        ("big", 213e6, (6, 1024, 4096)),
        ("tiny", None, (4, 128, 256)),
        ("small", None, (3, 256, 1024)),
    ],
)
def test_number_of_parameters(name: str, paper: float | None, sizes: tuple[int, int, int]) -> None:
    with torch.device("meta"):
        model = Transformer(preset(name, source_vocab_size=37000, target_vocab_size=37000))
    assert count_parameters(model) == expected_size(37000, *sizes)
    if paper:
        assert count_parameters(model) == pytest.approx(paper, rel=0.03)


def test_the_three_embeddings_are_one_matrix(build_model: Any) -> None:
    model = build_model()
    assert model.source_embedding.weight is model.target_embedding.weight is model.output.weight
    own = {"share_embeddings": False, "tie_output": False, "target_vocab_size": 20}
    apart = build_model(**own)
    assert len({id(m.weight) for m in (apart.source_embedding, apart.target_embedding, apart.output)}) == 3
    assert count_parameters(apart) == count_parameters(model) + (20 + 20) * 16
    assert apart(ids(3, 6), LENGTHS, torch.zeros(3, 4, dtype=torch.long)).shape == (3, 4, 20)


def check_uniform(weight: Tensor, bound: float) -> None:
    assert weight.abs().max() <= bound
    assert weight.abs().max() > 0.98 * bound
    assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.03)
    assert abs(weight.mean().item()) < 0.03 * bound


def check_initial_values(model: Transformer) -> None:
    """Glorot and Bengio 2010: uniform within sqrt(6 / (inputs + outputs)) of each single matrix."""
    dim, inner = 64, 96
    square, rectangle = (6 / (dim + dim)) ** 0.5, (6 / (dim + inner)) ** 0.5
    blocks = {SelfAttention: 0, CrossAttention: 0, FeedForward: 0}
    for module in model.modules():
        if isinstance(module, SelfAttention | CrossAttention):
            matrices = [module.output.weight]
            if isinstance(module, SelfAttention):
                matrices += module.query_key_value.weight.split(dim)
            else:
                matrices += [module.query.weight, *module.key_value.weight.split(dim)]
            assert len(matrices) == 4
            for matrix in matrices:
                check_uniform(matrix, square)
        elif isinstance(module, FeedForward):
            for matrix in (*module.inner.weight.split(inner), module.outer.weight):
                check_uniform(matrix, rectangle)
        elif isinstance(module, nn.LayerNorm):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()
        elif isinstance(module, nn.Linear) and module.bias is not None:
            assert (module.bias == 0).all()
        if type(module) in blocks:
            blocks[type(module)] += 1
    assert blocks == {SelfAttention: 2, CrossAttention: 1, FeedForward: 2}
    assert model.target_embedding.weight.std().item() == pytest.approx(1 / 8, rel=0.03)


def initial_config(**changes: Any) -> TransformerConfig:
    sizes = {"d_model": 64, "d_ff": 96, "heads": 4, "encoder_layers": 1, "decoder_layers": 1}
    return TransformerConfig(source_vocab_size=300, target_vocab_size=300, **{**sizes, **changes})


@pytest.mark.parametrize("kind", ["relu", "swiglu"])
def test_initial_values(kind: str) -> None:
    torch.manual_seed(0)
    check_initial_values(Transformer(initial_config(feed_forward=kind)))


def test_an_untied_output_is_drawn_by_its_own_shape() -> None:
    torch.manual_seed(0)
    model = Transformer(initial_config(tie_output=False))
    check_uniform(model.output.weight, (6 / (64 + 300)) ** 0.5)


@pytest.mark.parametrize("position", ["sinusoidal", "learned"])
def test_a_model_built_on_the_meta_device_is_filled_whole(position: str) -> None:
    config = initial_config(position=position, norm="pre")
    with torch.device("meta"):
        model = Transformer(config)
    model.to_empty(device="cpu")
    for parameter in model.parameters():
        parameter.fill_(float("nan"))
    torch.manual_seed(0)
    model.reset_parameters()
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert model.output.weight is model.target_embedding.weight
    check_initial_values(model)
    logits = model(ids(3, 6), LENGTHS, ids(3, 5))
    direct = Transformer(config)
    torch.manual_seed(0)
    direct.reset_parameters()
    assert torch.equal(logits, direct(ids(3, 6), LENGTHS, ids(3, 5)))


@both_norms
def test_dropout_stands_where_section_5_4_puts_it(build_model: Any, norm: str) -> None:
    """On both embeddings and after each sub-layer (two of an encoder layer, three of a decoder layer)."""
    model = build_model(norm=norm, dropout=0.25).train()
    rates = []
    for module in model.modules():
        if isinstance(module, Dropout):
            module.register_forward_hook(lambda m, *_: rates.append(m.p))
    torch.manual_seed(0)
    first, second = (model(ids(3, 6), LENGTHS, ids(3, 4)) for _ in range(2))
    assert sorted(rates) == sorted(2 * ([0.25] * (1 + 2 * 2 + 1 + 2 * 3) + [0.0] * 4))
    assert not torch.allclose(first, second)
    model.eval()
    assert torch.equal(model(ids(3, 6), LENGTHS, ids(3, 4)), model(ids(3, 6), LENGTHS, ids(3, 4)))


@pytest.mark.sampled(10)
@every_scheme
def test_half_the_precision_keeps_the_meaning(build_model: Any, position: str) -> None:
    model, source, target = build_model(position=position), ids(3, 6), ids(3, 5)
    expected = model(source, LENGTHS, target).softmax(-1)
    logits = model.bfloat16()(source, LENGTHS, target)
    assert logits.dtype == torch.bfloat16
    assert torch.allclose(logits.float().softmax(-1), expected, rtol=0, atol=0.02)
