"""Research data sets in the files of their authors, with a section for each.

MovieLens, Frappe and CiteULike are sets. LightGCN and NCF are formats of published splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.data.formats.delimited import read_columns, read_delimited
from fmpair.data.formats.source import (
    Contents,
    check_table,
    first_line,
    locate,
    parse_errors,
    read_lines,
    read_text,
)
from fmpair.data.frame import with_types
from fmpair.data.owner_splits import histories
from fmpair.data.parts import by_time_order
from fmpair.errors import DataError, named, unknown

# MovieLens 100K and 1M, as GroupLens publishes them: a folder or the zip.

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
    file, member = _located(path, name)
    frame = read_delimited(file, member=member, separator=separator, header=False,
                           columns=columns, encoding="latin-1", ids=TEXTS)  # fmt: skip
    # Titles and zip codes stay text even if all of them are digits.
    return frame.with_columns(pl.col(name).cast(pl.String) for name in TEXTS if name in columns)


def _located(path: str | Path, name: str) -> tuple[Path, str | None]:
    """Return the file of a folder or zip and its name in the zip; DataError if it is missing."""
    located = locate(path, name)
    if located is None:
        raise DataError(f"{path} does not contain {name}")
    return located


def _check_numbers(frame: pl.DataFrame, file: str, columns: tuple[str, ...]) -> None:
    for name in columns:
        if not frame[name].dtype.is_integer() and frame[name].null_count() < len(frame):
            raise DataError(f"column {name!r} of {file} must hold whole numbers")


def _year() -> pl.Expr:
    return pl.col("title").str.extract(YEAR).cast(pl.Int64).alias("year")


# Frappe: uses of mobile apps in context.

FRAPPE_META = ("category", "downloads", "developer", "language", "price", "stars")
FRAPPE_CONTEXT = ("daytime", "weekday", "isweekend", "homework", "weather", "country", "city")
FRAPPE_ITEM = ("cost",)


def read_frappe(path: str | Path, *, meta: bool = False) -> Contents:
    """Read frappe.csv, or the folder with it: cnt is the weight, cost belongs to the item.

    meta: add the store's description of the apps (meta.csv in the same folder) to the items.
    """
    path = Path(path)
    folder, name = (path, "frappe.csv") if path.is_dir() else (path.parent, path.name)
    if path.is_dir() and locate(path, name) is None:
        raise DataError(f"the folder {path} does not contain {name}")
    events = read_delimited(folder / name, separator="\t")
    if "city" in events:  # numeric in the file, but categorical
        events = events.with_columns(pl.col("city").cast(pl.String))
    items = _read_meta(folder) if meta else None
    return Contents(events, items=items, roles={"weight": "cnt", "item_columns": ["cost"]})


def _read_meta(folder: Path) -> pl.DataFrame:
    located = locate(folder, "meta.csv")
    if located is None:
        raise DataError(
            f"the folder {folder} does not contain meta.csv: leave out {named('meta', True)}"
        )
    table = read_delimited(located[0], separator="\t", nulls=("", "unknown"))
    for name in ("item", "price", "rating", *FRAPPE_META[:4]):
        if name not in table.columns:
            raise DataError(f"{located[0]}: " + unknown("column", name, table.columns))
    text = pl.col("price").cast(pl.String).replace("Free", "$0")
    price = text.str.extract(r"([0-9.]+)").cast(pl.Float64, strict=False)
    stars = pl.col("rating").cast(pl.Float64, strict=False).alias("stars")
    return table.with_columns(price, stars).select("item", *FRAPPE_META)


def read_cfm(
    path: str | Path,
    *,
    names: Sequence[str] | None = None,
    item_names: Sequence[str] | None = None,
) -> Contents:
    """Read rows ``user-context-context-...,item-attribute-...`` of feature numbers.

    Users and items become integers; contexts and item attributes stay text.
    names, item_names: of the contexts and item attributes; by default those of Frappe if their
    number fits, else context_1, ... and attribute_1, ...
    """
    sides = read_columns(read_text(path), str(path), separator=",", header=False)
    if sides.width != 2:
        raise DataError(f"{path} has {sides.width} columns: a row must be 'user-...,item-...'")
    query, item = (_split_at_dashes(sides[:, side], str(path)) for side in (0, 1))
    contexts = _names(names, len(query) - 1, FRAPPE_CONTEXT, "context")
    attributes = _names(item_names, len(item) - 1, FRAPPE_ITEM, "attribute")
    events = pl.DataFrame(dict(zip(("user", *contexts, "item", *attributes), query + item)))
    ids = with_types(events.select("user", "item"), ids=("user", "item"))
    return Contents(events.with_columns(ids), roles={"item_columns": attributes})


def _split_at_dashes(values: pl.Series, path: str) -> list[pl.Series]:
    split = values.str.split("-")
    counts = split.list.len().fill_null(0)
    if not len(counts) or not counts[0]:
        raise DataError(f"the first row of {path} must be 'user-...,item-...'")
    wrong = counts != counts[0]
    if wrong.any():
        row = first_line(wrong)
        raise DataError(
            f"row {row} of {path} has {counts[row - 1]} numbers between dashes, the first row has "
            f"{counts[0]}"
        )
    check_table(path, len(counts), counts[0], len(counts) * counts[0])
    return [split.list.get(index) for index in range(counts[0])]


def _names(given: Sequence[str] | None, count: int, default: Sequence[str], stem: str) -> list[str]:
    if given is None:
        fits = count == len(default)
        return list(default) if fits else [f"{stem}_{n + 1}" for n in range(count)]
    if len(given) != count:
        raise DataError(f"{len(given)} {stem} names were given, but a row has {count}")
    return list(given)


# CiteULike, as Wang et al. publish it: libraries of users, and tags of articles.


def read_citeulike(path: str | Path) -> Contents:
    """Read the articles of each user, and the `tags` of articles, from a folder.

    users.dat and item-tag.dat have a line per user or article: a count, then the numbers of its
    articles or tags. Users, articles and tags are numbered from 0. tags.dat has the name of each
    tag. Without item-tag.dat there are no tags.
    """
    events = _numbered(path, "users.dat", ("user", "item")).explode("item").drop_nulls()
    if locate(path, "item-tag.dat") is None:
        return Contents(events)
    items = _numbered(path, "item-tag.dat", ("item", "tags")).explode("tags")
    names = _lines(path, "tags.dat").str.strip_chars()
    most = items["tags"].max()
    if isinstance(most, int) and most >= len(names):
        raise DataError(f"item-tag.dat has tag {most}, but tags.dat has {len(names):,} lines")
    tags = pl.DataFrame([items["item"], names.gather(items["tags"]).alias("tags")])
    listed = tags.group_by("item", maintain_order=True).agg(pl.col("tags").drop_nulls())
    return Contents(events, items=listed)


def _numbered(path: str | Path, name: str, columns: tuple[str, str]) -> pl.DataFrame:
    """Return (number of the line, numbers on it without the count); DataError for other lines."""
    parts = _lines(path, name).str.extract_all(r"\S+")
    numbers = parts.list.eval(pl.element().cast(pl.Int64, strict=False))
    count = numbers.list.first()
    right = (count == numbers.list.len().cast(pl.Int64) - 1) & (numbers.list.min() >= 0)
    right = (right & ~numbers.list.eval(pl.element().is_null()).list.any()).fill_null(False)
    if not right.all():
        raise DataError(
            f"{name}, line {first_line(~right)}: must be a count and as many numbers, as in '2 7 9'"
        )
    number = pl.int_range(len(numbers), dtype=pl.Int64, eager=True)
    return pl.DataFrame([number.alias(columns[0]), numbers.list.slice(1).alias(columns[1])])


def _lines(path: str | Path, name: str) -> pl.Series:
    return read_lines(*_located(path, name))


# LightGCN: lines `user item item ...`; also sequences, with the oldest item first.


def read_lightgcn(path: str | Path) -> Contents:
    """Read one event per item of a line, in the file's order; a user without items gives none."""
    lines = read_lines(path).str.extract_all(r"\S+")
    lines = lines.filter(lines.list.len() > 1)
    if not len(lines):
        raise DataError(f"{path} has no line of the form 'user item item ...'")
    users = lines.list.first().alias("user")
    events = pl.DataFrame([users, lines.list.slice(1).alias("item")]).explode("item")
    return Contents(with_types(events, ids=("user", "item")))


def read_sequences(path: str | Path) -> Contents:
    """Read one event per item of a line, the oldest first.

    Later lines of a user are later. The order of events of different users is not known.
    """
    return replace(read_lightgcn(path), roles={"order": "per-user"})


def lightgcn_lines(data: Dataset) -> bytes:
    """Return one line per user with all items, in order of first appearance."""
    for role, ids in (("user", data.users.ids), ("item", data.items.ids)):
        if ids.dtype == pl.String and ids.str.contains(r"\s").any():
            raise DataError(f"a {role} id contains a space, which separates ids in this format")
    frame = data.frame().select(pl.col("user", "item").cast(pl.String))
    lines = frame.group_by("user", maintain_order=True).agg(pl.col("item").str.join(" "))
    text = lines.select(pl.concat_str("user", "item", separator=" "))
    return text.write_csv(include_header=False, quote_style="never").encode()


def sequence_lines(data: Dataset) -> bytes:
    """Return one line per user with all items, oldest first; users by first appearance."""
    return lightgcn_lines(data.take(histories(data.user, by_time_order(data)).row))


# NCF: the leave-one-out files of "Neural Collaborative Filtering".

USER_ITEM = r"^\(([^,]+),\s*([^)]+)\)$"


def read_ncf(path: str | Path) -> Contents:
    """Read a .train.rating or .test.rating file: user, item, rating, timestamp between tabs."""
    columns = ("user", "item", "rating", "timestamp")
    return Contents(read_delimited(path, separator="\t", header=False, columns=columns))


def read_negatives(path: str | Path) -> pl.DataFrame:
    """Read a .test.negative file as (user, item, positive), a row for each negative item.

    The frame is the `items` of `Protocol(candidates="file", items=...)`.
    """
    with parse_errors(f"{path} as NCF negatives"):
        lines = read_lines(path).str.split("\t")
        pair = lines.list.first()
        user, positive = (pair.str.extract(USER_ITEM, group) for group in (1, 2))
        frame = pl.DataFrame({"user": user, "positive": positive, "item": lines.list.slice(1)})
        wrong = positive.is_null()
        if wrong.any():
            raise DataError(
                f"line {first_line(wrong)} of {path} must be '(user,item)' and the negative items, "
                "separated by tabs"
            )
        empty = frame["item"].list.len() == 0
        if empty.any():
            raise DataError(f"line {first_line(empty)} of {path} has no negative items")
        frame = with_types(frame, ids=("user", "positive"))
        items = frame["item"].cast(pl.List(frame["positive"].dtype), strict=False)
        lost = items.list.drop_nulls().list.len() != frame["item"].list.len()
        if lost.any():
            raise DataError(
                f"line {first_line(lost)} of {path} has negative items that are not whole numbers"
            )
        return frame.with_columns(items).explode("item").select("user", "item", "positive")
