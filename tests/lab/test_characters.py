"""Likelihood against length: which characters are scored, and with how many before them."""

import gzip
import hashlib
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from locant.errors import DataError
from locant.lab.characters import nats_per_character, read_characters, scored_text, window_batches


class Counting(nn.Module):
    """Gives the right next id the probability 1 / (number of ids read), so that a loss tells how many were read."""

    def __init__(self) -> None:
        super().__init__()
        self.parameter = nn.Parameter(torch.zeros(()))
        self.scored: list[int] = []

    def forward(self, ids: Tensor) -> Tensor:
        # Ids count upwards, so the right next one is known.
        read = torch.arange(1, ids.shape[1] + 1).double()
        logits = torch.full((*ids.shape, 200), -1e9, dtype=torch.float64)
        logits.scatter_(2, ids[..., None] + 1, torch.log(1 / read).expand(ids.shape)[..., None])
        # What is left of the probability goes to an id that never follows.
        logits[..., 0] = torch.log1p(-1 / read.clamp(min=1 + 1e-9))
        return logits


def brute_force(count: int, length: int, stride: int) -> float:
    """Characters one at a time: the window that scores each, and how many characters of it come before."""
    total = 0.0
    for target in range(1, count + 1):
        start = 0
        while target > start + length:
            start += stride
        total += math.log(target - start)
    return total / count


@pytest.mark.parametrize(
    ("count", "length", "stride"),
    [(120, 10, 10), (120, 120, 120), (120, 40, 10), (121, 1, 1), (130, 10, 1), (90, 30, 20)],
)
def test_every_character_is_scored_once(count: int, length: int, stride: int) -> None:
    ids = torch.arange(1, count + 2)
    found = nats_per_character(Counting(), ids, length, stride)  # type: ignore[arg-type]
    assert found == pytest.approx(brute_force(count, length, stride), rel=1e-6)


def test_all_lengths_score_the_same_characters(tmp_path: Path) -> None:
    ids = torch.arange(1000)
    assert len(scored_text(ids, (8, 16, 32), (8, 16, 32), 500, tmp_path)) == 481  # 480 = 15 windows of 32
    assert len(scored_text(ids, (8, 16, 32), (8, 8, 8), 500, tmp_path)) == 497
    assert len(scored_text(ids, (10, 16), (10, 16), 10_000, tmp_path)) == 961  # lcm 80
    for lengths in ((7, 11, 13, 17), (1024,)):
        with pytest.raises(DataError, match=f"{lengths[-1]:,}"):
            scored_text(ids, lengths, lengths, 10_000, tmp_path)


def test_texts_are_read_whole(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.txt", tmp_path / "a.txt.gz"
    words = "Füße\n" * 20
    plain.write_text(words, encoding="utf-8")
    packed.write_bytes(gzip.compress(words.encode()))
    one, other = read_characters(plain), read_characters(packed)
    assert one.alphabet == other.alphabet == "".join(sorted(set(words)))
    assert (len(one.train), len(one.test)) == (90, 10)
    assert one.digest == other.digest == hashlib.sha256(plain.read_bytes()).hexdigest()
    back = "".join(one.alphabet[number - 1] for number in torch.cat((one.train, one.test)).tolist())
    assert back == words


def test_texts_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locant.lab.characters._LARGEST", 1000)
    damaged = bytearray(gzip.compress(bytes(range(32, 127)) * 9))
    damaged[20:24] = b"\xff" * 4
    contents = {"empty": b"", "latin": b"abc\xff", "damaged.gz": damaged, "large.gz": gzip.compress(b"a" * 1001)}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    for name in [*contents, "missing"]:
        with pytest.raises(DataError, match=name):
            read_characters(tmp_path / name)


def test_windows_are_of_the_text_and_labels_follow() -> None:
    ids = torch.arange(1, 101)
    batches = window_batches(ids, 8, 64, seed=1)
    starts = set()
    for _ in range(20):
        batch = next(batches)
        assert torch.equal(batch.labels, batch.ids + 1)
        assert torch.equal(batch.ids, batch.ids[:, :1] + torch.arange(8))
        starts |= set(batch.ids[:, 0].tolist())
    assert starts == set(range(1, 93)), "every window with a next character, and no other"
    assert torch.equal(next(window_batches(ids, 8, 64, seed=1)).ids, next(window_batches(ids, 8, 64, seed=1)).ids)
