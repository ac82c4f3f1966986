"""Input files (plain, gzip, zip, folder, standard input) and the return type of readers.

`parse_errors` turns any error of a parser into a DataError. All formats use it.
"""

from __future__ import annotations

import gzip
import re
import sys
import zipfile
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

import polars as pl
from polars.exceptions import PanicException

from fmpair.data.columns.inference import Decisions, decide, without
from fmpair.data.columns.roles import name_list
from fmpair.data.dataset import ROLES, Dataset
from fmpair.data.frame import to_polars
from fmpair.errors import DataError, FmpairError, Notice, named, nearest, unknown

STANDARD_INPUT = "-"
ADDRESS = re.compile(r"[a-z][a-z0-9+]+:/")  # a URL; but C:/ is a disk
MAX_COLUMNS = 5_000
MAX_GROWTH = 200  # maximum ratio of the size unpacked or parsed as a table to the file size
FREE_GROWTH = 64 << 20  # bytes that any file may expand to
CELL = 8  # minimum bytes per table cell
BLOCK = 1 << 20  # bytes unpacked at a time


@dataclass(frozen=True)
class Contents:
    """What a reader returns: events, tables keyed by id, and options of Dataset.from_frame."""

    events: pl.DataFrame
    users: pl.DataFrame | None = None
    items: pl.DataFrame | None = None
    roles: Mapping[str, Any] = field(default_factory=dict)

    def dataset(self, **options: Any) -> Dataset:
        """Build the Dataset; options given here override those of the reader.

        Decisions about the events say nothing of the item table, whose columns are added.
        """
        more: dict[str, Any] = {
            name: [*options[name], *self.of_table(name)]
            for name in ("item_columns", "display")
            if name in options
        }
        every: dict[str, Any] = {"users": self.users, "items": self.items}
        every |= {**self.roles, **options, **more}
        return Dataset.from_frame(self.events, **every)

    def of_table(self, option: str) -> list[str]:
        """Return the columns in `item_columns` or `display` that only the item table has."""
        names = name_list(self.roles.get(option) or ())
        return [name for name in names if name not in self.events.columns]

    def decisions(self) -> Decisions:
        """Return the inferred role of each column, as in `dataset`."""
        table = self.roles.get("items", self.items)
        return decide(
            without(self.events, self.roles.get("ignore") or ()),
            {role: self.roles.get(role) for role in ROLES},
            self.roles.get("context"),
            self.roles.get("item_columns") or (),
            self.roles.get("leaks") or (),
            self.roles.get("display") or (),
            () if table is None else to_polars(table).columns,
        )


@contextmanager
def parse_errors(what: str, refuse: Callable[[str], FmpairError] = DataError) -> Iterator[None]:
    """Turn any error raised while reading `what` (`clicks.csv as libfm`) into an FmpairError.

    Readers raise clear errors for expected mistakes. This catches the errors of libraries.
    """
    try:
        yield
    except (FmpairError, Notice):  # a Notice is raised if warnings are errors
        raise
    except (Exception, PanicException) as error:  # a panic of polars is not an Exception
        raise refuse(f"cannot read {what}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """Return the first line of an error, with its type if the line alone is unclear."""
    if isinstance(error, MemoryError):
        return "it does not fit into memory"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    line = next(iter(str(error).splitlines()), "")
    about_code = isinstance(error, LookupError | TypeError | AttributeError | PanicException)
    if " " in line and not about_code:
        return line
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def read_bytes(path: str | Path, member: str | None = None) -> bytes:
    """Return the unpacked bytes of a file; for a zip, the named member or the first."""
    if str(path) == STANDARD_INPUT:
        content = sys.stdin.buffer.read()
    else:
        file = find_file(Path(path))
        with parse_errors(str(file)):
            content = _unpacked(file, member)
    if not content.strip():
        raise DataError(f"{'standard input' if str(path) == STANDARD_INPUT else path} is empty")
    return content


def read_text(path: str | Path, encoding: str = "utf-8", member: str | None = None) -> str:
    """Return the unpacked text of a file, without a byte order mark."""
    content = read_bytes(path, member)
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeError as error:
        if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            right = named("encoding", "utf-16")
            raise DataError(f"{path} is UTF-16 text, not {encoding}: give {right}") from error
        byte = f" (byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
        raise DataError(
            f"{path} is not {encoding} text{byte}: give another encoding, such as "
            f"{named('encoding', 'latin-1')}, or the {named('format')} of the file"
        ) from error
    except LookupError as error:
        raise DataError(f"unknown encoding {encoding!r}: try 'utf-8' or 'latin-1'") from error


def read_lines(path: str | Path, member: str | None = None) -> pl.Series:
    return pl.Series("line", read_text(path, member=member).splitlines(), pl.String)


def first_line(wrong: pl.Series) -> int:
    """Return the number of the first True of a Boolean series, counted from 1 as editors do."""
    return (wrong.arg_max() or 0) + 1


def find_file(path: Path) -> Path:
    """Return the path, or the path with .gz; DataError with the nearest name if neither exists."""
    for candidate in (path, path.with_name(path.name + ".gz")):
        if candidate.is_file():
            return candidate
    if ADDRESS.match(str(path)):
        address = str(path).replace(":/", "://", 1)  # as it was before it became a path
        raise DataError(f"{address} is an address, not a file: download it first")
    if path.is_dir():
        raise DataError(
            f"{path} is a folder: name a file in it, or give the {named('format')} of the folder"
        )
    if not path.parent.is_dir():
        raise DataError(f"there is no file {path}: the folder {path.parent} does not exist")
    guess = nearest(path.name, [other.name for other in path.parent.iterdir()])
    hint = f". Did you mean {guess!r}?" if guess else ""
    raise DataError(f"there is no file {path}{hint}")


def locate(folder: str | Path, name: str) -> tuple[Path, str | None] | None:
    """Return (path, zip member) of a file in a folder or zip, None if it is not there."""
    folder = Path(folder)
    if folder.is_dir():
        paths = (folder / name, folder / f"{name}.gz")
        return next(((path, None) for path in paths if path.is_file()), None)
    if folder.suffix == ".zip" and folder.is_file():
        members = (member for member in _members(folder) if PurePosixPath(member).name == name)
        return next(((folder, member) for member in members), None)
    return None


def suffix_of(path: str | Path) -> str:
    """Return the suffix in lower case, ignoring .gz and .zip: ``.csv`` of ``a.csv.gz``."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    while len(suffixes) > 1 and suffixes[-1] in (".gz", ".zip"):
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def check_table(path: str | Path, rows: int, columns: int, size: int) -> None:
    """Refuse a table that is far larger than its file: most of its cells are empty or equal."""
    if columns > MAX_COLUMNS:
        raise DataError(
            f"{path} has {columns:,} columns, at most {MAX_COLUMNS:,} are allowed: check the "
            "separator, and whether rows and columns are swapped"
        )
    if CELL * rows * columns > most_bytes(size):
        raise DataError(
            f"{path} would make a table of {rows:,} rows and {columns:,} columns, more than "
            f"{MAX_GROWTH} times its size: remove columns that are mostly empty or all equal"
        )


def most_bytes(size: int) -> int:
    """Return how large the contents of a file of `size` bytes may be."""
    return max(FREE_GROWTH, MAX_GROWTH * size)


def _unpacked(path: Path, member: str | None) -> bytes:
    if path.suffix == ".gz":
        with gzip.open(path) as stream:
            return _limited(stream, path)
    if path.suffix != ".zip":
        return path.read_bytes()
    members = _members(path)
    if member is not None and member not in members:
        raise DataError(f"{path}: " + unknown("member", member, members))
    if not members:
        raise DataError(f"{path} contains no file")
    with zipfile.ZipFile(path) as archive, archive.open(member or members[0]) as stream:
        return _limited(stream, path)


def _limited(stream: IO[bytes] | gzip.GzipFile, path: Path) -> bytes:
    """Return all bytes of a packed file; raise an error if it expands implausibly."""
    most, size, blocks = most_bytes(path.stat().st_size), 0, []
    while block := stream.read(BLOCK):
        size += len(block)
        if size > most:
            raise DataError(
                f"{path} unpacks to more than {most >> 20:,} MB, {MAX_GROWTH} times its size: "
                "if that is right, unpack it and give the plain file"
            )
        blocks.append(block)
    return b"".join(blocks)


def _members(path: Path) -> list[str]:
    with parse_errors(str(path)), zipfile.ZipFile(path) as archive:
        return [info.filename for info in archive.infolist() if not info.is_dir()]
