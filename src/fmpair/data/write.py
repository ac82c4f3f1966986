"""Data to a file, whole or not at all."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from fmpair.data.dataset import Dataset, as_dataset
from fmpair.data.formats.atomic import atomic_files
from fmpair.data.formats.libfm import libfm_files
from fmpair.data.formats.lightgcn import lightgcn_lines, sequence_lines
from fmpair.data.formats.source import STANDARD_INPUT as STANDARD_OUTPUT
from fmpair.data.formats.source import suffix_of
from fmpair.data.frame import to_polars
from fmpair.errors import DataError, OptionError, listing, unknown
from fmpair.files import atomic_path, beside, check_writable, write_atomically
from fmpair.threads import check_process

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".inter": "atomic",
    ".libfm": "libfm",
}
SEPARATORS = {"csv": ",", "tsv": "\t"}


def write(data: Any, path: str | Path, format: str | None = None) -> None:
    """Write a Dataset's events, or any frame; ``-`` is standard output (CSV by default).

    csv, tsv, parquet and jsonl hold the events with their columns. The formats of other
    libraries take a Dataset: atomic adds PATH.user and PATH.item for the tables, libfm
    PATH.groups, lightgcn keeps users and items only, sequences these in order of time.
    """
    check_process()
    format = format or _guess_format(path)
    if format in FRAME_FORMATS:
        frame = data.frame() if isinstance(data, Dataset) else to_polars(data)
        _put(path, FRAME_FORMATS[format](frame))
    elif format in DATASET_FORMATS:
        files = {_beside(path, s): c for s, c in DATASET_FORMATS[format](as_dataset(data)).items()}
        for target in files:  # all of them can be written, or none is
            if str(target) != STANDARD_OUTPUT:
                check_writable(target)
        for target, content in files.items():
            _put(target, content)
    else:
        raise OptionError(unknown("format", format, [*FRAME_FORMATS, *DATASET_FORMATS]))


def is_table(path: str | Path, format: str | None = None) -> bool:
    """Whether what is written there is a table of the events with all their columns."""
    return (format or _guess_format(path)) in FRAME_FORMATS


def write_parts(parts: Iterable[pl.DataFrame], path: str | Path, format: str | None = None) -> int:
    """Write frames of the same columns one below the other, one at a time; how many rows.

    No more than one of them is held in memory, and a file is written whole or not at all.
    """
    check_process()
    format = format or _guess_format(path)
    if format not in FRAME_FORMATS:
        raise OptionError(unknown("format", format, FRAME_FORMATS))
    if str(path) == STANDARD_OUTPUT:
        return _put_parts(parts, _to_standard_output, format)
    with atomic_path(path) as part:
        if format == "parquet":
            return _put_parquet(parts, path, part)
        with part.open("wb") as file:
            if Path(path).suffix != ".gz":
                return _put_parts(parts, file.write, format)
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                return _put_parts(parts, packed.write, format)


def _put_parts(parts: Iterable[pl.DataFrame], put: Callable[[bytes], Any], format: str) -> int:
    """Hand the bytes of each part on; only the first of a delimited file has a header."""
    count = 0
    if format == "parquet":  # one footer for all
        parts = [pl.concat(parts)]
    for number, frame in enumerate(parts):
        count += len(frame)
        if number and format in SEPARATORS:
            put(_delimited(frame, SEPARATORS[format], header=False))
        else:
            put(FRAME_FORMATS[format](frame))
    return count


def _put_parquet(parts: Iterable[pl.DataFrame], path: str | Path, target: Path) -> int:
    """A file for each part, then all of them as one, row group by row group."""
    count, pieces = 0, []
    with ExitStack() as stack:
        for frame in parts:
            pieces.append(stack.enter_context(beside(path)))
            pieces[-1].write_bytes(_parquet(frame))
            count += len(frame)
        pl.scan_parquet(pieces, glob=False).sink_parquet(target)
    return count


def _guess_format(path: str | Path) -> str:
    if str(path) == STANDARD_OUTPUT:
        return "csv"
    suffix = suffix_of(path)
    if suffix not in SUFFIXES:
        raise OptionError(
            f"cannot infer the format of {path} from its suffix: use one of {listing(SUFFIXES)}, "
            "or name the format"
        )
    return SUFFIXES[suffix]


def _put(path: str | Path, content: bytes) -> None:
    if str(path) == STANDARD_OUTPUT:
        _to_standard_output(content)
    elif Path(path).suffix == ".gz":
        write_atomically(path, gzip.compress(content, mtime=0))
    else:
        write_atomically(path, content)


def _to_standard_output(content: bytes) -> None:
    rest = memoryview(content)
    while rest:  # an unbuffered stream may take a part only
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()


def _beside(path: str | Path, suffix: str) -> Path:
    """x.inter -> x.user, but x.libfm -> x.libfm.groups; an empty suffix is the path itself."""
    path = Path(path)
    if not suffix:
        return path
    return (
        path.with_suffix(suffix) if path.suffix == ".inter" else path.with_name(path.name + suffix)
    )


def _delimited(frame: pl.DataFrame, separator: str, header: bool = True) -> bytes:
    return _flat(frame).write_csv(separator=separator, include_header=header).encode()


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Lists as text with bars between their values, since delimited files hold no lists."""
    lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
    nested = [n for n, d in frame.schema.items() if d.is_nested() and n not in lists]
    if nested:
        raise DataError(
            f"column {nested[0]!r} holds {frame[nested[0]].dtype}: write Parquet instead"
        )
    return frame.with_columns(
        pl.col(name).cast(pl.List(pl.String)).list.join("|") for name in lists
    )


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


FRAME_FORMATS: dict[str, Callable[[pl.DataFrame], bytes]] = {
    "csv": lambda frame: _delimited(frame, SEPARATORS["csv"]),
    "tsv": lambda frame: _delimited(frame, SEPARATORS["tsv"]),
    "parquet": _parquet,
    "jsonl": lambda frame: frame.write_ndjson().encode(),
}
DATASET_FORMATS: dict[str, Callable[[Dataset], dict[str, bytes]]] = {
    "libfm": libfm_files,
    "atomic": atomic_files,
    "lightgcn": lambda data: {"": lightgcn_lines(data)},
    "sequences": lambda data: {"": sequence_lines(data)},
}
