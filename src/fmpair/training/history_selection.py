"""Deciding from the data whether to learn from histories, for history='auto'."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from fmpair.arrays import tally
from fmpair.data import Dataset
from fmpair.data.splits import leave_last_out
from fmpair.data.times import untimed
from fmpair.errors import Notice, named
from fmpair.features.history_fields import AUTO
from fmpair.fitted.recommender import Recommender
from fmpair.training.epochs import Validation
from fmpair.training.loop import train
from fmpair.training.options import FMPairOptions

LOG = logging.getLogger("fmpair")
PROGRESS = logging.getLogger("fmpair.progress")
LAST = 10  # length of the history to try
SHARE, MOST = 0.2, 200_000  # share and number of the events to try it on, so that it costs little
LEAST_EVENTS = 3  # of a user in the trial: one to predict, and at least one before it to learn from
LEAST_USERS = 30
SURE = 2.0  # standard errors by which a history must improve the ranking


def with_history(options: FMPairOptions, data: Dataset) -> FMPairOptions:
    """Return the options with `auto` replaced by a history of LAST items or none.

    A history is used if it ranks the last events of a sample of users better.
    """
    if options.history != AUTO:
        return options
    sample = _sample_of_users(data)
    if sample is None:
        return replace(options, history=0)
    PROGRESS.info(
        "history: trying whether the last %d items help, on %s events of %s users ...",
        LAST,
        f"{len(sample):,}",
        f"{len(sample.users):,}",
    )
    without, with_one = (_values(replace(options, history=last), sample) for last in (0, LAST))
    gain = with_one - without
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    helps = bool(gain.mean() > SURE * error)
    PROGRESS.info(
        "history: %s the last %d items (ndcg@10 of the last event of %d users: %.4f with, "
        "%.4f without)%s",
        "learning from" if helps else "not using",
        LAST,
        len(gain),
        with_one.mean(),
        without.mean(),
        "" if helps else Notice(f"; set {named('history', LAST)} to force it"),
    )
    return replace(options, history=LAST if helps else 0)


def _sample_of_users(data: Dataset) -> Dataset | None:
    """Return all events of a sample of users; None if the data cannot tell."""
    if "timestamp" not in data.columns.columns:
        return None
    if data.gaps:
        LOG.info("history: not used, since events were removed from between the others")
        return None
    if missing := untimed(data):
        LOG.warning("history: not used, since %d of %d events have no time", missing, len(data))
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
    """Return NDCG@10 of the last event of each user, after learning from the others."""
    split = leave_last_out(data)
    events = data.take(split.train)
    *_, last = train(options, options, events)
    model: Recommender = last.recommender()
    return Validation(events, data.take(split.test), "ndcg@10", 1).values(model)
