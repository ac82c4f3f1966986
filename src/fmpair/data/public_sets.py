"""Public data sets by name: read from the folder FMPAIR_DATA, else downloaded if that is allowed.

If neither is possible, the error says where to get the files and where to put them.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from dataclasses import dataclass, replace
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
GROUPLENS = "https://files.grouplens.org/datasets/movielens"
NCF = "https://raw.githubusercontent.com/hexiangnan/neural_collaborative_filtering/master/Data"
LIGHTGCN = "https://raw.githubusercontent.com/gusye1234/LightGCN-PyTorch/master/data"


@dataclass(frozen=True)
class File:
    """A file of a set, or its gzipped NAME.gz. sha256: of the unpacked contents."""

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


SETS = (
    PublicSet(
        "ml-100k",
        "MovieLens 100K: 100,000 ratings of movies, with user and item attributes",
        "no redistribution, no commercial use",
        "https://grouplens.org/datasets/movielens/100k/",
        (
            File("u.data", "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490"),
            File("u.item", "553841ebc7de3a0fd0d6b62a204ea30c1e651aacfb2814c7a6584ac52f2c5701"),
            File("u.user", "f120e114da2e8cf314fd28f99417c94ae9ddf1cb6db8ce0e4b5995d40e90e62c"),
        ),
        "movielens",
        address=f"{GROUPLENS}/ml-100k",
    ),
    PublicSet(
        "ml-1m",
        "MovieLens 1M: 1,000,209 ratings of movies, with user and item attributes",
        "no redistribution, no commercial use",
        "https://grouplens.org/datasets/movielens/1m/",
        (File("ml-1m.zip", "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20"),),
        "movielens",
        address=GROUPLENS,
        train="ml-1m.zip",
    ),
    PublicSet(
        "ml-1m-ncf",
        "MovieLens 1M, leave-one-out split of 'Neural Collaborative Filtering' with 99 negatives",
        "cite He et al. 2017",
        "https://github.com/hexiangnan/neural_collaborative_filtering",
        (
            File(
                "ml-1m.train.rating",
                "7fb2920a6977c7e6f16517e76ffabebca7b5558a8189436e2c37bbb824532cd7",
            ),
            File(
                "ml-1m.test.rating",
                "231ae11eb060b643a8c58c063cd17ffc743b54f569afb073d1abb6cf126b88b5",
            ),
            File(
                "ml-1m.test.negative",
                "127853228a76b7d21c0481e8ef8d00dd009cd5c88670dbdd9e9debfdb9f93de4",
            ),
        ),
        "ncf",
        address=NCF,
        train="ml-1m.train.rating",
        test="ml-1m.test.rating",
    ),
    PublicSet(
        "frappe",
        "Frappe: 96,203 uses of apps in context (time, place, weather)",
        "no redistribution, no commercial use, cite arXiv:1505.03014",
        "https://www.baltrunas.info/context-aware/frappe",
        (
            File("frappe.csv", "409edc12f4e2153c5dd58ae171938735911d9b0f70961d5f1086b241656b2cb5"),
            File(
                "meta.csv",
                "de87f6b2e7cd0428f9179167e2e7826b5dd3bf490d5af680261b685763ac214f",
                needed=False,
            ),
        ),
        "frappe",
    ),
    PublicSet(
        "frappe-cfm",
        "Frappe as numbered features, in the split of CFM and ENSFM",
        "cite Xin et al. 2019",
        "https://github.com/chenchongthu/ENSFM",
        (
            File("train.csv", "b6d27eba5c0b9ca906af6df513304b798cfa245eb61f382d59d610b70ca6f20f"),
            File("test.csv", "2337f12a4037d05873978f982dca86dc9c6e8a8518928e1b0dc10bddde851702"),
        ),
        "cfm",
        train="train.csv",
        test="test.csv",
    ),
    PublicSet(
        "amazon-cdtf",
        "Amazon ratings in four domains (books, music, DVDs, videos) with shared users",
        "cite Hu et al. 2013",
        "the authors of 'Personalized recommendation via cross-domain triadic factorization'",
        (File("ratings.tsv", "40dc936fe2a26b1ac6731cf443ea08e2e4cb064a48d750087a881f5c331a5e8b"),),
        "delimited",
        train="ratings.tsv",
    ),
    PublicSet(
        "xing-2016",
        "XING RecSys Challenge 2016, a subset: users and jobs, with concepts of the jobs' titles",
        "challenge data, semi-synthetic by its owner's word",
        "the RecSys Challenge 2016",
        (
            File(
                "interactions.tsv",
                "d124530ce533d0774a3991978e57d2711df71673b50181a0fdf6b249b6916058",
            ),
            File(
                "item_concepts.tsv",
                "078d9a336bfb44831ec69a4ae3c7563c9e918a26976c634603d0f52e7bcf0bbe",
            ),
        ),
        "delimited",
        train="interactions.tsv",
        items="item_concepts.tsv",
    ),
    PublicSet(
        "yelp2018",
        "Yelp 2018 in the split of LightGCN",
        "cite He et al. 2020",
        "https://github.com/gusye1234/LightGCN-PyTorch",
        (
            File("train.txt", "5588ebbcbf9ab10cdf7a70aa300f2ef781030daa2a94ef0685598ed051a398da"),
            File("test.txt", "9cd9b37926cd1447a06625ffa7914527573fb097c10cb0bbdb1d1b8ded3742fe"),
        ),
        "lightgcn",
        address=f"{LIGHTGCN}/yelp2018",
        train="train.txt",
        test="test.txt",
    ),
    PublicSet(
        "ml-1m-sequences",
        "MovieLens 1M as a sequence of films per user, as SASRec and its successors use it",
        "no redistribution, no commercial use; cite Kang and McAuley 2018",
        "https://github.com/FeiSun/BERT4Rec (as one line per user)",
        (
            File(
                "sequences.txt", "f939258a859d16e43055e80bf8f7d66aeae3805fa21cb1b999fbafa9c6c5694b"
            ),
        ),
        "sequences",
        train="sequences.txt",
    ),
    PublicSet(
        "amazon-beauty",
        "Amazon Beauty, 5-core, as a sequence of products per user, as S3-Rec uses it",
        "cite McAuley et al. 2015 and Zhou et al. 2020",
        "https://github.com/RUCAIBox/CIKM2020-S3Rec",
        (
            File(
                "sequences.txt", "226cce9c3105299ca0db9615d7d3fb32b3175e90da43100ae352599f0f0107b8"
            ),
        ),
        "sequences",
        train="sequences.txt",
    ),
    PublicSet(
        "depaul-movie",
        "DePaul movies: 5,043 ratings with time, location and companion",
        "cite Zheng et al. 2015",
        "https://github.com/irecsys/CARSKit (context-aware data sets)",
        (File("ratings.txt", "81c5f24813e822e542fe37c7b22ac12240c1758b82f70a431c2841c873ff2305"),),
        "delimited",
        train="ratings.txt",
    ),
)


def names() -> list[str]:
    """Return the names of all sets."""
    return [one.name for one in SETS]


def find(name: str) -> PublicSet:
    """Return the description of a set."""
    for public_set in SETS:
        if public_set.name == name:
            return public_set
    raise UnknownError(unknown("data set", name, names()))


def load(name: str, part: str | None = None, **options: Any) -> Dataset:
    """Load a public set, or its published training or test part; options are those of `read`."""
    if part is None:
        data, _ = _load_all(find(name), options)
        return data
    if part not in PARTS:
        raise OptionError(unknown("part", part, PARTS))
    return load_parts(name, **options)[PARTS.index(part)]


def load_parts(name: str, **options: Any) -> tuple[Dataset, Dataset]:
    """Load the published training and test part, over shared vocabularies."""
    known = find(name)
    if known.test is None:
        have = [other.name for other in SETS if other.test is not None]
        raise OptionError(
            f"{name} has no published train and test part: load the whole set and split it (sets "
            f"with such parts: {listing(have)})"
        )
    data, trained = _load_all(known, options)
    return data.take(np.arange(trained)), data.take(np.arange(trained, len(data)))


def fetch(name: str) -> Path:
    """Return the folder with the files of a set; download them if needed and possible."""
    known = find(name)
    return held(name) or _download(known, _folders(known)[-1])


def held(name: str) -> Path | None:
    """Return the local folder with the needed files of a set, None if there is none."""
    known = find(name)
    return next((folder for folder in _folders(known) if not _missing(known, folder)), None)


def verify(name: str) -> None:
    """Compare every file of a set with its SHA-256; DataError names those that differ."""
    known, folder = find(name), fetch(name)
    found = [(file, locate(folder, file.name)) for file in known.files]
    wrong = [file.name for file, at in found if at and _sha256(at[0]) != file.sha256]
    if wrong:
        raise DataError(
            f"{listing(wrong)} in {folder} differs from what the owner of {name} published"
        )


def _load_all(known: PublicSet, options: dict[str, Any]) -> tuple[Dataset, int]:
    """Return all events, the train part first, and the number of events of the train part."""
    folder = fetch(known.name)
    if known.items is not None:
        options = {"items": folder / known.items, **options}
    contents = read_contents(folder / known.train, known.format, **options)
    trained = len(contents.events)
    if known.test is not None:
        test = read_contents(folder / known.test, known.format, **options).events
        both = pl.concat([contents.events, test], how="vertical_relaxed")
        contents = replace(contents, events=both)
    # Ids without events are only in a table; published counts do not include them.
    return contents.dataset().compact(), trained


def _folders(known: PublicSet) -> list[Path]:
    """Return the folders where the set may be: under FMPAIR_DATA, and the download cache."""
    import pooch

    root = os.environ.get(VARIABLE)
    cache = Path(pooch.os_cache("fmpair")) / known.name
    return [Path(root) / known.name, cache] if root else [cache]


def _missing(known: PublicSet, folder: Path) -> list[str]:
    return [f.name for f in known.files if f.needed and locate(folder, f.name) is None]


def _download(known: PublicSet, folder: Path) -> Path:
    """Download all files into the folder; each must have its SHA-256."""
    if known.address is None:
        raise DataError(_request(known, "cannot be downloaded automatically"))
    import pooch

    for file in known.files:
        try:
            url, digest = f"{known.address}/{file.name}", f"sha256:{file.sha256}"
            pooch.retrieve(url, digest, fname=file.name, path=folder)
        except (OSError, ValueError) as error:
            raise DataError(_request(known, f"could not be downloaded ({error})")) from error
    return folder


def _request(known: PublicSet, why: str) -> str:
    """Return the error text that says where to get the files and where to put them."""
    folder = _folders(known)[0]
    hint = f"a folder {known.name} and set {VARIABLE} to its parent folder"
    return (
        f"{known.name} {why}: get it from {known.origin} (terms: {known.terms}) and put "
        f"{listing(_missing(known, folder))} into {folder if os.environ.get(VARIABLE) else hint}"
    )


def _sha256(path: Path) -> str:
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    return hashlib.sha256(content).hexdigest()
