"""What the values of a column look like: ids, sessions, free text, prices."""

from __future__ import annotations

import re

import polars as pl

from fmpair.data.infer import decimal_commas
from fmpair.data.kinds import MOST_KINDS
from fmpair.data.times import time_form

FEW_ROWS = 20  # so few events prove nothing about a column
NEARLY_ALL = 0.5  # share of distinct values among the events, from which hardly any repeats
ID_SHARE = 0.02  # the same for a column that is named like an id
COMMAS = "text: numbers with a decimal comma"
WORDS = 4  # on average, from which text is free

ID_NAME = re.compile(r"(^|_)(id|ids|uuid|guid|hash|key|token|ip|index|row|nr|no|number)$|Id$|ID$")
PRICE_NAME = re.compile(r"(^|_)(price|cost|msrp|prices|costs)($|_)")
AFTERWARDS = re.compile(
    r"(^|_)(quantity|qty|revenue|dwell|playtime|watchtime|(dwell|watch|play|listen|read)_?"
    r"(time|ms|seconds|duration))($|_)"
)


def described(values: pl.Series) -> str:
    """The values in short."""
    if values.dtype.is_nested():
        return "lists"
    if decimal_commas(values) is not None:
        return COMMAS
    return "numbers" if values.dtype.is_float() else f"{values.drop_nulls().n_unique():,} values"


def is_price(name: str) -> bool:
    """Whether a column is named like a price."""
    return PRICE_NAME.search(name.lower()) is not None


def is_session(values: pl.Series, user: pl.Series) -> bool:
    """Whether a column that is named like a session tells them: many, each of one user."""
    if values.dtype.is_nested() or values.dtype.is_float():
        return False
    if len(values) <= FEW_ROWS:
        return True
    return values.n_unique() > MOST_KINDS or has_one_each(values, user)


def why_left_out(values: pl.Series, user: pl.Series, timed: bool) -> str | None:
    """Why a column cannot be context, whatever the item; None where it can.

    user: the users of the events; timed: whether another column tells the time.
    """
    if values.dtype.is_nested() or len(values) <= FEW_ROWS:
        return None
    if AFTERWARDS.search(values.name.lower()) and values.dtype.is_numeric():
        return "known only after the choice"
    if values.n_unique() < 2:
        return "one value only"
    if time_form(values) is not None:
        return "another time" if timed else "a time that belongs to the user or the item"
    if values.dtype.is_float():
        return None
    share = values.n_unique() / len(values)
    if values.dtype == pl.String and _is_free_text(values):
        return "free text"
    if share > NEARLY_ALL:
        return f"another value in {share:.0%} of the events"
    if share > ID_SHARE and values.n_unique() > MOST_KINDS and ID_NAME.search(values.name):
        return f"an id with {values.n_unique():,} values"
    more = values.n_unique() > max(MOST_KINDS, 1.5 * user.n_unique())
    if more and has_one_each(values, user):
        return "each value belongs to one user, as those of sessions do"
    return None


def _is_free_text(values: pl.Series) -> bool:
    text = values.drop_nulls().head(1000)
    words = text.str.count_matches(r"\S+").mean()
    return isinstance(words, float) and words >= WORDS and 5 * text.n_unique() > len(text)


def has_one_each(values: pl.Series, other: pl.Series) -> bool:
    """Whether every value that occurs more than once has one value of the other column."""
    if values.dtype.is_nested() or other.dtype.is_nested():
        return False
    frame = pl.DataFrame({"value": values, "other": other}).drop_nulls()
    each = frame.group_by("value").agg(
        pl.len().alias("events"), pl.col("other").n_unique().alias("others")
    )
    several = each.filter(pl.col("events") > 1)
    return len(several) > 0 and int((several["others"] == 1).sum()) >= 0.99 * len(several)
