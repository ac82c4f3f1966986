"""What came before an event, as training is told."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmpair.data import Dataset
from fmpair.errors import DataError, OptionError
from fmpair.features import FeatureSpace, Field
from fmpair.features.history_fields import history_field
from fmpair.models import FMPair
from fmpair.training import problem
from fmpair.training.loop import Task
from fmpair.training.problem import history_of, past_of, recent_of
from fmpair.training.update import _continued

EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 6), st.sampled_from("xy")),
    min_size=1,
    max_size=40,
)


def told(events, **options):
    """(the earlier items and weights of each event, latest first, what the model keeps)."""
    frame = pl.DataFrame(events, schema=["user", "item", "timestamp", "visit"], orient="row")
    data = Dataset.from_frame(frame, context=["visit"])
    space = FeatureSpace.fit(data, history=Field(kind="history", **options))
    past = past_of(space, data)
    item_rows = space.item_rows(data.item_table, len(data.items))
    history = history_of(space, past, item_rows, len(data))
    ids, out = data.items.ids, []
    for event in range(len(data)):
        first = history.start[data.user[event]]
        first = history.since[event] if len(history.since) else first
        places = range(history.until[event] - 1, first - 1, -1)
        out.append([ids[int(history.item[p])] for p, _ in zip(places, history.weight)])
    recent = recent_of(space, past)
    return out, {
        user: [ids[int(i)] for i in recent.take(np.array([n])).item]
        for n, user in enumerate(data.users.ids)
    }


@settings(max_examples=60)
@given(EVENTS, st.integers(1, 5))
def test_no_feature_of_an_event_comes_from_its_future_or_its_own_moment(events, last):
    found, _ = told(events, last=last)
    for (user, _, moment, _), items in zip(events, found):
        earlier = [(m, n) for n, (u, _, m, _) in enumerate(events) if u == user and m < moment]
        newest = [events[n][1] for _, n in sorted(earlier, reverse=True)]
        assert items == newest[:last]


@given(EVENTS)
def test_sessions_and_spans_of_time_bound_what_is_looked_at(events):
    found, _ = told(events, last=4, within="2s", per="visit")
    for (user, _, moment, visit), items in zip(events, found):
        earlier = [(m, n, v) for n, (u, _, m, v) in enumerate(events) if u == user and m < moment]
        wanted = []
        for m, n, v in sorted(earlier, reverse=True):
            if v == visit and m >= moment - 2 and len(wanted) < 4:
                wanted.append(events[n][1])
        assert items == wanted


def test_sessions_that_interleave_keep_their_own_events():
    visits = ["x", "y", "x", "y", "x"]
    events = [(1, 10 + n, n, visit) for n, visit in enumerate(visits)]
    found, kept = told(events, last=9, per="visit")
    assert found == [[], [], [10], [11], [12, 10]]
    assert kept == {1: [10, 12, 14]}  # those of the session of the last event
    assert told(events[:4], last=9, per="visit")[1] == {1: [11, 13]}


def test_a_user_without_events_has_no_last_session():
    frame = {"user": [1, 2], "item": [10, 11], "timestamp": [1, 2], "visit": ["x", "y"]}
    data = Dataset.from_frame(frame, context=["visit"]).take(np.array([0]))
    space = FeatureSpace.fit(data, history=Field(kind="history", last=9, per="visit"))
    assert recent_of(space, past_of(space, data)).start.tolist() == [0, 1, 1]


def test_a_model_keeps_the_latest_events_of_each_user():
    events = [(1, 10, 5, "x"), (1, 11, 7, "x"), (2, 12, 1, "x"), (1, 13, 6, "x")]
    assert told(events, last=2)[1] == {1: [13, 11], 2: [12]}


def test_of_sessions_a_model_keeps_the_last_one():
    events = [(1, 10, 1, "x"), (1, 11, 2, "y"), (1, 12, 3, "y"), (2, 10, 1, "x")]
    assert told(events, last=9, per="visit")[1] == {1: [11, 12], 2: [10]}


def test_weights_fall_with_age():
    frame = pl.DataFrame({"user": [1], "item": [1], "timestamp": [1]})
    data = Dataset.from_frame(frame)
    space = FeatureSpace.fit(data, history=history_field({"last": 3, "fade": 0.5, "scale": 2}))
    history = history_of(space, past_of(space, data), space.item_rows(data.item_table, 1), 1)
    np.testing.assert_allclose(history.weight, 2 * np.array([1, 2, 3]) ** -0.5, rtol=1e-6)


def test_a_history_without_times_says_how_to_give_them():
    frame = pl.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1]})
    with pytest.raises(DataError, match=r"the data have no times.*timestamp=.*order=.rows."):
        FMPair(history=3).fit(frame)


def test_a_column_of_sessions_that_is_not_there_is_named():
    frame = pl.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1], "timestamp": [1, 2, 3]})
    with pytest.raises(DataError, match="unknown column for sessions 'visit'"):
        FMPair(history={"last": 3, "per": "visit"}).fit(frame)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("ten", "history must be a number of items"),
        (-1, "last must be a whole number of at least 1"),
        ({"lasts": 3}, "unknown field option 'lasts'. Did you mean 'last'"),
        ({"within": "soon"}, "within must be a time such as '30d'"),
        ({"fade": -1}, "fade of a field must be 0 or more"),
        (Field(kind="numeric"), "history must be a number of items"),
        (5_000, "last must be at most 1,000"),
    ],
)
def test_a_history_that_cannot_be_is_refused(given, said):
    with pytest.raises(OptionError, match=said):
        FMPair(history=given)


def of_users(repeats=1, **columns):
    """Six users with three of nine items each; repeats: events of each user's first item."""
    pairs = [(u, (u + n) % 9) for u in range(6) for n in (*[0] * repeats, 1, 2)]
    frame = pl.DataFrame(pairs, schema=["user", "item"], orient="row")
    return frame.with_columns(**columns)


def in_minibatches(frame, items=None, **options):
    recipe = FMPair(**{"factors": 4, "history": 0, "times": False, "order": 2, **options})
    return Task.of(recipe, recipe, Dataset.from_frame(frame, items=items)).settings.in_minibatches


def test_softmax_on_a_cpu_is_over_the_items_of_a_block():
    assert in_minibatches(of_users()) and in_minibatches(of_users(), optimizer="sgd")
    assert in_minibatches(of_users(timestamp=pl.int_range(pl.len())), history=3)


@pytest.mark.parametrize(
    "options",
    [
        {"n_negatives": 2},
        {"loss": "bpr"},
        {"temperature": 0.2},
        {"optimizer": "adagrad"},
        {"negative_sampler": "popularity"},
        {"own_share": 0.1},
        {"device": "torch"},
        {"blocks": 1},
    ],
    ids=str,
)
def test_other_options_sample_negatives(options, monkeypatch):
    if "blocks" in options:  # of more items than this
        monkeypatch.setattr(problem, "MAX_BLOCK", 7)
    if options.get("device"):
        pytest.importorskip("torch")
    assert not in_minibatches(of_users(), **options)


def test_contexts_favourites_and_learned_attributes_sample_negatives():
    assert not in_minibatches(of_users(daytime=pl.lit("am")))
    assert not in_minibatches(of_users(repeats=30))
    items = pl.DataFrame({"item": range(9), "size": range(9)})
    assert not in_minibatches(of_users(), items, fields={"size": Field(regularization=0.1)})


def test_an_update_samples_negatives():
    recipe = FMPair(factors=4, history=0, times=False, order=2, epochs=1)
    model = recipe.fit(of_users())
    new = Dataset.from_frame(of_users().with_columns(pl.col("user") + 100))
    task, _ = _continued(model, model.recipe, new, None)
    assert task.settings.n_negatives == 8 and not task.settings.in_minibatches
