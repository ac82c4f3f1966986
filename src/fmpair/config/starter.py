"""A commented experiment file to start from, made for a user's own file of events."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fmpair.data import Dataset, filters
from fmpair.data.columns.inference import ATTRIBUTE, CONTEXT, LEFT_OUT, Decisions
from fmpair.data.columns.roles import STANDARD, find_roles
from fmpair.data.event_types import event_kinds, ordered_kinds
from fmpair.data.formats.source import parsing
from fmpair.data.read import read_contents
from fmpair.errors import DataError, in_file, one_line, spelled
from fmpair.evaluation.protocol import default_protocol, default_protocol_reason

SIMPLE = re.compile(r"[A-Za-z_./][\w./-]*")
# Options that say how the file is read, and not what its columns are.
READING = (
    *("format", "separator", "encoding", "header", "columns", "ragged", "nulls"),
    *("missing", "order"),
)
# And those that change what is made of columns, whatever they look like.
SAID = ("leaks",)
SPECIAL = ("true", "false", "null", "nan", "inf")


@dataclass(frozen=True)
class Findings:
    """A file of events: what its columns are taken for, and the events themselves.

    gaps: by column that is left out because values are missing how many are. reading: the options
    by which the file was read, and has to be read again.
    """

    decisions: Decisions
    gaps: dict[str, str]
    data: Dataset
    rated: bool
    reading: dict[str, Any] = field(default_factory=dict)

    @property
    def kinds(self) -> list[str]:
        """The kinds of events, the weakest first where that is known."""
        columns = self.data.columns
        return event_kinds(columns["event_type"]) if "event_type" in columns.columns else []

    @property
    def ignored(self) -> dict[str, str]:
        """By column that is left out the reason."""
        found = self.decisions
        return self.gaps | {d.column: d.reason for d in found.columns if d.role == LEFT_OUT}


def starter(
    path: str | Path,
    user: str | None = None,
    item: str | None = None,
    beside: str | Path = ".",
    **options: Any,
) -> str:
    """The text of an experiment file for a file of events.

    user, item: their columns, inferred from the names unless given. beside: the folder of the
    text, to which the path of the events is relative. options: further ones of `fmpair.read`.
    """
    given = {role: name for role, name in (("user", user), ("item", item)) if name}
    return written(findings(path, **given, **options), path, beside)


def findings(path: str | Path, **options: Any) -> Findings:
    """What the columns of a file of events are taken for, and its events.

    options: those of `fmpair.read` where something must be said.
    """
    contents = read_contents(path, **options)
    with parsing(str(path)):
        gaps = _gaps(contents.events, find_roles(contents.events.columns, contents.roles))
        ignored = [*contents.roles.get("ignore", ()), *gaps]
        contents = replace(contents, roles={**contents.roles, "ignore": ignored})
        found = contents.decisions()
        data = contents.dataset(**found.options)
        reading = {name: options[name] for name in (*READING, *SAID) if name in options}
        return Findings(found, gaps, data, _has_ratings(data), reading)


def written(found: Findings, path: str | Path, beside: str | Path = ".") -> str:
    """The text of an experiment file for what was found in a file."""
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


def _has_ratings(data: Dataset) -> bool:
    """Whether there are ratings that separate liked items from others."""
    try:
        return data.column("rating") is not None and 4 * len(filters.above_mean(data)) >= len(data)
    except DataError:
        return False


def _written(value: Any) -> str:
    """An option's value: a text, a list of texts, or yes and no."""
    if isinstance(value, bool):
        return str(value).lower()
    return scalar(value) if isinstance(value, str) else _listed(list(value))


def _data(found: Findings, path: str, name: str) -> list[str]:
    data, roles = found.data, found.decisions.roles
    lines = [
        "# An experiment to start from. Check it, then:",
        "#   fmpair validate THIS_FILE",
        "#   fmpair run THIS_FILE",
        f"name: {scalar(_folder_name(name))}",
        "",
        f"# {len(data):,} events of {len(data.users):,} users with {len(data.items):,} items.",
        "data:",
        f"  path: {scalar(path)}",
        *(f"  {name}: {_written(value)}" for name, value in found.reading.items()),
    ]
    for role in ("user", "item", *STANDARD):
        if role in roles:
            lines.append(f"  {role}: {scalar(roles[role])}")
    lines += _kind_weights(found)
    for decision in found.decisions.columns:
        if decision.role == CONTEXT:
            missing = data.columns[decision.column].null_count()
            gaps = f", missing in {missing:,} events" if missing else ""
            lines.append(f"  # context {one_line(decision.column)}: {decision.reason}{gaps}")
    lines.append(f"  context: {_listed(data.context)}")
    moved = [d for d in found.decisions.columns if d.role == ATTRIBUTE]
    lines += [f"  # item attribute {one_line(d.column)}: {d.reason}" for d in moved]
    if moved:
        lines.append(f"  item_columns: {_listed([d.column for d in moved])}")
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


def _kind_weights(found: Findings) -> list[str]:
    """Weights of kinds as given, else a proposal: purchases count for more than views."""
    kinds, given = found.kinds, found.data.event_weights
    if given is not None:
        told = ", ".join(f"{scalar(kind)}: {weight:g}" for kind, weight in given.weights)
        return [f"  event_weights: {{{told}}}"]
    if len(kinds) < 2:
        return []
    known = ordered_kinds(found.data.columns["event_type"]) is not None
    weights = ", ".join(f"{scalar(k)}: {1 + 2 * n * known}" for n, k in enumerate(kinds))
    return [
        "  # Kinds of events count alike; to weigh them, or see levels below (docs/events.md):",
        f"  # event_weights: {{{weights}}}",
    ]


def _split(found: Findings) -> list[str]:
    data = _positive(found)
    times = data.columns["timestamp"] if "timestamp" in found.data.columns.columns else None
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


def _positive(found: Findings) -> Dataset:
    """The events that the filters of the file leave."""
    return filters.above_mean(found.data) if found.rated else found.data


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
    worth = [
        "    # ablation: without   # a table of which fields help",
        "    # order: 3   # what this user wants in this context; slower (docs/context.md)",
    ]
    return [
        *lines,
        "  - kind: fm-pair",
        f"    name: {name}",
        "    factors: 32",
        *(worth if found.data.context else []),
        *(
            [f"    # levels: {_listed(found.kinds)}   # what went farther ranks above the rest"]
            if len(found.kinds) > 1
            else []
        ),
        "    # learning_rate: {search: {low: 0.02, high: 0.3, log: true}}   # with tune below",
        "    # stop: 5   # early stopping: patience in epochs, on the validation set",
    ]


def _judging(found: Findings) -> list[str]:
    views = ["popularity", "activity", *(f"context:{name}" for name in found.data.context[:2])]
    data = _positive(found)
    seen = default_protocol(data).seen
    lines = [
        "",
        "# Full ranking: every test event ranks all items.",
        f"# {spelled(default_protocol_reason(data), in_file)}.",
        "protocols:",
        f"  full ranking: {{unit: interaction, seen: {seen}}}",
    ]
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
