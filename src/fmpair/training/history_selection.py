"""Whether histories help: settled by the data, where a recipe leaves it open."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from fmpair.arrays import tally
from fmpair.data import Dataset
from fmpair.data.splits import leave_last_out
from fmpair.data.times import untimed
from fmpair.features.history_fields import AUTO
from fmpair.fitted.recommender import Recommender
from fmpair.training.epochs import Validation
from fmpair.training.loop import train
from fmpair.training.options import FMPairOptions

LOG = logging.getLogger("fmpair")
LAST = 10  # items of a history that is tried
SHARE, MOST = 0.2, 200_000  # of the events, those of some users: trying must cost little
LEAST_EVENTS = 3  # of a user who can tell: one to be guessed, and one that came before
LEAST_USERS = 30
SURE = 2.0  # standard errors by which the last items must be guessed better


def settled(options: FMPairOptions, data: Dataset) -> FMPairOptions:
    """The options with or without a history, where they leave that to the data.

    With one if, learned from a part of the users less their last events, it guesses these better.
    """
    if options.history != AUTO:
        return options
    some = _some_users(data)
    if some is None:
        return replace(options, history=0)
    LOG.warning(
        "history: trying whether the last %d items help, on %s events of %s users ...",
        LAST,
        f"{len(some):,}",
        f"{len(some.users):,}",
    )
    without, with_one = (_values(replace(options, history=last), some) for last in (0, LAST))
    gain = with_one - without
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    helps = bool(gain.mean() > SURE * error)
    LOG.warning(
        "history: the last %d items are %s (ndcg@10 of the last event of %d users: %.4f with, "
        "%.4f without)%s",
        LAST,
        "learned from" if helps else "left out",
        len(gain),
        with_one.mean(),
        without.mean(),
        "" if helps else "; a history that is asked for is learned from all the same",
    )
    return replace(options, history=LAST if helps else 0)


def _some_users(data: Dataset) -> Dataset | None:
    """All events of some users, enough to tell; None where the data cannot."""
    if "timestamp" not in data.columns.columns:
        return None
    if data.gaps:
        LOG.info(
            "history: left out, since events were set aside from among these, so that what came "
            "before is not all known"
        )
        return None
    if missing := untimed(data):
        LOG.warning("history: left out, since %d of %d events have no time", missing, len(data))
        return None
    events = tally(data.user, len(data.users))
    able = np.flatnonzero(events >= LEAST_EVENTS)
    order = np.random.default_rng(0).permutation(able)
    most = min(SHARE * len(data), MOST)
    chosen = order[: max(int(np.searchsorted(np.cumsum(events[order]), most)), LEAST_USERS)]
    if len(chosen) < LEAST_USERS:
        return None
    mine = np.zeros(len(data.users), bool)
    mine[chosen] = True
    return data.take(mine[data.user]).compact()


def _values(options: FMPairOptions, data: Dataset) -> np.ndarray:
    """NDCG@10 of the last event of each user, learned from the others."""
    split = leave_last_out(data)
    events = data.take(split.train)
    *_, last = train(options, options, events)
    model: Recommender = last.recommender()
    return Validation(events, data.take(split.test), "ndcg@10", 1).values(model)
