"""Conditions on the columns of a catalogue: their text, parsed, and as arrays over its items."""

from __future__ import annotations

import csv
import math
import re
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.data.vocabulary import comparable
from fmpair.errors import OptionError, named, nearest, unknown
from fmpair.fitted.catalogue import Catalogue

SIGN = re.compile("<=|>=|!=|==|=|<|>")
NOT = re.compile(r"not\s+")
EXAMPLES = "'category=shoes,bags', 'price<=50' or 'not brand=ACME'"
MAX_SEARCHED, MAX_GUESSED = 100_000, 1_000  # items and values in which a similar value is sought
BOOST = "boost "  # before the condition of a boost, in terms of scores
TRUTH = {"true": True, "false": False}


class Condition(NamedTuple):
    """A parsed condition: column, sign (=, <, <=, >, >=), values, and whether it must not hold."""

    text: str
    column: str
    sign: str
    values: tuple[str, ...]
    negated: bool = False


@lru_cache(1024)
def condition(text: str) -> Condition:
    """Parse a condition; raise OptionError if it is not valid."""
    sign = SIGN.search(text)  # no backtracking: texts come from clients
    column = text[: sign.start()].strip() if sign else ""
    negation = NOT.match(column)
    column = column[negation.end() :] if negation else column
    values = _listed(text[sign.end() :].strip()) if sign else []
    if sign is None or not column or not values or "" in values:
        raise OptionError(f"{named('where')} {text!r} is not a condition: write {EXAMPLES}")
    if sign[0][0] in "<>" and len(values) > 1:
        count = len(values)
        raise OptionError(f"{named('where')} {text!r}: {sign[0]} takes one value, not {count}")
    negated = bool(negation) != (sign[0] == "!=")
    kind = "=" if sign[0] in ("!=", "==") else sign[0]
    return Condition(text, column, kind, tuple(values), negated)


def check_column(option: str, column: str, catalogue: Catalogue | None) -> None:
    """Raise OptionError if a catalogue has no such column; option: the one that names it."""
    if catalogue is None or not catalogue.columns:
        raise OptionError(
            f"{named(option)}: the model knows no columns of items: fit it with "
            f"{named('items', ...)}"
        )
    if column not in catalogue.columns:
        known = unknown("item column", column, catalogue.columns)
        raise OptionError(f"{named(option)}: {known}")


def _listed(text: str) -> list[str]:
    """Return values that are separated by commas; none if quotes or line ends are misplaced."""
    try:
        values = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        return []
    return [value.strip() for value in values]


def matching(catalogue: Catalogue, rule: Condition) -> np.ndarray:
    """Return whether a condition holds: bool [rows of the catalogue]; False for missing values."""
    return catalogue.cached(rule, lambda: _matching(catalogue.table[rule.column], rule))


def _matching(values: pl.Series, rule: Condition) -> np.ndarray:
    dtype = values.dtype
    if rule.sign == "=":
        if isinstance(dtype, pl.List):
            wanted = [_value(text, dtype.inner, rule) for text in rule.values]  # type: ignore[arg-type]
            matches = pl.Series(np.zeros(len(values), bool))
            if dtype.inner.is_numeric():
                values, wanted = (
                    values.cast(pl.List(pl.Float64)),
                    [float(value) for value in wanted],
                )
            for value in wanted:
                matches = matches | values.list.contains(value).fill_null(False)
        else:
            wanted = [_value(text, dtype, rule) for text in rule.values]
            if dtype.is_numeric():  # 5 equals 5.0
                values, wanted = values.cast(pl.Float64), [float(value) for value in wanted]
            matches = values.is_in(wanted)
            if dtype == pl.String and (parts := _between_bars(values)) is not None:
                for value in wanted:
                    matches = matches | parts.list.contains(value).fill_null(False)
    else:
        if not (dtype.is_numeric() or dtype.is_temporal()):
            raise OptionError(
                f"{named('where')} {rule.text!r}: {rule.column!r} holds "
                f"{'lists' if dtype.is_nested() else 'text'}, and {rule.sign} compares numbers and "
                f"times; write '{rule.column}={rule.values[0]}'"
            )
        value = _value(rule.values[0], dtype, rule)
        signs = {"<": values < value, "<=": values <= value}
        matches = (
            signs[rule.sign] if rule.sign in signs else ~signs["<=" if rule.sign == ">" else "<"]
        )
    holds = (~matches if rule.negated else matches) & values.is_not_null()
    return holds.fill_null(False).to_numpy()


def _between_bars(values: pl.Series) -> pl.Series | None:
    """Return the values of text such as shoes|bags, which a field of kind multi learns; or None."""
    several = values.str.contains("|", literal=True).any()
    return values.str.split("|") if several else None


def _value(text: str, dtype: pl.DataType, rule: Condition) -> Any:
    """Return a value of a condition in the type of its column; raise OptionError."""
    value: Any
    if dtype == pl.String:
        return text
    if dtype == pl.Boolean:
        value, wanted = TRUTH.get(text.lower()), "true or false"
    elif dtype.is_numeric():
        value, wanted = _number(text), "a number"
    else:
        full = f"{text}T00:00:00" if len(text) == 10 and isinstance(dtype, pl.Datetime) else text
        read = comparable(pl.Series([full]), dtype)
        value = None if read is None else read[0]
        wanted = "a time such as 2024-01-31"
    if value is None:
        option = "where" if not rule.text.startswith(BOOST) else "boost"
        text_shown = "" if option == "boost" else f" {rule.text!r}"
        raise OptionError(
            f"{named(option)}{text_shown}: {rule.column!r} takes {wanted}, not {text!r}"
        )
    return value


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            value = kind(text)
            finite = math.isfinite(value)
        except (ValueError, OverflowError):
            continue
        return value if finite else None
    return None


def nearest_value(values: pl.Series, rule: Condition) -> str:
    """Return a hint at the value that was meant, if a column of texts does not have the given."""
    if isinstance(values.dtype, pl.List):
        values = values.head(MAX_SEARCHED + 1).explode()
    if rule.sign != "=" or rule.negated or values.dtype != pl.String or len(values) > MAX_SEARCHED:
        return ""
    known = set(values.drop_nulls().unique())
    known |= {part for text in known for part in text.split("|")}
    if len(known) > MAX_GUESSED:
        return ""
    with_commas = (mark.join(rule.values) for mark in (", ", ","))  # one value without its quotes
    guess = next((text for text in with_commas if text in known), None)
    if guess is None or len(rule.values) == 1:
        absent = next((value for value in rule.values if value not in known), None)
        guess = None if absent is None else nearest(absent, sorted(known))
    if guess and "," in guess and not rule.text.startswith(BOOST):
        guess = f'"{guess}"'
    return f". Did you mean {rule.column}={guess}?" if guess else ""
