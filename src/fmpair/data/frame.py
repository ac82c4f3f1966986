"""Any kind of frame in, the caller's kind out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from fmpair.errors import DataError
from fmpair.forked import check_process

KINDS = ("polars", "pandas", "pyarrow")


def to_polars(frame: Any) -> pl.DataFrame:
    """A polars, pandas, pyarrow (or other eager narwhals) frame as polars."""
    check_process()
    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, dict):
        return pl.DataFrame(frame)
    if isinstance(frame, str | Path):
        raise DataError(
            f"expected a frame, got {str(frame)!r}: fmpair.read({str(frame)!r}) reads a file"
        )
    import narwhals as nw

    if kind_of(frame) == "pandas" and not _pyarrow_is_there():
        # polars wants pyarrow for the text columns of pandas
        return pl.DataFrame({str(name): _column(frame[name]) for name in frame.columns})
    try:
        return nw.from_native(frame, eager_only=True).to_polars()
    except TypeError as error:
        if type(frame).__module__.split(".")[0] in KINDS:
            raise DataError(f"a column mixes types: {error}") from error
        raise DataError(
            f"expected a polars, pandas or pyarrow frame, got {type(frame).__name__}: "
            "polars.DataFrame({'user': [...], 'item': [...]}) makes one"
        ) from error
    except (pl.exceptions.PolarsError, ValueError, OverflowError) as error:
        raise DataError(f"the frame cannot be read: {error}") from error
    except Exception as error:  # pyarrow's errors, without importing it
        if type(error).__module__.startswith("pyarrow"):
            raise DataError(f"a column mixes types: {error}") from error
        raise


def _pyarrow_is_there() -> bool:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def _column(values: Any) -> pl.Series:
    """A pandas column, whatever its type, without pyarrow."""
    if values.dtype.kind in "biuf":
        return pl.Series(values.to_numpy())
    missing = values.isna().to_numpy()
    cells = values.astype(object).to_numpy()
    try:
        return pl.Series([None if gone else cell for gone, cell in zip(missing, cells)])
    except TypeError as error:
        raise DataError(f"column {values.name!r} mixes types: {error}") from error


def kind_of(frame: Any) -> str:
    """polars, pandas or pyarrow, by where the frame's type comes from."""
    module = type(frame).__module__.split(".")[0]
    return module if module in KINDS else "polars"


def from_polars(frame: pl.DataFrame, kind: str) -> Any:
    """A polars frame as the given kind."""
    if kind == "pandas":
        import pandas as pd

        return pd.DataFrame({name: frame[name].to_list() for name in frame.columns})
    return frame.to_arrow() if kind == "pyarrow" else frame


def given_back(frame: pl.DataFrame, like: Any, kind: str) -> Any:
    """A frame of the kind of `like`, where that is a frame, else of the given kind."""
    return from_polars(frame, kind_of(like) if hasattr(like, "columns") else kind)
