"""Trials: small fits that decide about history, times and order of `FMPair()`.

Logs of anonymous sessions, whose users come once, are judged by whole visits that are held out.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import empty_rows, tally
from fmpair.data import Dataset
from fmpair.data.parts import fully_timed
from fmpair.data.splits import holdout, leave_last_out
from fmpair.data.times import has_times, is_calendar, microseconds, mostly_timed, untimed
from fmpair.device import CPU, ranking_device, resolve_device
from fmpair.errors import Notice, TrainingError, named
from fmpair.features import FeatureSpace
from fmpair.features.calendar import TIME, whole_days
from fmpair.features.history_fields import AUTO, HISTORY
from fmpair.fitted.recommender import Recommender
from fmpair.metrics import Metric
from fmpair.training import options as options_module
from fmpair.training.defaults import FACTORS_OF_MANY, n_negatives_of
from fmpair.training.epochs import Validation
from fmpair.training.loop import train
from fmpair.training.options import FMPairOptions

LOG = logging.getLogger("fmpair")
PROGRESS = logging.getLogger("fmpair.progress")

LAST = 20  # length of the history; its fade decides how far back it reaches
FADES = (1.0, 2.0)  # the latest items alike, or hardly more than the last one
TIME_PARTS = ("hour", "weekday", "since")
TIME_FIELDS = {TIME: {"kind": "time", "parts": TIME_PARTS}}
FACTORS, NEGATIVES = 32, 64  # of a trial: few, so that all users and events can stay
DEFAULT_FACTORS = (FACTORS, options_module.FACTORS, FACTORS_OF_MANY)  # that fits on a CPU may have
STEPS = 100  # visits of a user that tell settings apart
MIN_EPOCHS, MAX_EPOCHS = 4, 16  # epochs
RAMPED = 16  # epochs that triples need, whose regularisation is phased in
MIN_EVENTS = 3  # of a user who is judged: one to predict, and at least one before it
MIN_USERS = 30
SURE = 2.0  # standard errors by which order, times and a short history must matter


def without_auto(options: Any) -> Any:
    """Return the options of `FMPair` with every 'auto' replaced by the plainest setting."""
    return replace(
        options,
        history=0 if options.history == AUTO else options.history,
        order=2 if options.order == AUTO else options.order,
        times=False,
        fields={**TIME_FIELDS, **options.fields} if options.times is True else options.fields,
    )


def resolve_auto(options: Any, data: Dataset) -> FMPairOptions:
    """Return the options with every 'auto' replaced by what trials on the data show.

    options: those of `FMPair`. Every trial uses all users: a sample would say too little
    about which item follows which.
    """
    chosen = without_auto(options)
    auto = _AutoOptions(options, data)
    if not (auto.history or auto.times or auto.order):
        return chosen
    trial = _Trial.on(data, chosen, triples=auto.order)
    if trial is None:
        return chosen
    try:
        best = _Choice(chosen, trial.values(chosen))
        if auto.history:
            best = _with_history(best, trial)
        if auto.times:
            best = _with_times(best, trial, auto.since)
        return _with_triples(best, trial).options if auto.order else best.options
    except TrainingError:  # the fit itself raises it
        return chosen


class _Choice(NamedTuple):
    """Options, and NDCG@10 of every held-out event with them."""

    options: Any
    values: np.ndarray

    def better_than(self, other: _Choice, errors: float = 1.0) -> bool:
        """Return whether it ranks better by so many standard errors, event by event."""
        gain = self.values - other.values
        return bool(gain.mean() > errors * gain.std(ddof=1) / np.sqrt(len(gain)))


@dataclass(frozen=True)
class _AutoOptions:
    """Which 'auto' options trials decide, given what the data have."""

    options: Any
    data: Dataset

    @cached_property
    def history(self) -> bool:
        if self.options.history != AUTO or "timestamp" not in self.data.columns.columns:
            return False
        if self.data.gaps:
            LOG.info("history: not used, since events were removed from between the others")
            return False
        if not mostly_timed(self.data):
            missing, total = untimed(self.data), len(self.data)
            LOG.warning("history: not used, since %d of %d events have no time", missing, total)
            return False
        return True

    @cached_property
    def times(self) -> bool:
        """Whether hours and days are tried: the times have dates, and no option names them."""
        free = self.options.times == AUTO and TIME not in self.options.fields
        return (
            free and self.data.order is None and is_calendar(self.data) and not untimed(self.data)
        )

    @cached_property
    def since(self) -> bool:
        """Whether the last event of a user may count: none is missing, and none is unwanted."""
        return not self.data.gaps and bool(self.options.history)

    @cached_property
    def order(self) -> bool:
        """Whether order three is tried: there is a context that users may differ in."""
        plain = self.options.loss == "softmax" and self.options.temperature is None
        return self.options.order == AUTO and plain and bool(self.data.context or self.times)


@dataclass(frozen=True)
class _Trial:
    """Training events, the validation, and the options that make a fit small."""

    train: Dataset
    judge: Validation | Visits
    small: Mapping[str, Any]

    @classmethod
    def on(cls, data: Dataset, options: FMPairOptions, triples: bool) -> _Trial | None:
        """Return the trial on these events; None if there are too few users."""
        events = tally(data.user, len(data.users))
        if np.count_nonzero(events >= MIN_EVENTS) < MIN_USERS:
            return None
        visits = len(data) / np.count_nonzero(events)
        epochs = min(max(math.ceil(STEPS / visits), RAMPED if triples else MIN_EPOCHS), MAX_EPOCHS)
        small = {
            "factors": min(options.factors or FACTORS, FACTORS),
            "epochs": min(options.epochs, epochs),
            "dropout": 0.0,
        }
        if resolve_device(options.device) == CPU and options.loss == "softmax":
            small["n_negatives"] = min(n_negatives_of(options, len(data.items)), NEGATIVES)
            # so few that each would stand for too many items
            small["logq_correction"] = bool(options.logq_correction)
        return cls(*_parts(data, options.threads), small)

    def values(self, options: FMPairOptions, train_events: Dataset | None = None) -> np.ndarray:
        """Return NDCG@10 of every held-out event after a small fit."""
        small = replace(options, **self.small)
        *_, last = train(small, small, train_events or self.train)
        return self.judge.values(last.recommender())

    def choice(self, options: FMPairOptions, **changes: Any) -> _Choice:
        """Return the changed options with their values."""
        changed = replace(options, **changes)
        return _Choice(changed, self.values(changed))

    def out_of_order(self, options: FMPairOptions) -> _Choice:
        """Return the options with their values if each user's events are in random order."""
        user, chance = self.train.user, np.random.default_rng(0).random(len(self.train))
        source = np.empty(len(user), np.int64)
        source[np.argsort(user, kind="stable")] = np.lexsort((chance, user))
        times = self.train.columns[TIME].gather(source)
        mixed = replace(self.train, columns=self.train.columns.with_columns(times))
        judge = self.judge.shuffled() if isinstance(self.judge, Visits) else self.judge
        return _Choice(options, replace(self, judge=judge).values(options, mixed))


def _parts(data: Dataset, threads: int | None) -> tuple[Dataset, Validation | Visits]:
    """Return the training events and the validation.

    The latest event of each user is held out, a tenth of all if there are no times. Users who come
    once are new to every model: a tenth of them is held out, to be known by their history alone.
    """
    data = fully_timed(data)
    visits = held_out_visits(data, threads)
    if visits is not None:
        return visits.train, visits
    timed = has_times(data) and not data.gaps
    split = leave_last_out(data) if timed else holdout(data, test=0.1, seed=0)
    train_events, _, test = split.parts(data)
    return train_events, Validation(train_events, test, "ndcg@10", 1, threads)


def _with_history(none: _Choice, trial: _Trial) -> _Choice:
    """Choose a history: none, a long one or a short one.

    It must beat no history, and itself with the user's events in random order: small fits learn
    faster from a history than from users, also if their order says nothing. A short one must surely
    beat a long one, which gains more from the factors and the dropout of a whole fit.
    """
    PROGRESS.info("history: trying whether the last %d items help ...", LAST)
    histories = [{"last": LAST, "fade": fade} for fade in FADES]
    long, short = (trial.choice(none.options, history=history) for history in histories)
    best = short if short.better_than(long, SURE) else long
    helps = best.better_than(none)
    helps = helps and best.better_than(trial.out_of_order(best.options), SURE)
    hint = "" if helps else Notice(f"; set {named(HISTORY, LAST)} to force it")
    _report("history", f"the last {LAST} items", (helps, best, none), hint)
    return best if helps else none


def _with_times(without: _Choice, trial: _Trial, since: bool) -> _Choice:
    """Use hour, weekday and the days since the user's last event if they surely help."""
    parts = [
        part for part in TIME_PARTS if part != "hour" or not whole_days(trial.train.columns[TIME])
    ]
    if not since:
        parts.remove("since")
    fields = {TIME: {"kind": "time", "parts": parts}, **without.options.fields}
    timed = trial.choice(without.options, fields=fields)
    helps = timed.better_than(without, SURE)
    _report("times", ", ".join(parts), (helps, timed, without))
    return timed if helps else without


def _with_triples(without: _Choice, trial: _Trial) -> _Choice:
    """Use order three for users in their contexts if it helps."""
    options = without.options
    space = FeatureSpace.fit(trial.train, options.fields, options.normalize, None)
    pairs = [["user", e.name] for e in space.query.encoders if e.role == "context"]
    if not pairs:
        return without
    third = trial.choice(options, order=3, pairs=pairs)
    helps = third.better_than(without)
    _report("order", "three", (helps, third, without))
    return third if helps else without


def _report(
    what: str, value: str, result: tuple[bool, _Choice, _Choice], hint: str | Notice = ""
) -> None:
    helps, changed, without = result
    PROGRESS.info(
        "%s: %s %s (ndcg@10 of %d held-out events: %.4f with, %.4f without)%s",
        what,
        "using" if helps else "not using",
        value,
        len(without.values),
        changed.values.mean(),
        without.values.mean(),
        hint,
    )


# Visits of users who come once.

# Users come once if they have so few events, half of them within this share of the log's time.
VISIT_EVENTS, VISIT_SHARE, VISITORS = 10, 0.01, 0.1  # the last: share of them that is held out


@dataclass(frozen=True)
class Visits:
    """Visits of unknown users: each item but the first is predicted from those before it.

    train: the events of all other users.
    """

    train: Dataset
    before: list[list[Any]]
    item: list[Any]
    threads: int | None

    def values(self, model: Recommender) -> np.ndarray:
        """Return NDCG@10 of the items; 0 for those that the model does not know."""
        from fmpair.ranking.top import ranks

        items = model.space.items
        target = items.numbers(pl.Series(self.item, dtype=items.ids.dtype))
        queries = model.query_vectors(pl.DataFrame({"history": self.before}))
        known = np.flatnonzero(target >= 0)
        nothing, device = empty_rows(len(known)), ranking_device(model.recipe, len(known))
        above, level = ranks(
            queries[known], model.item_matrix, nothing, target[known], self.threads, device
        )
        values = np.zeros(len(target))
        values[known] = Metric.parse("ndcg@10").values(1 + above + level / 2)
        return values

    def shuffled(self) -> Visits:
        """Return the visits with the items before in random order."""
        rng = np.random.default_rng(0)
        return replace(self, before=[list(rng.permutation(items)) for items in self.before])


def held_out_visits(data: Dataset, threads: int | None) -> Visits | None:
    """Hold out the visits of a tenth of the users; None where users come back."""
    if not is_calendar(data) or untimed(data) or not come_once(data):
        return None
    chosen = np.random.default_rng(0).random(len(data.users)) < VISITORS
    frame = data.take(chosen[data.user]).frame().select("user", "item", TIME)
    by_user = frame.sort(TIME, maintain_order=True).group_by("user", maintain_order=True)
    visits = by_user.agg("item")["item"].to_list()
    steps = [(items[:n], items[n]) for items in visits for n in range(1, len(items))]
    before, item = [before for before, _ in steps], [item for _, item in steps]
    return Visits(data.take(~chosen[data.user]), before, item, threads)


def come_once(data: Dataset) -> bool:
    """Return whether users are sessions: few events each, soon after another.

    Half of them have all their events within a hundredth of the time of the log.
    """
    time = microseconds(data.columns[TIME])
    by_user = pl.DataFrame({"user": data.user, "time": time}).group_by("user")
    visits = by_user.agg(n=pl.len(), span=pl.col("time").max() - pl.col("time").min())
    short = np.median(visits["span"].to_numpy()) < VISIT_SHARE * np.ptp(time)
    return bool(short and visits["n"].to_numpy().mean() <= VISIT_EVENTS)
