"""The sets and splits of the leaderboard: what is learned, what is shown, what is asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import polars as pl

from fmpair import Dataset, Protocol, read
from fmpair.data import by_time, holdout, leave_last_out, public_sets, time_windows
from fmpair.data.formats.research_sets import read_negatives
from fmpair.data.formats.source import locate
from fmpair.errors import DataError
from fmpair.evaluation import preset

HIT = ("hit@10", "ndcg@10")
CORE = 5  # events that an item and a user have at least, as in "Time to Split"
SOURCES = "docs/benchmarks.md#data says where it is from"
TIE = 1e-4  # seconds between events of one second, in the order of the file


@dataclass(frozen=True, eq=False)
class Task:
    """Events to learn from, events to predict, and how they are judged.

    known: what a model may know when it is asked: the training events, and those that are only
    shown to it (`shown`).
    """

    train: Dataset
    known: Dataset
    test: Dataset
    protocol: Protocol
    metrics: tuple[str, str]
    shown: Dataset | None = None

    @property
    def split(self) -> str:
        """Return 12 hexadecimal digits, different for different events in any part."""
        digest = sha256()
        for part in (self.train, self.known, self.test):
            pairs = part.frame().select(pl.col("user", "item").cast(str))
            digest.update(pairs.write_csv().encode())
        return digest.hexdigest()[:12]


def file_of(name: str, file: str) -> Path:
    """Return a file of a set, plain or gzipped, or raise a DataError that says what is missing."""
    root, needed = os.environ.get("FMPAIR_DATA"), f"{name}/{file}"
    if not root:
        raise DataError(
            f"{name}: FMPAIR_DATA is not set, it must name the folder that has {needed} ({SOURCES})"
        )
    path = Path(root) / name / file
    for candidate in (path, path.with_name(f"{file}.gz")):
        if candidate.is_file():
            return candidate
    raise DataError(f"{name}: the folder FMPAIR_DATA has no {needed} or {needed}.gz ({SOURCES})")


def in_one_line(main: Callable[[], None]) -> None:
    """Run a script; data that are missing or cannot be used end it with one line."""
    try:
        main()
    except DataError as error:
        sys.exit(f"error: {error}")


def sequences(name: str, _: int) -> Task:
    """Learn all but each user's last two events, show the last but one, ask the last."""
    events = read(file_of(name, "sequences.txt"), format="sequences")
    known, _, test = leave_last_out(events).parts(events)
    train, _, shown = leave_last_out(known).parts(known)
    return Task(train, known, test, preset("next-item"), HIT, shown)


def lists(name: str, _: int) -> Task:
    """Use the owner's parts, without an order, which these files do not keep."""
    parts = [read(file_of(name, f"{p}.txt"), format="sequences") for p in ("train", "test")]
    train, test = (Dataset.from_frame(p.frame().select("user", "item")) for p in parts)
    return Task(train, train, test, preset("full-user"), ("recall@20", "ndcg@20"))


def given(name: str, _: int) -> Task:
    """Use the owner's parts, and ask for every user and context."""
    train, test = (public_sets.load(name, part=part) for part in ("train", "test"))
    return Task(train, train, test, preset("full-context"), HIT)


def sessions(name: str, _: int, protocol: str = "sessions") -> Task:
    """Ask for every next click of sessions that are later than those learned."""
    train, test = (
        read(file_of(name, f"{part}.txt"), user="SessionId", item="ItemId", timestamp="Time")
        for part in ("train_full", "test")
    )
    judge = replace(preset(protocol), seen="none")
    return Task(train, train, test, judge, ("hit@20", "mrr@20"))


def among_given(name: str, _: int) -> Task:
    """Rank each user's last film among 99 that the owner gives."""
    train, test = (public_sets.load(name, part=part) for part in ("train", "test"))
    place = locate(public_sets.fetch(name), "ml-1m.test.negative")
    assert place is not None
    items = read_negatives(place[0]).select("user", "item")
    judge = Protocol(unit="user", candidates="file", items=items, seen="none")
    return Task(train, train, test, judge, HIT)


def random_quarter(name: str, _: int) -> Task:
    """Hold out a random quarter of the ratings, all of them positive."""
    frame = public_sets.load(name).frame().select("user", "item")
    data = Dataset.from_frame(frame)
    train, _, test = holdout(data, test=0.25).parts(data)
    return Task(train, train, test, preset("full-user"), ("recall@10", "ndcg@10"))


def last_after_cut(name: str, _: int) -> Task:
    """Cut all users at nine tenths of the events, ask each one's last event after the cut.

    As in "Time to Split" (Gusak et al. 2025): items and users with five events, and events of one
    second in the order of the file.
    """
    frame = public_sets.load(name).frame().select("user", "item", "timestamp")
    size = 0
    while size != len(frame):
        size = len(frame)
        for side in ("user", "item"):
            frame = frame.filter(pl.len().over(side) >= CORE)
    tie = pl.int_range(pl.len()).over("user", "timestamp")
    cut = frame["timestamp"].quantile(0.9, "linear")
    frame = frame.with_columns(early=pl.col("timestamp") <= cut)
    frame = frame.with_columns(timestamp=pl.col("timestamp") + TIE * tie)
    train, test = (
        Dataset.from_frame(frame.filter(early=early).drop("early")) for early in (True, False)
    )
    return Task(train, train, test, replace(preset("global-time"), targets="last"), HIT)


def after_cut(name: str, _: int) -> Task:
    """Cut all users at nine tenths of the events, ask every later event."""
    data = events_of(name)
    train, _, test = by_time(data, test=0.1).parts(data)
    return Task(train, train, test, preset("global-time"), HIT)


def windows(name: str, number: int) -> Task:
    """Ask every event of one of the three latest tenths, learn what came before it."""
    data = events_of(name)
    train, _, test = time_windows(data, count=3, test=0.1)[number % 3].parts(data)
    return Task(train, train, test, preset("global-time"), HIT)


def events_of(name: str) -> Dataset:
    """Return users, items and times alone."""
    return Dataset.from_frame(public_sets.load(name).frame().select("user", "item", "timestamp"))


# Name -> how its task is made; a number chooses the window of `windows`, else nothing.
TASKS: dict[str, partial[Task]] = {
    "amazon-beauty": partial(sequences, "amazon-beauty"),
    "amazon-sports": partial(sequences, "amazon-sports"),
    "ml-1m-sequences": partial(sequences, "ml-1m-sequences"),
    "amazon-cds": partial(lists, "amazon-cds"),
    "yelp2018": partial(lists, "yelp2018"),
    "frappe-cfm": partial(given, "frappe-cfm"),
    "yoochoose-100k": partial(sessions, "yoochoose-100k"),
    "ml-1m-ncf": partial(among_given, "ml-1m-ncf"),
    "ml-100k": partial(random_quarter, "ml-100k"),
    "ml-1m-clock": partial(last_after_cut, "ml-1m"),
    "ml-1m-windows": partial(windows, "ml-1m"),
    "ml-100k-clock": partial(after_cut, "ml-100k"),
    "yoochoose-clock": partial(sessions, "yoochoose-100k", protocol="global-time"),
}

# Tasks of files that are not public sets of fmpair -> these files.
FILES: dict[Callable[..., Task], tuple[str, ...]] = {
    sequences: ("sequences.txt",),
    lists: ("train.txt", "test.txt"),
    sessions: ("train_full.txt", "test.txt"),
}


def require(name: str) -> None:
    """Raise a DataError if data of a task are missing; download those that can be."""
    task = TASKS[name]
    for file in FILES.get(task.func, ()):
        file_of(task.args[0], file)
    if task.func not in FILES:
        public_sets.fetch(task.args[0])
