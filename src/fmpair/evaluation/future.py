"""No look into the future: test events must come after those that a model knows."""

from __future__ import annotations

from typing import Any

from fmpair.data import Dataset
from fmpair.data.leakage import comparable_times, older_events
from fmpair.errors import DataError, named, notice

REMEDY = {
    "user": "split by leave_last_out or by_time",
    "all": "split by by_time",
}


MANY = 0.05  # share of test events older than what is known, from which on it is told


def tell_of_histories(model: Any, train: Dataset, test: Dataset) -> None:
    """Say so where a model that goes by what came last is to guess what came earlier."""
    if getattr(model, "recent", None) is None or not comparable_times(train, test):
        return
    older = older_events(train, test)[1] or 0
    if older > MANY * len(test):
        notice(
            f"the model goes by what its users did last, and {older:,} of {len(test):,} test "
            f"events are older than that: {REMEDY['user']}, or fit it with {named('history', 0)}"
        )


def check_future(train: Dataset, test: Dataset, after: str | None) -> None:
    """Refuse test events that are older than training events, of their user or of all."""
    if after is None:
        return
    for what, part in (("training", train), ("test", test)):
        if "timestamp" not in part.columns.columns:
            raise DataError(
                f"a protocol with {named('after', after)} needs times, and the {what} events have "
                f"none: name their column with {named('timestamp', ...)}"
            )
    if after == "all" and "per-user" in (train.order, test.order):
        raise DataError(
            f"a protocol with {named('after', 'all')} needs times: the order of the events of "
            f"different users is not known; use {named('after', 'user')}"
        )
    if not comparable_times(train, test):
        if train.order is not None and test.order is not None:
            return  # two files in order: the one of the test events comes after
        raise DataError(
            "the times of the training and the test events cannot be compared: those of one are "
            "dates, those of the other numbers"
        )
    older = older_events(train, test)[("all", "user").index(after)]
    if older:
        whose = "of their own user" if after == "user" else "of all"
        raise DataError(
            f"{older:,} of {len(test):,} test events are older than the latest training event "
            f"{whose}, so the model is trained on later events: {REMEDY[after]}, or leave out "
            f"{named('after', after)}"
        )
