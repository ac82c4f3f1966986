"""Parts of times: hour, weekday, ..., and the days since the user's last event."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl

from fmpair.data import Dataset
from fmpair.data.parts import required_moments
from fmpair.data.times import (
    DAY,
    Timelines,
    has_dates,
    microseconds,
    read_times,
    strictly_before,
    timelines,
)
from fmpair.errors import DataError, OptionError, listing, named

TIME = "timestamp"  # the column of the times of the events
# How each part is encoded.
CODING = {
    "hour": "categorical",
    "daypart": "categorical",
    "weekday": "categorical",
    "weekend": "categorical",
    "month": "categorical",
    "period": "binned",
    "since": "binned",
    "age": "binned",
}
DATED = ("period", "age")  # parts in days since 1970
DAYPARTS = ("night", "morning", "afternoon", "evening")  # of six hours each
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
          "October", "November", "December")  # fmt: skip
SINCE_EDGES = (1 / 24, 0.25, 1.0, 3.0, 7.0, 30.0, 90.0, 365.0)  # days


def check_parts(parts: Any, zone: Any) -> tuple[str, ...]:
    """Return parts (a sequence or comma-separated text) as a tuple; check parts and zone."""
    names = parts.split(",") if isinstance(parts, str) else parts
    names = tuple(part.strip() if isinstance(part, str) else part for part in names)
    for part in names:
        if part not in CODING:
            raise OptionError(f"{named('parts')} must be some of {listing(CODING)}, not {part!r}")
    try:
        pl.Series([0], dtype=pl.Datetime("us", zone)).to_list()
    except (pl.exceptions.PolarsError, TypeError, ValueError):
        raise OptionError(
            f"{named('zone')} must be a time zone such as 'Europe/Berlin', not {zone!r}"
        ) from None
    return names


def default_parts(role: str, values: pl.Series) -> tuple[str, ...]:
    """Return the default parts of a column, by its role and whether its times have hours."""
    if role == "item":
        return ("age",)
    if role == "user":
        return ("period",)
    return ("weekday", "month") if whole_days(values) else ("hour", "weekday")


def whole_days(values: pl.Series) -> bool:
    """Return whether all times are midnight: dates without an hour."""
    times = datetimes(values).drop_nulls()
    return bool(((times.dt.hour() == 0) & (times.dt.minute() == 0)).all())


def check_role(role: str, name: str, parts: Sequence[str]) -> None:
    """Refuse parts that a column of this role does not have."""
    if "since" in parts and (role, name) != ("context", TIME):
        raise OptionError(
            f"the part since requires the field {TIME!r}, the times of the events, not {name!r}"
        )
    if "age" in parts and role != "item":
        raise OptionError(f"the part age requires a column of the item table, not {name!r}")


def part_of(values: pl.Series, part: str, zone: str) -> pl.Series:
    """Return one part of each time: text, integers, or days since 1970; null if missing."""
    times = datetimes(values)
    if part in DATED:
        return times.to_physical() / DAY
    local = times.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    if part == "hour":
        return local.dt.hour()
    if part == "daypart":
        return _names(DAYPARTS, local.dt.hour() // 6)
    if part == "month":
        return _names(MONTHS, local.dt.month() - 1)
    day = local.dt.weekday() - 1
    return _names(WEEKDAYS, day) if part == "weekday" else _names(("no", "yes"), day // 5)


def datetimes(values: pl.Series) -> pl.Series:
    """Return dates, text, or seconds (or smaller units) since 1970 as UTC times without a zone."""
    times = read_times(values)
    known = times.is_not_null() & (times.is_not_nan() if times.dtype.is_float() else True)
    if not known.any():
        return pl.Series(values.name, [None], pl.Datetime("us")).new_from_index(0, len(values))
    if not has_dates(times.filter(known)):
        raise DataError(
            f"column {values.name!r} has numbers in order but no dates: parts of a time need dates "
            "or seconds since 1970"
        )
    micros = np.zeros(len(values), np.int64)
    micros[known.to_numpy()] = microseconds(times.filter(known))
    dates = pl.Series(values.name, micros).cast(pl.Datetime("us"))
    return dates if known.all() else dates.set(~known, None)


def now() -> datetime:
    """Return the current time, in UTC without a zone."""
    return datetime.now(UTC).replace(tzinfo=None)


def since_last(data: Dataset) -> pl.Series:
    """Return the days since the last earlier event of the user; null for the first.

    Raise DataError if an event has no time.
    """
    moment = required_moments(data)
    return days_since(timelines(data.user, data.item, len(data.users), moment))


def days_since(lines: Timelines) -> pl.Series:
    """Return `since_last` of time lines, in row order; events at the same time are not earlier."""
    before = strictly_before(lines).astype(np.int64)
    first = np.repeat(lines.start[:-1], np.diff(lines.start))
    past = np.where(before > first, lines.moment[before - 1], lines.moment)
    days = np.where(before > first, (lines.moment - past) / DAY, np.nan)
    return pl.Series(f"{TIME}.since", days[lines.positions]).fill_nan(None)


def _names(names: Sequence[str], numbers: pl.Series) -> pl.Series:
    return pl.Series(numbers.name, names, pl.String).gather(numbers.cast(pl.Int64))
