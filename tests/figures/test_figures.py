"""What the figures draw, read from the artists in them and compared with numbers from elsewhere."""

import cmath
import io
import itertools
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.text import Text
from PIL import Image

from locant.app import render_gallery
from locant.errors import ConfigError, DataError, LocantError, MissingExtraError, UsageError
from locant.figures import FIGURES, FORMATS, FigureData, draw_figure, svg, write_figures
from locant.figures.animations import ANIMATIONS, animation
from locant.figures.drawing import svg_text
from locant.figures.files import slides_of
from locant.figures.numbers import embedding_schemes
from locant.figures.palette import BLUE, DARK, FAINT, INK, VARIABLES, VERMILION
from locant.figures.spectrum import HEAD_DIM, TARGET, TRAINED

GENERAL = [name for name, figure in FIGURES.items() if not figure.needs_run]


class Drawn(dict[str, FigureData]):
    """Figures with their defaults, each of which is drawn when it is asked for."""

    def __missing__(self, name: str) -> FigureData:
        self[name] = draw_figure(name)
        return self[name]


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    return Drawn()


def panels(figure: Any) -> dict[str, Any]:
    return {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_title(loc="left")}


def image_in(axes: Any) -> np.ndarray:
    return np.asarray(axes.images[0].get_array())


def line_in(axes: Any, label: str) -> np.ndarray:
    """The one line with a label."""
    (line,) = (line for line in axes.lines if line.get_label() == label)
    return np.asarray(line.get_xydata())


def mark_in(axes: Any, marker: str = "o") -> np.ndarray:
    """The place of the one point that is drawn by itself with such a marker."""
    (point,) = (line for line in axes.lines if line.get_marker() == marker and len(line.get_xdata()) == 1)
    return np.asarray(point.get_xydata()[0])


def sinusoids(length: int, width: int, base: float = 10000.0) -> np.ndarray:
    """The formula of section 3.5 of Vaswani et al. 2017, feature by feature."""
    table = np.empty((length, width))
    for position in range(length):
        for feature in range(width):
            angle = position / base ** (2 * (feature // 2) / width)
            table[position, feature] = math.cos(angle) if feature % 2 else math.sin(angle)
    return table


@pytest.mark.parametrize(("length", "width", "base"), [(50, 128, None), (16, 32, None), (20, 8, 500.0)])
def test_heatmap_of_the_paper(length: int, width: int, base: float | None) -> None:
    given = {"length": length, "d_model": width} | ({} if base is None else {"base": base})
    axes = draw_figure("heatmap", **given).figure.axes[0]
    np.testing.assert_allclose(image_in(axes), sinusoids(length, width, base or 10000.0), atol=4e-8)
    assert axes.get_aspect() == 1  # square cells


def test_heatmap_of_numbers_and_digits() -> None:
    def of(scheme: str) -> np.ndarray:
        return image_in(draw_figure("heatmap", scheme=scheme, length=16, d_model=32).figure.axes[0])

    assert of("index")[:, 0].tolist() == list(range(16))
    assert not of("index")[:, 1:].any()
    np.testing.assert_allclose(of("normalised-index")[:, 0], np.arange(16) / 15, rtol=1e-7)
    assert ["".join(f"{bit:.0f}" for bit in row[3::-1]) for row in of("binary")] == [f"{p:04b}" for p in range(16)]
    learned = of("learned")
    assert 0.8 < learned.std() * math.sqrt(32) < 1.2


def test_heatmaps_show_every_input_scheme(drawn: Drawn) -> None:
    shown = panels(drawn["heatmaps"].figure)
    titles = {title.split(",")[0] for title in shown}
    assert titles == set(embedding_schemes())
    assert titles >= {"sinusoidal", "learned", "index", "normalised-index", "binary"}
    np.testing.assert_allclose(image_in(shown["sinusoidal, paper"]), sinusoids(16, 32), atol=4e-8)
    assert "initial values" in next(title for title in shown if title.startswith("learned"))


def test_waves(drawn: Drawn) -> None:
    figure = drawn["waves"].figure
    assert len(figure.axes) == 8
    for pair, axes in enumerate(figure.axes):
        rate = 10000 ** (-2 * pair / 16)
        for label, wave in (("sine", np.sin), ("cosine", np.cos)):
            curve = line_in(axes, label)
            np.testing.assert_allclose(curve[:, 1], wave(curve[:, 0] * rate), atol=1e-12)
        assert mark_in(axes, "o") == pytest.approx((20, math.sin(20 * rate)), abs=4e-8)
        assert mark_in(axes, "s") == pytest.approx((20, math.cos(20 * rate)), abs=4e-8)
    texts = [text.get_text() for text in figure.axes[2].texts]
    assert texts == ["sin +0.909", "cos \N{MINUS SIGN}0.416"]  # pair 2 turns by 2 radians in 20 tokens


def test_waves_of_a_wide_code_are_some_of_its_pairs() -> None:
    drawn = draw_figure("waves", d_model=512)
    assert drawn.data["pairs"].tolist() == [0, 36, 73, 109, 146, 182, 219, 255]
    np.testing.assert_allclose(drawn.data["wavelengths"], 2 * np.pi * 10000 ** (drawn.data["pairs"] / 256))


def test_dot_products(drawn: Drawn) -> None:
    shown = panels(drawn["dot-products"].figure)
    apart = np.abs(np.subtract.outer(np.arange(100), np.arange(100)))
    curve = next(axes for title, axes in shown.items() if title.startswith("From position 0"))
    curves = {line.get_label(): line.get_ydata() for line in curve.lines}
    for width, rise in ((20, 5), (64, 6), (512, 44)):
        rates = 10000.0 ** (-np.arange(width // 2) / (width // 2))
        row = np.cos(np.arange(100)[:, None] * rates).mean(1)
        np.testing.assert_allclose(image_in(shown[f"d = {width}"]), row[apart], atol=1e-6)
        np.testing.assert_allclose(curves[f"d = {width}, first rise at distance {rise}"], row, atol=1e-6)
        assert np.flatnonzero(np.diff(row) > 0)[0] + 1 == rise
        marks = [line for line in curve.lines if line.get_marker() == "o" and line.get_xdata()[0] == rise]
        assert len(marks) == 1


def test_clocks(drawn: Drawn) -> None:
    axes = drawn["clocks"].figure.axes[0]
    segments = np.array(axes.collections[0].get_segments()).reshape(13, 4, 2, 2)
    hands = (segments[:, :, 1] - segments[:, :, 0]) / 0.4
    for position in range(13):
        for column, rate in enumerate((0.001, 0.01, 0.1, 1.0)):  # the slowest at the left
            across, down = hands[position, column]
            assert (across, -down) == pytest.approx((math.sin(position * rate), math.cos(position * rate)), abs=1e-6)
    digits = [text.get_text() for text in axes.texts if re.fullmatch("[0-9]", text.get_text())]
    boxed = "".join(f"{p:02d}" for p in range(13)) + "".join(f"{p:04b}" for p in range(13))
    assert boxed in "".join(digits)


def test_circle(drawn: Drawn) -> None:
    axes = drawn["circle"].figure.axes[0]
    points = {
        tuple(line.get_xydata()[0].round(6))
        for line in axes.lines
        if line.get_markersize() == 6 and len(line.get_xdata()) == 1
    }
    assert points >= {(round(math.sin(p), 6), round(math.cos(p), 6)) for p in range(7)}
    rings = [line.get_xydata()[0] for line in axes.lines if line.get_markersize() == 12]
    np.testing.assert_allclose(rings, [(math.sin(p + 2), math.cos(p + 2)) for p in (0, 1, 3)], atol=1e-6)
    arcs = [line.get_xydata() for line in axes.lines if len(line.get_xdata()) == 60]
    swept = [np.unwrap(np.arctan2(arc[:, 0], arc[:, 1])) for arc in arcs]
    np.testing.assert_allclose([angle[-1] - angle[0] for angle in swept], [2.0] * 3)
    expected = [[math.cos(2), math.sin(2)], [-math.sin(2), math.cos(2)]]
    np.testing.assert_allclose(drawn["circle"].data["matrix"], expected, atol=1e-9)
    assert axes.get_aspect() == 1


def test_distance(drawn: Drawn) -> None:
    near, far = drawn["distance"].figure.axes
    rates = 10000.0 ** (-np.arange(64) / 64)
    for centre in ("500", "1,000,000"):
        curve = line_in(near, f"around position p = {centre}")
        assert curve[[0, -1], 0].tolist() == [-125, 125]
        np.testing.assert_allclose(curve[:, 1], np.cos(np.outer(curve[:, 0], rates)).mean(1), atol=1e-6)
        np.testing.assert_allclose(curve[:, 1], curve[::-1, 1], atol=1e-6)
    (line,) = far.lines
    bound = np.asarray(line.get_xydata())
    assert bound[0].tolist() == [0, 32.5]  # |S_j| = j at distance 0, the mean of 1 .. 64
    for distance in (1, 17, 250):
        sums = [abs(sum(cmath.exp(1j * distance * rate) for rate in rates[:j])) for j in range(1, 65)]
        assert bound[distance, 1] == pytest.approx(sum(sums) / 64, rel=1e-9)


def markers(axes: Any) -> dict[int, float]:
    points = [tuple(point) for line in axes.lines if line.get_linestyle() == "None" for point in line.get_xydata()]
    assert len(points) == HEAD_DIM // 2
    return dict(points)


@pytest.mark.parametrize(
    ("title", "name", "options"),
    [
        ("PI", "linear", {}),
        ("YaRN", "yarn", {}),
        ("Llama 3", "llama3", {"low_freq_factor": 1.0, "high_freq_factor": 4.0}),
    ],
)
def test_spectrum_is_that_of_transformers(drawn: Drawn, title: str, name: str, options: dict[str, float]) -> None:
    transformers = pytest.importorskip("transformers")
    rope = pytest.importorskip("transformers.modeling_rope_utils")
    parameters = {"rope_type": name, "rope_theta": 10000.0, "factor": 32.0, "original_max_position_embeddings": TRAINED}
    config = transformers.LlamaConfig(
        hidden_size=2 * HEAD_DIM,
        num_attention_heads=2,
        head_dim=HEAD_DIM,
        max_position_embeddings=TARGET,
        rope_parameters={**parameters, **options},
    )
    frequencies, _ = rope.ROPE_INIT_FUNCTIONS[name](config, torch.device("cpu"))
    shown = markers(panels(drawn["spectrum"].figure)[title])
    np.testing.assert_allclose([shown[pair] for pair in range(48)], 2 * np.pi / frequencies.double(), rtol=5e-6)


def test_spectrum(drawn: Drawn) -> None:
    shown = panels(drawn["spectrum"].figure)
    plain = 2 * np.pi * 10000.0 ** (np.arange(48) / 48)
    slower = 2 * np.pi * (10000.0 * 32 ** (96 / 94)) ** (np.arange(48) / 48)
    published = {0: 1.03, 11: 2.86, 24: 30.01, 47: 64.81}  # Phi-3-mini-128k-instruct, long_factor
    for name, expected in (("no scaling", plain), ("NTK-aware", slower)):
        points = markers(shown[name])
        np.testing.assert_allclose([points[pair] for pair in range(48)], expected, rtol=1e-9)
    points = markers(shown["LongRoPE"])
    assert all(points[pair] == pytest.approx(plain[pair] * factor) for pair, factor in published.items())
    assert (plain <= TRAINED).sum() == 34
    assert "34 of 48 pairs make a turn" in drawn["spectrum"].figure.get_suptitle()

    def notes(name: str) -> str:
        return " ".join(text.get_text() for text in shown[name].texts)

    assert notes("no scaling") == "new angles from token 4,096"
    # The first token that turns a slow pair farther than the trained length did.
    short = plain > TRAINED
    first = next(p for p in range(TRAINED, TARGET) if (p / slower[short] >= TRAINED / plain[short]).any())
    assert notes("NTK-aware") == f"new angles from token {first:,}"
    assert all(notes(name) == "no angle is new" for name in ("PI", "NTK-by-parts", "Llama 3"))
    assert notes("YaRN").endswith(f"attention scale {0.1 * math.log(32) + 1:.3f}")
    assert notes("LongRoPE").endswith(f"attention scale {math.sqrt(1 + math.log(32) / math.log(4096)):.3f}")
    # Pairs that training turned fully stay out of danger; unscaled, exactly the others are in it.
    assert drawn["spectrum"].data["fates no scaling"].tolist() == ["kept"] * 34 + ["extrapolated"] * 14


def test_bias(drawn: Drawn) -> None:
    shown = panels(drawn["bias"].figure)
    assert {title for title in shown if "fixed" in title} == {"ALiBi (fixed)", "Sandwich (fixed)"}
    distances = np.arange(200)
    rates = 10000.0 ** (-np.arange(64) / 64)
    for head in range(8):
        alibi = line_in(shown["ALiBi (fixed)"], f"head {head + 1}")
        np.testing.assert_allclose(alibi[:, 1], -distances / 2 ** (head + 1))  # slopes 1/2 .. 1/256
        sandwich = line_in(shown["Sandwich (fixed)"], f"head {head + 1}")
        np.testing.assert_allclose(sandwich[:, 1], np.cos(np.outer(distances, rates)).sum(1) / (head + 1), atol=1e-6)
        kerple = line_in(shown["KERPLE (learned)"], f"head {head + 1}")[:, 1]
        assert kerple[0] == 0
        # -r1 log(1 + r2 k): the steps towards k = 1, 3, 7 tell r1 and r2.
        r1, r2 = _kerple(kerple)
        assert min(r1, r2) > 0
        np.testing.assert_allclose(kerple, -r1 * np.log1p(r2 * distances), atol=0.1)  # of two digits
    assert len([line for line in shown["FIRE (learned)"].lines if len(line.get_xdata()) == 200]) == 8


def _kerple(values: np.ndarray) -> tuple[float, float]:
    """Solve for the two parameters from the values at 1 and 199, by bisection."""
    low, high = 1e-6, 10.0
    for _ in range(200):
        middle = math.sqrt(low * high)
        ratio = math.log1p(middle) / math.log1p(199 * middle)
        low, high = (middle, high) if ratio < values[1] / values[199] else (low, middle)
    return -values[199] / math.log1p(199 * low), low


def test_bias_of_t5_is_constant_in_its_buckets(drawn: Drawn) -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    offsets = -torch.arange(200)
    buckets = t5.T5Attention._relative_position_bucket(offsets, bidirectional=False, num_buckets=32, max_distance=128)
    values = image_in(panels(drawn["bias"].figure)["T5 (learned)"])
    assert values.shape == (8, 200)
    for bucket in range(32):
        inside = values[:, (buckets == bucket).numpy()]
        assert (inside == inside[:, :1]).all()
    assert len(np.unique(values, axis=1).T) > 16  # a value of two digits each


@pytest.mark.slow
def test_the_page_is_complete_in_itself(drawn: Drawn) -> None:
    page = render_gallery({name: drawn[name] for name in GENERAL})
    assert re.findall(r'<h2 id="([^"]+)">', page) == GENERAL
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert all(source.startswith(("#", "data:image/png;base64,")) for source in sources)
    assert "img-src data:" in page
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len([each for each in ids if each.endswith("-drawn")]) == len(GENERAL)
    for name in GENERAL:
        assert {f"{name}-drawn", name} <= set(ids)
        assert f'<use href="#{name}-drawn"' in page  # the small one


def test_figures_on_a_page_have_its_colours(drawn: Drawn) -> None:
    """Nothing is behind them, and every colour of letters and lines can be replaced."""
    element = svg(drawn["waves"], name="waves", description="Waves")
    assert not re.search(r"fill: #fff(fff)?", element)
    for colour in (INK, FAINT, BLUE, VERMILION):
        assert f"var(--{VARIABLES[colour]}, {colour})" in element
        assert not re.search(rf": {colour}\b", element, re.IGNORECASE)
    dark = svg_text(drawn["waves"], dark=True)
    assert DARK[INK] in dark
    assert INK not in dark


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", GENERAL)
def test_slides_can_be_read(name: str) -> None:
    slides = list_of_letters(slides_of(FIGURES[name], {}))
    assert slides
    for width, height, letters in slides:
        assert width / height == pytest.approx(16 / 9)
        assert letters * 40 / 3 / width >= 23.99  # points on a slide 13.33 inches wide


def list_of_letters(slides: Iterator[FigureData]) -> list[tuple[float, float, float]]:
    """Width and height of each slide, and its smallest letters; a figure is changed for the next one."""
    found = []
    for slide in slides:
        words_have_their_places(slide)
        letters = min(text.get_fontsize() for text in words_of(slide))
        found.append((*slide.figure.get_size_inches(), letters))
    return found


def words_of(drawn: FigureData) -> list[Text]:
    panels = [axes for axes in drawn.figure.axes if axes.get_visible()]
    words = [*drawn.figure.texts, *(text for axes in panels for text in axes.findobj(Text))]
    return [text for text in words if text.get_text().strip() and text.get_visible()]


def words_have_their_places(drawn: FigureData) -> None:
    """Nothing is cut at the edges, and no two texts stand on each other."""
    drawn.figure.draw_without_rendering()
    whole = drawn.figure.bbox
    panels = drawn.figure.findobj(Axes)
    ticks = [
        tick for axes in panels for axis in (axes.xaxis, axes.yaxis) for tick in (*axis.majorTicks, *axis.minorTicks)
    ]
    hidden = {label for tick in ticks for label in (tick.label1, tick.label2)}  # some are beyond the ends of their axis
    hidden |= {axis.label for axes in panels if not axes.axison for axis in (axes.xaxis, axes.yaxis)}
    words = [text for text in words_of(drawn) if text.get_in_layout() and text not in hidden]
    boxes = [(text.get_text(), text.get_window_extent()) for text in words]
    for text, box in boxes:
        assert min(box.x0, box.y0) >= -2, text
        assert box.x1 <= whole.width + 2, text
        assert box.y1 <= whole.height + 2, text
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        across, down = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        if one != other and across > 0 and down > 0:
            assert across * down < 0.25 * min(a.width * a.height, b.width * b.height), (one, other)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", GENERAL)
def test_words_have_their_places(drawn: Drawn, name: str) -> None:
    words_have_their_places(drawn[name])


def test_files_of_slides(tmp_path: Path) -> None:
    write_figures(["teacher-forcing"], tmp_path, slides=True)
    assert {path.name for path in tmp_path.iterdir()} == {f"teacher-forcing-{number}.png" for number in (1, 2, 3)}
    assert Image.open(tmp_path / "teacher-forcing-1.png").size == (1920, 1080)


@pytest.mark.slow
def test_animations_move() -> None:
    for name in ANIMATIONS:
        moving = Image.open(io.BytesIO(animation(name)))
        assert moving.n_frames == 48
        assert moving.info["loop"] == 0  # for ever
        assert name in FIGURES


@pytest.mark.parametrize("image_format", FORMATS)
def test_files(tmp_path: Path, image_format: str) -> None:
    wrote: list[Path] = []
    write_figures(["circle"], tmp_path / "new", image_format=image_format, wrote=wrote.append)
    file = tmp_path / "new" / f"circle.{image_format}"
    assert wrote == list((tmp_path / "new").iterdir()) == [file]
    before = file.read_bytes()
    assert before.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[image_format])
    assert len(before) > 5000
    write_figures(["circle"], tmp_path / "new", image_format=image_format)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "options", "error", "said"),
    [
        ("clock", {}, UsageError, r"'clock'\. Did you mean 'clocks'\?"),
        ("circle", {"length": 3}, UsageError, "'circle' does not take --length. It has no options"),
        ("clocks", {"scheme": "binary"}, UsageError, "does not take --scheme. It takes --d-model, --length, --base"),
        ("heatmap", {"length": 4097}, UsageError, "--length of the figure 'heatmap' must be 2 to 4,096; got 4,097"),
        ("waves", {"d_model": 0}, UsageError, "--d-model of the figure 'waves' must be 2 to 4,096; got 0"),
        ("waves", {"d_model": 7}, ConfigError, "need an even width"),
        ("waves", {"token": 60}, UsageError, "--token 60 is not among the 60 positions"),
        ("waves", {"token": -1}, UsageError, "--token of the figure 'waves' must be 0 to 999; got -1"),
        ("waves", {"base": math.nan}, UsageError, "--base must be above 1"),
        ("waves", {"base": math.inf}, UsageError, "--base must be above 1"),
        ("heatmap", {"scheme": "sinusodial"}, ConfigError, "Did you mean 'sinusoidal'"),
        ("heatmap", {"scheme": "rotary"}, ConfigError, "'rotary' adds nothing to the input embeddings"),
        ("heatmap", {"dialect": "tensor2tensors"}, ConfigError, "Did you mean 'tensor2tensor'"),
        ("heatmap", {"scheme": "binary", "base": 100.0}, ConfigError, "'binary' has no option 'base'"),
        ("heatmap", {"scheme": "binary", "d_model": 4}, DataError, "outside the 16 known positions"),
    ],
)
def test_mistakes(tmp_path: Path, name: str, options: dict[str, Any], error: type[LocantError], said: str) -> None:
    with pytest.raises(error, match=said):
        write_figures([name], tmp_path / "none", options=options)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_missing_packages(monkeypatch: pytest.MonkeyPatch, drawn: Drawn, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"locant\[report\]"):
        render_gallery({"waves": drawn["waves"]}) if package == "jinja2" else draw_figure("waves")
