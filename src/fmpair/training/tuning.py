"""Tuning of FM-Pair: fits of different settings, compared on events that are held out.

The latest event of each user is held out, a random one if the events have no times. All other
events are learned in every fit; the first fits of a setting have fewer epochs and factors.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from fmpair.arrays import tally
from fmpair.checks import known_options_only
from fmpair.data import Dataset, as_dataset
from fmpair.data.event_types import ordered_event_types
from fmpair.data.parts import split_of
from fmpair.data.splits import leave_last_out, leave_out
from fmpair.data.times import has_times, untimed
from fmpair.errors import DataError, FmpairError, MachineError
from fmpair.features import Field
from fmpair.features.history_fields import history_field
from fmpair.kernel_cache import CLOCK
from fmpair.training.checkpoint import identity
from fmpair.training.epochs import MAX_EVENTS, Validation
from fmpair.training.loop import TrainingRun
from fmpair.training.search import Budget, Job, Range, Search, Setting, Space, canonical
from fmpair.training.tuned import (
    METRIC,
    FitResult,
    TrialFile,
    Tuned,
    shown_trials,
    trials_frame,
    with_event_weights,
)
from fmpair.training.visits import Visits, held_out_visits

PROGRESS = logging.getLogger("fmpair.progress")
MIN_USERS = 20  # with a held-out event
MIN_EPOCHS = 8  # fits with at least this many are first tried with fewer

# What is tried. Histories: a number of items, or options of the field.
HISTORIES = (0, 1, 3, {"last": 20, "fade": 2.0}, {"last": 20, "fade": 1.0},
             {"last": 50, "fade": 1.0}, {"last": 20, "fade": 0.5})  # fmt: skip
DROPOUTS = (0.0, 0.2, 0.4, 0.6, 0.8)
LOSSES = ("softmax", "warp", "bpr")
L2_TIMES = 10.0  # the regularisation is at most this many times larger or smaller
FACTORS_TIMES, MAX_FACTORS = (0.5, 1, 2, 4), 512
TYPE_RATIOS = (2.0, 5.0)  # weight of an event type in multiples of that of the next weaker one
# Decided by trials, once for all fits.
DECIDED = ("history", "order", "pairs", "factors3", "times", "fields")
EVENT_WEIGHTS = "event_weights"  # the only setting that is not an option of the recipe

# By rung the share of the epochs, and the cost relative to the last rung. On the lowest one vectors
# are at most FIRST_FACTORS long; a shorter default is kept, since each length is compiled anew.
# With fewer epochs steps are PACE times as long, else less regularisation would seem better.
SHARES, COSTS = (0.25, 0.5, 1.0), (0.2, 0.5, 1.0)
FIRST_FACTORS, PACE = 64, 2.0


# Which settings to try.


@dataclass(frozen=True, eq=False)
class Plan:
    """What tuning may change of a recipe.

    recipe: as given, with the DECIDED options resolved. space: starts at the recipe's options.
    l2_decided: whether the recipe's regularisation is that of the first fit, without a history,
    instead of a given one.
    """

    recipe: Any
    space: Space
    l2_decided: bool = False

    @property
    def costs(self) -> tuple[float, ...]:
        return costs_of(self.recipe.epochs)

    def options(self, setting: Setting, every: bool = False) -> dict[str, Any]:
        """Return the options that differ from the recipe, or `every` one, dotted names resolved.

        Another loss has its own regularisation, and so has a history if trials chose it without.
        """
        start, changed = self.space.start, {name: getattr(self.recipe, name) for name in DECIDED}
        if setting.get("order") == 2:
            changed["pairs"] = changed["factors3"] = None
        other_loss = setting.get("loss", self.recipe.loss) != self.recipe.loss
        own = other_loss or (self.l2_decided and bool(setting.get("history", 0)))
        if own and self.l2_decided:
            changed["regularization"] = None
        for name, value in setting.items():
            first, _, group = name.partition(".")
            same = canonical(value) == canonical(start[name])
            l2_skipped = first == "regularization" and (other_loss or (own and same))
            if name == EVENT_WEIGHTS or l2_skipped or (same and not every):
                continue
            given = changed.get(first, getattr(self.recipe, first))
            changed[first] = {**(given or {}), group: value} if group else value
        return changed

    def options_on_rung(self, setting: Setting, rung: int) -> dict[str, Any]:
        """Return the options of a fit on a rung: lower ones have fewer epochs and longer steps."""
        options = self.options(setting)
        if rung == len(self.costs) - 1:
            return options
        if rung == 0:
            options["factors"] = min(setting["factors"], FIRST_FACTORS)
        rate = self.recipe.learning_rate
        if rate <= type(self.recipe).learning_rate:  # a higher one might diverge
            options["learning_rate"] = rate * PACE
        return {**options, "epochs": epochs_of(self.recipe.epochs, rung)}


def costs_of(epochs: int) -> tuple[float, ...]:
    """Return the cost of a fit on each rung, relative to the last; few epochs have one rung."""
    return COSTS if epochs >= MIN_EPOCHS else COSTS[-1:]


def epochs_of(epochs: int, rung: int) -> int:
    """Return the number of epochs on a rung."""
    return round(epochs * SHARES[rung - len(costs_of(epochs))])


def plan_of(recipe: Any, data: Dataset, weighs: bool = True) -> Plan:
    """Return what to try for a recipe on these events; options that it sets are kept.

    weighs: whether to try weights of event types, which are part of the data.
    """
    run: TrainingRun = recipe.train(data)
    task, settings = run.task, run.task.settings
    run.close()
    decided = replace(recipe, **{name: getattr(task.options, name) for name in DECIDED})
    defaults = {option.name: option.default for option in fields(recipe)}
    free = {name for name, default in defaults.items() if getattr(recipe, name) == default}
    start: Setting = {
        "history": decided.history,
        "dropout": settings.dropout,
        "regularization.user": settings.user,
        "regularization.item": settings.positive,
        "factors": task.options.factors,
        "loss": recipe.loss,
        "order": decided.order,
        "weights": recipe.weights,
    }
    l2_decided = "regularization" in free and not decided.history
    if l2_decided:  # else every fit would repeat the trials
        l2 = {"user": settings.user, "item": settings.positive}
        decided = replace(decided, regularization=l2)
    ranges = {name: range for name, range in _ranges(recipe, data, start).items()
              if name.partition(".")[0] in free}  # fmt: skip
    ranges.setdefault("factors", Range((start["factors"],)))
    if weighs and (weights := _event_weights(data)):
        ranges[EVENT_WEIGHTS], start[EVENT_WEIGHTS] = Range((None, *weights)), None
    return Plan(decided, Space(ranges, {name: start[name] for name in ranges}), l2_decided)


def _ranges(recipe: Any, data: Dataset, start: Setting) -> dict[str, Range]:
    """Return the ranges of options that may matter for these events, most important first."""
    plain = recipe.levels is not None  # levels do not support order three, dropout and histories
    times = has_times(data) and not data.gaps
    described = bool(data.context or data.user_table.width or data.item_table.width)
    ranges = {}
    if times and not plain:
        ranges["history"] = _including(_histories(data, start["history"]), start["history"])
    for name in ("regularization.user", "regularization.item"):
        if start[name] > 0:
            ends = start[name] / L2_TIMES, start[name] * L2_TIMES
            ranges[name] = Range(low=ends[0], high=ends[1], log=True)
    if recipe.temperature is None and not plain:
        ranges["dropout"] = _including(DROPOUTS, start["dropout"])
    if not plain:
        ranges["loss"] = _including(LOSSES, start["loss"])
    factors = [max(int(start["factors"] * times), 1) for times in FACTORS_TIMES]
    factors = [number for number in factors if number <= max(MAX_FACTORS, start["factors"])]
    ranges["factors"] = Range(tuple(dict.fromkeys(factors)))
    if (described or start["order"] == 3) and not plain:
        ranges["order"] = Range((2, 3))
    if "weight" in data.columns.columns:
        ranges["weights"] = Range(("log", "linear", "none"))
    return ranges


def _histories(data: Dataset, start: Any) -> tuple[Any, ...]:
    """Return the histories to try, one of those that are alike as no user has more events.

    Where earlier items gain themselves, they do in all of these, and half and twice as much is
    tried too.
    """
    most, field = int(tally(data.user, len(data.users)).max(initial=1)), history_field(start)

    def used(history: Any) -> Field | None:
        found = history_field(history)
        return None if found is None else replace(found, last=min(found.last, most))

    tried: list[Any] = list(HISTORIES)
    if field is not None and field.repeat:
        length = {"last": field.last, "fade": field.fade}
        if field.regularization is not None:
            length["regularization"] = field.regularization
        tried = [_with_gain(history, field.repeat) for history in HISTORIES]
        tried[3:3] = [_with_gain(length, field.repeat * times) for times in (0.5, 2.0)]
    kept, known = [], [used(start)]
    for history in tried:
        if canonical(history) == canonical(start) or used(history) not in known:
            kept.append(history)
            known.append(used(history))
    return tuple(kept)


def _with_gain(history: Any, gain: float) -> Any:
    if isinstance(history, int):
        return {"last": history, "repeat": gain} if history else 0
    return {**history, "repeat": gain}


def _including(values: tuple[Any, ...], start: Any) -> Range:
    if canonical(start) in map(canonical, values):
        return Range(values)
    numbers = all(isinstance(value, float) for value in (start, *values))
    return Range(tuple(sorted((start, *values))) if numbers else (start, *values))


def _event_weights(data: Dataset) -> list[dict[str, float]]:
    """Return weights of event types to try, if their order is known and none are given."""
    if data.event_weights is not None or "event_type" not in data.columns.columns:
        return []
    types = ordered_event_types(data.columns["event_type"]) or []
    if len(types) < 2:
        return []
    return [{name: ratio**n for n, name in enumerate(types)} for ratio in TYPE_RATIOS]


# Fits and their results.


@known_options_only
def tune(
    recipe: Any,
    data: Any,
    *,
    budget: str | None = None,
    trials: int | None = None,
    file: str | Path | None = None,
    progress: bool | Callable[[str], None] = False,
) -> Tuned:
    """Search for options that rank better; the options that the recipe sets are kept.

    Settings are compared by NDCG@10 of each user's latest event, or of a random one without times.
    If users are sessions, a tenth of them is held out, and every event after the first is judged.
    The recipe does not change unless a setting is better by more than the standard error.
    Ctrl-C ends the search with the best so far.

    budget: time for the search, such as 90s, 5m or 2h. trials: instead of a time, the number of
    settings to try; the result is then the same on every machine.
    file: stores the fits; the same search, or one with another budget, continues from it.
    progress: True shows a bar, or lines where there is no terminal; a function is called with
    each line.
    """
    allowed, events = Budget.of(budget, trials), as_dataset(data)
    judge = held_out(events, recipe.seed, recipe.threads)
    stored = TrialFile.open(file, identity(recipe, events, (None, METRIC, 1)))
    plan = plan_of(recipe, judge.train)
    search = Search(plan.space, allowed, plan.costs, recipe.seed, twice=True)
    fits: dict[Job, FitResult] = {}
    complete = True
    try:
        for _ in shown_trials(_fits(search, plan, judge, stored, fits), search, progress):
            pass
    except KeyboardInterrupt:
        if Job(0) not in fits:
            raise
        complete = False
    best = search.best()
    assert best is not None, "the first fit succeeded"
    compared = search.compared if best else search.top
    if compared < len(plan.costs) - 1:
        PROGRESS.info(
            "tune: a whole fit would take too long, so settings were compared after %d of "
            "%d epochs; a longer search compares whole fits",
            epochs_of(recipe.epochs, compared),
            recipe.epochs,
        )
    chosen = search.settings[best]
    made = replace(plan.recipe, **plan.options(chosen, every=True))
    frame = trials_frame(
        search, fits, best, [epochs_of(recipe.epochs, r) for r in range(search.top + 1)]
    )
    unit = "visits" if isinstance(judge, Visits) else "latest" if has_times(events) else "random"
    return Tuned(made, frame, chosen.get(EVENT_WEIGHTS), complete, unit)


def held_out(data: Dataset, seed: int, threads: int | None) -> Validation | Visits:
    """Hold out an event of each user, the latest if there are times; of 10,000 users at most.

    All events of other users are for training. If users come once, whole visits are held out.
    """
    visits = held_out_visits(data, threads)
    if visits is not None and visits.count >= MIN_USERS:
        return visits
    in_time = has_times(data)
    if not in_time:
        known = "timestamp" in data.columns.columns  # some events have no time
        some = f"{untimed(data):,} of {len(data):,}" if known else "the"
        PROGRESS.info(
            "tune: %s events have no times, so a random event of each user is held out", some
        )
    test = (leave_last_out if in_time else leave_out)(data, seed=seed).test
    if len(test) > MAX_EVENTS:
        test = np.random.default_rng(seed).permutation(test)[:MAX_EVENTS]
    rest = np.setdiff1d(np.arange(len(data)), test)
    train, _, judged = split_of(rest, test[:0], test).parts(data)
    learned = tally(train.item, len(train.items)) > 0
    users = int(learned[judged.item].sum())
    if users < MIN_USERS:
        raise DataError(
            f"tuning needs at least {MIN_USERS} users with two events or more, to hold out one "
            f"of each, whose item others chose too; there are {users}"
        )
    return Validation(train, judged.take(learned[judged.item]), METRIC, 1, threads)


def _fits(
    search: Search,
    plan: Plan,
    judge: Validation | Visits,
    stored: TrialFile,
    fits: dict[Job, FitResult],
) -> Iterator[Job]:
    """Run the fits of the search and yield each; stored fits are not repeated."""
    while (job := search.ask()) is not None:
        key = canonical([search.settings[job.number], job.rung, job.repeat])
        if key not in stored.fits:
            result = _fitted(plan, search.settings[job.number], job, judge, search.left)
            if result is None:
                return
            stored.add(key, result)
        fit = fits[job] = stored.fits[key]
        search.tell(job, fit.values, fit.seconds, fit.work)
        yield job


def _fitted(
    plan: Plan, setting: Setting, job: Job, judge: Validation | Visits, left: float
) -> FitResult | None:
    """Run one fit; a setting that the model refuses, or that diverges, has failed.

    left: seconds after which a fit, except the first, is abandoned; the result is then None.
    """
    began, working = time.perf_counter(), CLOCK.now()
    options = plan.options_on_rung(setting, job.rung)
    values, error = None, None
    try:
        recipe = replace(plan.recipe, **options, seed=plan.recipe.seed + job.repeat)
        events = with_event_weights(judge.train, setting.get(EVENT_WEIGHTS))
        for epoch in recipe.train(events):
            if time.perf_counter() - began > left and job != Job(0):
                return None
            last = epoch
        values = judge.values(last.recommender()).astype(np.float32)
    except (FmpairError, ArithmeticError) as failure:
        if isinstance(failure, MachineError) or job.number == 0:
            raise
        error = str(failure)
    seconds, work = time.perf_counter() - began, CLOCK.now() - working
    return FitResult(values, seconds, work, error)
