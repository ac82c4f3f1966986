"""A commented experiment file to start from, made for a user's own file of events."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from fmpair.data import Dataset, filter
from fmpair.data.border import parsing
from fmpair.data.check import check_no_leak
from fmpair.data.dataset import STANDARD
from fmpair.data.read import read_contents
from fmpair.data.roles import find_roles
from fmpair.data.source import Contents
from fmpair.data.times import parse_times
from fmpair.errors import DataError, one_line

SIMPLE = re.compile(r"[A-Za-z_./][\w./-]*")
SPECIAL = ("true", "false", "null", "nan", "inf")
EPOCHS = ((1e8, 1e11), (1e11, 1e14))  # times in seconds and in milliseconds since 1970


@dataclass(frozen=True)
class Findings:
    """A file of events: the roles of its columns, and the events themselves.

    ignored: by column that is left out the reason.
    """

    roles: dict[str, str]
    item_columns: tuple[str, ...]
    ignored: dict[str, str]
    data: Dataset
    rated: bool


def starter(
    path: str | Path, user: str | None = None, item: str | None = None, beside: str | Path = "."
) -> str:
    """The text of an experiment file for a file of events.

    user, item: their columns, inferred from the names unless given. beside: the folder of the
    text, to which the path of the events is relative.
    """
    given = {"user": user, "item": item}
    contents = read_contents(path, **{role: name for role, name in given.items() if name})
    with parsing(str(path)):
        found = _findings(contents, given)
    named = Path(os.path.relpath(path, beside)).as_posix()
    return "\n".join(
        [
            *_data(found, named, Path(path).stem),
            *_split(found),
            *_models(found),
            *_judging(found),
            "",
        ]
    )


def _findings(contents: Contents, given: dict[str, str | None]) -> Findings:
    events = contents.events
    roles = find_roles(events.columns, {**contents.roles, **given})
    ignored = _gaps(events, roles)
    roles = {role: name for role, name in roles.items() if name not in ignored}
    time = None if "timestamp" in roles else _time_column(events, roles)
    if time is not None:
        roles["timestamp"] = time
        contents = replace(contents, events=events.with_columns(parse_times(events[time])))
    rest = [name for name in events.columns if name not in (*roles.values(), *ignored)]
    taken = tuple(contents.roles.get("item_columns", ()))
    for name in rest:
        if name not in taken and _says_nothing(events, name):
            ignored[name] = "one value only, or another one each time"
    moved = [name for name in rest if name not in ignored and _of_item(events, roles, name)]
    options = {**roles, "ignore": list(ignored), "item_columns": [*taken, *moved]}
    data = contents.dataset(**options)
    return Findings(roles, tuple(moved), ignored, data, _has_ratings(data))


def _gaps(events: pl.DataFrame, roles: dict[str, str]) -> dict[str, str]:
    """Ratings and weights that not every event has, which no model could use."""
    counts = {
        roles[role]: events[roles[role]].null_count()
        for role in ("rating", "weight")
        if role in roles
    }
    return {
        name: f"missing in {count:,} of {len(events):,} events; drop those to use it"
        for name, count in counts.items()
        if count
    }


def _time_column(events: pl.DataFrame, roles: dict[str, str]) -> str | None:
    """A column of dates, or one named like a time whose numbers could be one."""
    for column in events.iter_columns():
        if column.name in roles.values():
            continue
        if column.dtype.is_temporal() or parse_times(column).dtype.is_temporal():
            return column.name
        if re.search("time|date", column.name.lower()) and column.dtype.is_integer():
            numbers = column.drop_nulls()
            if any(numbers.is_between(low, high).all() for low, high in EPOCHS):
                return column.name
    return None


def _says_nothing(events: pl.DataFrame, name: str) -> bool:
    """Whether a column has one value only, or another one in (nearly) every row."""
    values = events[name]
    if values.dtype.is_nested() or values.dtype.is_float():
        return False
    different = values.n_unique()
    return different < 2 or (len(values) > 20 and different > 0.9 * len(values))


def _of_item(events: pl.DataFrame, roles: dict[str, str], name: str) -> bool:
    """Whether the column describes the item, so that it cannot be context."""
    try:
        check_no_leak(events, roles["item"], [name], None, ())
        return False
    except DataError:
        return True


def _has_ratings(data: Dataset) -> bool:
    """Whether there are ratings that separate liked items from others."""
    try:
        return data.column("rating") is not None and 4 * len(filter.above_mean(data)) >= len(data)
    except DataError:
        return False


def _data(found: Findings, path: str, name: str) -> list[str]:
    data, roles = found.data, found.roles
    lines = [
        "# An experiment to start from. Check it, then:",
        "#   fmpair validate THIS_FILE",
        "#   fmpair run THIS_FILE",
        f"name: {scalar(_folder_name(name))}",
        "",
        f"# {len(data):,} events of {len(data.users):,} users with {len(data.items):,} items.",
        "data:",
        f"  path: {scalar(path)}",
    ]
    for role in ("user", "item", *STANDARD):
        if role in roles:
            lines.append(f"  {role}: {scalar(roles[role])}")
    for column in data.context:
        values = data.columns[column]
        gaps = f", missing in {values.null_count():,} events" if values.null_count() else ""
        lines.append(
            f"  # context {one_line(column)}: {values.drop_nulls().n_unique():,} values{gaps}"
        )
    lines.append(f"  context: {_listed(data.context)}")
    if found.item_columns:
        lines.append(
            f"  item_columns: {_listed(found.item_columns)}  # an item attribute: constant per item"
        )
    lines += [
        f"  # left out {one_line(column)}: {reason}" for column, reason in found.ignored.items()
    ]
    if found.ignored:
        lines.append(f"  ignore: {_listed(list(found.ignored))}")
    if found.rated:
        lines += [
            "",
            "# Ratings to implicit feedback: ratings above the user's mean are positive.",
            "filter: [above_mean]",
        ]
    return lines


def _split(found: Findings) -> list[str]:
    data = filter.above_mean(found.data) if found.rated else found.data
    times = data.columns["timestamp"] if "timestamp" in found.roles else None
    counts = np.bincount(data.user, minlength=len(data.users))
    validation = "  # validation: {}   # a validation set, for stop and search"
    if times is not None and not times.null_count() and np.median(counts[counts > 0]) >= 3:
        text = "Leave-one-out: the test set is each user's last event."
        lines = ["  kind: leave_last_out", "  count: 1", validation.format(1)]
    elif times is not None and not times.null_count():
        text = "The test set is the latest fifth of all events."
        lines = ["  kind: by_time", "  test: 0.2", validation.format(0.1)]
    else:
        text = "There are no times, so the test set is a random fifth of the events."
        lines = ["  kind: holdout", "  test: 0.2", validation.format(0.1), "  seed: 0"]
    return ["", f"# {text}", "split:", *lines]


def _models(found: Findings) -> list[str]:
    lines = [
        "",
        "# `fmpair models` lists more; {grid: [16, 64]} makes one model per value.",
        "models:",
        "  - popularity",
    ]
    if found.data.context:
        lines += [
            "  - kind: fm-pair",
            "    name: FM-Pair without context",
            "    factors: 32",
            "    context: []",
        ]
    name = "FM-Pair with context" if found.data.context else "FM-Pair"
    worth = ["    # ablation: without   # a table of which fields help"]
    return [
        *lines,
        "  - kind: fm-pair",
        f"    name: {name}",
        "    factors: 32",
        *(worth if found.data.context else []),
        "    # learning_rate: {search: {low: 0.02, high: 0.3, log: true}}   # with tune below",
        "    # stop: 5   # early stopping: patience in epochs, on the validation set",
    ]


def _judging(found: Findings) -> list[str]:
    repeats = len(found.data) - len(found.data.seen.column)
    views = ["popularity", "activity", *(f"context:{name}" for name in found.data.context[:2])]
    lines = ["", "# Full ranking: every test event ranks all items."]
    if repeats > 0.1 * len(found.data):
        lines.append("# Users choose items again, so seen items are not excluded.")
        lines += ["protocols:", "  full ranking: {unit: interaction, seen: none}"]
    else:
        lines.append("# The user's items of the training events are excluded.")
        lines += ["protocols:", "  full ranking: {unit: interaction, seen: train}"]
    return [
        *lines,
        "metrics: [ndcg@10, recall@10]",
        f"views: {_listed(views)}",
        "seeds: [0]",
        "",
        "# Search over options given as {search: ...}; it needs pip install 'fmpair[tune]'.",
        "# tune: {trials: 20, metric: ndcg@10}",
        "",
        "compare: {baseline: popularity}",
    ]


def scalar(text: str) -> str:
    """Text as YAML reads it back, quoted where it must be."""
    if SIMPLE.fullmatch(text) and text.lower().lstrip(".") not in SPECIAL:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    # What does not print may be a line break to YAML.
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)


def _listed(names: Sequence[str]) -> str:
    return f"[{', '.join(scalar(name) for name in names)}]"


def _folder_name(name: str) -> str:
    """A name that a folder can have."""
    return name.split(".")[0].replace("\\", "-") or "experiment"
