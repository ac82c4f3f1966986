"""Send a table of items to a running service, which changes its catalogue at once."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import polars as pl

from fmpair.data.columns.roles import find_column
from fmpair.data.read import read_frame
from fmpair.errors import DataError, MachineError, OptionError, listing, named, one_line
from fmpair.events.event import ITEM

MAX_ITEMS = 10_000  # per request
MAX_BYTES = 3 << 20  # per request; the service takes 4 MB
TIMEOUT = 60.0  # seconds for an answer
NOT_FOUND = 404
NEW_COLUMNS = "new_columns"  # of the answer
URL = named("url")


def push(table: pl.DataFrame, url: str, key: str | None = None) -> dict[str, Any]:
    """Send the rows of a table to the service at a URL; return its counts, added up.

    `new_columns`, if any, are the columns that no item had before.

    table: an item column and any others; a null leaves a value as it is. key: the API key. Rows
    are sent in requests of at most 10,000, and each request succeeds or fails as a whole.
    """
    if not url.startswith(("http://", "https://")):
        raise OptionError(f"{named('url', url)} must begin with http:// or https://")
    total: dict[str, Any] = {}
    columns: dict[str, None] = {}
    for body in bodies(table):
        answer = _sent(f"{url.rstrip('/')}/v1/items", body, key)
        columns |= dict.fromkeys(answer.pop(NEW_COLUMNS, ()))
        for name, count in answer.items():
            total[name] = total.get(name, 0) + count
    return total | {NEW_COLUMNS: list(columns)} if columns else total


def read_changes(path: str | Path) -> pl.DataFrame:
    """Read a table of items; rows of (item, text) are lists of texts for items in several rows."""
    table = read_frame(path)
    column = _item_column(table)
    if table.width != 2 or table.drop(column).dtypes != [pl.String]:
        return table
    if not table[column].is_duplicated().any():
        return table
    return table.group_by(column, maintain_order=True).agg(pl.all().drop_nulls())


def bodies(table: pl.DataFrame) -> Iterator[bytes]:
    """Yield a table as the bodies of requests."""
    table = table.rename({_item_column(table): ITEM})
    _check_ids(table[ITEM])
    gaps = [values.name for values in table.iter_columns() if _has_gaps(values)]
    for part in table.iter_slices(MAX_ITEMS):
        rows = part.rows(named=True)
        for row in rows if gaps else ():
            for name in gaps:
                if _is_missing(row[name]):
                    del row[name]
        yield from _bodies(rows)


def _item_column(table: pl.DataFrame) -> str:
    column = ITEM if ITEM in table.columns else find_column(ITEM, table.columns, None)
    if column is None:
        raise DataError(
            f"the table has no item column among {listing(table.columns)}: rename it to {ITEM!r}"
        )
    return column


def _check_ids(ids: pl.Series) -> None:
    """Raise a DataError for a row without an id, and for an item in two rows."""
    missing = (ids.is_null() | (ids.cast(pl.String, strict=False) == "")).fill_null(True)
    rows = missing.arg_true().to_list()
    if rows:
        raise DataError(f"row {rows[0] + 1} of the table names no item")
    twice = ids.filter(ids.is_duplicated())
    if len(twice):
        first, second, *_ = (ids == twice[0]).arg_true().to_list()
        raise DataError(
            f"item {twice[0]!r} is in rows {first + 1} and {second + 1}: give one row per item"
        )


def _bodies(rows: list[dict[str, Any]]) -> Iterator[bytes]:
    """Yield rows as one body, or in halves if that is too large."""
    body = json.dumps({"items": rows}, default=_plain).encode()
    if len(body) <= MAX_BYTES or len(rows) == 1:
        yield body
    else:
        yield from _bodies(rows[: len(rows) // 2])
        yield from _bodies(rows[len(rows) // 2 :])


def _has_gaps(values: pl.Series) -> bool:
    return values.has_nulls() or (values.dtype.is_float() and not values.is_finite().all())


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, date | datetime) else str(value)


def _sent(address: str, body: bytes, key: str | None) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    try:
        request = Request(address, body, headers, method="PUT")  # http only, see push
        with urlopen(request, timeout=TIMEOUT) as answer:
            content = answer.read()
    except HTTPError as error:
        raise _refusal(address, error) from None
    except (URLError, HTTPException, OSError, ValueError) as error:
        cause = getattr(error, "reason", error)
        reason = one_line(str(getattr(cause, "strerror", None) or cause))
        raise MachineError(f"cannot reach {address}: {reason}; is the service running?") from None
    return _counts(address, content)


def _counts(address: str, content: bytes) -> dict[str, Any]:
    """Return how many items were taken and which columns are new, as a service answers."""
    try:
        counts = json.loads(content)
    except ValueError:
        counts = None
    if not isinstance(counts, dict) or not all(
        isinstance(value, list if name == NEW_COLUMNS else int) for name, value in counts.items()
    ):
        raise MachineError(f"{address} does not answer as a service of fmpair: check {URL}")
    return counts


def _refusal(address: str, error: HTTPError) -> DataError | MachineError:
    """Return the error for a refused request, with the detail that a service of fmpair gives."""
    try:
        detail = json.load(error)["detail"]
    except (ValueError, KeyError, TypeError, OSError):
        return MachineError(f"{address} answers with status {error.code}: check {URL}")
    if error.code == NOT_FOUND:
        return MachineError(f"{address}: {one_line(str(detail))}; check {URL}")
    return DataError(f"{address} refused the items: {one_line(str(detail))}")
