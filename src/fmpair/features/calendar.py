"""Parts of a time: the hour, the weekday, ..., and days since the user's last event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl

from fmpair.data import Dataset
from fmpair.data.parts import time_lines
from fmpair.data.times import DAY, Timelines, is_calendar, moments, read_times, strictly_before
from fmpair.errors import DataError, OptionError, listing, named

TIME = "timestamp"  # the column of the events' own times
# How each part becomes features: a value of its own each, or bins.
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


@dataclass(frozen=True)
class _Events:
    """Events of which only the columns are known."""

    columns: pl.DataFrame


def check_parts(parts: Any, zone: Any) -> tuple[str, ...]:
    """Parts by name, also as one text with commas between; OptionError where one is none."""
    given = parts.split(",") if isinstance(parts, str) else parts
    found = tuple(part.strip() if isinstance(part, str) else part for part in given)
    for part in found:
        if part not in CODING:
            raise OptionError(f"{named('parts')} must be some of {listing(CODING)}, not {part!r}")
    try:
        pl.Series([0], dtype=pl.Datetime("us", zone)).dt.hour()
    except (pl.exceptions.PolarsError, TypeError, ValueError):
        raise OptionError(
            f"{named('zone')} must be one such as 'Europe/Berlin', not {zone!r}"
        ) from None
    return found


def default_parts(role: str, values: pl.Series) -> tuple[str, ...]:
    """A few parts for a column of times, by whose they are and whether they tell the hour."""
    if role == "item":
        return ("age",)
    if role == "user":
        return ("period",)
    times = datetimes(values).drop_nulls()
    midnight = (times.dt.hour() == 0) & (times.dt.minute() == 0)
    return ("weekday", "month") if midnight.all() else ("hour", "weekday")


def check_role(role: str, name: str, parts: Sequence[str]) -> None:
    """Refuse parts that a column of this role does not have."""
    if "since" in parts and (role, name) != ("context", TIME):
        raise OptionError(
            f"the part since is of the events' own times: ask for it with the field {TIME!r}, not "
            f"{name!r}"
        )
    if "age" in parts and role != "item":
        raise OptionError(f"the part age is of items, and column {name!r} is none of theirs")


def part_of(values: pl.Series, part: str, zone: str) -> pl.Series:
    """One part of each time: text, whole numbers, or days since 1970; null where it is missing."""
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
    """Datetime [rows], UTC without a zone: of dates, text, or seconds, ... since 1970."""
    times = read_times(values)
    known = times.is_not_null() & (times.is_not_nan() if times.dtype.is_float() else True)
    events = _Events(times.filter(known).alias(TIME).to_frame())
    if not len(events.columns):
        return pl.Series(values.name, [None], pl.Datetime("us")).new_from_index(0, len(values))
    if not is_calendar(events):
        raise DataError(
            f"column {values.name!r} has an order, but no times: parts of a time need dates, or "
            "seconds since 1970"
        )
    out = np.zeros(len(values), np.int64)
    out[known.to_numpy()] = np.asarray(moments(events))
    found = pl.Series(values.name, out).cast(pl.Datetime("us"))
    return found if known.all() else found.set(~known, None)


def now() -> datetime:
    """This moment, in UTC without a zone."""
    return datetime.now(UTC).replace(tzinfo=None)


def since_last(data: Dataset) -> pl.Series:
    """Days between each event and the last one of its user strictly before; null for the first."""
    return days_since(time_lines(data))


def days_since(lines: Timelines) -> pl.Series:
    """The same of time lines, by the numbers of their events.

    What happens at one moment is not known before, so ties do not count.
    """
    before = strictly_before(lines).astype(np.int64)
    first = np.repeat(lines.start[:-1], np.diff(lines.start))
    past = np.where(before > first, lines.moment[before - 1], lines.moment)
    days = np.where(before > first, (lines.moment - past) / DAY, np.nan)
    return pl.Series(f"{TIME}.since", days[lines.place]).fill_nan(None)


def _names(names: Sequence[str], numbers: pl.Series) -> pl.Series:
    return pl.Series(numbers.name, names, pl.String).gather(numbers.cast(pl.Int64))
