"""Files of vectors of items: `.npy`, `.npz` and safetensors, with ids inside or beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.data.columns.roles import find_column
from fmpair.data.frame import to_polars, with_types
from fmpair.data.vocabulary import as_plain, comparable
from fmpair.errors import DataError, listing, named

SUFFIXES = (".npy", ".npz", ".safetensors")
IDS = "ids"  # the name of an array inside the file, and part of the name of a file beside it
BESIDE = (".npy", ".txt")


def files_of(given: Any) -> list[str]:
    """Return the files of the option `vectors`, with the files of their ids."""
    files = [Path(path) for _, path in _files(given)]
    ids = [_ids_file(file) for file in files]
    return [str(file) for file in (*files, *ids) if file is not None]


def columns_of(given: Any) -> list[str]:
    """Return the names of the columns of the option `vectors`."""
    return [column for name, path in _files(given) for column in read_vectors(path, name).columns]


def moved(given: Any, move: Callable[[str], str]) -> Any:
    """Return the option `vectors` with other paths."""
    if isinstance(given, Mapping):
        return {name: move(str(path)) for name, path in given.items()}
    return move(str(given)) if isinstance(given, str | Path) else [move(str(p)) for p in given]


class Vectors(NamedTuple):
    """ids: of the items, None for those of the table of items. columns: by name, [items, ...]."""

    ids: pl.Series | None
    columns: dict[str, np.ndarray]


def with_vectors(items: Any, given: Any, of_events: pl.Series) -> pl.DataFrame | None:
    """Return the table of items with a column per vector; None if there is neither.

    given: a file, several, or files by the name of the column; by default the file names it.
    of_events: the item ids of the events, whose name and type the ids of the result have.
    """
    table, key = None if items is None else to_polars(items), of_events.name
    dtype = as_plain(of_events).dtype
    if table is not None and key not in table.columns:
        own = find_column("item", table.columns, None)
        table = table if own is None else table.rename({own: key})
    for name, path in _files(given):
        ids, columns = read_vectors(path, name)
        if ids is None:
            table = _in_order(table, columns, path)
            continue
        more = pl.DataFrame({key: _alike(ids, dtype, str(path)), **columns})
        if table is not None and key in table.columns:
            table = table.with_columns(_alike(table[key], dtype, "the table of items"))
            more = table.join(more, on=key, how="full", coalesce=True, maintain_order="left_right")
        table = more
    return table


def _alike(ids: pl.Series, dtype: pl.DataType, where: str) -> pl.Series:
    """Return ids in the type of those of the events."""
    ids = as_plain(ids)
    same = ids.cast(pl.String) if dtype == pl.String else comparable(ids, dtype)
    if same is None or same.null_count() > ids.null_count():
        raise DataError(f"the ids of {where} are {ids.dtype}, but those of the events {dtype}")
    return same


def read_vectors(path: str | Path, name: str | None = None) -> Vectors:
    """Read the vectors of a file; name: of the column, if the file has a single one."""
    file = Path(path)
    if file.suffix not in SUFFIXES:
        raise DataError(f"vectors are read from files ending in {listing(SUFFIXES)}, not {path}")
    try:
        arrays = {name or _stem(file): _npy(file)} if file.suffix == ".npy" else _several(file)
        known = _beside(file) if IDS not in arrays else as_plain(pl.Series(arrays.pop(IDS)))
    except Exception as error:  # of NumPy and safetensors, of many types
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise DataError(f"cannot read vectors from {path}: {reason}") from error
    if name is not None and len(arrays) == 1:
        arrays = dict(zip([name], arrays.values()))
    for column, array in arrays.items():
        if array.ndim != 2 or array.dtype.kind not in "fiu":
            raise DataError(
                f"{path}: {column!r} is {array.dtype} of shape {list(array.shape)}; vectors are "
                "numbers of shape [items, dimensions]"
            )
    if not arrays:
        raise DataError(f"{path} has no vectors: an array of numbers [items, dimensions]")
    lengths = {len(array) for array in arrays.values()} | (set() if known is None else {len(known)})
    if len(lengths) > 1:
        counts = " and ".join(f"{length:,}" for length in sorted(lengths))
        raise DataError(f"{path}: ids and vectors have {counts} rows; they must have as many")
    return Vectors(known, {c: array.astype(np.float32) for c, array in arrays.items()})


def _files(given: Any) -> Iterator[tuple[str | None, str | Path]]:
    """Yield (name of the column or None, path) of each file."""
    if isinstance(given, Mapping):
        yield from given.items()
    elif isinstance(given, str | Path):
        yield None, given
    elif isinstance(given, Sequence):
        for one in given:
            yield from _files(one)
    elif given is not None:
        raise DataError(
            f"{named('vectors')} must be files such as titles.npy, not {type(given).__name__}; an "
            "array is a column of the table of items"
        )


def _npy(file: Path) -> np.ndarray:
    return np.load(file, allow_pickle=False)


def _several(file: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an `.npz` or safetensors file by name."""
    if file.suffix == ".npz":
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    from safetensors import numpy as safetensors

    return safetensors.load_file(file)


def _stem(file: Path) -> str:
    return file.name.removesuffix(file.suffix)


def _ids_file(file: Path) -> Path | None:
    """Return the file of ids beside a file of vectors, if there is one."""
    beside = (file.with_name(f"{_stem(file)}.{IDS}{suffix}") for suffix in BESIDE)
    return next((path for path in beside if path.exists()), None)


def _beside(file: Path) -> pl.Series | None:
    """Return the ids of a file beside, such as titles.ids.txt with an id per line, or None."""
    beside = _ids_file(file)
    if beside is None:
        return None
    if beside.suffix == ".npy":
        return as_plain(pl.Series(_npy(beside)))
    lines = beside.read_text(encoding="utf-8").splitlines()
    return with_types(pl.DataFrame({IDS: lines}), ids=[IDS])[IDS]


def _in_order(
    table: pl.DataFrame | None, columns: dict[str, np.ndarray], path: str | Path
) -> pl.DataFrame:
    """Return the table with vectors in the order of its rows."""
    rows, stem = len(next(iter(columns.values()))), _stem(Path(path))
    if table is None or len(table) != rows:
        have = "is no table of items" if table is None else f"are {len(table):,} rows of items"
        raise DataError(
            f"{path} has {rows:,} vectors, but there {have} in whose order they could be: write "
            f"the ids of the items to {stem}.{IDS}.txt, one per line"
        )
    return table.with_columns(pl.Series(name, array) for name, array in columns.items())
