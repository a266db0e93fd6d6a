import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from locant.errors import ConfigError
from locant.positions import (
    SCHEMES,
    AttentionShape,
    PositionScheme,
    Sinusoidal,
    build_scheme,
    register_scheme,
)

SHAPE = AttentionShape(16, 4, causal=True)


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_is_called_with_what_it_acts_on(name: str) -> None:
    scheme, positions, later = build_scheme(name, SHAPE).eval(), torch.arange(3), torch.arange(2, 5)
    x, q, k = torch.randn(1, 3, 16), torch.randn(1, 4, 3, 4), torch.randn(1, 4, 3, 4)
    state = scheme.prepare(x, positions)
    fired: list[nn.Module] = []
    scheme.register_forward_hook(lambda module, *_: fired.append(module))
    if "embedding" in scheme.acts_on or not scheme.acts_on:
        assert torch.equal(scheme(x, positions), scheme.embed(x, positions))
        assert torch.equal(scheme(x, k=positions), scheme(x, positions))
        expected: list[Tensor | None] = [q, k] if name == "none" else []
    else:
        with pytest.raises(ConfigError, match=r"acts on .*: call it with queries, keys and positions"):
            scheme(x, positions)
        expected = list(scheme.rotate(q, k, later, positions)) if "queries+keys" in scheme.acts_on else []
        read = scheme.state_for("score_bias", state)
        expected += [scheme.score_bias(q, k, later, positions, *read)] if "scores" in scheme.acts_on else []
    if expected:
        found = scheme(q, k, later, positions, state=state)
        for a, b in zip(found if isinstance(found, tuple) else [found], expected, strict=True):
            assert (a is None and b is None) or torch.equal(a, b)
    else:
        with pytest.raises(ConfigError, match="acts on embedding: call it with embeddings and positions"):
            scheme(q, k, later, positions)
    assert set(fired) == {scheme}


def test_registering() -> None:
    class Mine(PositionScheme):
        pass

    assert register_scheme("mine")(Mine) is Mine
    try:
        assert (SCHEMES["mine"], Mine.name, Mine.title, Mine.paper) == (Mine, "mine", "mine", "")
        register_scheme("mine")(Mine)  # once more, as a cell of a notebook does
        with pytest.raises(ConfigError, match=r"a positional scheme 'mine' already: .*Mine\. Give Sinusoidal another"):
            register_scheme("mine")(Sinusoidal)
    finally:
        del SCHEMES["mine"]
    with pytest.raises(ConfigError, match="a positional scheme 'alibi' already"):
        register_scheme("alibi")(Mine)
    with pytest.raises(ConfigError, match="'My:scheme' is no name for a positional scheme"):
        register_scheme("My:scheme")(Mine)
    with pytest.raises(ConfigError, match="must be a class derived from PositionScheme"):
        register_scheme("number")(int)  # type: ignore[type-var]
    assert "mine" not in SCHEMES


def test_the_room_needs_torch_alone() -> None:
    """Whatever importing it adds to a process that has torch already is Locant's or Python's own."""
    code = """
import sys, torch
before = set(sys.modules)
import locant.positions
print(*sorted(set(sys.modules) - before))
list(locant.positions.SCHEMES)
print(*sorted(set(sys.modules) - before))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported, asked = (set(line.split()) for line in run.stdout.splitlines())
    for added in (imported, asked):
        assert {name.partition(".")[0] for name in added} - sys.stdlib_module_names == {"locant"}
    assert not [name for name in imported if name.startswith("locant.positions.")]  # no scheme before it is asked for
    assert [name for name in asked if name.startswith("locant.positions.")]
