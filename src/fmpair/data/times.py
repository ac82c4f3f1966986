"""Times of events: find, parse and check columns of times; time lines of users."""

from __future__ import annotations

import logging
import re
import time
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl

from fmpair.arrays import latest_true, order_by, starts, tally
from fmpair.data.columns.roles import UNTIMED, is_missing
from fmpair.errors import DataError, Notice, named

LOG = logging.getLogger("fmpair")

NAIVE = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d")
ZONED = ("%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%d %H:%M%#z")
HAS_ZONE = r":\d\d(\.\d+)?[+-]\d\d(:?\d\d)?$"
UTC = "+00:00"
SAMPLE = 200  # values parsed first, to skip text columns that are not times

# Microseconds per unit of a number since 1970. Each range of values begins in March 1973 and ends
# in the year 5138, where the next begins, so that a value determines its unit.
UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
RANGES = {"s": (1e8, 1e11), "ms": (1e11, 1e14), "us": (1e14, 1e17), "ns": (1e17, 1e20)}
PLAUSIBLE = 946_684_800_000_000  # 2000-01-01; earlier numbers need a column name that means time
FEW = 0.05  # up to this fraction, deviating values are treated as mistakes
LARGEST_ORDER = 9e12  # larger order numbers do not fit into 64 bits as seconds
DAY = 86_400_000_000  # microseconds; also how far a time may be ahead of this machine's clock

TIME_NAME = re.compile(
    r"time|date|stamp|epoch|created|clicked|viewed|bought|ordered|(^|_)(ts|at|when|day)($|_)"
)
EXAMPLE = "2024-01-31 18:30:00"


class Timed(Protocol):
    """Anything with event columns, such as a `Dataset`."""

    @property
    def columns(self) -> pl.DataFrame: ...


def moments(data: Timed) -> np.ndarray | None:
    """int64 [events]: microseconds since 1970 (UTC); None if the data have no times.

    Numbers without a date (1, 2, 3) give only an order and count as seconds, see `is_calendar`.
    Raise DataError if an event has no time.
    """
    if "timestamp" not in data.columns.columns:
        return None
    times = data.columns["timestamp"]
    missing = is_missing(times)
    if missing.any():
        raise DataError(
            f"{missing.sum():,} of {len(times):,} events have no time (the first in row "
            f"{missing.arg_max()}, counted from 0): drop or fill those rows"
        )
    return microseconds(times)


def untimed(data: Timed) -> int:
    """Return the number of events without a time; all events if the data have no times."""
    if "timestamp" not in data.columns.columns:
        return len(data.columns)
    return int(is_missing(data.columns["timestamp"]).sum())


def mostly_timed(data: Timed) -> bool:
    """Return whether no or few events lack a time, so that these can count as the oldest."""
    return untimed(data) <= FEW * len(data.columns)


def has_times(data: Timed) -> bool:
    """Return whether every event has a time or an order number."""
    return "timestamp" in data.columns.columns and not untimed(data)


def is_calendar(data: Timed) -> bool:
    """Return whether the data have times with a date, not only an order."""
    return "timestamp" in data.columns.columns and has_dates(data.columns["timestamp"])


def has_dates(times: pl.Series) -> bool:
    """Return whether times are dates, or numbers of seconds, ... since 1970."""
    if times.dtype.is_numeric():
        return unit_of(times) is not None
    return isinstance(times.dtype, pl.Date | pl.Datetime)


def unit_of(numbers: pl.Series) -> str | None:
    """Return s, ms, us or ns since 1970; None if the numbers are not times with a date.

    Raise DataError for mixed units, or if a few numbers are outside the range of the others.
    """
    known = numbers.filter(~is_missing(numbers)).cast(pl.Float64)
    counts = {unit: int(known.is_between(*RANGES[unit], closed="left").sum()) for unit in UNITS}
    units = [unit for unit, count in counts.items() if count]
    outside = len(known) - sum(counts.values())
    if not units or outside > FEW * len(known):
        return None
    if len(units) > 1:
        raise DataError(
            f"column {numbers.name!r} mixes {' and '.join(WORDS[unit] for unit in units)} "
            f"({' and '.join(f'{counts[unit]:,}' for unit in units)} events): use one unit for all"
        )
    if outside:
        inside = known.is_between(*RANGES[units[0]], closed="left")
        raise DataError(
            f"column {numbers.name!r} has {outside:,} of {len(known):,} invalid timestamps, such "
            f"as {known.filter(~inside)[0]:g}, among {WORDS[units[0]]} since 1970: leave them empty"
        )
    return units[0]


def time_form(values: pl.Series) -> str | None:
    """Return the form of a column of times, by type, contents and name; None for other columns.

    Numbers are times if they are between 2000 and today, or after 1973 if the name says time.
    Times of day and durations are not times.
    """
    if isinstance(values.dtype, pl.Date | pl.Datetime):
        return "dates"
    if values.dtype == pl.String:
        return _text_form(values)
    if not values.dtype.is_numeric() or not len(values):
        return None
    by_name = named_like_time(values)
    try:
        unit = unit_of(values)
    except DataError:  # may be times with mistakes: decide by the name
        return "numbers" if by_name else None
    if unit is None:
        return None
    moment = microseconds(values.filter(~is_missing(values)))
    if by_name or (moment.min() >= PLAUSIBLE and moment.max() <= _now() + DAY):
        return f"{WORDS[unit]} since 1970"
    return None


def _text_form(values: pl.Series) -> str | None:
    sample = _spread(values)
    if not len(sample) or not sample.str.contains(r"\d").all():  # most columns end here
        return None
    dates = _parsed(sample)
    if not dates.null_count():
        return f"text such as {sample[0]}"
    odd = sample.filter(dates.is_null())
    if _numbers(odd).null_count() or not TIME_NAME.search(values.name.lower()):
        return None
    known = values.drop_nulls()  # text, so a sample of numbers alone does not stand for it
    odd = known.filter(_parsed(known).is_null())
    return "dates and numbers" if len(odd) < len(known) and not _numbers(odd).null_count() else None


def named_like_time(values: pl.Series) -> bool:
    """Return whether a column of numbers is named like a time, with dates or in order only."""
    return values.dtype.is_numeric() and TIME_NAME.search(values.name.lower()) is not None


def days(values: pl.Series) -> pl.Series:
    """Int64: the day of each time, counted from 1970; order numbers are unchanged."""
    times = parse_times(values)
    times = _parsed(times) if times.dtype == pl.String else times  # of text, what is a date
    if not times.dtype.is_numeric():
        return times.cast(pl.Date, strict=False).cast(pl.Int64)
    unit = unit_of(times)
    scale = 1.0 if unit is None else UNITS[unit] / DAY
    return (times.cast(pl.Float64).fill_nan(None) * scale).floor().cast(pl.Int64)


def read_times(values: pl.Series) -> pl.Series:
    """Return a column of times with text parsed; DataError if values are not times.

    Times without a zone are UTC. Missing and future times are logged.
    """
    times = _from_text(values) if values.dtype == pl.String else values
    if not (times.dtype.is_numeric() or isinstance(times.dtype, pl.Date | pl.Datetime)):
        raise DataError(
            f"column {values.name!r} holds {values.dtype}, not times: use dates, seconds since "
            f"1970 or text such as {EXAMPLE}, or name another column with {named('timestamp', ...)}"
        )
    if times.dtype.is_float() and times.is_infinite().any():
        raise DataError(f"column {values.name!r} has infinite times: leave them empty")
    _warn_of_missing_and_future(times)
    return times


def parse_times(values: pl.Series) -> pl.Series:
    """Parse text as UTC-naive times if every value is a date or time; else return it unchanged."""
    if values.dtype != pl.String or values.null_count() == len(values):
        return values
    if _parsed(_spread(values)).null_count():
        return values
    times = _parsed(values)
    return times if times.null_count() == values.null_count() else values


def _from_text(values: pl.Series) -> pl.Series:
    """Parse text as numbers or times; DataError names the first value that is neither."""
    numbers = _numbers(values)
    if numbers.null_count() == values.null_count():
        whole = values.str.strip_chars().cast(pl.Int64, strict=False)
        return whole if whole.null_count() == values.null_count() else numbers
    times = _parsed(values)
    wrong = times.is_null() & values.is_not_null()
    if wrong.all() or wrong.sum() == len(values.drop_nulls()):
        raise DataError(
            f"column {values.name!r} is text, not a time: use seconds or dates, or name another "
            f"column with {named('timestamp', ...)}"
        )
    if wrong.any() and not numbers.filter(wrong).null_count():
        date, number = values.filter(times.is_not_null())[0], values.filter(wrong)[0]
        raise DataError(
            f"column {values.name!r} mixes dates and numbers, such as {date!r} and {number!r} "
            f"({(~wrong & values.is_not_null()).sum():,} and {wrong.sum():,} events): write all in "
            f"one form, name another column with {named('timestamp', ...)}, or leave it out with "
            f"{named('ignore', [values.name])}"
        )
    if wrong.any():
        first = wrong.arg_true()[0]
        raise DataError(
            f"column {values.name!r} has {wrong.sum():,} of {len(values):,} invalid timestamps, "
            f"the first in row {first} (counted from 0): {values[first]!r}; write {EXAMPLE}"
        )
    zoned = _normal(values.drop_nulls()).str.contains(HAS_ZONE)
    if zoned.any() and not zoned.all():
        raise DataError(
            f"column {values.name!r} mixes times with and without a zone ({zoned.sum():,} and "
            f"{(~zoned).sum():,} events): give all of them a zone, such as {EXAMPLE} UTC"
        )
    return times


def _numbers(text: pl.Series) -> pl.Series:
    """Float64: text as numbers, null if it is none."""
    return text.str.strip_chars().cast(pl.Float64, strict=False)


def _normal(text: pl.Series) -> pl.Series:
    """Rewrite common spellings as 2024-01-31 18:30:00+00:00."""
    return (
        text.str.strip_chars()
        .str.replace(r"(?i)\s*(?:utc|gmt|z)$", UTC)
        .str.replace(r"^(\d{4})/(\d{1,2})/", "$1-$2-")
        .str.replace(r"^(\d{1,2})\.(\d{1,2})\.(\d{4})", "$3-$2-$1")
        .str.replace(r"^(\d{4}-\d{1,2}-\d{1,2})[Tt]", "$1 ")
        .str.replace(r"(:\d\d(?:\.\d+)?)\s+([+-]\d\d)", "$1$2")
    )


def _parsed(values: pl.Series) -> pl.Series:
    """Parse text as UTC-naive microseconds, null if it is not a date or time in a known layout."""
    text = _normal(values).str.strip_suffix(UTC)
    head = _spread(text)
    parsed = pl.Series(values.name, [None], pl.Datetime("us")).new_from_index(0, len(values))
    # Values that do not match are slow to parse, so try the most common layout first.
    misfits = {
        layout: head.str.to_datetime(layout, strict=False, time_unit="us").null_count()
        for layout in (*NAIVE, *ZONED)
    }
    for layout in sorted(misfits, key=misfits.__getitem__):
        if parsed.null_count() == values.null_count():
            break
        times = text.str.to_datetime(layout, strict=False, time_unit="us")
        if layout in ZONED:
            times = times.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        parsed = parsed.zip_with(parsed.is_not_null(), times)
    return parsed


def _spread(values: pl.Series) -> pl.Series:
    """Return a sample of non-null values, spread over the column."""
    known = values.drop_nulls()
    return known.gather_every(max(len(known) // SAMPLE, 1))


def _warn_of_missing_and_future(times: pl.Series) -> None:
    missing = is_missing(times)
    if missing.any():
        few = missing.sum() <= FEW * len(times)
        oldest, more = (" as the oldest of their users", "") if few else ("", "histories and ")
        text = (
            f"column {times.name!r} has no time in {missing.sum():,} of {len(times):,} events: "
            f"they are kept{oldest}, and times are not learned from; "
            f"{named('missing', UNTIMED)} leaves them out, which allows {more}splits by time"
        )
        LOG.warning("%s", Notice(text))  # the log handler spells option names
    if not has_dates(times):
        return
    late = microseconds(times.filter(~missing)) > _now() + DAY
    if late.any():
        LOG.warning(
            "column %r has %d of %d times in the future: check their unit and zone",
            times.name,
            late.sum(),
            len(times),
        )


def microseconds(times: pl.Series) -> np.ndarray:
    """int64: times without nulls as microseconds, by their unit; an order counts as seconds."""
    if not times.dtype.is_numeric():
        zone = getattr(times.dtype, "time_zone", None)
        return times.cast(pl.Datetime("us", zone)).to_physical().to_numpy()
    small = np.abs(times.cast(pl.Float64).to_numpy()).max(initial=0) < LARGEST_ORDER
    scale = UNITS[unit_of(times) or ("s" if small else "us")]
    if times.dtype.is_integer():
        whole = times.cast(pl.Int64).to_numpy()
        return whole * int(scale) if scale >= 1 else whole // round(1 / scale)
    return np.round(times.cast(pl.Float64).to_numpy() * scale).astype(np.int64)


def before_all(times: pl.Series, user: np.ndarray) -> pl.Series:
    """Return times in which each missing one is just before the first of its user, or of all."""
    kind = pl.Int64 if times.dtype.is_integer() else times.dtype  # the first may be 0, unsigned
    known = times.cast(kind).set(is_missing(times), None).to_physical().alias("known")
    earliest = pl.col("known").min()
    first = pl.coalesce(earliest.over("user"), earliest) - 1
    filled = pl.DataFrame({"known": known, "user": user}).select(pl.col("known").fill_null(first))
    return filled.to_series().cast(kind).alias(times.name)


def _now() -> float:
    """Microseconds since 1970."""
    return time.time() * 1e6


class Timelines(NamedTuple):
    """The events of each user, oldest first; ties keep their order.

    start: int64 [users + 1]; item: int32 [events]; moment: int64 [events], the times.
    event: int32 [events], row numbers of the data.
    """

    start: np.ndarray
    item: np.ndarray
    moment: np.ndarray
    event: np.ndarray

    @property
    def users(self) -> int:
        return len(self.start) - 1

    @property
    def positions(self) -> np.ndarray:
        """int32 [events]: the position of each event of the data in the time lines."""
        positions = np.empty(len(self.event), np.int32)
        positions[self.event] = np.arange(len(self.event), dtype=np.int32)
        return positions


def timelines(user: np.ndarray, item: np.ndarray, users: int, moment: np.ndarray) -> Timelines:
    """Build time lines from user, item int32 [events] and moment int64 [events]."""
    order = order_by(user, moment)
    return Timelines(starts(tally(user, users)), item[order], moment[order], order)


def strictly_before(lines: Timelines) -> np.ndarray:
    """int32 [events]: for each position, the end of the events strictly before it.

    That is the first position with the same user and time: ties do not precede each other.
    """
    count = len(lines.item)
    first = np.zeros(count, bool)
    first[lines.start[:-1][np.diff(lines.start) > 0]] = True
    first[1:] |= lines.moment[1:] != lines.moment[:-1]
    return latest_true(first)
