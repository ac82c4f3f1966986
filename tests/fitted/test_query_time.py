"""Models that go by the time: asked now, at a given moment, or at the times of a frame."""

import datetime as dt

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair, load
from fmpair.errors import DataError, OptionError
from fmpair.evaluation import Protocol, evaluate
from fmpair.fitted import query_encoder
from fmpair.testing import day_and_night

NOON, NIGHT = dt.datetime(2024, 5, 1, 12), dt.datetime(2024, 5, 1, 2)
FIELDS = {"timestamp": {"kind": "time", "parts": ["daypart"]}}


def dated():
    """`day_and_night` with the hour in place of the word: even items at noon, odd ones at two."""
    frame = day_and_night().frame()
    day = pl.col("time") == "day"
    times = pl.when(day).then(pl.lit(NOON)).otherwise(pl.lit(NIGHT)).alias("timestamp")
    return Dataset.from_frame(frame.select("user", "item", times))


@pytest.fixture(scope="module")
def model():
    return FMPair(factors=8, epochs=30, threads=1, history=0, order=2, fields=FIELDS).fit(dated())


def share_of_even(out):
    return (out["item"] % 2 == 0).mean()


def test_a_moment_decides_what_comes_first(model):
    for time in (NOON, "2031-01-01T13:00", NOON.replace(tzinfo=dt.UTC), 1714564800):
        assert share_of_even(model.recommend("u1", 5, time=time)) == 1
    assert share_of_even(model.recommend("u1", 5, time=NIGHT)) == 0
    assert share_of_even(model.recommend("u1", 5, context={"timestamp": NIGHT})) == 0


def test_without_a_moment_it_is_now(model, monkeypatch):
    for time, share in ((NOON, 1), (NIGHT, 0)):
        monkeypatch.setattr(query_encoder, "now", lambda time=time: time)
        out = model.recommend("u1", 5)
        assert share_of_even(out) == share
        assert out.columns == ["user", "item", "score", "rank"]


def test_a_frame_may_have_a_time_of_its_own_for_each_question(model):
    asked = pl.DataFrame({"user": ["u1", "u1", "u1"], "ts": [NOON, NIGHT, None]})
    out = model.recommend(asked, 4)
    assert share_of_even(out.filter(pl.col("timestamp") == NOON)) == 1
    assert share_of_even(out.filter(pl.col("timestamp") == NIGHT)) == 0
    scores = model.score(asked.with_columns(item=pl.lit(3)))["score"]
    assert scores[1] > scores[2] > scores[0]  # left open, it is neither


def test_explanations_name_the_part_and_add_up(model, tmp_path):
    terms = model.explain("u1", 3, time=NIGHT)
    assert "timestamp.daypart=night" in terms["query"].to_list()
    score = model.score({"user": ["u1"], "item": [3], "timestamp": [NIGHT]})["score"][0]
    assert terms["value"].sum() == pytest.approx(score, abs=1e-5)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.recommend("u2", 9, time=NIGHT).equals(model.recommend("u2", 9, time=NIGHT))


def test_an_interaction_is_evaluated_at_its_own_time(model):
    data = dated()
    found = evaluate(model, data, data, Protocol(seen="none"), ["hit@10"])
    assert found.means["hit@10"] > 0.95  # ten items fit the time of day
    assert len(found.units) == len(data)
    later = data.frame().with_columns(pl.col("timestamp") + pl.duration(hours=12))
    wrong = evaluate(model, data, later, Protocol(seen="none"), ["hit@10"])
    assert wrong.means["hit@10"] < 0.3


def test_a_model_that_does_not_know_the_time_says_so():
    model = FMPair(factors=2, epochs=1, threads=1).fit(dated())
    with pytest.raises(OptionError, match="does not use the time: leave out time, or fit it with"):
        model.recommend("u1", time=NOON)


def test_further_events_with_new_hours_are_learned_from(model):
    evening = NOON.replace(hour=20)
    more = pl.DataFrame({"user": ["u1", "new"], "item": [1, 3], "timestamp": [evening] * 2})
    grown = model.update(more, epochs=2)
    labels = grown.space.query.labels()
    assert labels[:2] == model.space.query.labels() and labels[2] == "timestamp.daypart=evening"
    assert grown.recommend("new", 5, time=evening)["score"].is_finite().all()


def comings_back(users=80):
    """Who comes back within the hour takes an odd item, after days an even one, each only once."""
    rng, rows = np.random.default_rng(0), []
    for user in range(users):
        now, items = NOON, {0: list(rng.permutation(20) * 2), 1: list(rng.permutation(20) * 2 + 1)}
        for soon in rng.integers(2, size=10).tolist():
            now += SOON if soon else LATE
            rows.append((user, int(items[soon].pop()), now))
    return pl.DataFrame(rows, schema=["user", "item", "timestamp"], orient="row")


SOON, LATE = dt.timedelta(minutes=30), dt.timedelta(days=5)


def test_days_since_the_last_event_go_by_what_the_model_knows():
    frame = comings_back()
    fields = {"timestamp": {"kind": "time", "parts": ["since"]}}
    model = FMPair(factors=8, epochs=30, threads=1, history=0, fields=fields).fit(frame)
    last = frame.filter(pl.col("user") == 3)["timestamp"].max()

    def even(fitted, time):
        return share_of_even(fitted.recommend(3, 8, time=time))

    assert (even(model, last + SOON), even(model, last + LATE)) == (0, 1)
    terms = model.explain(3, 1, time=last + SOON)["query"].to_list()
    assert "timestamp.since in (-inf, 0.04167]" in terms
    later = pl.DataFrame({"user": [3], "item": [5], "timestamp": [last + LATE]})
    assert even(model.extended(later), last + LATE + SOON) == 0  # half an hour after that
    assert even(model.update(later, epochs=1), last + LATE + SOON) == 0


@pytest.mark.parametrize("time", ["tonight", 5, "2024-13-41"])
def test_what_is_not_a_time_is_refused_in_words_of_the_question(model, time):
    for ask in (model.recommend, model.answer):
        with pytest.raises(DataError, match=rf"^'?{time}'? is not a time: give text such as 2024"):
            ask("u1", 3, time=time)
