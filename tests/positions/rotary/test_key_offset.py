"""Keys whose features without rotation stand one token later, against the formulas of modded-nanogpt."""

import pytest
import torch
from torch import Tensor

from locant.models import LanguageModel, LanguageModelConfig
from locant.positions import PartialKeyOffset


def some(seed: int, length: int = 10) -> Tensor:
    return torch.randn(2, 3, length, 16, generator=torch.Generator().manual_seed(seed))


def written_out(q: Tensor, k: Tensor) -> Tensor:
    """Scores of heads ``[B, H, L, D]`` as modded-nanogpt computes them, before their scale, in float64."""
    length, dim = q.shape[-2:]
    frequencies = (1 / 1024) ** torch.linspace(0, 1, dim // 4, dtype=torch.float64)
    angles = torch.outer(torch.arange(length), torch.cat((frequencies, torch.zeros(dim // 4))))
    cosine, sine = angles.cos().repeat_interleave(2, dim=-1), angles.sin().repeat_interleave(2, dim=-1)
    sine[..., 1::2] *= -1

    def rotated(x: Tensor) -> Tensor:
        return x * cosine + x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2) * sine

    q, k = rotated(q.double()), rotated(k.double())
    k[:, :, 1:, dim // 2 :] = k[:, :, :-1, dim // 2 :].clone()
    return q @ k.mT


def test_modded_nanogpt() -> None:
    q, k, at = some(1), some(2), torch.arange(10)
    scheme = PartialKeyOffset(16, base=1024 ** (4 / 3), layout="interleaved")
    # It turns the other way: first and second of a pair change places.
    first, second = scheme.rotate(*(x.unflatten(-1, (8, 2)).flip(-1).flatten(-2) for x in (q, k)), at, at)
    torch.testing.assert_close((first @ second.mT).double(), written_out(q, k), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("parts", [[1] * 15, [5, 1, 9], [2, 2, 11]])
@pytest.mark.parametrize("outer", [None, "temperature"])
def test_the_key_before_a_window_is_kept(parts: list[int], outer: str | None) -> None:
    wrapped = {"position": outer, "position_options": {"scheme": "key-offset", "length": 3}}
    kind = wrapped if outer else {"position": "key-offset"}
    sizes = {"vocab_size": 20, "layers": 2, "d_model": 16, "d_ff": 16, "heads": 2}
    config = LanguageModelConfig.parse({**sizes, "pattern": "W", "kinds": {"W": {**kind, "window": 4}}})
    torch.manual_seed(0)
    model, ids = LanguageModel(config).eval(), torch.arange(15)[None]
    with torch.no_grad():
        cache = model.start()
        found = torch.cat([model.step(part, cache) for part in ids.split(parts, dim=1)], dim=1)
        torch.testing.assert_close(found, model(ids), rtol=0, atol=1e-5)
