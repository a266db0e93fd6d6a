"""Axial RoPE and M-RoPE, against one-dimensional RoPE of each axis and Qwen2-VL live."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from locant.errors import ConfigError, DataError
from locant.positions import AxialRotary, MultimodalRotary, Rotary, multimodal_coordinates


def heads(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("grid", [(4, 6), (3, 4, 5)])
def test_every_axis_is_a_rotary_of_its_own(grid: tuple[int, ...]) -> None:
    """In the interleaved layout the features of an axis stand together, as a smaller head."""
    axes = len(grid)
    x = heads(1, 2, 24, 4 * axes)
    positions = torch.arange(24)
    turned, _ = AxialRotary(4 * axes, grid=grid, layout="interleaved").rotate(x, x, positions, positions)
    for axis, steps in enumerate(torch.unravel_index(positions, (10, *grid[1:]))):
        part = x[..., 4 * axis : 4 * axis + 4]
        alone, _ = Rotary(4, layout="interleaved").rotate(part, part, steps, steps)
        torch.testing.assert_close(turned[..., 4 * axis : 4 * axis + 4], alone)


def test_coordinates_may_be_given() -> None:
    scheme, x = AxialRotary(8, grid=(4, 4)), heads(2, 1, 5, 8)
    flat = torch.tensor([[0, 5, 6, 9, 3], [1, 1, 2, 15, 8]])
    given = torch.stack((flat // 4, flat % 4), dim=-1)
    assert torch.equal(scheme.rotate(x, x, flat, flat)[0], scheme.rotate(x, x, given, given)[0])
    with pytest.raises(DataError, match=r"Coordinates need 2 numbers a token.*\[B, L, 2\]; got \[2, 5, 3\]"):
        scheme.rotate(x, x, torch.zeros(2, 5, 3, dtype=torch.long), flat)


def test_text_in_m_rope_is_plain_rope() -> None:
    x, positions = heads(2, 2, 6, 16), torch.arange(6) + 1000
    ours = MultimodalRotary(16).rotate(x, x, positions, positions)
    torch.testing.assert_close(ours, Rotary(16).rotate(x, x, positions, positions))


def test_m_rope_against_qwen2_vl() -> None:
    qwen = pytest.importorskip("transformers.models.qwen2_vl.modeling_qwen2_vl")
    config = pytest.importorskip("transformers.models.qwen2_vl.configuration_qwen2_vl").Qwen2VLTextConfig(
        hidden_size=32, num_attention_heads=2, num_key_value_heads=2, rope_theta=10000.0,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
    )  # fmt: skip
    q, k = heads(1, 2, 7, 16), heads(1, 2, 7, 16) + 1
    coordinates = torch.tensor([[[0, 0, 0], [1, 1, 1], [2, 2, 2], [2, 2, 3], [2, 3, 2], [2, 3, 3], [4, 4, 4]]])
    ids = coordinates.permute(2, 0, 1)
    cosine, sine = qwen.Qwen2VLRotaryEmbedding(config)(q, ids)
    theirs = qwen.apply_rotary_pos_emb(q, k, cosine, sine)
    ours = MultimodalRotary(16, sections=[2, 3, 3]).rotate(q, k, coordinates, coordinates)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=2e-6, rtol=0)


def test_unequal_axes_and_normalised_coordinates() -> None:
    """Each axis turns its own pairs, as rotary embedding of so many features does."""
    scheme = AxialRotary(32, base=100.0, grid=(4, 4, 4), sections=(2, 7, 7), layout="interleaved")
    coordinates = torch.linspace(-1, 1, 15).view(1, 5, 3)
    q = torch.randn(1, 2, 5, 32)
    found = scheme(q, q, coordinates)[0]
    parts = q.split((4, 14, 14), dim=-1)
    for axis, (part, turned) in enumerate(zip(parts, found.split((4, 14, 14), dim=-1), strict=True)):
        plain = Rotary(part.shape[-1], base=100.0, layout="interleaved")
        torch.testing.assert_close(turned, plain(part, part, coordinates[..., axis])[0])
    for wrong in ((2, 7), (2, 7, 8), (0, 8, 8)):
        with pytest.raises(ConfigError):
            AxialRotary(32, grid=(4, 4, 4), sections=wrong)


@pytest.mark.parametrize("sections", [None, (16, 24, 24), (24, 20, 20)])
def test_axes_in_turn_as_transformers_has_them(sections: Any) -> None:
    ours = MultimodalRotary(128, sections=sections, interleave_axes=True)
    expected = torch.zeros(64, dtype=torch.long)
    for axis in (1, 2):
        expected[slice(axis, 3 * ours.sections[axis], 3)] = axis
    assert ours.axis_of_pair == tuple(expected.tolist())


def laid_out(texts: list[list[Any]]) -> tuple[Tensor, list[tuple[int, ...]], Tensor]:
    """Texts of words and grids: which tokens are of images, the grids, and the text of each token."""
    parts = [(text, part) for text, each in enumerate(texts) for part in each]
    counts = [part if isinstance(part, int) else math.prod(part) for _, part in parts]
    is_image = [not isinstance(part, int) for _, part in parts]
    repeated = [
        torch.tensor(each).repeat_interleave(torch.tensor(counts)) for each in (is_image, [t for t, _ in parts])
    ]
    return repeated[0], [part for _, part in parts if not isinstance(part, int)], repeated[1]


def test_coordinates_of_packed_texts_are_those_of_each_alone() -> None:
    texts: list[list[Any]] = [[3, (1, 2, 3), 2, (1, 4, 1), (1, 1, 2)], [(3, 2, 2), 1], [4], [1, (1, 2, 2)]]
    is_image, grids, numbers = laid_out(texts)
    found = multimodal_coordinates(is_image, grids, texts=numbers)[0]
    alone = [multimodal_coordinates(*laid_out([text])[:2])[0] for text in texts]
    assert torch.equal(found, torch.cat(alone))
    two = multimodal_coordinates(is_image.expand(2, -1), grids * 2, texts=numbers)
    assert torch.equal(two, found.expand(2, -1, -1))
    assert torch.equal(alone[2], MultimodalRotary(16).coordinates(torch.arange(4)))


def test_coordinates_against_qwen2_vl() -> None:
    qwen = pytest.importorskip("transformers.models.qwen2_vl.modeling_qwen2_vl")
    parts: list[Any] = [3, (1, 2, 3), 2, (1, 4, 1), 1, (1, 3, 3), 4]
    is_image, grids, _ = laid_out([parts])
    config = qwen.Qwen2VLConfig(
        text_config={"hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 1,
                     "intermediate_size": 8, "vocab_size": 9, "rope_parameters": {"mrope_section": [2, 3, 3]}},
        vision_config={"embed_dim": 16, "depth": 1, "num_heads": 2, "hidden_size": 32},
    )  # fmt: skip
    merged = torch.tensor([(t, 2 * h, 2 * w) for t, h, w in grids])
    ids = torch.zeros(1, len(is_image), dtype=torch.long)
    expected, _ = qwen.Qwen2VLModel(config).get_rope_index(ids, is_image[None].int(), image_grid_thw=merged)
    assert torch.equal(multimodal_coordinates(is_image, grids), expected.permute(1, 2, 0))


@pytest.mark.parametrize(
    ("texts", "grids"),
    [([[2, (1, 2, 2)]], []), ([[2, (1, 2, 2)]], [(1, 2, 2), (1, 1, 1)]), ([[(1, 1, 2)], [(1, 1, 2)]], [(1, 2, 2)])],
)
def test_images_without_tokens_and_tokens_without_images(texts: list[list[Any]], grids: list[tuple[int, ...]]) -> None:
    is_image, _, numbers = laid_out(texts)
    with pytest.raises(DataError):
        multimodal_coordinates(is_image, grids, texts=numbers)
