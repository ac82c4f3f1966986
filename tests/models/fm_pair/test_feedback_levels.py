"""Levels of feedback: the higher above the lower, both above what was let alone."""

import numpy as np
import polars as pl
import pytest

from fmpair.data import Dataset
from fmpair.errors import DataError, OptionError
from fmpair.models import FMPair, FMPairLevels, load
from fmpair.models.fm_pair.feedback_levels import ladder_of, levels_of

ORDER = ["click", "bookmark", "apply"]
OPTIONS = {"level": "action", "levels": ORDER, "factors": 6, "epochs": 30}


def job_hunt(users=60, seed=0):
    """Two kinds of users; of the jobs of its kind each user sees half, and acts by the job.

    Jobs 0 to 9 are for even users, 10 to 19 for odd ones. Jobs are clicked, bookmarked or applied
    for by their number modulo 3. Right answer: of the jobs of their kind users rank those to apply
    for above those to bookmark above those to click above the other kind's.
    """
    rng = np.random.default_rng(seed)
    item = np.concatenate([rng.permutation(10)[:6] + 10 * (n % 2) for n in range(users)])
    return pl.DataFrame(
        {
            "user": np.repeat(np.arange(users), 6),
            "item": item,
            "action": pl.Series(ORDER).gather(item % 3),
        }
    )


def share_in_order(model, lower, higher):
    """How often an item of the user's kind on the higher level stands above one on the lower."""
    every = model.recommend(n=20, exclude_seen=False).filter(
        pl.col("item") // 10 == pl.col("user") % 2
    )
    low, high = (every.filter(pl.col("item") % 3 == n) for n in (lower, higher))
    both = low.join(high, on="user")
    return (both["score_right"] > both["score"]).mean()


def test_applications_stand_above_bookmarks_above_clicks():
    model = FMPairLevels(**OPTIONS).fit(Dataset.from_frame(job_hunt(), leaks=["action"]))
    assert share_in_order(model, 0, 1) > 0.95 and share_in_order(model, 1, 2) > 0.95
    best = model.recommend(n=10, exclude_seen=False)
    assert (best["item"] // 10 == best["user"] % 2).mean() > 0.95


def test_without_levels_they_do_not():
    data = Dataset.from_frame(job_hunt().drop("action"))
    model = FMPair(factors=6, epochs=30).fit(data)
    assert share_in_order(model, 0, 2) < 0.8


def test_all_pairs_with_items_left_alone_is_plain_fm_pair():
    data = Dataset.from_frame(job_hunt(), leaks=["action"])
    ours = FMPairLevels(**{**OPTIONS, "epochs": 3}, unobserved=1.0).fit(data)
    theirs = FMPair(loss="bpr", factors=6, epochs=3).fit(
        Dataset.from_frame(job_hunt().drop("action"))
    )
    for part, wanted in zip(ours.parameters, theirs.parameters):
        np.testing.assert_array_equal(part, wanted)


def test_the_level_is_not_a_feature():
    data = Dataset.from_frame(job_hunt(), leaks=["action"])
    assert FMPairLevels(**{**OPTIONS, "epochs": 1}).fit(data).space.context == []


def test_ratings_are_levels_by_themselves():
    rated = job_hunt().with_columns(rating=pl.col("item") % 3 + 1.0).drop("action")
    model = FMPairLevels(factors=6, epochs=30).fit(rated)
    assert share_in_order(model, 0, 2) > 0.95


def test_lower_items_are_those_the_user_never_raised():
    frame = pl.DataFrame(
        {"user": [0, 0, 0, 0, 1], "item": [5, 6, 5, 7, 6], "level": [0, 0, 2, 1, 2]}
    )
    data = Dataset.from_frame(frame)
    ladder = ladder_of(data.user, data.item, frame["level"].to_numpy())
    below = {
        int(event): sorted(data.items.take(ladder.item[first : first + count]).to_list())
        for event, first, count in zip(ladder.event, ladder.first, ladder.below)
    }
    assert below == {2: [6, 7], 3: [6]}


def test_levels_are_numbered_from_the_lowest():
    data = Dataset.from_frame(job_hunt(), leaks=["action"])
    np.testing.assert_array_equal(levels_of(data, "action", ORDER), job_hunt()["item"] % 3)
    rated = Dataset.from_frame({"user": [1, 2, 3], "item": [1, 1, 2], "rating": [4.5, 1.0, 4.5]})
    assert levels_of(rated, None, None).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"level": "acton"}, DataError, "unknown level column 'acton'"),
        ({"levels": ["click", "bookmark"]}, DataError, "levels leaves out apply: list all"),
        ({"levels": None}, OptionError, "list its values, the lowest first"),
        ({"levels": "click"}, OptionError, "levels must list the levels"),
        ({"unobserved": 0}, OptionError, "unobserved must be above 0"),
        ({"temperature": 0.1}, OptionError, "does not support temperature"),
    ],
)
def test_what_is_wrong_is_named(options, error, message):
    data = Dataset.from_frame(job_hunt(), leaks=["action"])
    with pytest.raises(error, match=message):
        FMPairLevels(**{**OPTIONS, **options}).fit(data)


def test_a_missing_level_is_refused():
    frame = job_hunt().with_columns(action=pl.when(pl.col("user") > 2).then("action"))
    with pytest.raises(DataError, match="has no level for 18 events"):
        FMPairLevels(**OPTIONS).fit(Dataset.from_frame(frame, leaks=["action"]))


@pytest.mark.parametrize("verb", ["update", "fold_in"])
def test_new_events_are_learned_by_their_levels(verb):
    model = FMPairLevels(**OPTIONS).fit(Dataset.from_frame(job_hunt(), leaks=["action"]))
    clicked, applied = [0, 3], [2, 5]
    new = pl.DataFrame(
        {
            "user": [100] * 4 + [102] * 4,
            "item": [*clicked, *applied] * 2,
            # the second user does it the other way round
            "action": ["click", "click", "apply", "apply", "apply", "apply", "click", "click"],
        }
    )
    grown = getattr(model, verb)(Dataset.from_frame(new, leaks=["action"]), epochs=60)
    assert grown.recipe == model.recipe and grown.space.context == []
    asked = pl.DataFrame({"user": [100, 100, 102, 102], "item": [0, 2, 0, 2]})
    first, second = grown.score(asked)["score"].to_numpy().reshape(2, 2)
    assert first[1] - first[0] > second[1] - second[0]


def test_new_events_need_the_level_they_are_learned_by():
    data = Dataset.from_frame(job_hunt(), leaks=["action"])
    model = FMPairLevels(**{**OPTIONS, "epochs": 1}).fit(data)
    with pytest.raises(DataError, match="unknown level column 'action'"):
        model.update(pl.DataFrame({"user": [1], "item": [2]}))


def shop():
    """Users view all items of their half and buy the last ones of it; all else is chance."""
    rng = np.random.default_rng(0)
    user, item = (side.ravel() for side in np.meshgrid(np.arange(40), np.arange(20), indexing="ij"))
    mine = user % 2 == item % 2
    user, item = user[mine], item[mine]
    bought = item >= 12  # not the first, which ties would rank first
    kind = np.where(bought & (rng.random(len(item)) < 0.9), "buy", "view")
    return pl.DataFrame({"user_id": user, "sku": item, "event_type": kind})


def best_of_mine(model, user):
    asked = model.recommend(user, n=4, exclude_seen=False)
    return set(asked[asked.columns[1]].to_list())


def test_fm_pair_takes_levels_of_the_events_kinds():
    plain, levels = (
        FMPair(factors=4, epochs=40, history=0, levels=order).fit(shop())
        for order in (None, ["view", "buy"])
    )
    right = [
        best_of_mine(levels, user) == {user % 2 + 2 * n for n in range(6, 10)} for user in range(8)
    ]
    assert np.mean(right) > 0.8
    assert (
        np.mean([best_of_mine(plain, u) == {u % 2 + 2 * n for n in range(6, 10)} for u in range(8)])
        < 0.5
    )
    assert levels.recipe.levels == ["view", "buy"]


def test_levels_that_the_data_lack_are_an_error():
    with pytest.raises(DataError, match=r"levels needs a column of event types.*event_type='...'"):
        FMPair(levels=["a", "b"]).fit({"user": [1, 2], "item": [3, 4]})
    with pytest.raises(DataError, match=r"no event has type 'cart'; the events have view, buy"):
        FMPair(levels=["view", "cart"]).fit(shop())
    with pytest.raises(DataError, match=r"levels leaves out buy: list all of view, buy, the low"):
        FMPair(levels=["view"]).fit(shop())
    with pytest.raises(OptionError, match="levels must list the levels, the lowest first"):
        FMPair(levels="view,buy")
    with pytest.raises(OptionError, match="does not support history"):
        FMPair(levels=["view", "buy"], history=5)


def test_a_model_with_levels_goes_on_and_comes_back_from_a_file(tmp_path):
    model = FMPair(factors=4, epochs=5, levels=["view", "buy"]).fit(shop())
    grown = model.update(pl.DataFrame({"user_id": [99], "sku": [1], "event_type": ["view"]}))
    assert len(grown.space.users) == len(model.space.users) + 1
    model.save(tmp_path / "m.fmpair")
    assert load(tmp_path / "m.fmpair").recipe == model.recipe
