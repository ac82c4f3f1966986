"""Trials: small fits that choose the options of `FMPair()` that are 'auto': history, times, order.

They also choose the regularisation of users and items if it is not given.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fmpair.arrays import tally
from fmpair.data import Dataset
from fmpair.data.times import is_calendar, mostly_timed, untimed
from fmpair.device import CPU, resolve_device
from fmpair.errors import Notice, TrainingError, named
from fmpair.features import FeatureSpace
from fmpair.features.calendar import TIME, whole_days
from fmpair.features.history_fields import AUTO, HISTORY, history_field
from fmpair.training import options as options_module
from fmpair.training.defaults import FACTORS_OF_MANY, MAX_REPEATED, factors_of
from fmpair.training.loop import started, task_of
from fmpair.training.options import FMPairOptions
from fmpair.training.small_fits import FACTORS, RAMPED, Judged, SmallFits
from fmpair.training.start import check_factors

LOG = logging.getLogger("fmpair")
PROGRESS = logging.getLogger("fmpair.progress")

LAST = 20  # items of the history
FADES = (1.0, 2.0)  # item n before the event has the weight n ** -fade: long, or mostly the last
TIME_PARTS = ("hour", "weekday", "since")
TIME_FIELDS = {TIME: {"kind": "time", "parts": TIME_PARTS}}
DEFAULT_FACTORS = (FACTORS, options_module.FACTORS, FACTORS_OF_MANY)  # of trials and fits on CPUs
REPEAT = 0.7  # of a history whose items gain; .4 to .75 were best in whole fits (docs/LOG.md)
SURE = 2.0  # standard errors by which the order of events and times must improve
DROPOUT = 0.5  # for comparing a long history with a short one; full fits use dropout too
# On a CPU the regularisation without a history is found by fits with 1 / L2_PACE of the epochs,
# steps L2_PACE times as long, at most L2_FACTORS factors and all negatives: fewer prefer less.
# On a GPU these are whole fits, since the best regularisation depends on factors and epochs.
L2_PACE = 2
L2_FACTORS = options_module.FACTORS
L2_STEP = 1.4  # ratio of two regularisations that are compared
L2_STEPS = 3  # steps of L2_STEP up or down, at most
L2_SURE = 0.5  # standard errors by which a step must improve: a wrong step costs little
L2_EVENTS = 100  # with fewer held-out events, a standard error is a tenth of NDCG or more


def without_auto(options: Any) -> Any:
    """Return the options of `FMPair` with every 'auto' switched off.

    That is no history, order two and no times. `times=True` becomes a field.
    """
    return replace(
        options,
        history=0 if options.history == AUTO else options.history,
        order=2 if options.order == AUTO else options.order,
        times=False,
        fields={**TIME_FIELDS, **options.fields} if options.times is True else options.fields,
    )


def resolve_auto(options: Any, data: Dataset) -> FMPairOptions:
    """Return the options with every 'auto' replaced by the setting that ranks best in trials.

    Every trial uses all users, since a sample would contain too few pairs of consecutive items.
    """
    check_factors(options, options.factors or 0)  # before any trial, which has fewer
    chosen, auto = without_auto(options), _AutoOptions(options, data)
    if not (auto.features or auto.regularization):
        return chosen
    trial = SmallFits.on(data, chosen, triples=auto.order)
    if trial is None:
        return chosen
    try:
        if auto.features:
            chosen = _with_features(chosen, trial, auto)
        free = auto.regularization and not chosen.history
        return _with_l2(chosen, trial.unordered(chosen, data)) if free else chosen
    except TrainingError:  # the fit that follows raises the same error
        return chosen


def _with_features(options: FMPairOptions, trial: SmallFits, auto: _AutoOptions) -> FMPairOptions:
    """Return the options with a history, times and order three where they rank better."""
    best = Judged(options, trial.values(options))
    if auto.history:
        best = _with_history(best, trial)
    if auto.times:
        best = _with_times(best, trial, auto.since)
    if auto.order:
        best = _with_triples(best, trial)
    if auto.item_pairs:
        best = _with_item_pairs(best, trial)
    return _with_repeats(best, trial) if auto.history else best.options


@dataclass(frozen=True)
class _AutoOptions:
    """Which 'auto' options are tried, given the columns of the data."""

    options: Any
    data: Dataset

    @cached_property
    def history(self) -> bool:
        if self.options.history != AUTO or "timestamp" not in self.data.columns.columns:
            return False
        if self.data.gaps:
            LOG.info("history: not used, since a split removed some of the users' earlier events")
            return False
        if not mostly_timed(self.data):
            missing, total = untimed(self.data), len(self.data)
            LOG.warning("history: not used, since %d of %d events have no time", missing, total)
            return False
        return True

    @cached_property
    def times(self) -> bool:
        """Whether hours and weekdays are tried, which needs calendar times of all events."""
        free = self.options.times == AUTO and TIME not in self.options.fields
        return (
            free and self.data.order is None and is_calendar(self.data) and not untimed(self.data)
        )

    @cached_property
    def since(self) -> bool:
        """Whether the days since a user's last event are tried, which needs all events."""
        return not self.data.gaps and bool(self.options.history)

    @cached_property
    def order(self) -> bool:
        """Whether order three is tried, which needs a context."""
        return self.options.order == AUTO and self.plain and bool(self.data.context or self.times)

    @cached_property
    def item_pairs(self) -> bool:
        """Whether order three is tried for pairs of earlier items.

        It is if the events have users, items and times alone, unless there are very many. Users
        must have enough events to fill a history, on average; else there are too few pairs.
        """
        free = self.options.order == AUTO and self.plain and self.ids_alone
        last = LAST if self.history else self.set_last
        users = np.count_nonzero(tally(self.data.user, len(self.data.users)))
        return bool(free and last and last * users <= len(self.data) <= MAX_REPEATED)

    @property
    def set_last(self) -> int:
        """The number of items of a history that is not 'auto'; 0 for none."""
        field = history_field(self.options.history)
        return field.last if field else 0

    @property
    def features(self) -> bool:
        return self.history or self.times or self.order or self.item_pairs

    @property
    def regularization(self) -> bool:
        """Whether the regularisation is tried: with softmax, unless there are very many events."""
        free = self.options.regularization is None and self.plain
        return free and len(self.data) <= MAX_REPEATED

    @property
    def ids_alone(self) -> bool:
        """Whether events have users, items and times alone."""
        attributes = self.data.user_table.width + self.data.item_table.width
        return not (self.data.context or attributes or self.options.fields)

    @property
    def plain(self) -> bool:
        return self.options.loss == "softmax" and self.options.temperature is None


def _with_history(none: Judged, trial: SmallFits) -> Judged:
    """Choose no history, a long one or a short one.

    A history is used if it ranks better than no history, and also better than the same history in
    random order. The second condition is needed because a small fit learns faster from histories
    than from user ids, even if the order of events carries no information.
    """
    PROGRESS.info("history: trying whether the last %d items help ...", LAST)
    best = trial.choice(none.options, history=_history(none.options, trial))
    mixed = trial.out_of_order(best.options) if best.better_than(none) else None
    helps = mixed is not None and best.better_than(mixed, SURE)
    order = f", about as good in random order: {mixed.values.mean():.4f}" if mixed else ""
    hint = "" if helps else Notice(f"{order}; set {named(HISTORY, LAST)} to force it")
    _report("history", f"the last {LAST} items", (helps, best, none), hint)
    return best if helps else none


def _history(options: FMPairOptions, trial: SmallFits) -> dict[str, float]:
    """Return the long history, or the short one if it ranks better.

    Without dropout small fits overfit long histories, which full fits do not. With dropout each
    step trains only some of the factors, so these fits have more epochs.
    """
    if options.loss == "softmax" and options.temperature is None:
        epochs = min(round(trial.small["epochs"] / (1 - DROPOUT)), options.epochs)
        trial = replace(trial, small={**trial.small, "dropout": DROPOUT, "epochs": epochs})
    histories = [{"last": LAST, "fade": fade} for fade in FADES]
    long, short = (trial.choice(options, history=history) for history in histories)
    return histories[short.better_than(long, 0.0)]


def _with_repeats(none: Judged, trial: SmallFits) -> FMPairOptions:
    """Let earlier items raise themselves where that ranks better.

    A history that is regularised as strongly as items does little more than that. It ranks better
    where users return to items, as in chains of view, cart and buy, but do not choose an item
    because of another one.
    """
    options, field = none.options, history_field(none.options.history)
    if options.temperature is not None or not trial.judge.ranks_repeats:
        return options
    best = none
    try:
        if options.order == 3:  # trials of order three had other settings
            best = none = trial.choice(options)
        if field:
            history = {"last": field.last, "fade": field.fade, "repeat": REPEAT}
            gaining = trial.choice(options, history=history)
            best = gaining if gaining.better_than(none, SURE) else none
            _report("repeats", "gains of earlier items", (best is gaining, gaining, none))
        held = trial.choice(options, history=_held(options, trial))
    except TrainingError:  # the choices made so far stay
        PROGRESS.info("repeats: no more is tried, since a fit diverged")
        return best.options
    helps = held.better_than(best, 0.0 if field else SURE)
    _report("repeats", "a history of gains alone", (helps, held, best))
    return (held if helps else best).options


def _held(options: FMPairOptions, trial: SmallFits) -> dict[str, float]:
    """Return a history whose items gain, regularised as strongly as items."""
    history = {"last": LAST, "fade": FADES[-1], "repeat": REPEAT}
    gaining = replace(options, history=history)
    l2 = task_of(gaining, gaining, trial.train).settings.positive
    return {**history, "regularization": float(l2)}


def _with_times(without: Judged, trial: SmallFits, since: bool) -> Judged:
    """Use hour, weekday and days since the last event if they gain SURE standard errors.

    On a CPU, whole fits without times learn from all items of a block, which fits with times do
    not. So times must also rank better than a small fit of that kind.
    """
    parts = [
        part for part in TIME_PARTS if part != "hour" or not whole_days(trial.train.columns[TIME])
    ]
    if not since:
        parts.remove("since")
    fields = {TIME: {"kind": "time", "parts": parts}, **without.options.fields}
    timed = trial.choice(without.options, fields=fields)
    best = without
    if timed.better_than(without, SURE):
        blocks = trial.over_blocks(without.options)
        best = without if blocks is None or without.better_than(blocks, 0.0) else blocks
    helps = timed.better_than(best, SURE)
    _report("times", ", ".join(parts), (helps, timed, best))
    return timed if helps else without


def _with_triples(without: Judged, trial: SmallFits) -> Judged:
    """Use order three for pairs of the user and a context field if it ranks better.

    Few factors hide its gain. On a GPU, where they save no time, the trials have all factors.
    """
    options = without.options
    space = FeatureSpace.fit(trial.train, options.fields, options.normalize, None)
    pairs = [["user", e.name] for e in space.query.encoders if e.role == "context"]
    if not pairs:
        return without
    second = without
    if resolve_device(options.device) != CPU:
        trial = replace(trial, small={**trial.small, "factors": options.factors})
        second = trial.choice(options)
    third = trial.choice(options, order=3, pairs=pairs)
    helps = third.better_than(second)
    _report("order", "three", (helps, third, second))
    return third if helps else without


def _with_item_pairs(without: Judged, trial: SmallFits) -> Judged:
    """Use order three for pairs of earlier items, and of users and earlier items, if it is better.

    Small fits without dropout overfit these pairs more than full fits do, so any gain is enough. On
    a CPU, where epochs take longer, it must be a standard error. A quarter of the factors are of
    triples, so that the model is not larger.
    """
    options = without.options
    if not options.history or options.order != 2 or options.fields:
        return without
    small = {"factors": trial.small["factors"], "epochs": min(options.epochs, RAMPED)}
    trial = replace(trial, small={**small, "dropout": 0.0})
    try:
        second, third = trial.choice(options), trial.choice(options, order=3)
    except TrainingError:
        PROGRESS.info("order: not using three for pairs of earlier items, since a fit diverged")
        return without
    helps = third.better_than(second, 1.0 if resolve_device(options.device) == CPU else 0.0)
    _report("order", "three for pairs of earlier items", (helps, third, second))
    if not helps:
        return without
    split = {}
    if options.factors is None:
        factors = factors_of(options, len(trial.train))
        split = {"factors": factors - factors // 4, "factors3": factors // 4}
    return Judged(replace(options, order=3, **split), third.values)


def _with_l2(options: FMPairOptions, trial: SmallFits) -> FMPairOptions:
    """Return the options with the regularisation of users and items that ranks best.

    The default is multiplied or divided by L2_STEP as long as that ranks better. Then the maximum
    of a parabola through the best value and its neighbours is used.
    """
    if trial.judge.count < L2_EVENTS:
        PROGRESS.info("regularization: default, as only %d events are held out", trial.judge.count)
        return options
    PROGRESS.info("regularization: comparing more and less with the default ...")
    small = _l2_trial(options)
    task = task_of(small, small, trial.train)  # encoded and started from content only once
    first, settings = task.initial(), task.settings
    usual = {"user": settings.user, "item": settings.positive}

    def scaled(steps: float, options: FMPairOptions = options) -> FMPairOptions:
        l2 = {name: value * L2_STEP**steps for name, value in usual.items()}
        return replace(options, regularization=l2)

    def values_at(steps: int) -> np.ndarray:
        changed = task.with_options(scaled(steps, task.options)) if steps else task
        return trial.values_of(started(changed, first=first))

    best, values = _climb(values_at)
    around = [values[n].mean() for n in (best - 1, best, best + 1) if n in values]
    steps = best + (_vertex(*around) if len(around) == 3 else 0.0)
    PROGRESS.info("regularization: %.2g times the default", L2_STEP**steps)
    return scaled(steps) if steps else options


def _climb(values_of: Callable[[int], np.ndarray]) -> tuple[int, dict[int, np.ndarray]]:
    """Return the best number of steps, up or down, and the values of every number tried."""
    best, values = 0, {0: values_of(0)}
    for way in (1, -1):
        while abs(best + way) <= L2_STEPS:
            step = best + way
            values[step] = values_of(step)
            if not Judged(step, values[step]).better_than(Judged(best, values[best]), L2_SURE):
                break
            best = step
        if best:
            break
    return best, values


def _l2_trial(options: FMPairOptions) -> FMPairOptions:
    """Return the options of a trial of the regularisation."""
    if resolve_device(options.device) != CPU:
        return options
    factors = min(options.factors or L2_FACTORS, L2_FACTORS)
    epochs, rate = math.ceil(options.epochs / L2_PACE), options.learning_rate * L2_PACE
    return replace(options, factors=factors, epochs=epochs, learning_rate=rate)


def _vertex(left: float, middle: float, right: float) -> float:
    """Return where a parabola through values at -1, 0 and 1 is largest between -.5 and .5."""
    curve = left - 2 * middle + right
    if curve >= 0:  # no maximum between the values: half a step to the better one
        return 0.5 * float(np.sign(right - left))
    return float(min(max((left - right) / (2 * curve), -0.5), 0.5))


def _report(
    what: str, value: str, result: tuple[bool, Judged, Judged], hint: str | Notice = ""
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
