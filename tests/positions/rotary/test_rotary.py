"""RoPE and its relatives, against formulas in mpmath, complex numbers and peers."""

from typing import Any

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from locant.errors import ConfigError
from locant.positions import AttentionShape, Rotary, XPos, convert_projection, layout_order, rotate_pairs
from locant.positions.scaling import DynamicNTK, Linear, YaRN

LAYOUTS = ["half", "interleaved"]


def heads(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def slowly(x: list[float], position: int, base: float, rotated: int, layout: str) -> list[float]:
    """One head's features, rotated pair by pair in 40 digits (RoFormer, equation 34)."""
    with mpmath.workdps(40):
        out = [mpmath.mpf(value) for value in x]
        for i in range(rotated // 2):
            angle = position * mpmath.power(base, -mpmath.mpf(2 * i) / rotated)
            one, two = (i, i + rotated // 2) if layout == "half" else (2 * i, 2 * i + 1)
            a, b = mpmath.mpf(x[one]), mpmath.mpf(x[two])
            out[one] = a * mpmath.cos(angle) - b * mpmath.sin(angle)
            out[two] = a * mpmath.sin(angle) + b * mpmath.cos(angle)
        return [float(value) for value in out]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rotated", [8, 4])
def test_every_pair_turns_by_its_angle(layout: Any, rotated: int) -> None:
    positions = [0, 1, 4095, 100_003, 2**31 - 1]
    x = heads(1, 1, len(positions), 8)
    rope = Rotary(8, base=500.0, rotary_dim=rotated, layout=layout)
    q, k = rope.rotate(x, x, torch.tensor(positions), torch.tensor(positions))
    for row, position in enumerate(positions):
        expected = torch.tensor(slowly(x[0, 0, row].tolist(), position, 500.0, rotated, layout))
        torch.testing.assert_close(q[0, 0, row], expected, atol=5e-7, rtol=0)
    assert torch.equal(q, k)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_precision_survives_casts_and_the_meta_device(layout: Any) -> None:
    positions = torch.tensor([3, 70_001, 2**31 - 1])
    exact = Rotary(16, layout=layout).sine_cosine(positions)
    for dtype in (torch.bfloat16, torch.float16):
        cast = Rotary(16, layout=layout).to(dtype)
        assert all(map(torch.equal, cast.sine_cosine(positions), exact))
        x = heads(1, 2, 3, 16).to(dtype)
        q, _ = cast.rotate(x, x, positions, positions)
        assert q.dtype == dtype
        full, _ = Rotary(16, layout=layout).rotate(x.float(), x.float(), positions, positions)
        assert torch.equal(q, full.to(dtype)), "float32 arithmetic, rounded once"
    with torch.device("meta"):
        late = Rotary(16, layout=layout)
    late.to_empty(device="cpu")
    assert all(map(torch.equal, late.sine_cosine(positions), exact))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(map(torch.equal, Rotary(16, layout=layout).sine_cosine(positions), exact))
    assert not late.state_dict()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients(layout: Any) -> None:
    x = heads(1, 2, 3, 6).double().requires_grad_()
    sine, cosine = Rotary(4, layout=layout).sine_cosine(torch.arange(3))
    assert torch.autograd.gradcheck(lambda t: rotate_pairs(t, sine, cosine, layout), (x,))
    rotate_pairs(x, sine, cosine, layout).sum().backward()  # a gradient whose numbers are one in memory
    back = rotate_pairs(torch.ones_like(x), -sine, cosine, layout)
    torch.testing.assert_close(x.grad, back)


def test_against_hugging_face_in_both_layouts() -> None:
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    gptj = pytest.importorskip("transformers.models.gptj.modeling_gptj")
    q, k, positions = heads(2, 4, 9, 16), heads(2, 2, 9, 16, seed=1), torch.arange(9)
    config = llama.LlamaConfig(hidden_size=64, num_attention_heads=4, head_dim=16)
    cosine, sine = llama.LlamaRotaryEmbedding(config)(q, positions[None])
    theirs = llama.apply_rotary_pos_emb(q, k, cosine, sine)
    ours = Rotary(16).rotate(q, k, positions, positions)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=2e-6, rtol=0)
    table = gptj.create_sinusoidal_positions(9, 16)
    sine, cosine = table[None].chunk(2, dim=-1)
    turned = gptj.apply_rotary_pos_emb(q.transpose(1, 2), sine, cosine).transpose(1, 2)
    ours = Rotary(16, layout="interleaved").rotate(q, q, positions, positions)
    torch.testing.assert_close(ours[0], turned, atol=2e-6, rtol=0)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 99), rotated=st.sampled_from([4, 8]), key_heads=st.sampled_from([1, 2, 4]))
def test_converted_projections_give_the_same_scores(seed: int, rotated: int, key_heads: int) -> None:
    """Both layouts, grouped queries and partial rotation: the products of queries and keys stay."""
    x = heads(1, 5, 12, seed=seed)
    w_q, w_k = heads(4 * 8, 12, seed=seed + 1), heads(key_heads * 8, 12, seed=seed + 2)
    positions = torch.tensor([0, 3, 100, 1000, 70_000])

    def scores(w_q: Tensor, w_k: Tensor, layout: Any) -> Tensor:
        q, k = (torch.nn.functional.linear(x, w).view(1, 5, -1, 8).transpose(1, 2) for w in (w_q, w_k))
        q, k = Rotary(8, rotary_dim=rotated, layout=layout).rotate(q, k, positions, positions)
        return q @ k.repeat_interleave(4 // key_heads, dim=1).mT

    there = {"source": "half", "target": "interleaved", "rotary_dim": rotated}
    back = {"source": "interleaved", "target": "half", "rotary_dim": rotated}
    converted = [convert_projection(w, 8, **there) for w in (w_q, w_k)]  # type: ignore[arg-type]
    torch.testing.assert_close(scores(*converted, "interleaved"), scores(w_q, w_k, "half"), atol=1e-4, rtol=0)
    assert torch.equal(convert_projection(converted[0], 8, **back), w_q)  # type: ignore[arg-type]


# Scalings that act through the scheme


def test_scaling_from_plain_options() -> None:
    options = {"scaling": {"kind": "linear", "factor": 4, "original_length": 128}}
    rope = Rotary.for_model(AttentionShape(32, 2, causal=True), **options)
    assert rope.config.scaling == Linear(factor=4, original_length=128)
    assert Rotary.from_config(rope.config).config == rope.config
    x = heads(1, 2, 1, 16)
    four = rope.rotate(x, x, torch.tensor([40]), torch.tensor([40]))[0]
    torch.testing.assert_close(four, Rotary(16).rotate(x, x, torch.tensor([10]), torch.tensor([10]))[0])
    with pytest.raises(ConfigError, match=r"Unknown frequency scaling 'yarm'.*'yarn'"):
        Rotary(16, scaling={"kind": "yarm"})


def test_attention_factor_multiplies_both_sides() -> None:
    scaling = YaRN(factor=4.0, original_length=64)
    x = heads(1, 1, 1, 16)
    q, k = Rotary(16, scaling=scaling).rotate(x, x, torch.tensor([9]), torch.tensor([9]))
    with mpmath.workdps(30):
        expected = float((mpmath.mpf("0.1") * mpmath.log(4) + 1) ** 2)
    assert (q * k).sum().item() == pytest.approx(expected * (x * x).sum().item(), rel=1e-6)


def test_dynamic_frequencies_are_those_of_each_query() -> None:
    rope = Rotary(16, scaling=DynamicNTK(original_length=8, factor=1.0, length_step=4))
    assert rope.caches_unrotated_keys
    blocks = rope.query_blocks(torch.arange(20))
    assert blocks == [slice(0, 8), slice(8, 12), slice(12, 16), slice(16, 20)]
    assert rope.query_blocks(torch.arange(6)) == [slice(0, 6)]
    assert rope.query_blocks(torch.tensor([[6, 7, 8], [7, 8, 9]])) == [slice(0, 1), slice(1, 2), slice(2, 3)]
    x = heads(2, 1, 2, 16)
    rows = torch.tensor([[6, 7], [8, 9]])
    q, k = rope.rotate(x, x, rows, rows)
    for row, scaling in ((0, None), (1, DynamicNTK(original_length=8, target_length=12))):
        plain = Rotary(16, scaling=scaling)
        assert not plain.caches_unrotated_keys
        alone = plain.rotate(x[row : row + 1], x[row : row + 1], rows[row], rows[row])
        torch.testing.assert_close(q[row], alone[0][0])
        torch.testing.assert_close(k[row], alone[1][0])


# xPos


def xpos_slowly(q: Tensor, k: Tensor, distance: int, gamma: float, scale_base: float) -> float:
    """The product of Sun et al. 2022, equation 14 in the half layout, in complex numbers."""
    n = len(q) // 2
    total = mpmath.mpf(0)
    for i in range(n):
        decay = mpmath.power((mpmath.mpf(i) / n + gamma) / (1 + gamma), mpmath.mpf(distance) / scale_base)
        a = mpmath.mpc(q[i].item(), q[i + n].item())
        b = mpmath.mpc(k[i].item(), -k[i + n].item())
        total += (a * b * mpmath.expj(distance * mpmath.power(10000, -mpmath.mpf(i) / n))).real * decay
    return float(total)


@pytest.mark.parametrize(("q_position", "k_position"), [(5, 2), (600, 0), (1_000_500, 1_000_000), (90_000, 10)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_xpos_products(q_position: int, k_position: int, layout: Any) -> None:
    q, k = heads(8), heads(8, seed=1)
    order = layout_order(8, source="half", target=layout)
    rotated = XPos(8, layout=layout).rotate(
        q[order].view(1, 1, 1, 8), k[order].view(1, 1, 1, 8), torch.tensor([q_position]), torch.tensor([k_position])
    )
    expected = xpos_slowly(q, k, q_position - k_position, 0.4, 512.0)
    assert (rotated[0] * rotated[1]).sum().item() == pytest.approx(expected, abs=2e-6)


def test_xpos_in_blocks_and_without_decay() -> None:
    assert XPos(8).query_blocks(torch.arange(2500)) == [slice(0, 1024), slice(1024, 2048), slice(2048, 2500)]
    x = heads(1, 1, 3, 8)
    positions = torch.arange(3)
    encoder = XPos.for_model(AttentionShape(8, 1, causal=False))
    assert not encoder.caches_unrotated_keys
    for a, b in zip(
        encoder.rotate(x, x, positions, positions), Rotary(8).rotate(x, x, positions, positions), strict=True
    ):
        assert torch.equal(a, b)
    q, k = XPos(8).rotate(x, x, torch.tensor([0, 1, 2]), torch.tensor([0, 1, 10**6]))
    assert q.isfinite().all()
    assert k.isfinite().all(), "a key that nobody sees must not overflow"
    with pytest.raises(ConfigError, match=r"gamma and scale_base of xPos must be above 0; got 0 and 512"):
        XPos(8, gamma=0)
