"""The page of figures with knobs: the explorer's own pictures, computed for every setting of a few knobs.

Each figure is a script that carries its pictures as plain data, so that the page needs no server and works from
a folder. ``interactive.js`` puts knobs above a figure and draws the picture that they choose.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs
from site_folder import SiteFolder

from locant.app import explorer
from locant.app.explorer import context_panels, rotation_panels
from locant.app.explorer.charts import chart
from locant.app.explorer.pages import transformer
from locant.app.explorer.panels import Panel
from locant.app.explorer.scheme_panels import Knobs, pictures
from locant.app.explorer.shown_models import EXAMPLE, shown_models
from locant.app.explorer.transformer_panels import Viewer
from locant.figures import FIGURES
from locant.files import write_text


@dataclass(frozen=True)
class Knob:
    """Something to set.

    Attributes:
        label: What it is.
        values: What it can be, in order.
        start: What it is at first.
    """

    label: str
    values: Sequence[Any]
    start: Any


@dataclass(frozen=True)
class Interactive:
    """A figure with knobs.

    Attributes:
        name: Of its place on the page and of its script.
        title: Heading.
        text: What to do, and what to see.
        knobs: Knobs; a picture is computed for every combination of their values.
        panel: Returns the numbers of a picture for one value a knob.
        figures: Figures of :data:`~locant.figures.FIGURES` about the same.
    """

    name: str
    title: str
    text: str
    knobs: Sequence[Knob]
    panel: Callable[..., Panel]
    figures: Sequence[str] = ()


_BASES = (2, 10, 100, 1000, 10_000, 500_000)
_LENGTH = 64
_STACKS = {"encoder": "none", "decoder": "causal"}
_WORDS = {"none": "none", "sinusoidal": "sinusoidal", "learned": "learned", "rotary": "rotary", "ALiBi": "alibi"}
_BIASES = {"ALiBi": "alibi", "T5": "t5", "KERPLE": "kerple", "FIRE": "fire", "Sandwich": "sandwich"}
_TRAINED = 4096


def _scheme(scheme: str, picture: str, **knobs: Any) -> Panel:
    values = {"width": 64, "length": _LENGTH, "base": 10_000.0, "position": 0, "offset": 1} | knobs
    return pictures(scheme, Knobs(**values))[picture].panel()


@cache
def _viewer() -> Viewer:
    return Viewer(shown_models(None))


def _transformer(picture: str, **knobs: Any) -> Panel:
    """Return a picture of the explorer's small example: 2 layers, 6 features, 3 heads, "the dog bites the man"."""
    viewer = _viewer()
    values = transformer.first_values(viewer, EXAMPLE, knobs.get("stack", "encoder")) | knobs
    return viewer.pictures(**values)[picture].panel()


INTERACTIVES = (
    Interactive(
        "codes",
        "The code of every position",
        "Each row is what one position adds to the embedding of its token. Widen the code: the wavelengths lie closer, "
        "all of them between 2 pi and 2 pi times the base. Lower the base: more of the pairs turn within these 64 "
        "positions, until with base 2 all of them do.",
        (Knob("width d", (4, 8, 16, 32, 64, 128), 64), Knob("base", _BASES, 10_000)),
        lambda width, base: _scheme("sinusoidal", "heatmap", width=width, base=float(base)),
        ("heatmap", "waves"),
    ),
    Interactive(
        "products",
        "How much codes resemble each other",
        "The dot product of the code of position 32 with that of every other position: the nearest are the most alike. "
        "With 4 features and base 10,000 it is nearly as high again 19 tokens on, as if these were near; many features "
        "prevent that. With a larger base more pairs hardly differ between near and far, and it sinks less.",
        (Knob("width d", (4, 8, 16, 32, 64, 128), 64), Knob("base", _BASES, 10_000)),
        lambda width, base: _scheme("sinusoidal", "distance", width=width, base=float(base), position=_LENGTH // 2),
        ("dot-products", "distance"),
    ),
    Interactive(
        "hands",
        "The hands of the pairs",
        "Every pair of features is the hand of a clock. Rotary positions turn each pair of a query and a key by this "
        "angle; the sinusoids write its sine and cosine. Step the position: the first hand makes a turn in 6.28 "
        "tokens, the last hardly moves. With a smaller base the slow hands catch up.",
        (Knob("position", range(33), 5), Knob("base", (10, 100, 10_000), 10_000)),
        lambda position, base: rotation_panels.clocks(32, 33, float(base), position),
        ("clocks", "turning-pairs"),
    ),
    Interactive(
        "shift",
        "One turn for every shift",
        "Change the position: the same matrix turns all the codes into those of k tokens farther on. Change the "
        "offset k: the matrix is another one, and still the same for all positions.",
        (Knob("position p", range(9), 1), Knob("offset k", range(1, 13), 2)),
        lambda position, offset: rotation_panels.circle("PE", position, offset),
        ("circle", "shift-derivation", "sine-alone"),
    ),
    Interactive(
        "attention",
        "The scores of one token",
        "“the dog bites the man” in a model of 6 features and 3 heads. Choose a token: its query meets the key of "
        "every token, the products are divided by the square root of the 2 features of a head, the decoder's mask "
        "hides what comes later, and the softmax makes weights of the rest. The first token that the decoder reads can "
        "look at itself alone.",
        (Knob("token", range(1, 6), 3), Knob("head", range(1, 4), 1), Knob("stack", tuple(_STACKS), "decoder")),
        lambda token, head, stack: _transformer("scores", token=token, head=head, stack=stack, mask=_STACKS[stack]),
        ("attention-steps", "masks", "dot-product-scaling"),
    ),
    Interactive(
        "swap",
        "Two words change places",
        "How far the vector of every word moves when “dog” and “man” are swapped, wherever the word stands afterwards. "
        "Without positions nothing moves in the encoder: to it the sentence is a bag of words. With any scheme words "
        "move, and not those two alone; in the causal decoder, where later words see more, even without.",
        (Knob("scheme", tuple(_WORDS), "sinusoidal"), Knob("stack", tuple(_STACKS), "encoder")),
        lambda scheme, stack: _transformer("swap", scheme=_WORDS[scheme], stack=stack, mask=_STACKS[stack]),
        ("masks",),
    ),
    Interactive(
        "context",
        "Longer contexts",
        "How much each scaling slows down the pairs of a rotary model that was trained on 4,096 tokens (heads of 128 "
        "features). Position interpolation slows all of them alike, NTK the slow ones more, YaRN leaves the fast ones "
        "as they were. With the larger base more pairs make no full turn within the trained length, and YaRN slows "
        "more of them down.",
        (
            Knob("wanted length", tuple(_TRAINED * 2**power for power in range(1, 8)), 4 * _TRAINED),
            Knob("base", (10_000, 500_000), 10_000),
        ),
        lambda wanted, base: context_panels.pictures(128, base, _TRAINED, wanted)["slowed"].panel(),
        ("spectrum",),
    ),
    Interactive(
        "biases",
        "Biases of the distance",
        "What a scheme adds to the score of a key that stands so many tokens before the query, one line a head. "
        "ALiBi's lines fall evenly, each head half as steep as the one before; T5 has steps that become wider. "
        "Schemes with trained values are shown as they begin.",
        (Knob("scheme", tuple(_BIASES), "ALiBi"), Knob("length", (16, 64, 256), 64)),
        lambda scheme, length: _scheme(_BIASES[scheme], "distance", width=512, length=length),
        ("bias",),
    ),
)
"""The figures of the page, in its order."""

_BEGIN = """# Figures to play with

Drag a knob, or move it with the arrow keys. Every picture was computed by Locant when this site was made; for other
values, other schemes and models of your own there is [`locant explore`](docs/explorer.md), whose pictures these are.

```{raw} html
<link rel="stylesheet" href="interactive/pictures.css">
<script defer src="interactive/plotly.min.js"></script>
<script defer src="interactive/palette.js"></script>
<script defer src="interactive/matrix.js"></script>
<script defer src="interactive/interactive.js"></script>
```

"""


def write_interactive(folder: SiteFolder, scripts: Path) -> None:
    """Write the page, and its scripts to a folder of their own."""
    scripts.mkdir(parents=True, exist_ok=True)
    write_text(scripts / "plotly.min.js", get_plotlyjs())
    shared = [files(explorer) / "assets" / name for name in ("pictures.css", "palette.js", "matrix.js")]
    for file in (*shared, Path(__file__).with_name("interactive.js")):
        write_text(scripts / file.name, file.read_text("utf-8"))
    for figure in INTERACTIVES:
        write_text(scripts / f"{figure.name}.js", script(figure))
    folder.write(Path("interactive.md"), _BEGIN + "\n".join(map(_section, INTERACTIVES)))


def script(figure: Interactive) -> str:
    """Return the script that brings the pictures of a figure, the values of the last knob next to each other."""
    drawn = [chart(figure.panel(*values)) for values in itertools.product(*(knob.values for knob in figure.knobs))]
    knobs = [
        {"label": knob.label, "values": list(map(_written, knob.values)), "start": list(knob.values).index(knob.start)}
        for knob in figure.knobs
    ]
    data = json.dumps({"knobs": knobs, "charts": drawn}, separators=(",", ":"))
    return f"locantFigure({json.dumps(figure.name)}, {data});\n"


def _written(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _section(figure: Interactive) -> str:
    """Return the part of the page about a figure, in MyST Markdown."""
    drawn = ", ".join(f"[{FIGURES[name].caption.title}](gallery.md#{name})" for name in figure.figures)
    lines = [
        f"({figure.name})=",
        f"## {figure.title}",
        "",
        figure.text,
        "",
        "```{raw} html",
        f'<div class="interactive" role="group" data-figure="{figure.name}" aria-label="{figure.title}">',
        "<noscript>This figure needs JavaScript.</noscript></div>",
        "```",
        "",
        f"Drawn to be printed: {drawn}.",
        "",
    ]
    return "\n".join(lines)
