"""The moment of a question: given, or now; and what follows from it."""

from __future__ import annotations

from typing import Any

import polars as pl

from fmpair.data.roles import find_column
from fmpair.errors import OptionError, named
from fmpair.features import FeatureSpace
from fmpair.features.calendar import TIME, now


def asked_at(space: FeatureSpace, frame: pl.DataFrame, time: Any) -> pl.DataFrame:
    """The questions with the one moment that all are asked at; None leaves them as they are."""
    if time is None:
        return frame
    if TIME not in space.context:
        raise OptionError(
            f"the model does not know the time: leave out {named('time')}, or fit it with "
            f"{named('fields', {TIME: 'time'})}"
        )
    return frame.with_columns(pl.Series(TIME, [time]).new_from_index(0, len(frame)))


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
