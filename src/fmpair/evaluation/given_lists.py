"""Recommendation lists of other systems: read them from files, evaluate and compare them."""

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
from fmpair.data.describe import MANY_REPEATS
from fmpair.data.formats.source import first_line, parse_errors, read_lines, suffix_of
from fmpair.data.frame import with_types
from fmpair.data.read import read_frame
from fmpair.errors import DataError, OptionError, listing, named, notice
from fmpair.evaluation.evaluation import Evaluation, evaluate
from fmpair.evaluation.protocol import Protocol, preset, repeated_events
from fmpair.fitted.question import COLUMN

CUTOFFS = (1, 5, 10, 20, 50)
WITHOUT_REPEATS = ("new", "next", "cold")  # relevant events that repeat no training event
USER, LIST = "__user__", "__list__"  # no context column may clash with these


def read_lists(
    path: str | Path,
    format: str | None = None,
    *,
    user: str | None = None,
    item: str | None = None,
    **options: Any,
) -> pl.DataFrame:
    """Read a frame (user, item, score, further columns such as context); higher scores come first.

    The file has columns for user, item and a score or rank, or is a TREC run, `user Q0 item rank
    score tag`, ordered by score as in trec_eval. format: 'trec' or a format of `fmpair.read`, by
    default inferred from the path and the first line. user, item: names of their columns.
    options: of the reader.
    """
    if format == "trec" or (format is None and is_run(path)):
        return read_run(path).select("user", "item", "score")
    frame = read_frame(path, format, **options)
    with parse_errors(f"{path} as lists"):
        return _lists(frame, path, {"user": user, "item": item})


def _lists(frame: pl.DataFrame, path: str | Path, called: Mapping[str, str | None]) -> pl.DataFrame:
    names = {}
    for role, name in called.items():
        column = find_column(role, frame.columns, name if name in frame.columns else None)
        if column is None:
            raise DataError(
                f"{path} has no {role} column: call it {role!r}, or name it with {named(role, ...)}"
            )
        names[column] = role
    frame = frame.rename(names)
    by = next((name for name in ("score", "rank") if name in frame.columns), None)
    if by is None or not frame[by].dtype.is_numeric():
        raise DataError(f"{path} needs a numeric column 'score' or 'rank'")
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
    """Evaluate lists as `evaluate` does a model. A unit without a list counts 0.

    Items that occur only in the lists are ranked too. Warns if no list has a seen item although
    many test events repeat one.
    """
    train = as_dataset(train)
    test = as_dataset(test, columns_of(train))
    protocol = preset(protocol) if isinstance(protocol, str) else protocol
    if protocol is None or protocol.relevant not in WITHOUT_REPEATS:
        _warn_of_missing_repeats(lists, train, test)
    # Without these items, those behind them would move up.
    items = train.items.extend(lists["item"])
    train = replace(train, items=items, item_table=pl.DataFrame())
    return evaluate(scorer(lists, train, test), train, test, protocol, metrics, threads)


def _warn_of_missing_repeats(lists: pl.DataFrame, train: Dataset, test: Dataset) -> None:
    """Warn if the lists cannot hit the test events that repeat a training event."""
    repeats = repeated_events(train, test)
    if repeats <= MANY_REPEATS * len(test):
        return
    user, item = train.users.numbers(lists["user"]), train.items.numbers(lists["item"])
    known = (user >= 0) & (item >= 0)
    listed = user[known].astype(np.int64) << 32 | item[known]
    if not np.isin(listed, train.user.astype(np.int64) << 32 | train.item).any():
        notice(
            f"no list has an item that its user had in training, but {repeats:,} of {len(test):,} "
            f"test events ({repeats / len(test):.0%}) repeat one, which counts as a miss: make "
            "lists with seen items (fmpair recommend --include-seen), or evaluate with "
            f"{named('relevant', 'new')}"
        )


def scorer(lists: pl.DataFrame, train: Dataset, test: Dataset) -> Callable[[Dataset], np.ndarray]:
    """Return a function from test events to scores [events, items of train], -inf if not listed.

    lists: a frame (user, item, score); columns that are context of the test events give the
    context of a list, other columns are ignored.
    """
    context = [name for name in test.context if name in lists.columns]
    user, item = test.users.numbers(lists["user"]), train.items.numbers(lists["item"])
    if not (user >= 0).any():
        raise DataError(
            f"no user of the lists is in the test events: the lists have "
            f"{listing(lists['user'][:3])}, the events {listing(test.users.ids[:3])}"
        )
    known = (user >= 0) & (item >= 0)
    types: dict[Any, pl.DataType] = {name: test.columns[name].dtype for name in context}
    keys = _list_keys(user, lists.select(context).cast(types, strict=False)).filter(known)
    list_keys = keys.unique(maintain_order=True).with_columns(pl.int_range(pl.len()).alias(LIST))
    owner = _numbers(keys, list_keys)
    score = lists["score"].to_numpy()[known].astype(np.float32)
    rows = group_rows(owner, item[known], len(list_keys), score)
    if ((np.diff(rows.column) == 0) & (np.diff(rows.owner) == 0)).any():
        hint = "" if context else ", or lists of several contexts that the test events lack"
        raise DataError(f"a list has an item twice{hint}: keep each once")

    def scores(queries: Dataset) -> np.ndarray:
        if COLUMN in queries.columns.columns and COLUMN not in queries.context:
            raise OptionError(
                f"a file has one list per user, and {named('history', 'test')} or known needs one "
                "per event: evaluate a model"
            )
        if len(queries.context) < len(test.context) and context:
            units = f"{named('unit', 'interaction')} or {named('unit', 'user-context')}"
            raise OptionError(
                f"the lists depend on context ({listing(context)}): evaluate with {units}"
            )
        number = _numbers(_list_keys(queries.user, queries.columns.select(context)), list_keys)
        out = np.full((len(queries), len(train.items)), -np.inf, np.float32)
        answered = np.flatnonzero(number >= 0)
        entries = rows.take(number[answered])
        out[answered[entries.owner], entries.column] = entries.value
        return out

    return scores


def overlap(
    a: pl.DataFrame, b: pl.DataFrame, cutoffs: Sequence[int] = CUTOFFS, context: Sequence[str] = ()
) -> pl.DataFrame:
    """Return (cutoff, lists, in both, jaccard): the agreement of two sets of lists.

    jaccard@k = mean over all lists of |A and B| / |A or B|, A and B the first k items; a list that
    one set lacks counts 0. context: the columns that distinguish lists of one user. Ids are
    compared as text.
    """
    a, b = (frame.with_columns(pl.col("user", "item").cast(pl.String)) for frame in (a, b))
    key = ["user", *context]
    keys = [frame.select(key).unique() for frame in (a, b)]
    both = len(keys[0].join(keys[1], on=key, how="semi", nulls_equal=True))
    count = len(keys[0]) + len(keys[1]) - both
    rows = []
    for cutoff in cutoffs:
        heads = [_head(frame, key, cutoff) for frame in (a, b)]
        shared = heads[0].join(heads[1], on=[*key, "item"], how="semi", nulls_equal=True)
        sizes = pl.concat(heads).group_by(key, maintain_order=True).len()
        common = shared.group_by(key).len(name="common")
        # A fixed order makes the sum reproducible.
        joined = sizes.join(common, on=key, nulls_equal=True, maintain_order="left")
        total = (joined["common"] / (joined["len"] - joined["common"])).sum()
        rows.append((cutoff, count, both, float(total) / max(count, 1)))
    return pl.DataFrame(rows, ["cutoff", "lists", "in both", "jaccard"], orient="row")


def _head(frame: pl.DataFrame, key: list[str], cutoff: int) -> pl.DataFrame:
    """The first items of each list; ties in the order of the file."""
    ordered = frame.sort("score", descending=True, maintain_order=True)
    return ordered.select(*key, "item").group_by(key, maintain_order=True).head(cutoff)


def _list_keys(user: np.ndarray, context: pl.DataFrame) -> pl.DataFrame:
    """A frame of user numbers and context columns."""
    return pl.DataFrame({USER: user.astype(np.int32)}).hstack(list(context.iter_columns()))


def _numbers(keys: pl.DataFrame, known: pl.DataFrame) -> np.ndarray:
    """Return int64 [keys]: the number of each key's list, -1 if there is none."""
    names = [name for name in known.columns if name != LIST]
    joined = keys.join(known, on=names, how="left", maintain_order="left", nulls_equal=True)
    return joined[LIST].fill_null(-1).to_numpy().astype(np.int64)


# TREC runs: one line `user Q0 item rank score tag` per recommended item.

TREC_FIELDS = ("user", "q0", "item", "rank", "score", "tag")
TREC_SUFFIXES = (".trec", ".run")


def is_run(path: str | Path) -> bool:
    """Return whether the suffix or the first line is that of a TREC run."""
    if suffix_of(path) in TREC_SUFFIXES:
        return True
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        fields = file.readline(1000).split()
    return len(fields) == len(TREC_FIELDS) and fields[1].upper() == b"Q0"


def read_run(path: str | Path) -> pl.DataFrame:
    """Read a TREC run as a frame with the columns TREC_FIELDS; whole-number ids become integers."""
    with parse_errors(f"{path} as a TREC run"):
        lines = read_lines(path).str.strip_chars()
        fields = lines.filter(lines != "").str.replace_all(r"\s+", " ").str.split(" ")
        if not len(fields):
            raise DataError(f"{path} has no lines '{' '.join(TREC_FIELDS)}' of a TREC run")
        wrong = (lines != "") & (lines.str.count_matches(r"\S+") != len(TREC_FIELDS))
        if wrong.any():
            raise DataError(
                f"line {first_line(wrong)} of {path} does not have the six fields of a TREC run: "
                f"{' '.join(TREC_FIELDS)}"
            )
        frame = fields.list.to_struct(fields=list(TREC_FIELDS)).struct.unnest()
        score = frame["score"].cast(pl.Float64, strict=False).fill_nan(None)
        if score.null_count():
            text = frame["score"].filter(score.is_null())[0]
            raise DataError(f"a score in {path} is not a number: {text!r}")
        return with_types(frame.with_columns(score), ids=("user", "item"))
