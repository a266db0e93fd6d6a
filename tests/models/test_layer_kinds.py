"""Layers that differ: schemes by layer, and windows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import language_model
from small_models import text_ids as ids
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention
from torch.utils._python_dispatch import TorchDispatchMode

from locant.errors import ConfigError
from locant.models import LanguageModel, LanguageModelConfig, Transformer, TransformerConfig
from locant.positions import SCHEMES, AttentionPlan, AttentionShape, Mask, attend, build_scheme
from locant.positions.flex_attention import flex_attend

WINDOW = 4
SIZES = {"vocab_size": 30, "layers": 4, "d_model": 16, "d_ff": 24, "heads": 4, "kv_heads": 2}
LOCAL = {"position": "rotary", "window": WINDOW}


def build(local: str = "rotary", far: str = "none", **changes: Any) -> LanguageModel:
    kinds = {"L": {"position": local, "window": WINDOW}, "G": {"position": far}}
    return language_model(**{"layers": 4, "kv_heads": 2, "pattern": "LLLG", "kinds": kinds, **changes})


@pytest.mark.sampled(8)
@pytest.mark.parametrize("position", SCHEMES)
@torch.no_grad()
def test_a_cache_of_a_window_equals_reading_at_once(position: str) -> None:
    """Also where rows are chosen and repeated in between, as beams are."""
    model, text = build(position, kv_heads=4 if position == "mixed-rotary" else 2), ids(3, 20)
    cache = model.start()
    found = [model.step(part, cache) for part in text[:, :14].split([6, 1, 1, 3, 1, 1, 1], dim=1)]
    assert torch.allclose(torch.cat(found, dim=1), model(text[:, :14]), rtol=0, atol=1e-4)
    rows = torch.tensor([2, 0, 0, 1])
    cache.select(rows)
    text = text[rows]
    found = [model.step(part, cache) for part in text[:, 14:].split(1, dim=1)]
    assert torch.allclose(torch.cat(found, dim=1), model(text)[:, 14:], rtol=0, atol=1e-4)
    assert [layer.length for layer in cache.layers] == [
        WINDOW - 1 + model.stack.scheme(0).caches_unrotated_keys
    ] * 3 + [20]
    assert cache.length == 20


@pytest.mark.sampled(4)
@pytest.mark.parametrize("position", SCHEMES)
@torch.no_grad()
def test_nothing_beyond_the_windows_reaches_a_token(position: str) -> None:
    """Two layers see the last 2 (W - 1) + 1 tokens, whatever stands before."""
    model, text = (
        build(kv_heads=4, layers=2, pattern="L", kinds={"L": {"position": position, "window": WINDOW}}),
        ids(2, 12),
    )
    reach = 2 * (WINDOW - 1 + (position == "key-offset"))  # whose keys have a part of the token before
    other = text.clone()
    other[:, : 11 - reach] = 1
    assert torch.allclose(model(text)[:, -1], model(other)[:, -1], rtol=0, atol=1e-6)
    other[:, 11 - reach] = (other[:, 11 - reach] + 1) % 30
    assert not torch.allclose(model(text)[:, -1], model(other)[:, -1], atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(
    queries=st.integers(1, 700),
    before=st.integers(0, 300),
    window=st.integers(1, 800),
    name=st.sampled_from(["none", "alibi", "t5", "cope", "rotary"]),
    real=st.sampled_from(["all", "padded", "packed"]),
    gradients=st.booleans(),
)
def test_blocks_give_what_the_mask_gives(
    queries: int, before: int, window: int, name: str, real: str, gradients: bool
) -> None:
    torch.manual_seed(queries)
    keys = queries + before
    scheme = build_scheme(name, AttentionShape(32, 4, causal=True))
    q, k, v = (torch.randn(2, heads, length, 8) for heads, length in ((4, queries), (2, keys), (2, keys)))
    seen = {
        "all": None,
        "padded": (torch.arange(keys) >= torch.tensor([[0], [keys // 3]]))[:, None, None],
        "packed": Mask.packed(texts=torch.arange(keys) // 90).keys[:, :, before:].expand(2, -1, -1, -1),
    }[real]
    positions = torch.arange(keys)
    everything = torch.ones(queries, keys, dtype=torch.bool).tril(before).triu(before - window + 1)
    everything = (everything if seen is None else everything & seen).expand(2, 1, queries, keys)
    shown = everything.any(-1, keepdim=True)  # a query of padding that sees no key has no output
    masks = Mask(True, seen, window), Mask(False, everything)

    def outputs(mask: Mask) -> list[Tensor]:
        inputs = [x.clone().requires_grad_(gradients) for x in (q, k, v)]
        with torch.set_grad_enabled(gradients):
            plan = AttentionPlan(scheme, positions[before:], mask, like=q, k_positions=positions)
            out = plan.attend(*plan.rotate(*inputs[:2]), inputs[2]).masked_fill(~shown, 0)
        return [out, *(torch.autograd.grad(out.sin().sum(), inputs) if gradients else ())]

    for found, expected in zip(*(outputs(mask) for mask in masks), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-5)


class Largest(TorchDispatchMode):
    """Counts the numbers of the largest tensor that is made."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        made = [x for x in (out if isinstance(out, tuple | list) else [out]) if isinstance(x, Tensor)]
        self.numbers = max([self.numbers, *(x.untyped_storage().nbytes() for x in made if x.device.type == "cpu")])
        return out


@pytest.mark.parametrize("name", ["none", "rotary", "alibi", "t5", "cope"])
def test_memory_of_a_window_is_linear(name: str) -> None:
    scheme, sizes = build_scheme(name, AttentionShape(16, 2, causal=True)), []
    for length in (2048, 4096):
        q, k, v = (torch.randn(1, 2, length, 8, requires_grad=True) for _ in range(3))
        with Largest() as largest:
            plan = AttentionPlan(scheme, torch.arange(length), Mask(True, window=64), like=q)
            plan.attend(*plan.rotate(q, k), v).sum().backward()
        sizes.append(largest.numbers)
    assert sizes[1] <= 2.1 * sizes[0], "linear; the first window goes apart"
    assert sizes[1] < 4096 * 4096


def test_a_compiled_window_has_one_graph_for_all_lengths_and_no_square() -> None:
    graphs: list[Any] = []
    bytes_made: list[int] = []

    def backend(graph: Any, inputs: Any) -> Any:
        def run(*given: Any) -> Any:
            with Largest() as largest:
                out = graph(*given)
            bytes_made.append(largest.numbers)
            return out

        graphs.append(graph)
        return run

    def windowed(q: Tensor) -> Tensor:
        return attend(q, q, q, Mask(True, window=70))

    torch.compiler.reset()
    compiled = torch.compile(windowed, backend=backend, fullgraph=True, dynamic=True)
    for length in (600, 777, 2000):
        q = torch.randn(1, 2, length, 8)
        torch.testing.assert_close(compiled(q), windowed(q))
    assert len(graphs) == 1
    assert max(bytes_made) < 2000 * 2000, "not even a byte a pair"


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(("queries", "keys", "window"), [(300, 300, 70), (200, 333, 129), (130, 130, 1), (5, 9, 3)])
def test_flex_attention_sees_the_window(queries: int, keys: int, window: int) -> None:
    """As it runs on a CPU, uncompiled."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, heads, length, 16) for heads, length in ((4, queries), (2, keys), (2, keys)))
    mask = Mask(True, window=window)
    found = flex_attend(q, k, v, None, mask, attention=flex_attention)
    torch.testing.assert_close(found, attend(q, k, v, mask), atol=2e-5, rtol=1e-4)


def test_schemes_are_shared_by_the_layers_of_a_kind() -> None:
    kinds = {"S": {"position": "shaw"}, "T": {"position": "t5", "window": 3}, "F": {"position": "t5"}}
    schemes = build(layers=6, pattern="STF", kinds=kinds).stack
    assert [type(schemes.scheme(layer)).name for layer in range(6)] == ["shaw", "t5", "t5"] * 2
    assert schemes.scheme(0) is not schemes.scheme(3)  # Shaw's has weights for each layer
    assert schemes.scheme(1) is schemes.scheme(4)
    assert schemes.scheme(1) is not schemes.scheme(2)
    learned = {"position": "learned", "position_options": {"max_positions": 9}}
    once = build(pattern="LG", kinds={"L": {**learned, "window": 2}, "G": learned})
    assert len(once.stack.schemes) == 1
    assert once.max_positions == 9


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"pattern": "LLLLG"}, "4"),
        ({"pattern": "LX"}, "'X'"),
        ({"pattern": "L"}, "'G'"),
        ({"pattern": None}, "'G'"),
        ({"pattern": ""}, "pattern"),
        ({"position": "rotary"}, "position"),
        ({"position_options": {}}, "position_options"),
        ({"kinds": {"L": LOCAL, "G": {"position": "nope", "windw": 3}}}, "window"),
        ({"kinds": {"L": LOCAL, "G": {"window": 3}}}, "kinds.G.position"),
        ({"kinds": {"L": {"position": "rotary", "window": 0}, "G": {"position": "none"}}}, "kinds.L.window"),
        ({"kinds": {"L": {"position": "sinusoidal"}, "G": {"position": "learned"}}}, "learned"),
        ({"kv_heads": 3}, "kv_heads 3"),
        ({"head_size": 5}, "even"),
        ({"kinds": {"L": LOCAL, "G": {"position": "mixed-rotary"}}}, "heads of keys"),
    ],
)
def test_what_does_not_fit_is_refused_when_it_is_read(changes: dict[str, Any], named: str) -> None:
    given = {"pattern": "LLLG", "kinds": {"L": LOCAL, "G": {"position": "none"}}}
    with pytest.raises(ConfigError, match=named) as raised:
        LanguageModelConfig.parse({**SIZES, **given, **changes})
    assert str(raised.value).count("\n") == 0


def test_a_pattern_of_an_encoder_decoder() -> None:
    sizes = {"source_vocab_size": 30, "target_vocab_size": 30, "encoder_layers": 2, "decoder_layers": 4}
    sizes |= {"d_model": 16, "d_ff": 24, "heads": 4, "kv_heads": 1, "qk_norm": "all", "norm": "output", "bias": False}
    kinds = {"R": {"position": "rotary"}, "T": {"position": "t5"}}
    config = TransformerConfig.parse({**sizes, "pattern": "RT", "kinds": kinds})
    assert TransformerConfig.parse(config.to_dict()) == config
    model = Transformer(config).eval()
    source, lengths, target = ids(2, 7), torch.tensor([7, 4]), ids(2, 9)
    cache = model.start(model.encode(source, lengths), lengths)
    steps = torch.cat([model.step(part, cache) for part in target.split([4, 1, 1, 3], dim=1)], dim=1)
    torch.testing.assert_close(steps, model(source, lengths, target), rtol=0, atol=1e-5)
    for wrong in ({"R": LOCAL, "T": {"position": "t5"}}, {"R": {"position": "rotary"}}):
        with pytest.raises(ConfigError):
            TransformerConfig.parse({**sizes, "pattern": "RT", "kinds": wrong})
