"""Where data come from: the bytes of a plain, gzipped or zipped file, a folder, standard input."""

from __future__ import annotations

import gzip
import sys
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.errors import DataError, named, nearest, unknown

STANDARD_INPUT = "-"


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


def read_bytes(path: str | Path, member: str | None = None) -> bytes:
    """The unpacked bytes of a file; of a zip the named member, else its only or first one."""
    if str(path) == STANDARD_INPUT:
        content = sys.stdin.buffer.read()
    else:
        found = find_file(Path(path))
        try:
            content = _unpacked(found, member)
        except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            raise DataError(f"cannot read {found}: {error}") from error
    if not content.strip():
        shown = "standard input" if str(path) == STANDARD_INPUT else path
        raise DataError(f"{shown} is empty: there is nothing to read")
    return content


def read_text(path: str | Path, encoding: str = "utf-8", member: str | None = None) -> str:
    """The unpacked text of a file, without a byte order mark."""
    try:
        return read_bytes(path, member).decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not {encoding} text (byte {error.start}): say "
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
        return gzip.decompress(path.read_bytes())
    if path.suffix != ".zip":
        return path.read_bytes()
    held = _members(path)
    if member is not None and member not in held:
        raise DataError(f"{path}: " + unknown("member", member, held))
    if not held:
        raise DataError(f"{path} holds no file")
    with zipfile.ZipFile(path) as archive:
        return archive.read(member or held[0])


def _members(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return [info.filename for info in archive.infolist() if not info.is_dir()]
    except zipfile.BadZipFile as error:
        raise DataError(f"cannot read {path}: {error}") from error
