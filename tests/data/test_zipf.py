import numpy as np
import pytest

from fmpair.data.synthetic import zipf_events
from fmpair.errors import OptionError


def test_events_have_the_sizes_asked_for():
    user, item = zipf_events(100, 50, 10_000, seed=1)
    assert user.shape == item.shape == (10_000,)
    assert user.dtype == item.dtype == np.int32
    assert user.min() >= 0 and user.max() < 100 and item.min() >= 0 and item.max() < 50


def test_the_same_seed_gives_the_same_events():
    first, again, other = (zipf_events(30, 20, 500, seed=s) for s in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again))
    assert not np.array_equal(first[1], other[1])


def test_item_counts_follow_the_power_law():
    _, item = zipf_events(10, 200, 200_000)
    counts = np.sort(np.bincount(item, minlength=200))[::-1]
    expected = np.arange(1, 201) ** -0.8
    expected *= 200_000 / expected.sum()
    assert np.allclose(counts[:20], expected[:20], rtol=0.05)


def test_items_do_not_depend_on_users():
    user, item = zipf_events(2, 5, 100_000)
    shares = [np.bincount(item[user == n], minlength=5) / (user == n).sum() for n in (0, 1)]
    assert np.allclose(*shares, atol=0.02)


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_size_below_one_is_refused(sizes):
    with pytest.raises(OptionError, match="is 0: it must be at least 1"):
        zipf_events(*sizes)


def test_more_events_than_the_memory_holds_are_refused():
    with pytest.raises(OptionError, match=r"generated data needs .* GB"):
        zipf_events(10, 10, 10**13)
