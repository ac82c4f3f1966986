"""Frames of polars, pandas and pyarrow, and the types of their text columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl

from fmpair.data.columns.roles import find_column
from fmpair.errors import DataError
from fmpair.threads import check_process

KINDS = ("polars", "pandas", "pyarrow")

# A float cannot represent these digits: a leading zero ('007'), or more than 15 of them.
INEXACT = r"^[+-]?(0\d|\d{16})"
GAPS = r"\s'’"  # between thousands, beside the comma or point: 1 234, 1'234
# Numbers with a decimal comma: 3,50 and 1.234,5 and 1 234,5, among them perhaps 3.
WITH_COMMA = rf"^[+-]?(\d{{1,3}}(\.\d{{3}})+|\d{{1,3}}([{GAPS}]\d{{3}})+|\d+)(,\d+)?$"
THOUSANDS = r",\d{3}$"  # 1,234 may also be a thousand
# An amount, with a currency before or after it: $1,234.50, -€3, 12 GBP.
AMOUNT = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
# Numbers with a decimal point and thousands, and what shows that the point is a decimal one.
GROUPED = rf"^[+-]?(\d{{1,3}}(,\d{{3}})+|\d{{1,3}}([{GAPS}]\d{{3}})+|\d+)(\.\d+)?$"
WITH_POINT = rf"[,{GAPS}]\d{{3}}\.\d|^[+-]?\d+\.(\d{{1,2}}|\d{{4,}})$"
CURRENCIES = (
    *"$€£¥₹",
    *("EUR", "USD", "GBP", "JPY", "CNY", "INR", "CHF", "CAD", "AUD", "SEK", "NOK", "DKK", "PLN"),
)
NEARLY_ALL, SAMPLE, FEW = 0.9, 10_000, 100


def to_polars(frame: Any) -> pl.DataFrame:
    """Return a polars, pandas, pyarrow (or other eager narwhals) frame as polars.

    Arrays, whose values all have the same length, become lists.
    """
    table = _as_polars(frame)
    arrays = [name for name, dtype in table.schema.items() if isinstance(dtype, pl.Array)]
    return table.with_columns(pl.col(name).arr.to_list() for name in arrays) if arrays else table


def _as_polars(frame: Any) -> pl.DataFrame:
    check_process()
    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, dict):
        return _from_columns(frame)
    if isinstance(frame, str | Path):
        raise DataError(
            f"expected a frame, got {str(frame)!r}: read a file with fmpair.read({str(frame)!r})"
        )
    import narwhals as nw

    if kind_of(frame) == "pandas" and find_spec("pyarrow") is None:
        # polars needs pyarrow to convert text columns of pandas
        return pl.DataFrame({str(name): _from_pandas(frame[name]) for name in frame.columns})
    try:
        return nw.from_native(frame, eager_only=True).to_polars()
    except TypeError as error:
        if type(frame).__module__.split(".")[0] in KINDS:
            raise DataError(f"a column mixes types: {error}") from error
        raise DataError(
            f"expected a polars, pandas or pyarrow frame, got {type(frame).__name__}: "
            "create one with polars.DataFrame({'user': [...], 'item': [...]})"
        ) from error
    except (pl.exceptions.PolarsError, ValueError, OverflowError) as error:
        raise DataError(f"cannot read the frame: {error}") from error
    except Exception as error:  # errors of pyarrow, without importing it
        if type(error).__module__.startswith("pyarrow"):
            raise DataError(f"a column mixes types: {error}") from error
        raise


def _from_columns(columns: dict[str, Any]) -> pl.DataFrame:
    try:
        return pl.DataFrame({name: _listed(values) for name, values in columns.items()})
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        raise DataError(f"cannot read the columns: {error}") from error


def _listed(values: Any) -> Any:
    """Return a column of Python lists as a Series, whose type fits the numbers of all lists.

    By itself polars takes the type of the first list, and cuts off the fractions of the others.
    """
    cells = values if isinstance(values, list | tuple) else ()
    first = next((cell for cell in cells if cell is not None), None)
    return pl.Series(values, strict=False) if isinstance(first, list | tuple) else values


def _from_pandas(values: Any) -> pl.Series:
    """Convert a pandas column of any type without pyarrow."""
    if values.dtype.kind in "biuf":
        return pl.Series(values.to_numpy())
    missing = values.isna().to_numpy()
    cells = values.astype(object).to_numpy()
    try:
        return pl.Series([None if is_missing else cell for is_missing, cell in zip(missing, cells)])
    except TypeError as error:
        raise DataError(f"column {values.name!r} mixes types: {error}") from error


def kind_of(frame: Any) -> str:
    """Return polars, pandas or pyarrow, by the module of the frame's type."""
    module = type(frame).__module__.split(".")[0]
    return module if module in KINDS else "polars"


def from_polars(frame: pl.DataFrame, kind: str) -> Any:
    """Return a polars frame as a frame of the given kind."""
    if kind == "pandas":
        import pandas as pd

        return pd.DataFrame({name: frame[name].to_list() for name in frame.columns})
    return frame.to_arrow() if kind == "pyarrow" else frame


def given_back(frame: pl.DataFrame, like: Any, kind: str) -> Any:
    """Return a frame of the kind of `like` if that is a frame, else of the given kind."""
    return from_polars(frame, kind_of(like) if hasattr(like, "columns") else kind)


def with_types(frame: pl.DataFrame, ids: Collection[str] = ()) -> pl.DataFrame:
    """Convert text columns to Int64, Float64 or Boolean if these represent every value exactly.

    Amounts of one currency ($1,234.50, 1.234,50 EUR) and numbers with thousands (1,234.50) become
    numbers.
    ids: columns that must not change their spelling: whole numbers, else text.
    """
    text = [column for column in frame.iter_columns() if column.dtype == pl.String]
    return frame.with_columns(_typed(column, column.name in ids) for column in text)


def decimal_commas(values: pl.Series) -> str | None:
    """Return an example if a text column holds numbers with a decimal comma, else None."""
    if values.dtype != pl.String:
        return None
    known = values.drop_nulls().head(SAMPLE)
    commas = known.filter(known.str.contains(",", literal=True))
    numbers = int(known.str.contains(WITH_COMMA).sum())
    nearly_all = numbers >= NEARLY_ALL * len(known) and 2 * len(commas) >= len(known)
    return commas[0] if len(commas) and nearly_all else None


def has_bars(values: pl.Series) -> bool:
    """Return whether more than half of the values are text such as shoes|bags."""
    if values.dtype != pl.String:
        return False
    known = values.drop_nulls()
    return 2 * int(known.str.contains("|", literal=True).sum()) > len(known)


def without_commas(values: pl.Series) -> pl.Series | None:
    """Return numbers with a decimal comma as floats; None if some value may be something else.

    If every comma is followed by three digits, they may be thousands, and None is returned.
    """
    known = values.drop_nulls()
    commas = known.filter(known.str.contains(",", literal=True))
    if not known.str.contains(WITH_COMMA).all() or commas.str.contains(THOUSANDS).all():
        return None
    return with_point(values).cast(pl.Float64)


def with_point(values: pl.Series) -> pl.Series:
    """Return numbers with a decimal comma as text with a decimal point and without thousands."""
    return values.str.replace_all(rf"[.{GAPS}]", "").str.replace(",", ".", literal=True)


def id_columns(columns: Sequence[str], given: Sequence[str] = ()) -> list[str]:
    """Return the given columns and those named like a user or an item."""
    by_name = [find_column(role, columns, None) for role in ("user", "item")]
    return [*given, *(name for name in by_name if name)]


def _typed(values: pl.Series, exact: bool) -> pl.Series:
    known = values.drop_nulls()
    if not len(known):
        return values
    numbers = known.cast(pl.Int64, strict=False)
    if not numbers.null_count() and (numbers.cast(pl.String) == known).all():
        return values.cast(pl.Int64)
    if exact:
        return values
    lower = known.str.to_lowercase()
    if lower.is_in(["true", "false"]).all():
        return (values.str.to_lowercase() == "true").rename(values.name)
    amounts = _amounts(values, known)
    amounts = _grouped(values, known) if amounts is None else amounts
    if amounts is not None:
        return amounts
    lossy = known.str.contains(INEXACT).any()
    if lossy or known.cast(pl.Float64, strict=False).null_count():
        return values
    return values.cast(pl.Float64)


def _amounts(values: pl.Series, known: pl.Series) -> pl.Series | None:
    """Return text as numbers if every value is an amount of one currency, else None.

    1.001,01 € and 1 001.01 EUR are numbers too, because their decimal sign is sure.
    """
    currency = next((each for each in CURRENCIES if each in known[0]), None)
    if currency is None:
        return None
    sign, number = re.escape(currency), rf"\d[\d.,{GAPS}]*"
    either = rf"^[+-]?\s*(?:{sign}\s*{number}|{number}{sign})$"
    if not known.str.strip_chars().str.contains(either).all():
        return None
    texts = values.str.replace(currency, "", literal=True).str.strip_chars()
    texts = texts.str.replace(r"^([+-])\s+", "$1")
    plain = texts.drop_nulls()
    if plain.str.contains(rf"^[+-]?{AMOUNT}$").all():
        return texts.str.replace_all(",", "", literal=True).cast(pl.Float64, strict=False)
    numbers = without_commas(texts)
    return _grouped(texts, plain) if numbers is None else numbers


def _grouped(values: pl.Series, known: pl.Series) -> pl.Series | None:
    """Return text such as 1,299.00 as numbers if the point is surely a decimal one, else None."""
    if not known.head(FEW).str.contains(GROUPED).all():  # most columns of text end here
        return None
    inexact = known.str.contains(INEXACT).any() or not known.str.contains(GROUPED).all()
    if inexact or not known.str.contains(WITH_POINT).any():
        return None
    return values.str.replace_all(rf"[,{GAPS}]", "").cast(pl.Float64, strict=False)
