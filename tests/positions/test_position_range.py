import torch
from hypothesis import given
from hypothesis import strategies as st

from locant.positions import position_range as position_ranges
from locant.positions.position_range import position_range


@given(
    st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=5) | st.builds(lambda n: [n, n + 1], st.integers(0, 9))
)
def test_what_is_known_is_what_python_finds(places: list[int]) -> None:
    found = position_range(torch.tensor(places))
    assert (found.low, found.high) == (min(places), max(places))
    assert found.is_contiguous is (places == list(range(places[0], places[0] + len(places))))
    assert not position_range(torch.tensor([places])).is_contiguous


def test_memory_that_is_shared_with_numpy_is_read_anew() -> None:
    positions = torch.arange(3)
    shared = positions.numpy()
    assert position_range(positions).high == 2
    shared[2] = 9
    assert position_range(positions) == position_ranges.PositionRange(0, 9, is_contiguous=False)
