"""libFM and svmlight rows ``target index:value ...``, with a file that groups the indexes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.data.formats.source import (
    Contents,
    check_table,
    find_file,
    first_line,
    read_lines,
    read_text,
)
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, named

ENTRY = r"^([0-9]+):([^:]+)$"
ENTRY_BYTES = 4  # smallest size of an entry in the file


def read_libfm(
    path: str | Path,
    *,
    groups: str | Path | None = None,
    names: Sequence[str] = ("user", "item"),
) -> Contents:
    """Read rows as events: a column per group with the index as its value; targets are ratings.

    A group of one index becomes a number, one with several entries in a row a list.
    groups: a file whose line n holds the group number of index n; by default PATH.groups.
    names: of the groups 0, 1, ..., with 'user' and 'item' among them; others are group_2, ...
    """
    group_of = _read_groups(Path(f"{path}.groups") if groups is None else Path(groups))
    rows = _read_rows(path)
    entries = rows.explode("entries").drop_nulls("entries")
    if entries.is_empty():
        raise DataError(f"{path} has no entries: a row is 'target index:value index:value ...'")
    entries = _numbered(entries, group_of, str(path))
    groups_used = entries["group"].unique().sort().to_list()
    check_table(path, len(rows), len(groups_used), ENTRY_BYTES * len(entries))
    columns = []
    for number in groups_used:
        name = names[number] if number < len(names) else f"group_{number}"
        group = entries.filter(pl.col("group") == number)
        single = bool((group_of == number).sum() == 1)
        columns.append(_column(group, len(rows), name, single).alias(name))
    if rows["target"].n_unique() > 1:
        columns.append(rows["target"].alias("rating"))
    return Contents(pl.DataFrame(columns))


def _read_groups(path: Path) -> np.ndarray:
    """int64 [indexes]: the group number of each index."""
    try:
        file = find_file(path)
    except DataError as error:
        raise DataError(
            f"{error}: libFM rows need {named('groups', ...)} to tell users from items"
        ) from None
    lines = pl.Series(read_text(file).split())
    numbers = lines.cast(pl.Int64, strict=False)
    wrong = numbers.is_null() | (numbers < 0)
    if wrong.any():
        raise DataError(
            f"{file} must have one group number per line, 0 or more: line {first_line(wrong)} is "
            f"{lines.filter(wrong)[0]!r}"
        )
    return numbers.to_numpy()


def _read_rows(path: str | Path) -> pl.DataFrame:
    """Return (row, target, list of 'index:value') per line, without comments and query ids."""
    parts = read_lines(path).str.replace(r"\s*#.*$", "").str.extract_all(r"\S+")
    parts = parts.filter(parts.list.len() > 0)
    target = parts.list.first().cast(pl.Float64, strict=False)
    if target.null_count():
        row = first_line(target.is_null())
        raise DataError(f"row {row} of {path} does not start with a number, the target")
    entries = parts.list.slice(1).list.eval(
        pl.element().filter(~pl.element().str.starts_with("qid:"))
    )
    return pl.DataFrame({"row": np.arange(len(parts)), "target": target, "entries": entries})


def _numbered(entries: pl.DataFrame, group_of: np.ndarray, path: str) -> pl.DataFrame:
    """Return (row, index, value, group) per entry that is not 0."""
    pair = entries["entries"]
    index = pair.str.extract(ENTRY, 1).cast(pl.Int64, strict=False)
    value = pair.str.extract(ENTRY, 2).cast(pl.Float64, strict=False)
    wrong = index.is_null() | value.is_null()
    if wrong.any():
        raise DataError(f"{path} has an entry {pair.filter(wrong)[0]!r} that is not 'index:value'")
    largest = int(index.to_numpy().max())
    if largest >= len(group_of):
        raise DataError(
            f"{path} uses index {largest}, but the group file has only {len(group_of)} lines"
        )
    frame = pl.DataFrame(
        {"row": entries["row"], "index": index, "value": value, "group": group_of[index.to_numpy()]}
    )
    return frame.filter(pl.col("value") != 0)


def _column(group: pl.DataFrame, rows: int, name: str, single: bool) -> pl.Series:
    """Return one value per row, null if the row has no entry of the group."""
    if single:
        values = group.group_by("row").agg(pl.col("value").first().alias("value"))
    elif group["row"].is_duplicated().any():
        if group.group_by("row").agg(pl.col("value").n_unique())["value"].max() != 1:
            raise DataError(
                f"group {name!r} has entries with different values in one row: values must be equal"
            )
        text = pl.col("index").cast(pl.String).alias("value")
        values = group.group_by("row", maintain_order=True).agg(text)
    else:
        dtype = pl.Int64 if name in ("user", "item") else pl.String
        values = group.select("row", pl.col("index").cast(dtype).alias("value"))
    every = pl.DataFrame({"row": np.arange(rows)})
    return every.join(values, on="row", how="left", maintain_order="left")["value"]


def libfm_files(data: Dataset) -> dict[str, bytes]:
    """Return suffix -> content: the rows, and ``.groups`` with the group number of each index.

    The groups are user, item, the context columns, then the columns of both tables; the target
    is the rating, else 1. The format has no weights, timestamps and ids.
    """
    frame = data.frame()
    columns = [frame["user"], frame["item"], *(frame[name] for name in data.context)]
    for table, numbers in ((data.user_table, data.user), (data.item_table, data.item)):
        columns += [column.gather(numbers) for column in table.iter_columns()]
    rating = data.column("rating")
    parts = [pl.Series("target", np.ones(len(data)) if rating is None else rating).cast(pl.String)]
    groups: list[int] = []
    for number, column in enumerate(columns):
        text, size = _entries(column, len(groups), categorical=number < 2)
        parts.append(text.alias(str(number)))
        groups += [number] * size
    rows = pl.DataFrame(parts).select(pl.concat_str(pl.all(), separator=" ", ignore_nulls=True))
    lines = rows.write_csv(include_header=False, quote_style="never")
    return {"": lines.encode(), ".groups": "".join(f"{group}\n" for group in groups).encode()}


def _entries(column: pl.Series, first: int, categorical: bool) -> tuple[pl.Series, int]:
    """Return 'index:value' per row, null if the value is missing, and the number of indexes."""
    if column.dtype == pl.Boolean:
        column = column.cast(pl.Int8).replace(0, None)
    if column.dtype.is_numeric() and not categorical:
        return f"{first}:" + column.cast(pl.String), 1
    if isinstance(column.dtype, pl.List):
        flat = column.to_frame("value").with_row_index("row").explode("value").drop_nulls()
        text, size = _entries(flat["value"].cast(pl.String), first, categorical=True)
        by_row = flat.with_columns(text.alias("value")).group_by("row")
        joined = by_row.agg(pl.col("value").str.join(" "))
        rows = pl.DataFrame({"row": pl.int_range(len(column), dtype=pl.UInt32, eager=True)})
        return rows.join(joined, on="row", how="left", maintain_order="left")["value"], size
    vocabulary = Vocabulary.of(column)
    index = pl.Series(vocabulary.numbers(column).astype(np.int64)).replace(-1, None) + first
    return index.cast(pl.String) + ":1", len(vocabulary)
