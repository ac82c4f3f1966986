"""Lists of recommendations from elsewhere: read from files, evaluated, compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fmpair.arrays import group_rows
from fmpair.data import Dataset, as_dataset, columns_of
from fmpair.data.columns.roles import find_column
from fmpair.data.formats.source import parse_errors
from fmpair.data.formats.trec import is_run, read_run
from fmpair.data.read import read_frame
from fmpair.errors import DataError, OptionError, listing, named
from fmpair.evaluation.evaluate import Evaluation, evaluate
from fmpair.evaluation.protocol import Protocol

CUTOFFS = (1, 5, 10, 20, 50)
USER, LIST = "__user__", "__list__"  # columns beside those of the context, which have any name


def read_lists(
    path: str | Path,
    format: str | None = None,
    *,
    user: str | None = None,
    item: str | None = None,
    **options: Any,
) -> pl.DataFrame:
    """A frame (user, item, score, further columns such as context), higher scores first in a list.

    The file has columns of users and items and a score, else a rank; or is a TREC run, `user Q0
    item rank score tag`, where the score decides as it does for trec_eval. format: 'trec' or one
    of `fmpair.read`, by default inferred from the path and the first line. user, item: what their
    columns are called, where the file has these. options: those of its reader.
    """
    if format == "trec" or (format is None and is_run(path)):
        return read_run(path).select("user", "item", "score")
    frame = read_frame(path, format, **options)
    with parse_errors(f"{path} as lists"):
        return _lists(frame, path, {"user": user, "item": item})


def _lists(frame: pl.DataFrame, path: str | Path, called: Mapping[str, str | None]) -> pl.DataFrame:
    names = {}
    for role, given in called.items():
        own = given if given in frame.columns else None
        column = find_column(role, frame.columns, own)
        if column is None:
            raise DataError(
                f"{path} has no column of {role}s: name one {role!r}, or name it with "
                f"{named(role, ...)}"
            )
        names[column] = role
    frame = frame.rename(names)
    by = next((name for name in ("score", "rank") if name in frame.columns), None)
    if by is None or not frame[by].dtype.is_numeric():
        raise DataError(f"{path} needs a column 'score' or 'rank' of numbers: what orders a list")
    for name in ("user", "item", by):
        gaps = frame[name].null_count() + int(name == by and frame[by].is_nan().sum())
        if gaps:
            raise DataError(
                f"{path} has {gaps} rows without a value in {name!r}: drop or fill them"
            )
    score = pl.col(by).cast(pl.Float64) * (1 if by == "score" else -1)
    rest = pl.exclude("user", "item", "score", "rank")
    return frame.select("user", "item", score.alias("score"), rest)


def judge(
    lists: pl.DataFrame,
    train: Any,
    test: Any,
    protocol: Protocol | str | None = None,
    metrics: Sequence[str] = ("recall@10", "ndcg@10"),
    threads: int | None = None,
) -> Evaluation:
    """Evaluate lists as `evaluate` does a model; items that only the lists have are ranked too.

    A unit without a list counts 0 and lowers the coverage.
    """
    train = as_dataset(train)
    test = as_dataset(test, columns_of(train))
    # Left out, such items would leave their places to those behind them.
    items = train.items.extend(lists["item"])
    train = replace(train, items=items, item_table=pl.DataFrame())
    return evaluate(scorer(lists, train, test), train, test, protocol, metrics, threads)


def scorer(lists: pl.DataFrame, train: Dataset, test: Dataset) -> Callable[[Dataset], np.ndarray]:
    """A function from test events to scores [events, items of train], -inf off the user's list.

    lists: a frame (user, item, score); its columns that are context of the test events say in
    which context a list was made, all others are ignored.
    """
    context = [name for name in test.context if name in lists.columns]
    user, item = test.users.numbers(lists["user"]), train.items.numbers(lists["item"])
    if not (user >= 0).any():
        raise DataError(
            f"no list is of a user of the test events: lists have {listing(lists['user'][:3])}, "
            f"the events {listing(test.users.ids[:3])}"
        )
    known = (user >= 0) & (item >= 0)
    types: dict[Any, pl.DataType] = {name: test.columns[name].dtype for name in context}
    keys = _keys(user, lists.select(context).cast(types, strict=False)).filter(known)
    asked_for = keys.unique(maintain_order=True).with_columns(pl.int_range(pl.len()).alias(LIST))
    owner = _numbers(keys, asked_for)
    score = lists["score"].to_numpy()[known].astype(np.float32)
    rows = group_rows(owner, item[known], len(asked_for), score)
    if ((np.diff(rows.column) == 0) & (np.diff(rows.owner) == 0)).any():
        hint = "" if context else " (or in several contexts the test events do not have)"
        raise DataError(f"an item is twice in one list{hint}: keep each once")

    def scores(asked: Dataset) -> np.ndarray:
        if len(asked.context) < len(test.context) and context:
            units = f"{named('unit', 'interaction')} or {named('unit', 'user-context')}"
            raise OptionError(
                f"the lists were made in context ({listing(context)}): evaluate with {units}"
            )
        number = _numbers(_keys(asked.user, asked.columns.select(context)), asked_for)
        out = np.full((len(asked), len(train.items)), -np.inf, np.float32)
        answered = np.flatnonzero(number >= 0)
        found = rows.take(number[answered])
        out[answered[found.owner], found.column] = found.value
        return out

    return scores


def overlap(
    a: pl.DataFrame, b: pl.DataFrame, cutoffs: Sequence[int] = CUTOFFS, context: Sequence[str] = ()
) -> pl.DataFrame:
    """(cutoff, lists, in both, jaccard): how far two sets of lists agree.

    jaccard@k = the mean over all lists of either of |A and B| / |A or B|, A and B the first k
    items; a list the other lacks counts 0. context: the columns that distinguish a user's lists.
    Ids are compared as text.
    """
    a, b = (frame.with_columns(pl.col("user", "item").cast(pl.String)) for frame in (a, b))
    key = ["user", *context]
    there = [frame.select(key).unique() for frame in (a, b)]
    both = len(there[0].join(there[1], on=key, how="semi", nulls_equal=True))
    count = len(there[0]) + len(there[1]) - both
    rows = []
    for cutoff in cutoffs:
        heads = [_head(frame, key, cutoff) for frame in (a, b)]
        shared = heads[0].join(heads[1], on=[*key, "item"], how="semi", nulls_equal=True)
        sizes = pl.concat(heads).group_by(key, maintain_order=True).len()
        common = shared.group_by(key).len(name="common")
        # In one order, so that the sum below is the same each time.
        joined = sizes.join(common, on=key, nulls_equal=True, maintain_order="left")
        total = (joined["common"] / (joined["len"] - joined["common"])).sum()
        rows.append((cutoff, count, both, float(total) / max(count, 1)))
    return pl.DataFrame(rows, ["cutoff", "lists", "in both", "jaccard"], orient="row")


def _head(frame: pl.DataFrame, key: list[str], cutoff: int) -> pl.DataFrame:
    """The best of each list; of equal ones those that come first in the file."""
    ordered = frame.sort("score", descending=True, maintain_order=True)
    return ordered.select(*key, "item").group_by(key, maintain_order=True).head(cutoff)


def _keys(user: np.ndarray, context: pl.DataFrame) -> pl.DataFrame:
    """The queries: a column of user indices, and those of the context."""
    return pl.DataFrame({USER: user.astype(np.int32)}).hstack(list(context.iter_columns()))


def _numbers(keys: pl.DataFrame, known: pl.DataFrame) -> np.ndarray:
    """int64 [keys]: the number of the list of each key, -1 where there is none."""
    names = [name for name in known.columns if name != LIST]
    found = keys.join(known, on=names, how="left", maintain_order="left", nulls_equal=True)
    return found[LIST].fill_null(-1).to_numpy().astype(np.int64)
