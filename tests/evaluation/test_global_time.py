"""The protocol of one cut in time: every later event, asked with what was known by then."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair, Popularity, Protocol, evaluate
from fmpair.data import by_time, time_windows
from fmpair.errors import DataError, OptionError
from fmpair.evaluation import preset
from fmpair.evaluation.earlier_events import Memory, before_each, memory_of
from fmpair.evaluation.units import _numbered_together
from fmpair.models import EASE, VSKNN, MarkovChain, UserKNN

CLOCK = preset("global-time")
# a and b are known at the cut, c comes after it; item n has no event before the cut
LOG = pl.DataFrame(
    [
        ("a", "x", 1, "s"), ("b", "y", 2, "s"), ("a", "y", 3, "t"), ("b", "z", 4, "s"),
        ("a", "z", 11, "t"), ("c", "x", 12, "s"), ("a", "n", 13, "s"), ("c", "y", 14, "s"),
        ("a", "x", 15, "t"), ("c", "z", 14, "s"),
    ],
    schema=["user", "item", "timestamp", "visit"], orient="row",
)  # fmt: skip
DATA = Dataset.from_frame(LOG, context=["visit"])
TRAIN, _, TEST = by_time(DATA, test=0.6).parts(DATA)


def asked_of(train=TRAIN, test=TEST, protocol=CLOCK):
    """The evaluation of a function, and (user, item, history) of each query."""
    asked = []

    def model(queries):
        frame = queries.frame()
        asked.extend(frame.select("user", "item", "history").rows())
        return np.zeros((len(queries), len(train.items)), np.float32)

    return evaluate(model, train, test, protocol, ["hit@1", "mrr@3"]), asked


def test_every_event_is_asked_with_all_events_of_its_user_before_it():
    found, asked = asked_of()
    assert asked == [
        ("a", "z", ["x", "y"]),
        ("c", "x", []),  # a cold user
        ("a", "n", ["x", "y", "z"]),  # a cold item
        ("c", "y", ["x"]),
        ("a", "x", ["x", "y", "z"]),  # n is unknown to every model
        ("c", "z", ["x"]),  # y came at the same time
    ]
    assert (found.cold_users, found.cold_items) == (3, 1)


def test_what_users_had_by_then_is_excluded_and_no_later_item():
    found, _ = asked_of()
    # c's x ties with y and z; c's y with z only, since x was seen; a had everything: its repeat of
    # x is alone; its new n is found by nobody, behind all candidates or tied with none
    values = dict(zip(found.units.select("user", "item").rows(), found.units["hit@1"]))
    assert values["c", "x"] == pytest.approx(1 / 3)
    assert values["c", "y"] == values["c", "z"] == pytest.approx(1 / 2)
    assert values["a", "x"] == values["a", "z"] == 1


@pytest.mark.parametrize(
    ("targets", "items"), [("first", ["z", "x"]), ("last", ["x", "z"]), ("all", list("zxnyxz"))]
)
def test_targets_are_all_events_or_one_of_each_user(targets, items):
    protocol = replace(CLOCK, targets=targets)
    _, asked = asked_of(protocol=protocol)
    assert [item for _, item, _ in asked] == items
    assert protocol.id.endswith("history=known" + f"/targets={targets}" * (targets != "all"))


def test_parts_that_are_numbered_apart_are_judged_as_one_log():
    train, test = (LOG.filter((pl.col("timestamp") > 10) == later) for later in (False, True))
    apart, asked = asked_of(
        *(Dataset.from_frame(part, context=["visit"]) for part in (train, test))
    )
    whole, told = asked_of()
    assert asked == told
    assert (apart.cold_users, apart.cold_items) == (whole.cold_users, whole.cold_items)


def test_two_files_in_order_are_one_after_the_other():
    train, test = (
        Dataset.from_frame({"user": list("aab"), "item": items}, order="rows")
        for items in (list("xyz"), list("yxz"))
    )
    told = [history for _, _, history in asked_of(train, test)[1]]
    assert told == [["x", "y"], ["x", "y", "y"], ["z"]]


def test_a_history_is_as_long_as_the_model_takes_it():
    events = _numbered_together(TRAIN, TEST)

    def told(**options):
        rows = before_each(events, Memory(**options)).items
        return ["".join(TRAIN.items.take(row.column)) for row in map(rows.take, np.c_[:6])]

    assert told(last=1) == ["y", "", "z", "x", "z", "x"]
    assert told(within=9_000_000) == ["y", "", "z", "x", "z", "x"]
    assert told(per="visit") == ["y", "", "x", "x", "yz", "x"]
    assert told(whole=False) == ["", "", "z", "x", "z", "x"]
    days = before_each(events, Memory(since=True, per="visit")).days * 86_400
    assert days.tolist() == pytest.approx([8, np.nan, 2, 2, 2, 2], nan_ok=True)


def walk(users, steps, items=40):
    """Users walk round a ring of items, all at the same speed."""
    rows = [
        (f"u{u}", f"i{(5 * u + t) % items}", 100 * t + u)
        for t in range(steps)
        for u in range(users)
    ]
    return pl.DataFrame(rows, schema=["user", "item", "timestamp"], orient="row")


WALK = Dataset.from_frame(walk(30, 16))
WALKED, _, NEXT = by_time(WALK, test=0.25).parts(WALK)
RANKED = replace(CLOCK, seen="none")


@pytest.mark.parametrize(
    "recipe",
    [
        MarkovChain(),
        VSKNN(),
        FMPair(factors=8, history=1, epochs=60, threads=1, times=False, order=2),
    ],
    ids=lambda recipe: type(recipe).__name__,
)
def test_models_go_on_with_what_comes_after_the_cut(recipe):
    model = recipe.fit(WALKED)
    found = evaluate(model, WALKED, NEXT, RANKED, ["hit@1", "mrr@40"])
    stuck = evaluate(model, WALKED, NEXT, replace(RANKED, history="train"), ["hit@1", "mrr@40"])
    assert len(found.units) == len(NEXT)
    assert found.means["mrr@40"] > stuck.means["mrr@40"] + 0.1
    # the first events are the same question under both
    first = evaluate(model, WALKED, NEXT, replace(RANKED, targets="first"), ["mrr@40"]).means
    plain = replace(RANKED, history="train", targets="first")
    assert first == pytest.approx(evaluate(model, WALKED, NEXT, plain, ["mrr@40"]).means, abs=1e-6)
    if isinstance(recipe, MarkovChain):
        assert found.means["hit@1"] > 0.95 and stuck.means["hit@1"] < 0.5


def test_an_extended_model_and_a_history_give_the_same_list():
    model = MarkovChain().fit(WALKED)
    last = replace(RANKED, targets="last")
    known = WALK.take(np.flatnonzero(WALK.columns["timestamp"].to_numpy() < 1500))
    rest = NEXT.take(np.flatnonzero(NEXT.columns["timestamp"].to_numpy() < 1500))
    final = WALK.take(np.flatnonzero(WALK.columns["timestamp"].to_numpy() >= 1500))
    by_history = evaluate(model, WALKED, NEXT, last, ["mrr@40"]).means
    by_events = Protocol(candidates="train", seen="none")
    extended = evaluate(model.extended(rest), known, final, by_events, ["mrr@40"]).means
    assert by_history == pytest.approx(extended)


def test_models_that_know_users_by_learning_are_asked_as_they_are():
    for recipe in (UserKNN(), EASE(), Popularity()):
        found = evaluate(recipe.fit(TRAIN), TRAIN, TEST, CLOCK, ["hit@1"])
        assert len(found.units) == 6
    assert memory_of(UserKNN().fit(TRAIN)) is None


def test_the_time_since_the_last_event_counts_events_after_the_cut():
    fields = {"timestamp": {"kind": "time", "parts": ["since"]}}
    frame = walk(12, 8).with_columns(pl.from_epoch(pl.col("timestamp") * 3600).alias("timestamp"))
    data = Dataset.from_frame(frame)
    train, _, test = by_time(data, test=0.4).parts(data)
    recipe = FMPair(factors=8, epochs=2, history=2, threads=1, order=2, times=False, fields=fields)
    model = recipe.fit(train)
    assert memory_of(model).since
    assert len(evaluate(model, train, test, CLOCK, ["hit@1"]).units) == len(test)


def test_windows_train_on_all_before_and_test_what_follows():
    folds = time_windows(WALK, count=3, test=0.125)
    assert [len(fold.test) for fold in folds] == [60, 60, 60]
    moments = WALK.columns["timestamp"].to_numpy()
    for fold, later in pairwise(folds):
        assert moments[fold.train].max() < moments[fold.test].min()
        assert set(later.train) == set(fold.train) | set(fold.test)
    aside = time_windows(WALK, count=2, test=0.2, validation=0.1)[0]
    assert (len(aside.train), len(aside.validation), len(aside.test)) == (240, 48, 96)
    with pytest.raises(OptionError, match="must be between 0 and 1"):
        time_windows(WALK, count=5, test=0.2)
    with pytest.raises(DataError, match="too few times for 3 windows"):
        time_windows(TRAIN, count=3, test=0.05)


def test_what_the_clock_cannot_judge_is_refused():
    with pytest.raises(OptionError, match="history='known' needs unit='interaction'"):
        replace(CLOCK, unit="user")
    with pytest.raises(OptionError, match="targets='last' needs unit='interaction'"):
        Protocol(unit="user", targets="last")
    with pytest.raises(OptionError, match="seen='earlier' needs unit='interaction'"):
        Protocol(unit="user", seen="earlier")
    with pytest.raises(DataError, match="are older than the latest training event of all users"):
        evaluate(MarkovChain().fit(TEST), TEST, TRAIN, "global_time")


def log_with_ties_and_repeats(seed):
    """Users with repeats, events of one time, cold users, and items that come late."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(40):
        start = rng.integers(0, 900)
        for item in rng.integers(0, 20, rng.integers(2, 12)):
            time = start + rng.integers(0, 30) * 10
            late = 10 * (time > 700) * (rng.random() < 0.3)
            rows.append((f"u{user}", f"i{item + late:.0f}", int(time)))
    rows = [rows[n] for n in rng.permutation(len(rows))]
    return pl.DataFrame(rows, schema=["user", "item", "timestamp"], orient="row")


def score_of(history, item):
    """A number that any change of a history changes."""
    return np.float32(np.random.default_rng([hash_of(name) for name in (*history, item)]).random())


def hash_of(name):
    return int.from_bytes(name.encode(), "big")


@pytest.mark.parametrize("seen", ["earlier", "none", "train"])
def test_every_rank_is_that_of_a_loop_over_the_log(seen):
    data = Dataset.from_frame(log_with_ties_and_repeats(seed=5))
    train, _, test = by_time(data, test=0.35).parts(data)
    before, after = (
        part.frame().select("user", "item", "timestamp").rows() for part in (train, test)
    )
    trained = {item for _, item, _ in before}

    def model(queries):
        histories = queries.frame()["history"].to_list()
        return np.array([[score_of(h, item) for item in train.items.ids] for h in histories])

    def rank(user, item, time):
        had = [row for row in (*before, *after) if row[0] == user and row[2] < time]
        history = [row[1] for row in sorted(had, key=lambda row: row[2]) if row[1] in trained]
        past = had if seen == "earlier" else [row for row in before if row[0] == user]
        excluded = {row[1] for row in past} if seen != "none" else set()
        if item not in trained:
            return np.inf
        mine = score_of(history, item)
        return 1 + sum(score_of(history, each) > mine for each in trained - excluded - {item})

    found = evaluate(model, train, test, replace(CLOCK, seen=seen), ["mrr@20"])
    ranks = np.array([rank(*row) for row in after])
    expected = np.where(ranks <= 20, 1 / ranks, 0)
    np.testing.assert_allclose(found.units["mrr@20"].to_numpy(), expected, atol=1e-6)
    assert found.cold_users and found.cold_items
