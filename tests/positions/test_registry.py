import subprocess
import sys

import pytest
import torch

from locant.errors import ConfigError
from locant.positions import SCHEMES, AttentionShape, PositionScheme, Sinusoidal, build_scheme, option_names

SHAPE = AttentionShape(16, 4, causal=True)


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_is_built_and_keeps_shapes_and_dtypes(name: str) -> None:
    scheme = build_scheme(name, SHAPE)
    assert isinstance(scheme, PositionScheme)
    assert SHAPE.head_dim == 4
    positions = torch.arange(5)
    for dtype in (torch.float32, torch.bfloat16):
        x, q = torch.randn(2, 5, 16, dtype=dtype), torch.randn(2, 4, 5, 4, dtype=dtype)
        results = [scheme.embed(x, positions), *scheme.rotate(q, q, positions, positions)]
        assert [(r.shape, r.dtype) for r in results] == [(x.shape, dtype), (q.shape, dtype), (q.shape, dtype)]
        bias = scheme.score_bias(q, q, positions, positions)
        assert bias is None or torch.broadcast_shapes(bias.shape, (2, 4, 5, 5)) == (2, 4, 5, 5)


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_is_documented(name: str) -> None:
    documentation = SCHEMES[name].__doc__ or ""
    assert "20" in documentation, "a scheme's docstring names its paper and year"
    for option in option_names(SCHEMES[name]):
        assert f"{option}:" in documentation


def test_options_reach_the_scheme() -> None:
    assert option_names(Sinusoidal) == ["base", "dialect", "start", "combine", "features"]
    scheme = build_scheme("sinusoidal", SHAPE, {"base": 500, "dialect": "concatenated"})
    assert isinstance(scheme, Sinusoidal)
    assert (scheme.dim, scheme.base, scheme.dialect) == (16, 500, "concatenated")


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"scheme 'sinusoid'\. Did you mean 'sinusoidal'\? Known: none, sinusoidal"):
        build_scheme("sinusoid", SHAPE)
    with pytest.raises(ConfigError, match=r"Unknown positional scheme 'zzz'\. Known: none"):
        build_scheme("zzz", SHAPE)
    with pytest.raises(ConfigError, match=r"no option 'max_position'\. Did you mean 'max_positions'\? Known options"):
        build_scheme("learned", SHAPE, {"max_position": 3})
    with pytest.raises(ConfigError, match=r"'none' has no option 'base'\. It has no options"):
        build_scheme("none", SHAPE, {"base": 3})


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("sinusoidal", {"base": "1e4"}, "'base' .* must be a number, like 10000.0; got '1e4'"),
        ("sinusoidal", {"base": True}, "'base' .* must be a number"),
        ("sinusoidal", {"dialect": 3}, "'dialect' .* must be text, like paper; got 3"),
        ("learned", {"max_positions": 10.5}, "'max_positions' .* must be a whole number, like 1024; got 10.5"),
        ("learned", {"max_positions": None}, "'max_positions' .* got None"),
    ],
)
def test_values_of_the_wrong_type(name: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build_scheme(name, SHAPE, options)


def test_the_room_needs_torch_alone() -> None:
    """Whatever importing it adds to a process that has torch already is Locant's or Python's own."""
    code = (
        "import sys, torch; before = set(sys.modules); import locant.positions; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    added = set(run.stdout.split())
    assert "locant" in added
    assert added - sys.stdlib_module_names == {"locant"}
