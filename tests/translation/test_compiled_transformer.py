"""The C++ kernels against the PyTorch model, whose own tests pin it to the formulas."""

from typing import Any

import pytest
import torch
from compiled_steps import CompiledSteps
from hypothesis import given, settings
from hypothesis import strategies as st
from property_examples import TIMES
from torch import Tensor, nn
from torch.nn import functional
from with_kernels import needs_compiler

from locant.errors import ConfigError, LocantError
from locant.models import DecodingSettings, SamplingSettings, Transformer, TransformerConfig
from locant.positions import SCHEMES
from locant.text import BOS, PAD
from locant.translation import PRECISIONS, CompiledEngine, supports

pytestmark = needs_compiler


def model_of(seed: int = 0, **changes: Any) -> Transformer:
    """Return a model with random weights everywhere, biases and norms included."""
    sizes: dict[str, Any] = {"d_model": 24, "d_ff": 40, "heads": 3, "encoder_layers": 2, "decoder_layers": 2}
    vocabularies = {"source_vocab_size": 37, "target_vocab_size": 37}
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig.parse(vocabularies | sizes | changes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def random_batch(rows: int, vocabulary: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (rows,), generator=generator)
    source = torch.randint(4, vocabulary, (rows, int(lengths.max())), generator=generator)
    source[torch.arange(source.shape[1]) >= lengths.unsqueeze(1)] = PAD
    return source, lengths


def all_log_probabilities(model: Transformer, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
    with torch.inference_mode():
        table = model(source, lengths, target)[:, -1].double().log_softmax(-1)
        table[:, [PAD, BOS]] = -torch.inf
    return table.clone()


FEED_FORWARDS = ["relu", "gelu", "silu", "glu", "reglu", "geglu", "swiglu"]


@pytest.mark.sampled(20)
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("feed_forward", FEED_FORWARDS)
@pytest.mark.parametrize("rows", [1, 2, 5, 31])
def test_float32_steps_are_the_models(norm: str, feed_forward: str, rows: int) -> None:
    position = {"relu": "learned", "silu": "none", "geglu": "rotary"}.get(feed_forward, "sinusoidal")
    model = model_of(norm=norm, feed_forward=feed_forward, position=position)
    source, lengths = random_batch(rows, 37, seed=rows)
    steps = CompiledSteps(CompiledEngine(model)).start_search(source, lengths)
    target = torch.full((rows, 1), BOS)
    for _ in range(5):
        expected = all_log_probabilities(model, source, lengths, target)
        values, columns = steps.best(target[:, -1:], 37)
        torch.testing.assert_close(values.double()[:, :35], expected.gather(1, columns)[:, :35], rtol=1e-4, atol=1e-4)
        assert all(sorted(row) == sorted(set(range(37)) - {PAD, BOS}) for row in columns[:, :35].tolist())
        assert values[:, 35:].isneginf().all()
        target = torch.cat((target, columns[:, 3:4]), dim=1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"layout": "interleaved", "base": 100.0},
        {"rotary_dim": 4},
        {"layout": "interleaved", "rotary_dim": 4},
        {"scaling": {"kind": "yarn", "original_length": 16, "factor": 4.0}},
    ],
    ids=["half", "interleaved", "partial", "partial interleaved", "yarn"],
)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_rotations_are_the_models(options: dict[str, Any], norm: str) -> None:
    model = model_of(norm=norm, position="rotary", position_options=options, d_model=48, heads=6)
    source, lengths = random_batch(7, 37, seed=3)
    steps = CompiledSteps(CompiledEngine(model)).start_search(source, lengths)
    target = torch.full((7, 1), BOS)
    for step in range(4):
        expected = all_log_probabilities(model, source, lengths, target)
        values = steps.log_probabilities(target[:, -1:])
        torch.testing.assert_close(values.double(), expected, rtol=1e-4, atol=1e-4)
        kept = torch.tensor([1, 1, 0, 2, 3, 5, 6] if step == 1 else range(7))
        steps.select(kept)
        source, lengths = source[kept], lengths[kept]
        target = torch.cat((target, values.argmax(1, keepdim=True)), dim=1)[kept]


def compilable(model: Transformer) -> bool:
    try:
        CompiledEngine(model)
    except ConfigError:
        return False
    return True


def test_every_scheme_that_is_compiled_is_computed_as_the_model_does() -> None:
    """Also those that nobody thought of: a scheme is refused, or right."""
    source, lengths = random_batch(3, 37, seed=5)
    target = torch.full((3, 1), BOS)
    compiled = set()
    for name in SCHEMES.keys() - {"fox"}:  # which is for decoders alone
        model = model_of(position=name, d_model=48, heads=6)
        if not compilable(model):
            continue
        compiled.add(name)
        values = CompiledSteps(CompiledEngine(model)).start_search(source, lengths).log_probabilities(target)
        expected = all_log_probabilities(model, source, lengths, target)
        torch.testing.assert_close(values.double(), expected, rtol=1e-4, atol=1e-4, msg=name)
    assert {"none", "sinusoidal", "learned", "rotary"} <= compiled
    assert compiled.isdisjoint({"alibi", "t5", "shaw", "xpos"})


@settings(max_examples=8 * TIMES, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 14),
    width=st.sampled_from([(16, 20, 2), (40, 33, 5), (96, 64, 8), (192, 640, 8)]),  # the last is worth several threads
    vocabulary=st.integers(5, 300),
    threads=st.sampled_from([1, 2, 3]),
)
def test_rows_that_move_keep_their_past(
    seed: int, rows: int, width: tuple[int, int, int], vocabulary: int, threads: int
) -> None:
    """Rows are taken several times, dropped and exchanged between steps, as beams are."""
    d_model, d_ff, heads = width
    sizes = {"d_model": d_model, "d_ff": d_ff, "heads": heads}
    model = model_of(seed, **sizes, source_vocab_size=vocabulary, target_vocab_size=vocabulary)
    source, lengths = random_batch(rows, vocabulary, seed)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        steps = CompiledSteps(CompiledEngine(model)).start_search(source, lengths)
        generator = torch.Generator().manual_seed(seed)
        target = torch.full((rows, 1), BOS)
        for _ in range(4):
            k = min(3, vocabulary - 2)
            values, columns = steps.best(target[:, -1:], k)
            table = all_log_probabilities(model, source, lengths, target)
            torch.testing.assert_close(values.double(), table.topk(k).values, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(values.double(), table.gather(1, columns), rtol=1e-4, atol=1e-4)
            kept = torch.randint(len(target), (max(1, len(target) + 1 - k),), generator=generator)
            target = torch.cat((target, columns[:, -1:]), dim=1)[kept]
            source, lengths = source[kept], lengths[kept]
            steps.select(kept)
    finally:
        torch.set_num_threads(before)


def need(precision: str) -> None:
    if not supports(precision):
        pytest.skip(f"this processor has no fast {precision} arithmetic")


@pytest.mark.parametrize(
    ("precision", "error"),
    [
        # 8 significant bits of every factor, through four layers.
        ("bfloat16", 0.02),
        # Two digits of every factor.
        ("int8", 0.05),
    ],
)
def test_narrow_weights_are_near(precision: str, error: float) -> None:
    need(precision)
    model = model_of(d_model=64, d_ff=130, heads=4)
    source, lengths = random_batch(21, 37, seed=1)
    steps = CompiledSteps(CompiledEngine(model, precision)).start_search(source, lengths)
    target = torch.full((21, 1), BOS)
    for _ in range(3):
        table = all_log_probabilities(model, source, lengths, target)
        values, columns = steps.best(target[:, -1:], 35)
        errors = (values.double() - table.gather(1, columns)).abs()
        # Not nothing, or the weights would not be narrow.
        assert 1e-4 < errors.mean() < error * table[table > -torch.inf].std()
        target = torch.cat((target, columns[:, :1]), dim=1)


def rounds_to_bfloat16(model: Transformer) -> Transformer:
    """Make the model round weights and inputs of every product; sums stay float32."""

    def rounded(x: Tensor) -> Tensor:
        return x.bfloat16().float()

    for part in model.modules():
        if isinstance(part, nn.Linear):
            # The weight itself stays: it may be an embedding too, which is not rounded.
            def product(x: Tensor, part: nn.Linear = part) -> Tensor:
                return functional.linear(rounded(x), rounded(part.weight), part.bias)

            part.forward = product  # type: ignore[method-assign]
    return model


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    ("d_model", "d_ff", "heads", "vocabulary"), [(24, 41, 3, 37), (33, 7, 1, 301), (64, 130, 4, 64)]
)
@pytest.mark.parametrize("feed_forward", ["relu", "swiglu"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 7, 8, 12, 31])
def test_bfloat16_steps_are_those_of_rounded_factors(
    d_model: int, d_ff: int, heads: int, vocabulary: int, feed_forward: str, rows: int
) -> None:
    need("bfloat16")
    sizes = {"d_model": d_model, "d_ff": d_ff, "heads": heads}
    vocabularies = {"source_vocab_size": vocabulary, "target_vocab_size": vocabulary}
    model = model_of(rows, **sizes, **vocabularies, feed_forward=feed_forward, position="none")
    source, lengths = random_batch(rows, vocabulary, seed=rows + 100)
    steps = CompiledSteps(CompiledEngine(model, "bfloat16")).start_search(source, lengths)
    reference = rounds_to_bfloat16(model)
    target = torch.full((rows, 1), BOS)
    errors = []
    for _ in range(4):
        values, columns = steps.best(target[:, -1:], vocabulary - 2)
        table = all_log_probabilities(reference, source, lengths, target)
        errors.append((values.double() - table.gather(1, columns)).abs())
        target = torch.cat((target, columns[:, :1]), dim=1)
    # Sums in another order rarely bring an input over the edge between two bfloat16; its row then differs by a
    # bfloat16's rounding, and the others only by float32's.
    found = torch.stack(errors)
    assert found.median() < 5e-6
    assert found.max() < 0.3


@pytest.mark.parametrize("damaged", ["target_embedding.weight", "decoder.layers.0.feed_forward.inner.weight"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_weights_that_are_not_numbers_are_reported(precision: str, damaged: str) -> None:
    need(precision)
    model = model_of()
    with torch.no_grad():
        model.get_parameter(damaged)[7, 3] = float("nan")
    engine = CompiledEngine(model, precision)
    for chosen in (DecodingSettings(beam=1), DecodingSettings(beam=3), DecodingSettings(sampling=SamplingSettings())):
        with pytest.raises(LocantError, match="not a number"):
            list(engine.translate([[5, 6, 7, 36, 4]], [5], [BOS], chosen))


def test_what_cannot_be_compiled_is_said() -> None:
    with pytest.raises(ConfigError, match=r"added to all features of the embeddings .* but this model's are ALiBi"):
        CompiledEngine(model_of(position="alibi", d_model=24, heads=3))
    with pytest.raises(ConfigError, match=r"Unknown precision 'int9'\. Did you mean 'int8'"):
        CompiledEngine(model_of(), "int9")
    model = model_of()
    model.target_embedding.weight = nn.Parameter(model.target_embedding.weight[:-1])
    with pytest.raises(ConfigError, match="weights of the shapes that the model's configuration says"):
        CompiledEngine(model)
