"""What small fits decide: history, times, order and regularisation, if they are not given."""

import logging
import math
from dataclasses import dataclass, replace
from datetime import datetime
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset
from fmpair.cli import run
from fmpair.errors import OptionError, TrainingError
from fmpair.features.history_fields import history_field
from fmpair.models import FMPair
from fmpair.training import defaults, small_fits, trials
from fmpair.training.visits import Visits, come_once


def events(ordered, users=400, steps=12, items=40):
    """Users who walk from item to item, or the same events in an order that says nothing."""
    rng = np.random.default_rng(0)
    start = rng.integers(0, items, users)
    rows = [(u, (start[u] + t) % items, t) for u in range(users) for t in range(steps)]
    frame = pl.DataFrame(rows, schema=["user", "item", "timestamp"], orient="row")
    if not ordered:
        frame = frame.with_columns(pl.Series("timestamp", rng.permutation(len(frame))))
    return frame


def test_a_history_is_learned_from_where_order_matters(caplog):
    with caplog.at_level(logging.INFO, "fmpair"):
        model = FMPair(factors=8, epochs=15).fit(events(ordered=True))
    assert (model.space.history.last, model.space.history.fade) in ((20, 1.0), (20, 2.0))
    said = [record.getMessage() for record in caplog.records]
    first, second = (line for line in said if line.startswith("history:"))  # others: of compiling
    assert "trying whether the last 20 items help" in first
    assert "history: using the last 20 items (ndcg@10 of 400 held-out events" in second


def test_a_history_is_left_out_where_the_order_says_nothing(caplog):
    with caplog.at_level(logging.INFO, "fmpair"):
        model = FMPair(factors=8, epochs=15).fit(events(ordered=False))
    assert model.space.history is None
    assert "history: not using the last 20 items (ndcg@10" in caplog.text
    assert "without); set history=20 to force it" in caplog.text


def test_a_history_that_repeats_the_taste_of_users_is_left_out():
    """Users choose among the items of their group in any order: earlier items say who they are,
    which small fits learn sooner from a history, but their order says nothing."""
    rng = np.random.default_rng(3)
    rows = [
        (u, u % 10 * 20 + int(i), t)
        for u in range(300)
        for t, i in enumerate(rng.permutation(20)[:8])
    ]
    frame = pl.DataFrame(rows, schema=["user", "item", "timestamp"], orient="row")
    assert FMPair(factors=8, epochs=15).fit(frame).space.history is None


def test_all_users_are_learned_from_in_a_trial(monkeypatch):
    learned = []
    run = small_fits.train
    monkeypatch.setattr(small_fits, "train", lambda *given: learned.append(given[2]) or run(*given))
    FMPair(factors=8, epochs=2).fit(events(ordered=True))
    assert {len(set(data.user.tolist())) for data in learned} == {400}


def returns(share, visits=500, steps=6, items=120):
    """Visits in which a share of the clicks repeats the one before; the others are random."""
    rng = np.random.default_rng(0)
    item = rng.integers(0, items, (visits, steps))
    for step in range(1, steps):
        again = rng.random(visits) < share
        item[again, step] = item[again, step - 1]
    start = 1_700_000_000 + 3_600 * np.arange(visits)
    return pl.DataFrame(
        {
            "user": np.repeat(np.arange(visits), steps),
            "item": item.ravel(),
            "timestamp": (start[:, None] + 60 * np.arange(steps)).ravel(),
        }
    )


@dataclass
class KnownFits:
    """Small fits with known values: without times, with times, and over the items of a block."""

    with_times: float
    of_blocks: float | None
    train: Dataset

    def values(self, mean):
        return mean + np.random.default_rng(0).normal(0, 0.01, 100)

    def choice(self, options, **changes):
        return small_fits.Judged(replace(options, **changes), self.values(self.with_times))

    def over_blocks(self, options):
        if self.of_blocks is None:
            return None
        return small_fits.Judged(options, self.values(self.of_blocks))


@pytest.mark.parametrize(("with_times", "of_blocks", "used"), [
    (0.22, None, True), (0.20, None, False), (0.22, 0.19, True), (0.22, 0.23, False),
])  # fmt: skip
def test_times_must_rank_better_than_fits_without_them(with_times, of_blocks, used):
    fits = KnownFits(with_times, of_blocks, Dataset.from_frame(visits(days=20)))
    without = small_fits.Judged(FMPair(), fits.values(0.20))
    assert bool(trials._with_times(without, fits, since=True).options.fields) == used


@pytest.mark.parametrize(("share", "chosen"), [(0.4, True), (0.0, False)])
def test_earlier_items_gain_where_visits_repeat_them(share, chosen):
    recipe = FMPair(factors=8, epochs=8, times=False, order=2)
    options = trials.without_auto(replace(recipe, history=3))
    trial = small_fits.SmallFits.on(Dataset.from_frame(returns(share)), options, triples=False)
    found = history_field(trials._with_repeats(trial.choice(options), trial).history)
    assert (found.last, found.fade) == (3, 1.0)
    assert found.repeat == (trials.REPEAT if chosen else 0)


def test_gains_alone_are_used_where_users_return_and_no_history_is_learned():
    recipe = FMPair(factors=8, epochs=8, times=False, order=2)
    options = trials.without_auto(replace(recipe, history=0))
    trial = small_fits.SmallFits.on(Dataset.from_frame(returns(0.4)), options, triples=False)
    found = history_field(trials._with_repeats(trial.choice(options), trial).history)
    assert (found.repeat, found.fade) == (trials.REPEAT, trials.FADES[-1])
    assert found.regularization == pytest.approx(0.075)  # that of items


def test_models_of_cosines_have_no_gains():
    options = trials.without_auto(FMPair(factors=8, epochs=2, history=3, temperature=0.2))
    trial = small_fits.SmallFits.on(Dataset.from_frame(returns(0.4)), options, triples=False)
    none = small_fits.Judged(options, np.zeros(1))
    assert trials._with_repeats(none, trial) is options


def test_a_fit_that_diverges_costs_the_gains_and_not_the_history():
    options = trials.without_auto(FMPair(factors=8, history=3))

    def choice(options, **changes):
        raise TrainingError("training diverged in epoch 1")

    trial = SimpleNamespace(judge=SimpleNamespace(ranks_repeats=True), choice=choice)
    none = small_fits.Judged(options, np.zeros(1))
    assert trials._with_repeats(none, trial) is options


def test_nothing_gains_where_seen_items_are_not_ranked():
    options = trials.without_auto(replace(FMPair(factors=8), history=3))
    trial = SimpleNamespace(judge=SimpleNamespace(ranks_repeats=False))
    none = small_fits.Judged(options, np.zeros(1))
    assert trials._with_repeats(none, trial) is options


def visits(days, users=400, steps=4, items=40):
    """Users who walk from item to item, an hour a step, and come on one of so many days."""
    rng = np.random.default_rng(0)
    start, day = rng.integers(0, items, users), rng.integers(0, days, users)
    rows = [
        (u, (start[u] + t) % items, datetime(2024, 1, 1 + int(day[u]), 8 + t))
        for u in range(users)
        for t in range(steps)
    ]
    return pl.DataFrame(rows, schema=["user", "item", "timestamp"], orient="row")


def test_users_who_come_once_are_judged_by_their_history_alone(monkeypatch):
    judged = []
    of_visits = Visits.values
    monkeypatch.setattr(
        Visits, "values", lambda *given: judged.append(of_visits(*given)) or judged[-1]
    )
    stays = visits(days=1)
    assert not come_once(Dataset.from_frame(stays)), "the log is no longer than a visit"
    minutes = pl.duration(minutes=pl.col("timestamp").dt.hour())
    brief = visits(days=20).with_columns(pl.col("timestamp").dt.truncate("1d") + minutes)
    assert come_once(Dataset.from_frame(brief))
    model = FMPair(factors=8, epochs=15, times=False).fit(brief)
    assert model.space.history is not None
    assert judged and all(60 < len(values) < 180 for values in judged), "a tenth of the steps"


def hours(decides, users=200, steps=15):
    """Users who like some items in the morning and others at night, if the hour decides; else each
    user likes one half of the items."""
    rng = np.random.default_rng(0)
    rows = []
    for u in range(users):
        for t in range(steps):
            late = bool(rng.integers(2))
            half = late if decides else u % 2
            item = int(rng.integers(15)) + 15 * half
            rows.append((u, item, datetime(2024, 1, 1 + t, 20 if late else 8, u % 60)))
    return pl.DataFrame(rows, schema=["user", "item", "timestamp"], orient="row")


def test_the_hour_is_used_where_it_decides():
    space = FMPair(factors=8, epochs=10, order=2).fit(hours(decides=True)).space
    assert [e.name for e in space.query.encoders if e.role == "context"] == [
        "timestamp.hour",
        "timestamp.weekday",
        "timestamp.since",
    ]


def test_the_hour_is_left_out_where_it_says_nothing_and_where_it_is_not_wanted():
    assert not FMPair(factors=8, epochs=10).fit(hours(decides=False)).space.context
    assert not FMPair(factors=8, epochs=10, times=False).fit(hours(decides=True)).space.context
    assert FMPair(factors=8, epochs=2, times=True, order=2).fit(hours(decides=False)).space.context


def moods(users=60, steps=20):
    """Users who want one item in one mood and another in the other, each user others."""
    rng = np.random.default_rng(0)
    rows = []
    for u in range(users):
        wants = rng.permutation(30)[:2]
        for _ in range(steps):
            mood = int(rng.integers(2))
            rows.append((u, int(wants[mood]), ("calm", "loud")[mood]))
    return Dataset.from_frame(
        pl.DataFrame(rows, schema=["user", "item", "mood"], orient="row"), context=["mood"]
    )


def test_order_three_is_used_where_users_want_other_things_in_other_contexts(caplog):
    with caplog.at_level(logging.INFO, "fmpair"):
        model = FMPair(factors=8, epochs=10).fit(moods())
    assert model.space.pairing is not None
    assert "order: using three" in caplog.text
    assert FMPair(factors=8, epochs=1, order=2).fit(moods()).space.pairing is None


@pytest.mark.parametrize(("device", "factors"), [("cpu", [8]), ("torch", [16, 16])])
def test_trials_of_order_three_have_all_factors_on_a_gpu(device, factors, monkeypatch):
    few_by_default(monkeypatch)
    seen = []

    def values(trial, options):
        seen.append(trial.small["factors"])
        return np.zeros(2)

    monkeypatch.setattr(small_fits.SmallFits, "values", values)
    options = trials.without_auto(FMPair(factors=16, device=device))
    trial = small_fits.SmallFits.on(moods(), options, triples=True)
    without = small_fits.Judged(options, np.zeros(2))
    assert trials._with_triples(without, trial) is without  # comparable with the next trials
    assert seen == factors


def sums(users=80, steps=14, items=12):
    """Each item is the sum of the two before it, nearly always."""
    rng, rows = np.random.default_rng(0), []
    for user in range(users):
        before, item = rng.integers(items, size=2).tolist()
        for step in range(steps):
            rows.append((user, item, step))
            total = (before + item) % items if rng.random() < 0.95 else int(rng.integers(items))
            before, item = item, total
    return pl.DataFrame(rows, schema=["user", "item", "timestamp"], orient="row")


LAST_TWO = {"last": 2, "fade": 0.0}


def few_by_default(monkeypatch):
    """Let default models and trials have 8 factors, whose kernels other tests compile too."""
    for module in (defaults, small_fits):
        monkeypatch.setattr(module, "FACTORS", 8)


@pytest.mark.parametrize(("device", "epochs"), [("cpu", 30), ("torch", 6)])
def test_pairs_of_earlier_items_are_used_where_two_items_decide(
    device, epochs, caplog, monkeypatch
):
    few_by_default(monkeypatch)
    if device == "torch":
        pytest.importorskip("torch")
    recipe = FMPair(history=LAST_TWO, device=device, epochs=epochs)
    with caplog.at_level(logging.INFO, "fmpair"):
        chosen = trials.resolve_auto(recipe, Dataset.from_frame(sums()))
    assert chosen.order == 3
    assert "order: using three for pairs of earlier items" in caplog.text
    usual = defaults.FACTORS if device == "cpu" else defaults.FACTORS_OF_MANY
    assert (chosen.factors, chosen.factors3) == (usual * 3 // 4, usual // 4)


@pytest.mark.parametrize("device", ["cpu", "torch"])
def test_pairs_of_earlier_items_are_left_out_where_one_item_decides(device, monkeypatch):
    few_by_default(monkeypatch)
    if device == "torch":
        pytest.importorskip("torch")
    recipe = FMPair(history=LAST_TWO, device=device, epochs=4)
    chosen = trials.resolve_auto(recipe, Dataset.from_frame(events(ordered=True, users=60)))
    assert (chosen.order, chosen.factors, chosen.factors3) == (2, None, None)


def test_pairs_of_earlier_items_are_not_tried_if_users_have_few_events(caplog):
    with caplog.at_level(logging.INFO, "fmpair"):
        FMPair(factors=8, epochs=1, history={"last": 13}).fit(events(ordered=True))  # 12 per user
    assert "earlier items" not in caplog.text


def diverge(self, options, **changes):
    raise TrainingError("training diverged in epoch 1")


def test_pairs_of_earlier_items_are_not_used_if_a_fit_diverges(caplog, monkeypatch):
    few_by_default(monkeypatch)
    monkeypatch.setattr(small_fits.SmallFits, "choice", diverge)
    recipe = FMPair(history=LAST_TWO, order="auto")
    with caplog.at_level(logging.INFO, "fmpair"):
        assert trials.resolve_auto(recipe, Dataset.from_frame(sums(users=40))).order == 2
    assert "since a fit diverged" in caplog.text


def test_times_are_true_false_or_auto():
    with pytest.raises(OptionError, match="times must be true, false or auto, not 'hour'"):
        FMPair(times="hour")
    with pytest.raises(OptionError, match="order must be 2 or 3 or auto, not 4"):
        FMPair(order=4)


def test_without_times_there_is_no_history_and_nothing_is_said(caplog):
    with caplog.at_level(logging.INFO, "fmpair"):
        model = FMPair(factors=8, epochs=1).fit(events(ordered=True).drop("timestamp"))
    assert model.space.history is None
    assert "history" not in caplog.text


def test_events_without_a_time_are_counted(caplog):
    frame = events(ordered=True).with_columns(
        pl.when(pl.col("timestamp") > 10).then(None).otherwise("timestamp").alias("timestamp")
    )
    with caplog.at_level(logging.INFO, "fmpair"):
        model = FMPair(factors=8, epochs=1).fit(frame)
    assert model.space.history is None
    assert "400 of 4800 events have no time" in caplog.text


def without_times(each):
    """Ordered events, one of so many without a time."""
    times = pl.when(pl.int_range(pl.len()) % each == 0).then(float("nan"))
    times = times.otherwise(pl.col("timestamp").cast(pl.Float64))
    return events(ordered=True).with_columns(times.alias("timestamp"))


def test_events_without_a_time_do_not_keep_a_model_from_being_learned():
    for part in (None, 0.2):
        model = FMPair(factors=8, epochs=1).fit(without_times(each=10), validation=part)
        assert model.space.history is None


def test_a_few_events_without_a_time_do_not_switch_the_history_off(caplog):
    with caplog.at_level(logging.WARNING, "fmpair"):
        model = FMPair(factors=8, epochs=15).fit(without_times(each=50))
    assert model.space.history is not None
    assert "96 of 4,800 events: they are kept as the oldest of their users" in caplog.text


def test_an_updated_model_keeps_what_was_settled():
    frame = events(ordered=True)
    model = FMPair(factors=8, epochs=15).fit(frame)
    assert model.update(frame.head(5), epochs=1).space.history == model.space.history


def choices(groups, users=1200, each=10, items=200):
    """Users choose popular items, of their own group a thousand times as often as others."""
    rng, item = np.random.default_rng(0), np.arange(items)
    likely = [np.where(item % groups == g, 1.0, 0.001) / (1 + item) for g in range(groups)]
    rows = [
        (u, int(i))
        for u in range(users)
        for i in rng.choice(items, each, False, likely[u % groups] / likely[u % groups].sum())
    ]
    return pl.DataFrame(rows, schema=["user", "item"], orient="row")


@pytest.mark.parametrize(
    ("groups", "default", "device"), [(10, 0.6, "cpu"), (1, 0.02, "cpu"), (10, 0.6, "torch")]
)
def test_a_default_that_is_too_strong_or_too_weak_is_mended(monkeypatch, groups, default, device):
    l2 = defaults.L2_BY_LOSS["softmax"]._replace(user=default, item=default / 2)
    monkeypatch.setitem(defaults.L2_BY_LOSS, "softmax", l2)
    frame = choices(groups)  # clear tastes, or popularity alone
    model = FMPair(factors=8, epochs=9, device=device).fit(frame)
    found = model.recipe.regularization
    assert found["item"] == found["user"] / 2
    usual = default * defaults.MAX_OF_EXACT  # users have few items
    steps = math.log(found["user"] / usual, trials.L2_STEP)
    way = -1 if default > 0.15 else 1
    assert trials.L2_STEPS - 1 < way * steps < trials.L2_STEPS + 0.01  # a parabola's vertex
    assert model.update(frame.head(5), epochs=1).recipe.regularization == found


def test_users_count_equally_unless_there_is_context():
    frame = choices(10)
    with_context = frame.with_columns(pl.Series("place", np.arange(len(frame)) % 3))
    for given, by_user in ((frame, True), (with_context, False)):
        _, judge = small_fits.parts(Dataset.from_frame(given), None)
        assert judge.per_user == by_user


@dataclass(frozen=True)
class KnownTask:
    """A task that is its own run; the default regularisation is 1."""

    options: FMPair
    settings: SimpleNamespace

    def initial(self):
        return None

    def with_options(self, options):
        return replace(self, options=options)


@dataclass(frozen=True)
class KnownBest:
    """A trial in which a regularisation of `best` ranks best."""

    best: float
    train = None
    judge = SimpleNamespace(count=trials.L2_EVENTS)

    def values_of(self, task):
        user = (task.options.regularization or {"user": 1.0})["user"]
        return np.full(2, -(np.log(user / self.best) ** 2))


def test_the_best_regularisation_may_lie_between_two_steps(monkeypatch):
    settings = SimpleNamespace(user=1, positive=0.5)
    monkeypatch.setattr(trials, "task_of", lambda _, options, data: KnownTask(options, settings))
    monkeypatch.setattr(trials, "started", lambda task, first: task)
    for best in (1.1, 0.9, 1.7, 0.6):
        found = trials._with_l2(FMPair(history=0), KnownBest(best))
        assert found.regularization == pytest.approx({"user": best, "item": best / 2})


def test_a_parabola_is_largest_at_most_half_a_step_away():
    assert trials._vertex(-4.0, -1.0, 0.0) == pytest.approx(0.5)  # the maximum is at 1
    assert trials._vertex(1.0, 2.0, 1.0) == trials._vertex(1.0, 0.0, 1.0) == 0.0
    assert trials._vertex(1.0, 0.0, 2.0) == -trials._vertex(2.0, 0.0, 1.0) == 0.5


@pytest.mark.parametrize("given", [{"regularization": 0.1}, {"loss": "bpr"}, {"temperature": 0.2}])
def test_regularisation_is_not_tried_if_it_or_another_loss_is_given(given):
    auto = trials.resolve_auto(FMPair(factors=4, **given), Dataset.from_frame(choices(10)))
    assert auto.regularization == given.get("regularization")


def test_regularisation_is_not_tried_on_very_many_events(monkeypatch):
    monkeypatch.setattr(trials, "MAX_REPEATED", 11_999)  # there are 12,000
    auto = trials.resolve_auto(FMPair(factors=4), Dataset.from_frame(choices(10)))
    assert auto.regularization is None


def test_regularisation_is_not_tried_on_few_events(caplog):
    with caplog.at_level(logging.INFO, "fmpair"):
        model = FMPair(factors=4, epochs=1).fit(choices(10, users=90))
    assert model.recipe.regularization is None
    assert "regularization: default, as only 90 events are held out" in caplog.text


def test_the_command_line_shows_the_decision_unless_it_is_quiet(tmp_path, capsys):
    path = tmp_path / "events.csv"
    rng = np.random.default_rng(1)
    frame = events(ordered=False, users=60)
    frame.with_columns(pl.Series("item", rng.integers(0, 40, 720))).write_csv(path)
    fit = ["fit", str(path), "-o", str(tmp_path / "model"), "--epochs", "1", "--factors", "4"]
    assert run(fit) == 0
    shown = capsys.readouterr().err
    assert "history: trying whether" in shown and "set --history 20 to force it" in shown
    assert run([*fit, "--quiet"]) == 0
    assert "history" not in capsys.readouterr().err
