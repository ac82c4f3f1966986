"""MovieLens 100K and 1M, as GroupLens publishes them: a folder or the zip."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fmpair.data.formats.delimited import read_delimited
from fmpair.data.formats.source import Contents, locate
from fmpair.errors import DataError

TEXTS = ("zip", "title", "genres")
EVENTS = ("user", "item", "rating", "timestamp")
GENRES_100K = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary",
    "Drama", "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi",
    "Thriller", "War", "Western",
)  # fmt: skip
OCCUPATIONS_1M = (
    "other", "academic/educator", "artist", "clerical/admin", "college/grad student",
    "customer service", "doctor/health care", "executive/managerial", "farmer", "homemaker",
    "K-12 student", "lawyer", "programmer", "retired", "sales/marketing", "scientist",
    "self-employed", "technician/engineer", "tradesman/craftsman", "unemployed", "writer",
)  # fmt: skip
YEAR = r"\(([0-9]{4})\)\s*$"  # a title ends with the year: Toy Story (1995)


def read_movielens(path: str | Path, *, titles: bool = False) -> Contents:
    """Read ratings with age, gender, occupation, zip of users and genres, year of movies.

    titles: keep the movie's title too, for display; no model learns from it.
    In the 1M set an age is the youngest of its bracket (18 stands for 18-24).
    """
    if locate(path, "u.data"):
        events, (users, items) = _part(path, "u.data", EVENTS, "\t"), _tables_100k(path)
    elif locate(path, "ratings.dat"):
        events, (users, items) = _part(path, "ratings.dat", EVENTS, "::"), _tables_1m(path)
    else:
        raise DataError(
            f"{path} is not a MovieLens folder or zip: it must contain u.data (100K) or "
            "ratings.dat (1M)"
        )
    return Contents(events, users, items if titles else items.drop("title"))


def _tables_100k(path: str | Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    users = _part(path, "u.user", ("user", "age", "gender", "occupation", "zip"), "|")
    others = ("release", "video", "link")
    items = _part(path, "u.item", ("item", "title", *others, *GENRES_100K), "|")
    _check_numbers(items, "u.item", GENRES_100K)
    flags = [pl.when(pl.col(g) == 1).then(pl.lit(g)) for g in GENRES_100K if g != "unknown"]
    genres = pl.concat_list(flags).list.drop_nulls().alias("genres")
    return users, items.select("item", "title", _year(), genres)


def _tables_1m(path: str | Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    users = _part(path, "users.dat", ("user", "gender", "age", "occupation", "zip"), "::")
    items = _part(path, "movies.dat", ("item", "title", "genres"), "::")
    _check_numbers(users, "users.dat", ("occupation",))
    jobs = dict(enumerate(OCCUPATIONS_1M))
    occupation = pl.col("occupation").replace_strict(jobs, default=None, return_dtype=pl.String)
    genres = pl.col("genres").str.split("|")
    return users.with_columns(occupation), items.select("item", "title", _year(), genres)


def _part(path: str | Path, name: str, columns: tuple[str, ...], separator: str) -> pl.DataFrame:
    located = locate(path, name)
    if located is None:
        raise DataError(f"{path} does not contain {name}")
    file, member = located
    frame = read_delimited(file, member=member, separator=separator, header=False,
                           columns=columns, encoding="latin-1", ids=TEXTS)  # fmt: skip
    # Titles and zip codes stay text even if all of them are digits.
    return frame.with_columns(pl.col(name).cast(pl.String) for name in TEXTS if name in columns)


def _check_numbers(frame: pl.DataFrame, file: str, columns: tuple[str, ...]) -> None:
    for name in columns:
        if not frame[name].dtype.is_integer() and frame[name].null_count() < len(frame):
            raise DataError(f"column {name!r} of {file} must hold whole numbers")


def _year() -> pl.Expr:
    return pl.col("title").str.extract(YEAR).cast(pl.Int64).alias("year")
