"""Write a commented experiment file for a user's own file of events."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fmpair.data import Dataset, filters, public_sets, splits
from fmpair.data.columns.inference import ATTRIBUTE, CONTEXT, DISPLAY, LEFT_OUT, Decisions
from fmpair.data.columns.roles import STANDARD, UNTIMED, find_roles
from fmpair.data.event_types import MINUTES, event_types, first_of_run, ordered_event_types
from fmpair.data.formats.source import parse_errors
from fmpair.data.read import read_contents
from fmpair.data.times import DAY, has_times, is_calendar, moments, untimed
from fmpair.data.vector_files import with_vector_paths
from fmpair.errors import DataError, in_file, one_line, spelled
from fmpair.evaluation.protocol import default_protocol, default_protocol_reason
from fmpair.training.visits import come_once

SIMPLE = re.compile(r"[A-Za-z_./][\w./-]*")  # text that needs no quotes in YAML
SPECIAL = ("true", "false", "null", "nan", "inf")
# Options of `fmpair.read` that the written file repeats.
REPEATED = (
    *("format", "separator", "encoding", "header", "columns", "ragged", "nulls"),
    *("missing", "order", "leaks", "refunds", "merge_repeats"),
)
TABLES = ("users", "items", "impressions")  # options that are paths, repeated too
MANY_REPEATS = 0.2  # suggest merging if this share of events repeats the previous one
FEW_ITEMS = 4_000  # up to this many items EASE takes seconds
LATELY = 45 * DAY  # propose recent popularity if events span a longer time
MANY_NEW = 0.05  # propose content models if this share of test events has new items
FEW_EVENTS = 20  # smaller splits cannot compare models
TIME_PARTS = ("hour", "weekday", "since")
RATED = (
    "# Ratings to implicit feedback: ratings above the user's mean are positive.",
    "# The means are those of the training ratings; low test ratings are removed too.",
    "filter: [above_mean]",
)


@dataclass(frozen=True)
class Findings:
    """A file of events: the roles of its columns, and the events.

    gaps: number of missing values of each column excluded because of them. rated: whether ratings
    separate liked items from others. reading: options for reading the file. of_table: the columns
    of the item table in `item_columns` and `display`. copies: rows equal to an earlier one.
    """

    decisions: Decisions
    gaps: dict[str, str]
    data: Dataset
    rated: bool
    reading: dict[str, Any] = field(default_factory=dict)
    of_table: dict[str, list[str]] = field(default_factory=dict)
    copies: int = 0

    @property
    def event_types(self) -> list[str]:
        """The event types, weakest first where the order is known."""
        columns = self.data.columns
        return event_types(columns["event_type"]) if "event_type" in columns.columns else []

    @property
    def ignored(self) -> dict[str, str]:
        """The reason for each excluded column."""
        columns = self.decisions.columns
        return self.gaps | {d.column: d.reason for d in columns if d.role == LEFT_OUT}

    @cached_property
    def moments(self) -> np.ndarray | None:
        """int64 [events]: microseconds since 1970; None if an event has no date."""
        data = self.data
        return moments(data) if is_calendar(data) and has_times(data) else None

    @cached_property
    def repeats(self) -> float:
        """The share of events that repeat the item of the user's event before within minutes."""
        if self.moments is None or not len(self.data):
            return 0.0
        first = first_of_run(self.data.user, self.data.item, self.moments)
        return float((first != np.arange(len(first))).mean())

    @property
    def repeat_note(self) -> str:
        """A line about repeats of the event before, empty unless they are many."""
        if self.repeats < MANY_REPEATS:
            return ""
        return (
            f"{self.repeats:.0%} of the events repeat the item of the user's event before within "
            f"{MINUTES:g} minutes (view, cart, buy): merge_repeats: {MINUTES:g} merges them"
        )

    @property
    def copies_note(self) -> str:
        """A line about rows that are equal in all columns, empty if there are none."""
        if not self.copies:
            return ""
        one = self.copies == 1
        rows = "1 row is an exact copy" if one else f"{self.copies:,} rows are exact copies"
        return (
            f"{rows} of earlier ones: they count as events too; leave them out of the file if they "
            "are mistakes"
        )

    @cached_property
    def visits(self) -> bool:
        """Whether users come once, like sessions."""
        dated = self.moments is not None and np.ptp(self.moments) > 0
        return dated and len(self.data) >= FEW_EVENTS and come_once(self.data)

    @cached_property
    def positive(self) -> Dataset:
        """The events that pass the filters of the file."""
        return filters.above_mean(self.data) if self.rated else self.data

    @cached_property
    def split(self) -> str:
        """The split of the file: by_session, leave_last_out, by_time, or holdout without times."""
        data, columns = self.positive, self.data.columns
        if self.visits:
            return "by_session"
        if "timestamp" not in columns.columns or data.columns["timestamp"].null_count():
            return "holdout"
        counts = np.bincount(data.user, minlength=len(data.users))
        return "leave_last_out" if np.median(counts[counts > 0]) >= 3 else "by_time"

    @cached_property
    def new_items(self) -> float:
        """The share of test events of items with attributes, but without training events."""
        data = self.positive
        if not data.item_table.width or len(data) < FEW_EVENTS:
            return 0.0
        try:
            split = splits.SPLITS[self.split](data)
        except DataError:  # too few events or times; `fmpair run` reports it
            return 0.0
        assert isinstance(split, splits.Split)
        return float((~np.isin(data.item[split.test], data.item[split.train])).mean())


def starter(
    path: str | Path,
    user: str | None = None,
    item: str | None = None,
    beside: str | Path = ".",
    **options: Any,
) -> str:
    """Return the text of an experiment file for a file of events.

    user, item: their columns, by default inferred from the names. beside: the folder of the
    experiment file; the path of the events is relative to it. options: others of `fmpair.read`.
    """
    columns = {role: name for role, name in (("user", user), ("item", item)) if name}
    return written(findings(path, **columns, **options), path, beside)


def findings(path: str | Path, **options: Any) -> Findings:
    """Read a file of events and infer the roles of its columns; options: of `fmpair.read`."""
    if str(path) in public_sets.names() and not Path(path).exists():
        raise DataError(
            f"{path} is a public set, whose columns are known: write data: {{set: {path}}} into an "
            f"experiment file, or make a file of it with fmpair data convert {path} events.csv"
        )
    contents = read_contents(path, **options)
    with parse_errors(str(path)):
        gaps = _gaps(contents.events, find_roles(contents.events.columns, contents.roles))
        ignored = [*contents.roles.get("ignore", ()), *gaps]
        contents = replace(contents, roles={**contents.roles, "ignore": ignored})
        decisions = contents.decisions()
        data = contents.dataset(**decisions.options)
        reading = {
            name: options[name] for name in (*REPEATED, *TABLES, "vectors") if name in options
        }
        plain = not any(dtype.is_nested() for dtype in contents.events.dtypes)
        copies = len(contents.events) - contents.events.n_unique() if plain else 0
        of_table = {name: contents.of_table(name) for name in ("item_columns", "display")}
        return Findings(decisions, gaps, data, _has_ratings(data), reading, of_table, copies)


def _gaps(events: pl.DataFrame, roles: dict[str, str]) -> dict[str, str]:
    """Return the rating and weight columns with missing values, which models cannot use."""
    names = [roles[role] for role in ("rating", "weight") if role in roles]
    counts = {name: events[name].null_count() for name in names}
    return {
        name: f"missing in {count:,} of {len(events):,} events; drop those to use it"
        for name, count in counts.items()
        if 0 < count < len(events)
    }


def _has_ratings(data: Dataset) -> bool:
    """Return whether there are ratings that separate liked items from others."""
    try:
        return data.column("rating") is not None and 4 * len(filters.above_mean(data)) >= len(data)
    except DataError:
        return False


def written(findings: Findings, path: str | Path, beside: str | Path = ".") -> str:
    """Return the text of an experiment file for the findings of a file."""

    def relative(path: str | Path) -> str:
        return Path(os.path.relpath(path, beside)).as_posix()

    reading = {k: relative(v) if k in TABLES else v for k, v in findings.reading.items()}
    if "vectors" in reading:
        reading["vectors"] = with_vector_paths(reading["vectors"], relative)
    data = _data(findings, reading, relative(path), Path(path).stem)
    sections = (data, _split(findings), _models(findings))
    lines = [line for section in (*sections, _evaluation(findings)) for line in section]
    return "\n".join([*lines, ""])


def _data(findings: Findings, reading: dict[str, Any], path: str, name: str) -> list[str]:
    data, roles, ignored = findings.data, findings.decisions.roles, findings.ignored
    folder_name = name.split(".")[0].replace("\\", "-") or "experiment"
    lines = [
        "# An experiment to start from. Check it, then:",
        "#   fmpair validate THIS_FILE",
        "#   fmpair run THIS_FILE",
        f"name: {scalar(folder_name)}",
        "",
        f"# {len(data):,} events of {len(data.users):,} users with {len(data.items):,} items.",
        "data:",
        f"  path: {scalar(path)}",
        *(f"  {name}: {_value(value)}" for name, value in reading.items()),
    ]
    for role in ("user", "item", *STANDARD):
        if role in roles:
            lines.append(f"  {role}: {scalar(roles[role])}")
    if findings.repeat_note:
        lines += [f"  # {findings.repeat_note}", f"  # merge_repeats: {MINUTES:g}"]
    lines += _event_weights(findings)
    for decision in findings.decisions.columns:
        if decision.role == CONTEXT:
            missing = data.columns[decision.column].null_count()
            gaps = f", missing in {missing:,} events" if missing else ""
            lines.append(f"  # context {one_line(decision.column)}: {decision.reason}{gaps}")
    lines.append(f"  context: {_list(data.context)}")
    for role, option in ((ATTRIBUTE, "item_columns"), (DISPLAY, "display")):
        moved = [d for d in findings.decisions.columns if d.role == role]
        lines += [f"  # {role} {one_line(d.column)}: {d.reason}" for d in moved]
        names = [*(d.column for d in moved), *findings.of_table.get(option, ())]
        lines += [f"  {option}: {_list(names)}"] if names else []
    lines += [f"  # left out {one_line(column)}: {reason}" for column, reason in ignored.items()]
    if ignored:
        lines.append(f"  ignore: {_list(list(ignored))}")
    if findings.rated:
        lines += ["", *RATED]
    return lines


def _event_weights(findings: Findings) -> list[str]:
    """Return the given weights of event types, else suggested weights in a comment."""
    event_types, weights = findings.event_types, findings.data.event_weights
    if weights is not None:
        pairs = ", ".join(f"{scalar(name)}: {weight:g}" for name, weight in weights.weights)
        return [f"  event_weights: {{{pairs}}}"]
    if len(event_types) < 2:
        return []
    ordered = ordered_event_types(findings.data.columns["event_type"]) is not None
    pairs = ", ".join(f"{scalar(k)}: {1 + 2 * n * ordered}" for n, k in enumerate(event_types))
    return [
        "  # All event types have weight 1. To change that (or see levels below, docs/events.md):",
        f"  # event_weights: {{{pairs}}}",
    ]


def _split(findings: Findings) -> list[str]:
    validation = "  # validation: {}   # a validation set, for tune, stop and search"
    if findings.split == "by_session":
        text = "Users come once, like sessions: the test set is the latest fifth of them."
        lines = ["  kind: by_session", "  test: 0.2", validation.format(0.1)]
    elif findings.split == "leave_last_out":
        text = "Leave-one-out: the test set is each user's last event."
        lines = ["  kind: leave_last_out", "  count: 1", validation.format(1)]
    elif findings.split == "by_time":
        text = "The test set is the latest fifth of all events."
        lines = ["  kind: by_time", "  test: 0.2", validation.format(0.1)]
    else:
        text = f"{_untimed(findings.data)}, so the test set is a random fifth of the events."
        lines = ["  kind: holdout", "  test: 0.2", validation.format(0.1), "  seed: 0"]
    return ["", f"# {text}", "split:", *lines]


def _untimed(data: Dataset) -> str:
    if "timestamp" not in data.columns.columns:
        return "There are no times"
    count = untimed(data)
    some = "1 event has" if count == 1 else f"{count:,} events have"
    return f"{some} no time (with --missing {UNTIMED}, init proposes a split by time)"


def _models(findings: Findings) -> list[str]:
    lines = [
        "",
        "# `fmpair models` lists more; {grid: [16, 64]} makes one model per value.",
        "models:",
        *(f"  - {kind}   # {why}" for kind, why in baselines(findings).items()),
    ]
    plain, timed = not findings.data.context, findings.moments is not None
    model = "  - kind: fm-pair"
    if not plain:
        lines += [model, "    name: FM-Pair without context", "    context: []"]
    lines += [model, f"    name: FM-Pair{' with context' * (not plain)}"]
    lines += ["    times: false   # compared with the model with time below"] * timed
    if not plain:
        lines += [
            "    # ablation: without   # a table of which fields help",
            "    # order: 3   # what this user wants in this context; slower (docs/context.md)",
        ]
    if len(findings.event_types) > 1:
        levels = _list(findings.event_types)
        lines.append(f"    # levels: {levels}   # later event types rank above earlier ones")
    lines += [
        "    # factors: 32   # faster; by default 128 or more, which usually rank better",
        "    # tune: 5m   # search for better options on the validation set (docs/tuning.md)",
        "    # learning_rate: {search: {low: 0.02, high: 0.3, log: true}}   # with tune below",
        "    # stop: 5   # early stopping: patience in epochs, on the validation set",
    ]
    return lines + (_with_time(findings) if timed else [])


def baselines(findings: Findings) -> dict[str, str]:
    """Return the models without training that are hard to beat on such data, each with why."""
    data, when = findings.positive, findings.moments
    chosen = {"popularity": "the same list for all"}
    if when is not None and np.ptp(when) >= LATELY:
        chosen["popular-lately"] = "popularity of the last 30 days"
    if has_times(data):
        chosen["markov-chain"] = "what followed the user's last item"
    if findings.visits:
        chosen["v-sknn"] = "what similar sessions chose; hard to beat on anonymous sessions"
    if findings.new_items >= MANY_NEW:
        new = f"{findings.new_items:.0%} of the test events are of new items"
        chosen["content-profile"] = f"attributes of the user's items; {new}"
        chosen["content-knn"] = "items with attributes like those of the user's items"
    if len(data.items) <= FEW_ITEMS:
        chosen["ease"] = "linear; hard to beat with few items"
    else:
        chosen["item-knn"] = "items of the same users"
    return chosen


def _with_time(findings: Findings) -> list[str]:
    """Return FM-Pair with fields of the time, which the report compares with the one before."""
    days = findings.moments is not None and not (findings.moments % DAY).any()
    parts = TIME_PARTS[1:] if days else TIME_PARTS
    return [
        "  # Does the time help? since: the time since the user's last event. Hours are UTC; add",
        "  # zone: Europe/Berlin after parts for others. Remove this model if it is no better.",
        "  - kind: fm-pair",
        f"    name: FM-Pair with {'context and ' * bool(findings.data.context)}time",
        f"    fields: {{timestamp: {{kind: time, parts: {_list(parts)}}}}}",
    ]


def _evaluation(findings: Findings) -> list[str]:
    known = baselines(findings)
    strong = [name for name in ("v-sknn", "markov-chain") if name in known]
    return [
        "",
        *_protocols(findings),
        "# Several seeds show whether a recipe is better; one seed only compares two fits.",
        "seeds: [0, 1, 2]   # [0] for a first look",
        "",
        "# Search over options given as {search: ...}; models with tune: 5m have their own budget.",
        "# tune: {trials: 20}",
        "",
        "# Tables show differences from this model; the verdict names the best baseline.",
        f"compare: {{baseline: {[*strong, list(known)[-1]][0]}}}",
    ]


def _protocols(findings: Findings) -> list[str]:
    """Return the protocols, metrics and views."""
    contexts = [f"context:{name}" for name in findings.data.context[:2]]
    if findings.visits:
        return [
            "# Every event of a test session but the first is predicted from those before it.",
            "protocols: [sessions]",
            "metrics: [mrr@20, hit@20]",
            f"views: {_list(['popularity', *contexts])}",
        ]
    data = findings.positive
    usual, parted = default_protocol(data), findings.split == "leave_last_out"
    unit = "interaction" if parted or data.context or usual.seen != "train" else "user"
    every = {
        "interaction": "every test event ranks all items",
        "user": "one list for each user, and means over users",
    }
    new = findings.new_items >= MANY_NEW
    return [
        f"# Full ranking: {every[unit]}.",
        f"# {spelled(default_protocol_reason(data), in_file)}.",
        "protocols:",
        f"  full ranking: {{unit: {unit}, seen: {usual.seen}}}",
        *(["  new items: cold   # those without training events, among themselves"] * new),
        "metrics: [ndcg@10, recall@10]",
        f"views: {_list(['popularity', 'activity', *contexts, *['events'] * new])}",
    ]


def scalar(text: str) -> str:
    """Return text as a YAML scalar, quoted if needed."""
    if SIMPLE.fullmatch(text) and text.lower().lstrip(".") not in SPECIAL:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    # YAML may treat an unprintable character as a line break.
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)


def _value(value: Any) -> str:
    """Return an option's value as YAML: a text, a list of texts, a number, or a truth value."""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return scalar(value) if isinstance(value, str) else _list(list(value))


def _list(names: Sequence[str]) -> str:
    return f"[{', '.join(scalar(name) for name in names)}]"
