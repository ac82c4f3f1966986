"""Files of item vectors: `.npy`, `.npz` and safetensors, with ids inside or beside them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.data.columns.roles import find_column
from fmpair.data.frame import to_polars, with_types
from fmpair.data.vocabulary import as_plain, comparable
from fmpair.errors import DataError, listing, named

LOG = logging.getLogger("fmpair")
VECTOR_SUFFIXES = (".npy", ".npz", ".safetensors")
IDS = "ids"  # the name of the ids inside a file, and in the name of a file beside it
IDS_SUFFIXES = (".npy", ".txt")  # of a file of ids, such as titles.ids.txt beside titles.npy
# What an error of NumPy, recognised by these words, means.
PYTHON_OBJECTS = (
    "it holds Python objects; save vectors of one length as an array of numbers, and ids of text "
    "as array.astype(str)"
)
REASONS = {
    "Object arrays": PYTHON_OBJECTS,
    "Python objects": PYTHON_OBJECTS,
    "mmap length": "the file is shorter than its array",
}


def vector_files(given: Any) -> list[str]:
    """Return the files of the option `vectors`, with the files of their ids."""
    files = [Path(path) for _, path in _named_files(given)]
    ids = [_ids_file(file) for file in files]
    return [str(file) for file in (*files, *ids) if file is not None]


def vector_columns(given: Any) -> list[str]:
    """Return the names of the columns of the option `vectors`."""
    return [
        column for name, path in _named_files(given) for column in read_vectors(path, name).columns
    ]


def with_vector_paths(given: Any, move: Callable[[str], str]) -> Any:
    """Return the option `vectors` with other paths."""
    if isinstance(given, Mapping):
        return {name: move(str(path)) for name, path in given.items()}
    return move(str(given)) if isinstance(given, str | Path) else [move(str(p)) for p in given]


class Vectors(NamedTuple):
    """The vectors of one file.

    ids: item ids, None if the vectors are in the order of the item table's rows.
    columns: by name, float32 [items, dimensions].
    """

    ids: pl.Series | None
    columns: dict[str, np.ndarray]


def with_vectors(items: Any, given: Any, of_events: pl.Series) -> pl.DataFrame | None:
    """Return the item table with a column of vectors per array; None without table and files.

    given: a file, several files, or a mapping from column names to files. Without a mapping the
    column has the name of the file. of_events: the item ids of the events; the ids of the result
    have their name and type.
    """
    table, key = None if items is None else to_polars(items), of_events.name
    dtype = as_plain(of_events).dtype
    if table is not None and key not in table.columns:
        id_name = find_column("item", table.columns, None)
        table = table if id_name is None else table.rename({id_name: key})
    for name, path in _named_files(given):
        ids, columns = read_vectors(path, name)
        if ids is None:
            table = _with_vectors_in_row_order(table, columns, path)
            continue
        more = pl.DataFrame({key: _ids_as(ids, dtype, str(path)), **columns})
        _check_ids(more[key], of_events, table, path)
        if table is not None and key in table.columns:
            table = table.with_columns(_ids_as(table[key], dtype, "the item table"))
            more = table.join(more, on=key, how="full", coalesce=True, maintain_order="left_right")
        table = more
    return table


def _check_ids(
    ids: pl.Series, of_events: pl.Series, table: pl.DataFrame | None, path: str | Path
) -> None:
    """Raise for ids with several vectors; warn if no id is that of a known item."""
    if ids.is_duplicated().any():
        twice = ids.filter(ids.is_duplicated())[0]
        raise DataError(f"{path} has more than one vector for {twice!r}: give one per item")
    known = as_plain(of_events).cast(ids.dtype, strict=False)
    if table is not None and ids.name in table.columns:
        known = known.append(_ids_as(table[ids.name], ids.dtype, "the item table"))
    if len(ids) and not ids.is_in(known.implode()).any():
        LOG.warning("%s: no id is that of a known item, such as %r", path, known[0])


def _ids_as(ids: pl.Series, dtype: pl.DataType, where: str) -> pl.Series:
    """Return ids in the type of the item ids of the events."""
    ids = as_plain(ids)
    same = ids.cast(pl.String) if dtype == pl.String else comparable(ids, dtype)
    if same is None or same.null_count() > ids.null_count():
        raise DataError(
            f"the ids of {where} are {ids.dtype}, but those of the events are {dtype}: give both "
            "the same type"
        )
    return same


def read_vectors(path: str | Path, name: str | None = None) -> Vectors:
    """Read the vectors of a file; name: the column name, if the file has one array of vectors."""
    file = Path(path)
    if file.suffix not in VECTOR_SUFFIXES:
        raise DataError(
            f"vectors are read from files ending in {listing(VECTOR_SUFFIXES)}, not {path}"
        )
    with _readable("vectors", path):
        arrays = _arrays_by_name(file, name)
    ids = arrays.pop(IDS, None)
    known = _ids_beside(file) if ids is None else _ids(ids, path)
    if name is not None and len(arrays) == 1:
        arrays = dict(zip([name], arrays.values()))
    for column, array in arrays.items():
        _check_array(path, column, array)
    if not arrays:
        raise DataError(f"{path} has no vectors: it needs an array of shape [items, dimensions]")
    lengths = {len(array) for array in arrays.values()} | (set() if known is None else {len(known)})
    if len(lengths) > 1:
        counts = " and ".join(f"{length:,}" for length in sorted(lengths))
        raise DataError(f"{path}: ids and vectors have {counts} rows; the numbers must be equal")
    return Vectors(known, {c: array.astype(np.float32) for c, array in arrays.items()})


@contextmanager
def _readable(what: str, path: str | Path) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # NumPy and safetensors raise many types
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        reason = next((text for part, text in REASONS.items() if part in reason), reason)
        raise DataError(f"cannot read {what} from {path}: {reason}") from error


def _check_array(path: str | Path, column: str, array: np.ndarray) -> None:
    if array.ndim != 2 or array.dtype.kind not in "fiu" or not array.size:
        ids = array.ndim == 1 and Path(path).suffix != ".npy"
        raise DataError(
            f"{path}: {column!r} is {array.dtype} of shape {list(array.shape)}; vectors are "
            f"numbers of shape [items, dimensions]{f', and ids are named {IDS!r}' if ids else ''}"
        )
    if len(array) > 1 and (array == array[0]).all():
        LOG.warning("%s: all vectors of %r are equal, so they tell no items apart", path, column)


def _named_files(given: Any) -> Iterator[tuple[str | None, str | Path]]:
    """Yield (name of the column or None, path) of each file."""
    if isinstance(given, Mapping):
        yield from given.items()
    elif isinstance(given, str | Path):
        yield None, given
    elif isinstance(given, Sequence):
        for option in given:
            yield from _named_files(option)
    elif given is not None:
        raise DataError(
            f"{named('vectors')} must be files such as titles.npy, not {type(given).__name__}; "
            "pass an array as a column of the item table"
        )


def _arrays_by_name(file: Path, name: str | None) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name; name: of the array of an `.npy` file, or its stem."""
    if file.suffix == ".npy":
        return {name or file.stem: np.load(file, mmap_mode="r", allow_pickle=False)}
    if file.suffix == ".npz":
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    from safetensors import numpy as safetensors

    return safetensors.load_file(file)


def _ids_file(file: Path) -> Path | None:
    """Return the file of ids beside a file of vectors, if there is one."""
    beside = (file.with_name(f"{file.stem}.{IDS}{suffix}") for suffix in IDS_SUFFIXES)
    return next((path for path in beside if path.exists()), None)


def _ids_beside(file: Path) -> pl.Series | None:
    """Return the ids in a file such as titles.ids.txt, with an id per line, or None."""
    ids_file = _ids_file(file)
    if ids_file is None:
        return None
    with _readable("ids", ids_file):
        if ids_file.suffix == ".npy":
            return _ids(np.load(ids_file, allow_pickle=False), ids_file)
        lines = ids_file.read_text(encoding="utf-8").splitlines()
    return with_types(pl.DataFrame({IDS: lines}), ids=[IDS])[IDS]


def _ids(array: np.ndarray, path: str | Path) -> pl.Series:
    if array.ndim != 1:
        raise DataError(f"{path}: ids have shape {list(array.shape)}, not [items]")
    ids = as_plain(pl.Series(array))
    if ids.null_count():
        row = int(ids.is_null().arg_max() or 0)
        raise DataError(f"{path}: the id of row {row} is missing: leave out its vector")
    return ids


def _with_vectors_in_row_order(
    table: pl.DataFrame | None, columns: dict[str, np.ndarray], path: str | Path
) -> pl.DataFrame:
    """Return the table with vectors in the order of its rows."""
    rows, stem = len(next(iter(columns.values()))), Path(path).stem
    if table is None or len(table) != rows:
        have = (
            "there is no item table"
            if table is None
            else f"the item table has length {len(table):,}"
        )
        raise DataError(
            f"{path} has {rows:,} vectors without ids, but {have}: write the item ids to "
            f"{stem}.{IDS}.txt, one per line"
        )
    return table.with_columns(pl.Series(name, array) for name, array in columns.items())
