from itertools import product
from zlib import crc32

import numpy as np
import polars as pl
import pytest

from fmpair.data import Dataset
from fmpair.data.synthetic import (
    DAYTIMES,
    DOMAINS,
    PLACES,
    SITUATION_CHANCES,
    World,
    make,
    zipf_events,
)
from fmpair.errors import DataError, OptionError, UnknownError

FIRST_EVENT = ("user-181", "film-085", 1704067234, "films", "night", None)
CHECKSUM = 2089596971


@pytest.fixture(scope="module")
def world() -> World:
    return make()


@pytest.fixture(scope="module")
def tiny() -> World:
    return make(users=2, items=8, events=40_000, seed=5)


def situation(daytime: str | None, place: str | None) -> pl.DataFrame:
    return pl.DataFrame({"daytime": [daytime], "place": [place]}, schema_overrides=dict.fromkeys(
        ("daytime", "place"), pl.String))  # fmt: skip


def hits_and_gains(scores: np.ndarray, item: np.ndarray) -> tuple[float, float]:
    """Recall@10 and NDCG@10 of one true item per row, among all items."""
    own = scores[np.arange(len(item)), item][:, None]
    rank = (scores > own).sum(axis=1)
    hit = rank < 10
    return float(hit.mean()), float((hit / np.log2(rank + 2)).mean())


def test_the_world_has_the_sizes_asked_for():
    data = make(users=30, items=21, events=500, seed=1).data
    assert (len(data.users), len(data.items), len(data)) == (30, 21, 500)
    assert data.user_table.height == 30 and data.item_table.height == 21
    assert data.context == ("daytime", "place")
    assert data.user.dtype == data.item.dtype == np.int32


def test_the_same_seed_gives_the_same_world():
    first, again, other = (make(users=20, items=30, events=400, seed=s).data for s in (4, 4, 5))
    assert first.frame().equals(again.frame())
    assert first.user_table.equals(again.user_table) and first.item_table.equals(again.item_table)
    assert not first.frame().equals(other.frame())


def test_the_default_world_never_changes(world):
    """Figures in the documentation rest on it, on every machine."""
    frame = world.data.frame()
    text = frame.write_csv() + world.data.user_table.select("age", "segment").write_csv()
    assert frame.row(0) == FIRST_EVENT
    assert crc32(text.encode()) == CHECKSUM


def test_ids_are_readable_and_say_the_domain(world):
    frame = world.data.frame()
    assert frame["user"].str.contains(r"^user-\d{3}$").all()
    prefix = frame["item"].str.extract(r"^(book|album|film|game)-\d{3}$")
    expected = frame["domain"].replace_strict(dict(zip(DOMAINS, ("book", "album", "film", "game"))))
    assert (prefix == expected).all()


def test_timestamps_rise_over_ninety_days_and_agree_with_the_daytime(world):
    columns = world.data.columns.drop_nulls()
    time = columns["timestamp"]
    assert time.is_sorted() and 89 * 86_400 < time[-1] - time[0] < 90 * 86_400
    assert (pl.Series(DAYTIMES).gather(time % 86_400 // (6 * 3600)) == columns["daytime"]).all()


def test_a_few_values_are_missing_in_every_column(world):
    data = world.data
    for table in (data.columns.select(data.context), data.user_table, data.item_table):
        for column in table:
            assert 0.01 < column.null_count() / len(column) < 0.06, column.name


def test_attributes_have_their_types(world):
    users, items = world.data.user_table.schema, world.data.item_table.schema
    assert users == {"age": pl.Int64, "segment": pl.String, "interests": pl.List(pl.String)}
    assert items == {"genre": pl.String, "tags": pl.List(pl.String), "length": pl.Int64}
    assert world.data.item_table["tags"].list.len().drop_nulls().is_between(1, 3).all()


def test_some_events_repeat_and_some_items_are_popular(world):
    data = world.data
    assert 0.05 < 1 - len(data.seen.column) / len(data) < 0.5
    counts = np.sort(np.bincount(data.item, minlength=len(data.items)))[::-1]
    assert counts[:60].sum() > 0.3 * len(data)


def test_the_events_pass_the_checks_of_any_frame(world):
    again = Dataset.from_frame(world.data.frame())
    assert again.context == world.data.context and len(again) == len(world.data)


def test_daytime_and_place_are_drawn_together_as_stated(world):
    seen = world.data.columns.drop_nulls()
    shares = [
        [seen.filter(daytime=d, place=p).height / seen.height for p in PLACES] for d in DAYTIMES
    ]
    assert np.allclose(shares, SITUATION_CHANCES, atol=0.01)


def test_choices_in_a_tiny_world_are_as_frequent_as_the_truth_says(tiny):
    data, squares, cells = tiny.data, 0.0, 0
    frame = data.columns.with_columns(user=data.user, item=data.item)
    for user, daytime, place in product(range(2), DAYTIMES, PLACES):
        chosen = frame.filter(user=user, daytime=daytime, place=place)["item"].to_numpy()
        chances = np.exp(tiny.scores(np.array([user]), situation(daytime, place))[0])
        expected = chances * len(chosen)
        counts = np.bincount(chosen, minlength=8)
        kept = expected > 5  # chi-square needs a few expected events per cell
        squares += ((counts - expected)[kept] ** 2 / (expected * (1 - chances))[kept]).sum()
        cells += kept.sum()
    assert cells > 100
    assert abs(squares / cells - 1) < 5 * np.sqrt(2 / cells)


def test_choices_whose_context_is_hidden_follow_the_marginal_truth(tiny):
    data = tiny.data
    hidden = data.columns["daytime"].is_null() & (data.columns["place"] == "home")
    rows = (hidden.fill_null(False) & pl.Series(data.user == 0)).to_numpy()
    counts = np.bincount(data.item[rows], minlength=8)
    chances = np.exp(tiny.scores(np.array([0]), situation(None, "home"))[0])
    deviation = np.sqrt(rows.sum() * chances * (1 - chances))
    assert rows.sum() > 100
    assert (np.abs(counts - rows.sum() * chances) < 4 * deviation + 1).all()


def test_the_daytime_changes_choices_as_the_truth_says(world):
    """Items the truth says gain from evening over morning are indeed chosen more often then."""
    data = world.data
    users = np.arange(len(data.users))
    weight = np.bincount(data.user, minlength=len(users))
    shares, truths = [], []
    for daytime in ("morning", "evening"):
        chosen = data.item[(data.columns["daytime"] == daytime).fill_null(False).to_numpy()]
        shares.append(np.bincount(chosen, minlength=len(data.items)) / len(chosen))
        context = pl.DataFrame({"daytime": [daytime] * len(users)})
        truths.append(np.average(np.exp(world.scores(users, context)), axis=0, weights=weight))
    observed, true = shares[1] - shares[0], truths[1] - truths[0]
    assert np.abs(true).sum() > 0.5
    assert np.corrcoef(observed, true)[0, 1] > 0.95


def test_scores_are_log_probabilities(world):
    context = world.data.columns[:50]
    scores = world.scores(world.data.user[:50], context)
    assert scores.dtype == np.float32 and scores.shape == (50, 600)
    assert np.allclose(np.exp(scores.astype(np.float64)).sum(axis=1), 1, atol=1e-4)


def test_without_context_the_oracle_averages_over_all_situations(tiny):
    known = sum(
        SITUATION_CHANCES[d, p] * np.exp(tiny.scores(np.array([1]), situation(day, place)))
        for (d, day), (p, place) in product(enumerate(DAYTIMES), enumerate(PLACES))
    )
    blind = tiny.scores(np.array([1]))
    assert np.allclose(np.exp(blind), known, atol=1e-5)
    assert np.array_equal(blind, tiny.scores(np.array([1]), situation(None, None)))


@pytest.mark.thorough
def test_context_and_taste_each_lift_the_ranking_well_above_popularity(world):
    data = world.data
    test = np.random.default_rng(1).random(len(data)) < 0.2
    held = data.take(test)
    counts = np.bincount(data.item[~test], minlength=len(data.items))
    popular = hits_and_gains(np.broadcast_to(counts, (len(held), len(counts))), held.item)
    blind = hits_and_gains(world.scores(held.user), held.item)
    oracle = hits_and_gains(world.scores(held.user, held.columns), held.item)
    for worse, better in ((popular, blind), (blind, oracle)):
        assert better[0] > worse[0] + 0.1 and better[1] > worse[1] + 0.05


def test_a_world_of_one_user_and_one_item_is_possible():
    data = make(users=1, items=1, events=3).data
    assert data.frame()["item"].to_list() == ["book-000"] * 3


def test_a_world_does_not_depend_on_the_size_of_the_blocks(monkeypatch):
    whole = make(users=20, items=30, events=500)
    monkeypatch.setattr("fmpair.data.synthetic.BLOCK", 1)
    assert make(users=20, items=30, events=500).data.frame().equals(whole.data.frame())


@pytest.mark.parametrize("name", ["users", "items", "events"])
def test_a_size_below_one_is_refused_by_name(name):
    with pytest.raises(OptionError, match=f"{name} must be at least 1, not 0"):
        make(**{name: 0})


def test_the_oracle_refuses_what_it_does_not_know(tiny):
    user = np.array([0])
    with pytest.raises(UnknownError, match=r"unknown daytime 'evenin'\. Did you mean 'evening'"):
        tiny.scores(user, situation("evenin", None))
    with pytest.raises(UnknownError, match="user numbers must be 0 to 1"):
        tiny.scores(np.array([-1]))
    with pytest.raises(DataError, match="1 users but 2 rows of context"):
        tiny.scores(user, pl.DataFrame({"place": ["home", "work"]}))


@pytest.mark.parametrize("what", ["users", "items", "events"])
def test_a_world_larger_than_the_memory_is_refused_before_it_is_made(what):
    with pytest.raises(OptionError, match=rf"GB for .*1,000,000,000,000 {what}.*: ask for fewer"):
        make(**{what: 10**12})


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
    with pytest.raises(OptionError, match="must be at least 1, not 0"):
        zipf_events(*sizes)


def test_more_events_than_the_memory_holds_are_refused():
    with pytest.raises(OptionError, match=r"generated data needs .* GB"):
        zipf_events(10, 10, 10**13)
