"""Public data sets by name: read from the folder FMPAIR_DATA, else downloaded if allowed.

If neither is possible, the error says where to get the files and where to put them.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tomllib
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.data.formats.source import locate
from fmpair.data.read import read_contents
from fmpair.errors import DataError, OptionError, UnknownError, listing, unknown

VARIABLE = "FMPAIR_DATA"
PARTS = ("train", "test")


@dataclass(frozen=True)
class File:
    """A file of a set, plain or as NAME.gz. sha256: of the unpacked contents."""

    name: str
    sha256: str
    needed: bool = True


@dataclass(frozen=True)
class PublicSet:
    """A public data set: its description, terms, origin and files, and how to read them.

    address: where the files can be downloaded; None if they must be requested.
    train: the file to read, or "" for the whole folder; test: a published test part, if any.
    items: a file of item attributes.
    """

    name: str
    description: str
    terms: str
    origin: str
    files: tuple[File, ...]
    format: str
    address: str | None = None
    train: str = ""
    test: str | None = None
    items: str | None = None


def _read_sets() -> tuple[PublicSet, ...]:
    text = files(__package__).joinpath("public_sets.toml").read_text("utf-8")
    return tuple(
        PublicSet(**{**entry, "files": tuple(File(**file) for file in entry["files"])})
        for entry in tomllib.loads(text)["sets"]
    )


SETS = _read_sets()


def names() -> list[str]:
    """Return the names of all sets."""
    return [public_set.name for public_set in SETS]


def find(name: str) -> PublicSet:
    """Return the description of a set."""
    for public_set in SETS:
        if public_set.name == name:
            return public_set
    raise UnknownError(unknown("data set", name, names()))


def load(name: str, part: str | None = None, **options: Any) -> Dataset:
    """Load a public set, or its published training or test part; options are those of `read`."""
    if part is None:
        return load_all(name, **options)[0]
    if part not in PARTS:
        raise OptionError(unknown("part", part, PARTS))
    return load_parts(name, **options)[PARTS.index(part)]


def load_parts(name: str, **options: Any) -> tuple[Dataset, Dataset]:
    """Load the published training and test part, over shared vocabularies."""
    if find(name).test is None:
        have = [other.name for other in SETS if other.test is not None]
        raise OptionError(
            f"{name} has no published train and test part: load the whole set and split it (sets "
            f"with such parts: {listing(have)})"
        )
    data, trained = load_all(name, **options)
    return data.take(np.arange(trained)), data.take(np.arange(trained, len(data)))


def fetch(name: str) -> Path:
    """Return the folder with the files of a set; download them if needed and possible."""
    public_set = find(name)
    return held(name) or _download(public_set, _folders(public_set)[-1])


def held(name: str) -> Path | None:
    """Return the local folder with the needed files of a set, None if there is none."""
    public_set = find(name)
    return next(
        (folder for folder in _folders(public_set) if not _missing(public_set, folder)), None
    )


def verify(name: str) -> None:
    """Compare every file of a set with its SHA-256; DataError names those that differ."""
    public_set, folder = find(name), fetch(name)
    wrong = []
    for file in public_set.files:
        located = locate(folder, file.name)
        if located is not None:
            content = located[0].read_bytes()
            content = gzip.decompress(content) if located[0].suffix == ".gz" else content
            if hashlib.sha256(content).hexdigest() != file.sha256:
                wrong.append(file.name)
    if wrong:
        raise DataError(
            f"{listing(wrong)} in {folder} differs from what the owner of {name} published"
        )


def load_all(name: str, **options: Any) -> tuple[Dataset, int]:
    """Load all events, the train part first; return also the number of events of the train part."""
    public_set, folder = find(name), fetch(name)
    if public_set.items is not None:
        options = {"items": folder / public_set.items, **options}
    contents = read_contents(folder / public_set.train, public_set.format, **options)
    trained = len(contents.events)
    if public_set.test is not None:
        test = read_contents(folder / public_set.test, public_set.format, **options).events
        both = pl.concat([contents.events, test], how="vertical_relaxed")
        contents = replace(contents, events=both)
    # Drop ids that occur only in a table: published counts exclude them.
    return contents.dataset().compact(), trained


def _folders(public_set: PublicSet) -> list[Path]:
    """Return the folders where the set may be: under FMPAIR_DATA, and the download cache."""
    import pooch

    root = os.environ.get(VARIABLE)
    cache = Path(pooch.os_cache("fmpair")) / public_set.name
    return [Path(root) / public_set.name, cache] if root else [cache]


def _missing(public_set: PublicSet, folder: Path) -> list[str]:
    return [f.name for f in public_set.files if f.needed and locate(folder, f.name) is None]


def _download(public_set: PublicSet, folder: Path) -> Path:
    """Download all files into the folder; each must have its SHA-256."""
    if public_set.address is None:
        raise DataError(_request(public_set, "cannot be downloaded automatically"))
    import pooch

    for file in public_set.files:
        try:
            url, digest = f"{public_set.address}/{file.name}", f"sha256:{file.sha256}"
            pooch.retrieve(url, digest, fname=file.name, path=folder)
        except (OSError, ValueError) as error:
            raise DataError(_request(public_set, f"could not be downloaded ({error})")) from error
    return folder


def _request(public_set: PublicSet, why: str) -> str:
    """Return the error text that says where to get the files and where to put them."""
    folder = _folders(public_set)[0]
    target = f"a folder {public_set.name} and set {VARIABLE} to its parent folder"
    if os.environ.get(VARIABLE):
        target = str(folder)
    return (
        f"{public_set.name} {why}: get it from {public_set.origin} (terms: {public_set.terms}) "
        f"and put {listing(_missing(public_set, folder))} into {target}"
    )
