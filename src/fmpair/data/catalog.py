"""Public data sets by name: found under FMPAIR_DATA, else downloaded, else asked for."""

from __future__ import annotations

import gzip
import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.data.public import SETS, PublicSet
from fmpair.data.read import read_contents
from fmpair.data.source import locate
from fmpair.errors import DataError, OptionError, UnknownError, listing, unknown

VARIABLE = "FMPAIR_DATA"
PARTS = ("train", "test")


def names() -> list[str]:
    """The names of the sets that can be loaded."""
    return [known.name for known in SETS]


def find(name: str) -> PublicSet:
    """What is known about the set of that name."""
    for known in SETS:
        if known.name == name:
            return known
    raise UnknownError(unknown("data set", name, names()))


def load(name: str, part: str | None = None, **options: Any) -> Dataset:
    """A public set, or its training or test set; options are those of `read`."""
    if part is None:
        data, _ = _load_all(find(name), options)
        return data
    if part not in PARTS:
        raise OptionError(unknown("part", part, PARTS))
    return load_parts(name, **options)[PARTS.index(part)]


def load_parts(name: str, **options: Any) -> tuple[Dataset, Dataset]:
    """The published training and test set, over shared vocabularies."""
    known = find(name)
    if known.test is None:
        have = [other.name for other in SETS if other.test is not None]
        raise OptionError(
            f"{name} has no train and test part of its own: load it whole and split it "
            f"(sets that have: {listing(have)})"
        )
    data, trained = _load_all(known, options)
    return data.take(np.arange(trained)), data.take(np.arange(trained, len(data)))


def fetch(name: str) -> Path:
    """The folder with the files of a set, downloaded where need be and possible."""
    known = find(name)
    return held(name) or _download(known, _folders(known)[-1])


def held(name: str) -> Path | None:
    """The folder on this machine with the needed files of a set, None where there is none."""
    known = find(name)
    return next((folder for folder in _folders(known) if not _missing(known, folder)), None)


def verify(name: str) -> None:
    """Compare every file of a set with its pinned SHA-256; DataError names those that differ."""
    known, folder = find(name), fetch(name)
    found = [(file, locate(folder, file.name)) for file in known.files]
    wrong = [file.name for file, at in found if at and _sha256(at[0]) != file.sha256]
    if wrong:
        raise DataError(f"{listing(wrong)} in {folder} is not what the owner of {name} published")


def _load_all(known: PublicSet, options: dict[str, Any]) -> tuple[Dataset, int]:
    """All events, the train part first, and how many those of the train part are."""
    folder = fetch(known.name)
    if known.items is not None:
        options = {"items": folder / known.items, **options}
    contents = read_contents(folder / known.train, known.format, **options)
    trained = len(contents.events)
    if known.test is not None:
        test = read_contents(folder / known.test, known.format, **options).events
        both = pl.concat([contents.events, test], how="vertical_relaxed")
        contents = replace(contents, events=both)
    # Ids that only a table knows have no event: the published counts leave them out.
    return contents.dataset().compact(), trained


def _folders(known: PublicSet) -> list[Path]:
    """Where the set may lie: under FMPAIR_DATA, else among what was downloaded."""
    import pooch

    own = os.environ.get(VARIABLE)
    cache = Path(pooch.os_cache("fmpair")) / known.name
    return [Path(own) / known.name, cache] if own else [cache]


def _missing(known: PublicSet, folder: Path) -> list[str]:
    return [f.name for f in known.files if f.needed and locate(folder, f.name) is None]


def _download(known: PublicSet, folder: Path) -> Path:
    """The needed files into the folder, each checked against its SHA-256 before it is kept."""
    if any(file.needed and file.url is None for file in known.files):
        raise DataError(_request(known, "has no address to download it from"))
    import pooch

    for file in known.files:
        try:
            pooch.retrieve(file.url, f"sha256:{file.sha256}", fname=file.name, path=folder)
        except (OSError, ValueError) as error:
            raise DataError(_request(known, f"could not be downloaded ({error})")) from error
    return folder


def _request(known: PublicSet, why: str) -> str:
    """What to put where, when nothing else helps."""
    place = _folders(known)[0]
    put = (
        place
        if os.environ.get(VARIABLE)
        else f"a folder {known.name} and name its parent in {VARIABLE}"
    )
    return (
        f"{known.name} {why}: get it from {known.origin} (terms: {known.terms}) and put "
        f"{listing(_missing(known, place))} into {put}"
    )


def _sha256(path: Path) -> str:
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    return hashlib.sha256(content).hexdigest()
