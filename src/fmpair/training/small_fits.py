"""Small fits on part of the events, judged on the rest: what trials compare options by.

Usually each user's latest event is held out. In logs of anonymous sessions, where each user has one
visit, whole visits are held out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fmpair.arrays import tally
from fmpair.data import Dataset
from fmpair.data.parts import fully_timed
from fmpair.data.splits import holdout, leave_last_out
from fmpair.data.times import has_times
from fmpair.device import CPU, resolve_device
from fmpair.features.calendar import TIME
from fmpair.fitted.recommender import Recommender
from fmpair.training.defaults import n_negatives_of
from fmpair.training.epochs import Validation
from fmpair.training.loop import TrainingRun, train
from fmpair.training.options import FMPairOptions
from fmpair.training.visits import Visits, held_out_visits

FACTORS, NEGATIVES = 32, 64  # small, so that a trial can use all users and events
STEPS = 100  # events learned per user (events times epochs) after which settings can be compared
MIN_EPOCHS, MAX_EPOCHS = 4, 16  # limits for a trial
RAMPED = 16  # epochs of a trial with order three, whose regularisation grows epoch by epoch
MIN_EVENTS, MIN_USERS = 3, 30  # no trials if fewer users have so many events


class Judged(NamedTuple):
    """Options, and the NDCG@10 of every held-out event after a trial with them."""

    options: Any
    values: np.ndarray

    def better_than(self, other: Judged, errors: float = 1.0) -> bool:
        """Return whether the mean gain over `other` exceeds `errors` standard errors (paired)."""
        gain = self.values - other.values
        return bool(gain.mean() > errors * gain.std(ddof=1) / np.sqrt(len(gain)))


@dataclass(frozen=True)
class SmallFits:
    """Training events, held-out events (judge), and the options that make a fit fast (small)."""

    train: Dataset
    judge: Validation | Visits
    small: Mapping[str, Any]

    @classmethod
    def on(cls, data: Dataset, options: FMPairOptions, triples: bool) -> SmallFits | None:
        """Return the trial on these events; None if too few users have enough events."""
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
            # off by default: with so few negatives, corrected gradients are too noisy
            small["logq_correction"] = bool(options.logq_correction)
        return cls(*parts(data, options.threads), small)

    def unordered(self, options: Any, data: Dataset) -> SmallFits:
        """Return the trial with a random tenth of the events held out, if these are more."""
        timed = isinstance(self.judge, Visits) or TIME in options.fields
        if timed or len(data) < 10 * self.judge.count:
            return self
        return SmallFits(*parts(data, options.threads, ordered=False), self.small)

    def over_blocks(self, options: FMPairOptions) -> Judged | None:
        """Return the options with their values after a small fit over the items of a block.

        None if whole fits with these options do not learn from all items of a block.
        """
        sampled = ("n_negatives", "logq_correction")
        if sampled[0] not in self.small:
            return None
        fits = replace(self, small={k: v for k, v in self.small.items() if k not in sampled})
        run = fits.run(options)
        if run.task.settings.all_items:
            return Judged(options, fits.values_of(run))
        run.close()
        return None

    def run(self, options: FMPairOptions, train_events: Dataset | None = None) -> TrainingRun:
        """Return a small fit that has not begun."""
        small = replace(options, **self.small)
        return train(small, small, train_events or self.train)

    def model(self, run: TrainingRun) -> Recommender:
        """Return the model after all epochs of a fit."""
        for _ in run:
            pass
        return run.trained()

    def values_of(self, run: TrainingRun) -> np.ndarray:
        """Return NDCG@10 of every held-out event after all epochs of a fit."""
        return self.judge.values(self.model(run))

    def values(self, options: FMPairOptions) -> np.ndarray:
        """Return NDCG@10 of every held-out event after a small fit."""
        return self.values_of(self.run(options))

    def choice(self, options: FMPairOptions, **changes: Any) -> Judged:
        """Return the options with these changes, and their NDCG@10."""
        changed = replace(options, **changes)
        return Judged(changed, self.values(changed))

    def out_of_order(self, options: FMPairOptions) -> Judged:
        """Return the options with the NDCG@10 that they reach on shuffled histories.

        The events of each user are in random order, so the model cannot learn from their order.
        """
        user, chance = self.train.user, np.random.default_rng(0).random(len(self.train))
        source = np.empty(len(user), np.int64)
        source[np.argsort(user, kind="stable")] = np.lexsort((chance, user))
        times = self.train.columns[TIME].gather(source)
        mixed = replace(self.train, columns=self.train.columns.with_columns(times))
        judge = self.judge.shuffled() if isinstance(self.judge, Visits) else self.judge
        return Judged(options, replace(self, judge=judge).values_of(self.run(options, mixed)))


def parts(
    data: Dataset, threads: int | None, ordered: bool = True
) -> tuple[Dataset, Validation | Visits]:
    """Return the training events and the validation.

    The latest event of each user is held out; if there are no times, or if not ordered, a random
    tenth is. All users count equally, unless there is context. If users come once, a tenth of them
    is held out with all events, since users at serving time are also new.
    """
    data = fully_timed(data)
    visits = held_out_visits(data, threads)
    if visits is not None:
        return visits.train, visits
    timed = ordered and has_times(data) and not data.gaps
    split = leave_last_out(data) if timed else holdout(data, test=0.1, seed=0)
    train_events, _, test = split.parts(data)
    per_user = not data.context
    return train_events, Validation(train_events, test, "ndcg@10", 1, threads, per_user)
