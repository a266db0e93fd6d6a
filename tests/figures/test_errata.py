"""Every erratum: its values against numbers from elsewhere, its statement against those numbers, and the pages."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from torch import nn

from locant.app import render_errata, render_gallery
from locant.errors import UsageError
from locant.figures import FIGURES
from locant.figures.errata import TOPICS, Erratum, errata_markdown, get_erratum

ROOT = Path(__file__).parents[2]
ENTRIES = {entry.key: entry for topic in TOPICS for entry in topic.entries}


def angle(position: float, pair: float, width: int, base: float = 10000.0) -> float:
    """Radians of a pair, section 3.5 of Vaswani et al. 2017, with 30 digits."""
    with mpmath.workdps(30):
        return float(position / mpmath.mpf(base) ** (mpmath.mpf(2) * pair / width))


def sinusoids(length: int, width: int) -> np.ndarray:
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.stack((np.sin(angles), np.cos(angles)), -1).reshape(length, width)


def wave(pair: int, width: int, base: float = 10000.0) -> float:
    return 2 * math.pi / angle(1, pair, width, base)


def first_rise(width: int) -> int:
    products = sinusoids(200, width) @ sinusoids(200, width)[0]
    return int(np.argmax(np.diff(products) > 1e-9)) + 1


def rises(length: int, width: int) -> int:
    products = np.cos(np.arange(length + 1)[:, None] / 10000 ** (np.arange(0, width, 2) / width)).sum(1)
    return int((np.diff(products) > 0).sum())


def turning(radians: float) -> int:
    return sum(angle(49, pair, 512) > radians for pair in range(256))


def copying(scheme: str, seen: bool) -> float:
    """The mean that the table of docs/results/lab shows."""
    record = ROOT / "docs" / "results" / "lab" / "copy-reverse" / "records" / "copy" / scheme / "seed-1.json"
    measured = json.loads(record.read_text(encoding="utf-8"))["outcome"]["measurements"]
    return float(np.mean([one["value"] for one in measured if one["split"] == ("seen" if seen else "unseen")]))


def moving_features() -> int:
    return int((np.ptp(sinusoids(50, 512), axis=0) > 0.1).sum())


def ramp() -> tuple[int, int, int]:
    """Pairs kept, on the ramp and interpolated: YaRN as its authors' code has it, d = 128, 4,096 tokens, factor 4."""

    def index(turns: float) -> float:
        return 128 * math.log(4096 / (turns * 2 * math.pi)) / (2 * math.log(10000))

    low, high = math.floor(index(32)), math.ceil(index(1))
    share = np.clip((np.arange(64) - low) / (high - low), 0, 1)
    return int((share == 0).sum()), int(((share > 0) & (share < 1)).sum()), int((share == 1).sum())


def middle_of_the_ramp() -> float:
    kept, between, _ = ramp()
    middle = kept + between // 2
    share = (middle - (kept - 1)) / (between + 1)
    return 1 / ((1 - share) + share / 4)


# What each entry must say, computed here without Locant; None where the number depends on random weights.
EXPECTED: dict[str, Callable[[], list[float | None]]] = {
    "e1": lambda: [512 // 2 - 1, wave(255, 512)],
    "e2": lambda: [0x2018],
    "e3": lambda: [0, None, 0.1],
    "e4": lambda: [math.sin(angle(1, 1, 6)), wave(255, 512), sum(wave(i, 512) <= 512 for i in range(256))],
    "e5": lambda: [first_rise(64), first_rise(512), math.cos(0.5), math.cos(3), math.cos(6)],
    "e6": lambda: [256, wave(0, 512) / wave(1, 512), 10000 ** (2 / 512)],
    "e7": lambda: [1, copying("sinusoidal", seen=True), copying("sinusoidal", seen=False)],
    "e8": lambda: [44, rises(200, 512), float(sinusoids(201, 512)[200] @ sinusoids(1, 512)[0]) / 256],
    "e9": lambda: [turning(0.1), turning(1), moving_features()],
    "e10": lambda: [2 * math.pi * 10000 ** (62 / 64), 2 * math.pi * 10000 ** (510 / 512), 2 * math.pi * 10000],
    "e11": lambda: [float(np.linalg.norm(np.subtract(*sinusoids(14, 64)[[3, 13]]))), 0, None, None],
    "e12": lambda: [len({10000 ** (2 * (feature // 2) / 6) for feature in range(6)}), wave(2, 6)],
    "e13": lambda: [511, None],
    "e14": lambda: [6, nn.MultiheadAttention(512, 8, device="meta").in_proj_weight.shape[1]],
    "e15": lambda: [10 * 512, nn.MultiheadAttention(512, 8, device="meta").out_proj.weight.numel()],
    "e16": lambda: [0, 1, None, None, None],
    "e17": lambda: [None, 0, None],
    "e18": lambda: [3, 3, 0, 0],
    "e19": lambda: [10000**0.5, math.sin(0.1), math.sin(angle(1, 1, 4))],
    "e20": lambda: [3, math.sin(3)],
    "e21": lambda: [math.sin(1), 0, math.sin(1)],
    "e22": lambda: [100, 0.01, 2 * math.pi * 100],
    "e23": lambda: [len(f"{15:b}"), 16 * 32],
    "e24": lambda: [1, 10000 ** (-510 / 512), 0],
    "e25": lambda: [angle(1, 1, 2048), 1023, angle(1, 1023, 2048)],
    "e26": lambda: [4096 // 32, 64],
    "e27": lambda: [wave(31, 64), wave(511, 1024), wave(31, 64, 500000)],
    "e28": lambda: [4 ** (2 * i / 126) for i in (0, 32, 63)],
    "e29": lambda: [*ramp(), middle_of_the_ramp(), 1 / (0.1 * math.log(4) + 1) ** 2],
    "e30": lambda: [0, 0],
    "e31": lambda: [
        sum(wave(i, 128) > 4096 for i in range(64)),
        angle(4095, 63, 128),
        angle(16383, 63, 128),
        copying("rotary", seen=True),
        copying("rotary", seen=False),
    ],
    "e32": lambda: [math.sin(1), math.cos(1)],
    "e33": lambda: [math.cos(3), 1, 1],
    "e34": lambda: [wave(255, 512), math.sin(angle(1, 1, 6))],
    "e35": lambda: [3],
    "e36": lambda: [0],
    "e37": lambda: [1, first_rise(128), 200],
    "e38": lambda: [1, 0],
    "e39": lambda: [8, math.sqrt(8)],
}


@pytest.fixture(scope="module")
def page() -> str:
    return errata_markdown()


def test_the_keys() -> None:
    assert set(ENTRIES) == {f"e{number}" for number in range(1, len(ENTRIES) + 1)} == set(EXPECTED)
    assert len(ENTRIES) >= 31


@pytest.mark.parametrize("key", sorted(EXPECTED, key=lambda key: int(key[1:])))
def test_values(key: str) -> None:
    expected = EXPECTED[key]()
    values = ENTRIES[key].values()
    for value, number in zip(values, expected, strict=True):
        if number is not None:
            assert value.number == pytest.approx(number, rel=1e-5, abs=2e-6), value.what
    # What is stated is not what is computed, in the digits that are shown.
    stated = [value for value in values if value.stated is not None]
    assert not stated or any(value.stated_text != value.computed_text for value in stated)
    # Where no number is stated at all, the refutation below is by what the numbers are.
    assert stated or key in {"e2", "e9", "e28", "e30"}


def test_statements_without_numbers() -> None:
    with pytest.raises(SyntaxError):
        compile(ENTRIES["e2"].statement.split("`")[1], "listing", "exec")
    assert all(value.number > 256 / 3 for value in ENTRIES["e9"].values())  # e9: not the first few
    fastest, middle, slowest = (value.number for value in ENTRIES["e28"].values())
    assert fastest < middle < slowest  # e28: the low dimensions are slowed least
    assert all(value.number < 1e-5 for value in ENTRIES["e30"].values())  # e30: a cache is no difference


def test_order_without_positions_in_torch_s_own_layers() -> None:
    """E3: an encoder of torch without positions does not see a swap, and under a causal mask it does."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(1, 5, 16)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    with torch.no_grad():
        for mask, differs in ((None, False), (causal, True)):
            last = [encoder(x[:, order], mask=mask)[0, -1] for order in ([0, 1, 2, 3, 4], [1, 0, 2, 3, 4])]
            assert (float((last[1] - last[0]).abs().max()) > 1e-3) is differs
    decoder = ENTRIES["e3"].values()[1]
    assert decoder.number > 0.01


def test_random_numbers_say_what_they_should() -> None:
    """The numbers that depend on random weights."""
    assert 0 < ENTRIES["e13"].values()[1].number < 1
    first, second = (value.number for value in ENTRIES["e11"].values()[2:])
    assert abs(first - second) > 0.1
    causal, _, padding = (value.number for value in ENTRIES["e17"].values())
    assert causal > 0.01 < padding
    rotated = ENTRIES["e36"].values()[0]
    assert rotated.stated is not None
    assert rotated.stated > 0.01


def test_layer_norm_keeps_the_shape_of_a_distribution() -> None:
    """E16, by torch's own functions."""
    mean_of_a_feature, before, after = (value.number for value in ENTRIES["e16"].values()[2:])
    x = -torch.log((torch.arange(512, dtype=torch.float64) + 0.5) / 512)
    x = torch.stack((x, 2 * x + 1, 5 * x - 3))
    y = nn.functional.layer_norm(x, (512,))
    assert mean_of_a_feature == pytest.approx(float(y[:, 0].mean()), abs=1e-6)
    z = (x[1] - x[1].mean()) / x[1].std(unbiased=False)
    assert before == pytest.approx(float((z**3).mean()), rel=1e-6)
    assert after == pytest.approx(before, rel=1e-4)
    assert after > 1.5  # of a normal distribution 0


def test_the_right_end_of_the_listing_with_two_exponents() -> None:
    """E33: the listing itself, run, leaves the circle."""
    pe = np.zeros((200, 6))
    for p in range(200):
        for i in range(0, 6, 2):
            pe[p, i] = math.sin(p / 10000 ** (2 * i / 6))
            pe[p, i + 1] = math.cos(p / 10000 ** (2 * (i + 1) / 6))
    radius = (pe[:, :2] ** 2).sum(1)
    _, smallest, largest = ENTRIES["e33"].values()
    assert (smallest.stated, largest.stated) == (pytest.approx(radius.min()), pytest.approx(radius.max()))


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=lambda entry: entry.key)
def test_entries_name_figures_and_sources(entry: Erratum) -> None:
    assert set(entry.figures) <= set(FIGURES)
    assert re.search(r"\d{4}|Reference", entry.source)
    texts = [entry.title, entry.statement, entry.why, entry.formula, *(value.what for value in entry.values())]
    assert not re.search(r"[<>](?!/?su[bp]>)", re.sub("</?su[bp]>|`[^`]*`", "", " ".join(texts)))


def test_the_page_of_the_documentation_is_fresh(page: str) -> None:
    written = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    assert written == page, "write it anew: locant figures errata --format md --output docs"


def test_the_page_in_html() -> None:
    text = render_errata(gallery="index.html", drawn=["waves", "masks"])
    for key in ENTRIES:
        assert f'id="{key}"' in text
    identifiers = re.findall(r' id="([^"]+)"', text)
    assert len(set(identifiers)) == len(identifiers)
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(identifiers)
    linked = set(re.findall(r'href="index.html#([^"]+)"', text))
    assert linked == {"waves", "masks"}
    assert "60,611 tokens" in text
    assert not re.search(r"https?://", text)  # complete in itself
    assert 'href="index.html' not in render_errata()


def test_figures_link_to_the_errata_that_they_show() -> None:
    figures = {"circle": FIGURES["circle"]()}
    assert 'href="errata.html#e12"' in render_gallery(figures, errata="errata.html")
    assert "errata" not in re.sub(r"(?s)<style>.*?</style>", "", render_gallery(figures))


def test_unknown_keys() -> None:
    assert get_erratum("E4") is get_erratum("e4")
    with pytest.raises(UsageError, match="There is no erratum 'e99'"):
        get_erratum("e99")
