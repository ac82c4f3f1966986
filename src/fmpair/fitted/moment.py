"""The moment of a question: given, or now; and what follows from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from fmpair.data.roles import find_column
from fmpair.errors import OptionError, named
from fmpair.features import FeatureSpace
from fmpair.features.calendar import DAY, TIME, datetimes, now
from fmpair.fitted.recent import Recent


def knows_time(space: FeatureSpace) -> bool:
    """Whether an answer depends on when it is asked for."""
    return TIME in space.context or bool(space.history and space.history.within)


def asked_at(space: FeatureSpace, frame: pl.DataFrame, time: Any) -> pl.DataFrame:
    """The questions with the one moment that all are asked at; None leaves them as they are."""
    if time is None:
        return frame
    check_time(space, time)
    return frame.with_columns(pl.Series(TIME, [time]).new_from_index(0, len(frame)))


def check_time(space: FeatureSpace, time: Any) -> None:
    """Refuse a time that would play no part."""
    if time is not None and not knows_time(space):
        raise OptionError(
            f"the model does not know the time: leave out {named('time')}, or fit it with "
            f"{named('fields', {TIME: 'time'})}"
        )


def time_named(space: FeatureSpace, frame: pl.DataFrame) -> pl.DataFrame:
    """The questions with their column of times, if any, under the name the model knows."""
    if TIME not in space.context or TIME in frame.columns:
        return frame
    column = find_column(TIME, frame.columns, None)
    if column is None or column in space.context:
        return frame
    return frame.rename({column: TIME})


def with_time(space: FeatureSpace, frame: pl.DataFrame) -> pl.DataFrame:
    """The questions with this moment where no other is given."""
    if TIME not in space.context or TIME in frame.columns:
        return frame
    return frame.with_columns(pl.lit(now()).alias(TIME))


def moments_asked(space: FeatureSpace, frame: pl.DataFrame) -> np.ndarray | None:
    """int64 [questions]: when they are asked, microseconds since 1970; None where none says so.

    A model that does not go by the time has no use for a column of times, whatever it holds.
    """
    if TIME not in frame.columns or not knows_time(space):
        return None
    times = datetimes(frame[TIME])
    return None if times.null_count() else times.to_physical().to_numpy()


def with_since(
    space: FeatureSpace,
    frame: pl.DataFrame,
    recent: Recent | None,
    user: np.ndarray,
    now: np.ndarray | None,
) -> pl.DataFrame:
    """The questions with the days since their users' last events, where the model goes by those."""
    if not space.since or recent is None or now is None:
        return frame
    own = recent.take(user)
    past = np.full(len(user), -1, np.int64)
    earlier = own.moment < now[own.owner]
    np.maximum.at(past, own.owner[earlier], own.moment[earlier])
    days = np.where(past >= 0, (now - past) / DAY, np.nan)
    return frame.with_columns(pl.Series(f"{TIME}.since", days).fill_nan(None))
