"""A scheme, a scaling and a figure that somebody registers are found wherever figures are chosen and shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from locant.app import render_gallery
from locant.cli import main
from locant.errors import UsageError
from locant.figures import FIGURES, Caption, draw_figure, get_figure, heatmap, register_figure, write_figures
from locant.positions import SCHEMES, ALiBi, PositionScheme, register_scheme
from locant.positions.scaling import FrequencyScaling
from locant.positions.scaling.frequency import REGISTERED, register_scaling


@pytest.fixture
def steps() -> Iterator[str]:
    """A scheme whose code is the position in steps of four."""

    @register_scheme("steps")
    class Steps(PositionScheme):
        title = "Steps of four"
        paper = "Nobody 2030"

        def __init__(self, dim: int) -> None:
            super().__init__()
            self.dim = dim

        @classmethod
        def for_model(cls, shape: Any, **options: Any) -> Any:
            return cls(shape.model_dim, **options)

        def embed(self, x: Tensor, positions: Tensor) -> Tensor:
            return x + (positions // 4).to(x.dtype).unsqueeze(-1)

    yield "steps"
    del SCHEMES["steps"]


@pytest.fixture
def halved() -> Iterator[str]:
    """Half of ALiBi's bias."""

    @register_scheme("halved")
    class Halved(ALiBi):
        title = "Half an ALiBi"

        def bias(self, offsets: Tensor) -> Tensor:
            return super().bias(offsets) / 2

    yield "halved"
    del SCHEMES["halved"]


@pytest.fixture
def thirds() -> Iterator[str]:
    """A scaling that slows every pair to a third."""

    @register_scaling("thirds")
    @dataclass(frozen=True, kw_only=True)
    class Thirds(FrequencyScaling):
        title = "Thirds"
        paper = "Nobody 2030"

        @classmethod
        def options_for_lengths(cls, **lengths: Any) -> dict[str, Any]:
            return {}

        def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
            return tuple(base ** (Decimal(-2 * pair) / dim) / 3 for pair in range(dim // 2))

    yield Thirds.title
    del REGISTERED["thirds"]


@pytest.fixture
def mask() -> Iterator[str]:
    """A figure of the causal mask."""

    def numbers(*, length: int = 8) -> dict[str, Any]:
        return {"table": np.tri(length), "title": "What a decoder sees"}

    caption = Caption(
        "The causal mask", "A query sees the keys up to its own.", "k &le; q", ("Keys after it are hidden.",)
    )
    register_figure("causal-mask", numbers=numbers, draw=heatmap, caption=caption, limits={"length": (2, 64)})
    yield "causal-mask"
    del FIGURES["causal-mask"]


@pytest.mark.slow
def test_a_code_is_drawn(steps: str) -> None:
    expected = np.repeat(np.arange(4.0), 4)
    np.testing.assert_array_equal(
        draw_figure("heatmap", scheme=steps, length=16, d_model=8).data["table"][:, 3], expected
    )
    np.testing.assert_array_equal(draw_figure("heatmaps").data[steps][:, 0], expected)


def test_a_bias_is_drawn_under_its_title(halved: str) -> None:
    values = draw_figure("bias", length=20).data
    np.testing.assert_allclose(values["Half an ALiBi (fixed)"], values["ALiBi (fixed)"] / 2)


def test_a_scaling_has_a_panel(thirds: str) -> None:
    numbers = draw_figure("spectrum").data
    np.testing.assert_allclose(numbers[f"scaled {thirds}"], 3 * numbers["wavelengths"])


def test_a_figure_is_listed_drawn_and_on_the_page(
    mask: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["figures"]) == 0
    listed = next(line for line in capsys.readouterr().out.splitlines() if mask in line)
    assert "The causal mask" in listed
    assert "--length" in listed
    assert main(["figures", mask, "--length", "5", "-o", str(tmp_path), "--format", "svg"]) == 0
    assert (tmp_path / f"{mask}.svg").exists()
    page = render_gallery(write_figures([mask], tmp_path))
    for said in (
        "<h2",
        "The causal mask",
        "k &le; q",
        "Keys after it are hidden.",
        f"locant figures {mask} -o figures",
    ):
        assert said in page
    with pytest.raises(UsageError, match="--length of the figure 'causal-mask' must be 2 to 64; got 65"):
        draw_figure(mask, length=65)


def test_no_figure_takes_the_name_of_another() -> None:
    for name in ("waves", "spectrum"):
        with pytest.raises(ValueError, match=f"There is a figure '{name}' already"):
            register_figure(name, numbers=dict, draw=heatmap, caption=Caption("", ""))
        assert get_figure(name).caption.title


def test_the_names_of_the_registry_are_those_that_the_figures_give_themselves() -> None:
    for name, figure in FIGURES.items():
        assert figure.name == name
        assert figure.caption.title
        assert figure.caption.formula
        # Of a caption the formula alone is HTML.
        assert not re.search(r"</?[a-z]+>|&[a-z]+;", " ".join((figure.caption.text, *figure.caption.points))), name
        assert set(figure.limits) <= set(figure.options)
