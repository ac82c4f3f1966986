"""Write data to a file, completely or not at all."""

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
from fmpair.data.formats.research_sets import lightgcn_lines, sequence_lines
from fmpair.data.formats.source import STANDARD_INPUT as STANDARD_OUTPUT
from fmpair.data.formats.source import suffix_of
from fmpair.data.frame import to_polars
from fmpair.errors import DataError, OptionError, listing, named, unknown
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
    """Write the events of a Dataset, or any frame; ``-`` is standard output (CSV by default).

    format: by default inferred from the suffix. csv, tsv, parquet and jsonl keep all columns of
    the events. Formats of other libraries take a Dataset: atomic adds PATH.user and PATH.item for
    the tables, libfm adds PATH.groups, lightgcn keeps users and items only, and sequences keeps
    these in order of time.
    """
    check_process()
    format = format or _guess_format(path)
    if format in FRAME_FORMATS:
        frame = data.frame() if isinstance(data, Dataset) else to_polars(data)
        _put(path, FRAME_FORMATS[format](frame))
    elif format in DATASET_FORMATS:
        files = {_beside(path, s): c for s, c in DATASET_FORMATS[format](as_dataset(data)).items()}
        for target in files:  # check all of them before the first is written
            if str(target) != STANDARD_OUTPUT:
                check_writable(target)
        for target, content in files.items():
            _put(target, content)
    else:
        raise OptionError(unknown("format", format, [*FRAME_FORMATS, *DATASET_FORMATS]))


def is_table(path: str | Path, format: str | None = None) -> bool:
    """Return whether the format of the path keeps all columns of the events."""
    return (format or _guess_format(path)) in FRAME_FORMATS


def write_parts(parts: Iterable[pl.DataFrame], path: str | Path, format: str | None = None) -> int:
    """Write frames with the same columns one after the other; return the number of rows.

    Only one frame at a time is held in memory.
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
    """Write the bytes of each part; only the first part of a delimited file has a header."""
    count = 0
    if format == "parquet":  # the file has a single footer
        parts = [pl.concat(parts)]
    for number, frame in enumerate(parts):
        count += len(frame)
        if number and format in SEPARATORS:
            put(_delimited(frame, SEPARATORS[format], header=False))
        else:
            put(FRAME_FORMATS[format](frame))
    return count


def _put_parquet(parts: Iterable[pl.DataFrame], path: str | Path, target: Path) -> int:
    """Write a file for each part, then join them row group by row group."""
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
            f"or give the {named('format')}"
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
    while rest:  # an unbuffered stream may write a part only
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()


def _beside(path: str | Path, suffix: str) -> Path:
    """Return x.user for x.inter, but x.libfm.groups for x.libfm."""
    path = Path(path)
    replaces = suffix and path.suffix == ".inter"
    return path.with_suffix(suffix) if replaces else path.with_name(path.name + suffix)


def _delimited(frame: pl.DataFrame, separator: str, header: bool = True) -> bytes:
    return _flat(frame).write_csv(separator=separator, include_header=header).encode()


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Return lists as text with bars between the values: delimited files have no lists."""
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
