"""Teacher forcing: what the decoder reads in training and what it must say, and what it reads when it translates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from locant.analysis.introspection import token_pair
from locant.errors import DataError
from locant.figures.drawing import Figure, arrow, label, panels, write
from locant.figures.palette import BLUE, FAINT, HIDDEN, INK, ON_LIGHT, PAPER, VERMILION
from locant.figures.registry import register_figure
from locant.figures.trained import load_trained, readable
from locant.text.batches import decoder_input
from locant.text.tokenizer import BOS, EOS, PAD
from locant.training import load_run_evaluation

_TARGETS = ("ein Hund rennt", "zwei Kinder spielen im Park")
_MOST_TOKENS = 8  # of a target whose words can be read on a slide


def numbers(*, run: Path | None = None) -> dict[str, Any]:
    """Return two padded targets and a translation in progress, or a held-out target and what a trained model says.

    Raises:
        DataError: No held-out target is short enough.
    """
    if run is not None:
        return _of_run(run)
    words = list(dict.fromkeys(" ".join(_TARGETS).split()))
    names = {BOS: "(begin)", EOS: "(end)", PAD: "(pad)", **{EOS + 1 + place: word for place, word in enumerate(words)}}
    ids = {name: number for number, name in names.items()}
    targets = [[ids[word] for word in target.split()] + [EOS] for target in _TARGETS]
    longest = max(map(len, targets))
    output = np.array([target + [PAD] * (longest - len(target)) for target in targets])
    found: dict[str, Any] = {}
    for number, (reads, says) in enumerate(zip(decoder_input(output, BOS).tolist(), output.tolist(), strict=True)):
        title = f"Training, target {number + 1} of the batch"
        found[f"reads {title}"] = np.array([names[token] for token in reads])
        found[f"says {title}"] = np.array([names[token] if token != PAD else "" for token in says])
    own, title = [f"ŷ{number}" for number in range(1, longest)], "Translating: its own words"
    return found | {f"reads {title}": np.array(["(begin)", *own]), f"says {title}": np.array([*own, "(end)"])}


def _of_run(run: Path) -> dict[str, Any]:
    translator, model = load_trained(run, "teacher-forcing")
    evaluation = load_run_evaluation(run)
    for source, reference in zip(evaluation.sources, evaluation.references, strict=True):
        pair = token_pair(translator.tokenizers, source, reference, translator.prefixes)
        if 4 <= len(pair.target) <= _MOST_TOKENS:
            break
    else:
        raise DataError(f"No held-out target of {run} has 4 to {_MOST_TOKENS} tokens.")
    with torch.no_grad():
        logits = model(torch.tensor([pair.source]), torch.tensor([len(pair.source)]), torch.tensor([pair.target]))
    begins = len(translator.prefixes.target) - 1
    right = torch.tensor([*pair.target[begins + 1 :], EOS])
    chances = logits[0].double().softmax(-1)[begins:]
    title, tokens = f"“{source.strip()}”", translator.tokenizers.target
    return {
        f"reads {title}": np.array(readable(pair.target_tokens)[begins:]),
        f"says {title}": np.array(readable([tokens.token(int(index)) for index in right])),
        f"chances {title}": chances[torch.arange(len(right)), right].numpy(),
        f"choices {title}": np.array(readable([tokens.token(int(index)) for index in chances.argmax(-1)])),
    }


def draw(**rows: Any) -> Figure:
    """Draw targets as the decoder reads them, above what it must say after each token; a panel each."""
    from matplotlib.patches import Rectangle

    titles = [name.removeprefix("reads ") for name in rows if name.startswith("reads ")]
    figure, found = panels(len(titles), 1, width=11, height=2.3)
    for axes, title in zip(found, titles, strict=True):
        reads, says = rows[f"reads {title}"], rows[f"says {title}"]
        chances, choices = rows.get(f"chances {title}"), rows.get(f"choices {title}")
        own = title.startswith("Translating")  # it reads what it said
        for place, (read, said) in enumerate(zip(reads, says, strict=True)):
            blue, yellow = HIDDEN if read == "(pad)" else "#d3e8f6", "#fbdcae" if said else HIDDEN
            for y, text, fill in ((0, read, blue), (2, said or "not\ncounted", yellow)):
                axes.add_patch(Rectangle((place - 0.5, y - 0.5), 1, 1, facecolor=fill, edgecolor=PAPER, linewidth=2))
                write(axes, place, y, text, 10, color=ON_LIGHT, linespacing=0.9)
            arrow(axes, (place, 0.5), (place, 1.5), color=INK if said else FAINT)
            if own and place + 1 < len(reads):
                arrow(axes, (place, 1.5), (place + 1, 0.5), color=VERMILION, linestyle="--")
            if chances is not None and choices is not None:
                style = {"color": BLUE} if choices[place] == said else {"color": VERMILION, "fontweight": "bold"}
                write(axes, place, 3, f"{chances[place]:.2f}", 10, color=INK)
                write(axes, place, 4, choices[place], 10, **style)
        names = {0: "reads", 2: "says" if own else "must say"}
        names |= {} if chances is None else {3: "its probability", 4: "model's choice"}
        axes.set_yticks(list(names), list(names.values()))
        axes.set(xticks=[], xlim=(-0.5, len(reads) - 0.5), ylim=(max(names) + 0.5, -0.5))
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        label(axes, title)
    return figure


register_figure("teacher-forcing", numbers, draw)
