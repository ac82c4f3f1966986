"""Where data come from: the bytes of a plain, gzipped or zipped file, a folder, standard input."""

from __future__ import annotations

import gzip
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

import polars as pl
from polars.exceptions import PanicException

from fmpair.data.columns.inference import Decisions, decide, without
from fmpair.data.dataset import ROLES, Dataset
from fmpair.errors import DataError, FmpairError, Notice, named, nearest, unknown

# Where files are read: what a parser throws at something that is not its format, in one line.


# What these say is about code: a KeyError gives no more than the key.
UNCLEAR = (LookupError, TypeError, AttributeError, PanicException)


@contextmanager
def parsing(what: str, refuse: Callable[[str], FmpairError] = DataError) -> Iterator[None]:
    """A block that reads `what`, such as `clicks.csv as libfm`; nothing but our errors leaves it.

    Readers say themselves what is wrong where they can tell. This is for the rest: bytes may be
    wrong in more ways than anyone foresees, and the libraries below have errors of their own.
    """
    try:
        yield
    except (FmpairError, Notice):  # a notice where somebody made errors of warnings
        raise
    except (Exception, PanicException) as error:  # a panic of polars is no Exception
        raise refuse(f"cannot read {what}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """What an error says, in its first line; with its type where that alone tells little."""
    if isinstance(error, MemoryError):
        return "it does not fit into memory"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    said = next(iter(str(error).splitlines()), "")
    if " " in said and not isinstance(error, UNCLEAR):
        return said
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


STANDARD_INPUT = "-"
MOST_COLUMNS = 5_000  # of a file
MOST_TIMES = 200  # its own size that a file may grow when it is unpacked, or laid out as a table
ANY_TIMES = 64 << 20  # bytes up to which nobody asks how often
CELL = 8  # bytes of a table's cell, at least
BLOCK = 1 << 20  # bytes unpacked at a time


@dataclass(frozen=True)
class Contents:
    """What a reader found: events, tables keyed by id, and the options of Dataset.from_frame."""

    events: pl.DataFrame
    users: pl.DataFrame | None = None
    items: pl.DataFrame | None = None
    roles: Mapping[str, Any] = field(default_factory=dict)

    def dataset(self, **options: Any) -> Dataset:
        """The events over numbered ids; options given here win over those found."""
        found = {"users": self.users, "items": self.items, **self.roles}
        return Dataset.from_frame(self.events, **{**found, **options})

    def decisions(self) -> Decisions:
        """What its columns are taken for."""
        return decide(
            without(self.events, self.roles.get("ignore") or ()),
            {role: self.roles.get(role) for role in ROLES},
            self.roles.get("context"),
            self.roles.get("item_columns") or (),
            self.roles.get("leaks") or (),
        )


def read_bytes(path: str | Path, member: str | None = None) -> bytes:
    """The unpacked bytes of a file; of a zip the named member, else its only or first one."""
    if str(path) == STANDARD_INPUT:
        content = sys.stdin.buffer.read()
    else:
        found = find_file(Path(path))
        with parsing(str(found)):
            content = _unpacked(found, member)
    if not content.strip():
        shown = "standard input" if str(path) == STANDARD_INPUT else path
        raise DataError(f"{shown} is empty: there is nothing to read")
    return content


def read_text(path: str | Path, encoding: str = "utf-8", member: str | None = None) -> str:
    """The unpacked text of a file, without a byte order mark."""
    try:
        return read_bytes(path, member).decode(encoding).removeprefix("\ufeff")
    except UnicodeError as error:
        byte = f" (byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
        raise DataError(
            f"{path} is not {encoding} text{byte}: say "
            f"{named('encoding', 'latin-1')} or another, or name its {named('format')}"
        ) from error
    except LookupError as error:
        raise DataError(f"unknown encoding {encoding!r}: try 'utf-8' or 'latin-1'") from error


def find_file(path: Path) -> Path:
    """The file itself, or its gzipped twin; an error with the nearest name where neither exists."""
    for candidate in (path, path.with_name(path.name + ".gz")):
        if candidate.is_file():
            return candidate
    if path.is_dir():
        raise DataError(f"{path} is a folder: name a file in it, or the folder's {named('format')}")
    if not path.parent.is_dir():
        raise DataError(f"there is no file {path}: the folder {path.parent} does not exist")
    guess = nearest(path.name, [other.name for other in path.parent.iterdir()])
    hint = f". Did you mean {guess!r}?" if guess else ""
    raise DataError(f"there is no file {path}{hint}")


def locate(place: str | Path, name: str) -> tuple[Path, str | None] | None:
    """Where a folder or zip keeps the file of that name: (path, member), None where it has none."""
    place = Path(place)
    if place.is_dir():
        twins = (place / name, place / f"{name}.gz")
        return next(((path, None) for path in twins if path.is_file()), None)
    if place.suffix == ".zip" and place.is_file():
        held = (member for member in _members(place) if PurePosixPath(member).name == name)
        return next(((place, member) for member in held), None)
    return None


def suffix_of(path: str | Path) -> str:
    """The suffix in lower case, looking through .gz and .zip: ``.csv`` of ``a.csv.gz``."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    while len(suffixes) > 1 and suffixes[-1] in (".gz", ".zip"):
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _unpacked(path: Path, member: str | None) -> bytes:
    if path.suffix == ".gz":
        with gzip.open(path) as stream:
            return _limited(stream, path)
    if path.suffix != ".zip":
        return path.read_bytes()
    held = _members(path)
    if member is not None and member not in held:
        raise DataError(f"{path}: " + unknown("member", member, held))
    if not held:
        raise DataError(f"{path} holds no file")
    with zipfile.ZipFile(path) as archive, archive.open(member or held[0]) as stream:
        return _limited(stream, path)


def _limited(stream: IO[bytes] | gzip.GzipFile, path: Path) -> bytes:
    """All that a packed file holds, unless it grows far beyond what data do."""
    most, found, blocks = most_bytes(path.stat().st_size), 0, []
    while block := stream.read(BLOCK):
        found += len(block)
        if found > most:
            raise DataError(
                f"{path} unpacks to more than {most >> 20:,} MB, {MOST_TIMES} times its size, "
                "which tables of data do not: if it is right, unpack it and name the plain file"
            )
        blocks.append(block)
    return b"".join(blocks)


def most_bytes(size: int) -> int:
    """How large what is in a file of so many bytes may become."""
    return max(ANY_TIMES, MOST_TIMES * size)


def check_table(path: str | Path, rows: int, columns: int, size: int) -> None:
    """Refuse a table that is too large for the file of `size` bytes it stands in.

    Most cells of such a table would be empty, or all alike.
    """
    if columns > MOST_COLUMNS:
        raise DataError(
            f"{path} has {columns:,} columns, and {MOST_COLUMNS:,} are the most: perhaps rows and "
            "columns are exchanged, or the separator is another"
        )
    if CELL * rows * columns > most_bytes(size):
        raise DataError(
            f"{path} would make a table of {rows:,} rows and {columns:,} columns, more than "
            f"{MOST_TIMES} times its size: leave out columns that are mostly empty or all alike"
        )


def _members(path: Path) -> list[str]:
    with parsing(str(path)), zipfile.ZipFile(path) as archive:
        return [info.filename for info in archive.infolist() if not info.is_dir()]
