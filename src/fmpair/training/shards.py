"""Learning from Parquet parts that no machine reads all of: users and items, on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import Rows, distinct_pairs, empty_rows, starts, tally
from fmpair.cluster import RAY, connect, one_line_errors
from fmpair.data import Dataset
from fmpair.data.columns.roles import find_column
from fmpair.data.vocabulary import Vocabulary
from fmpair.engine import engine
from fmpair.engine.contract import Settings, Shard, Source
from fmpair.errors import DataError, OptionError, named
from fmpair.features import FeatureSpace
from fmpair.fitted.recommender import Recommender
from fmpair.training.defaults import SAMPLE, factors_of
from fmpair.training.loop import Task, learn
from fmpair.training.options import FMPairOptions
from fmpair.training.problem import initial, problem_of, settings_of


class _Counted(NamedTuple):
    """What the driver knows of a part: events by user and by item, and those of a few users."""

    activity: np.ndarray
    times: np.ndarray
    sample: Shard


class _Numbered(NamedTuple):
    """All parts: their ids, refs of their shards, and counts over all of them."""

    users: Vocabulary
    items: Vocabulary
    shards: list[Any]
    counted: _Counted


def fit_parts(
    recipe: Any,
    parts: str | Path | Sequence[str | Path],
    *,
    on: str = RAY,
    user: str | None = None,
    item: str | None = None,
    seen: bool = True,
) -> Recommender:
    """What recipe.fit gives for the events of all parts, of which it reads users and items only.

    parts: Parquet files, or the folder they lie in, which every machine can read. user, item: their
    columns, by default by their names. seen: whether the model knows what everyone has, so that it
    does not recommend that again: this is all events in one place, and with False nothing is.
    """
    options = _ids_only(recipe)
    paths = _paths(parts)
    columns = _columns(paths[0], user, item)
    ray = connect(on)
    with one_line_errors():
        found = _numbered(ray, paths, columns)
        events = int(found.counted.activity.sum())
        options = replace(options, factors=factors_of(options, events))
        task, settings = _task(recipe, options, found)
        source = Source(found.counted.activity, found.counted.times, found.shards)
        begin: Any = engine(RAY).begin  # which also takes the source
        first = initial(options, task.space)
        training = begin(task.problem, first, settings._replace(on=on), source)
        known = _seen(ray, found) if seen else _nobody(found)
        *_, last = learn(replace(task, given=known), training)
        model: Recommender = last.recommender()
    return model if seen else model.replaced(seen=empty_rows(len(found.users)))


def _ids_only(recipe: Any) -> FMPairOptions:
    """The options of a recipe that learns from users and items alone."""
    if not isinstance(recipe, FMPairOptions):
        raise OptionError(f"{type(recipe).__name__} does not learn from parts: use FMPair")
    refused = {
        "positives": recipe.positives != "permutation",
        "regularization_power": recipe.regularization_power != 1,
        "impression_share": bool(recipe.impression_share),
        "order": recipe.order != 2,
        "fields": bool(recipe.fields),
        "levels": getattr(recipe, "levels", None) is not None,
        "history": recipe.history not in (0, None, "auto"),
        "device": recipe.device != "cpu",
    }
    for name, wrong in refused.items():
        if wrong:
            raise OptionError(
                f"parts are learned from by users and items alone: leave {named(name)} out, or fit "
                "to events that one machine reads"
            )
    return replace(recipe, history=0)


def _paths(parts: str | Path | Sequence[str | Path]) -> list[str]:
    if isinstance(parts, str | Path):
        folder = Path(parts)
        found = sorted(map(str, folder.glob("*.parquet"))) if folder.is_dir() else [str(folder)]
    else:
        found = [str(path) for path in parts]
    missing = [path for path in found if not Path(path).is_file()]
    if missing or not found:
        raise DataError(f"there is no Parquet file {missing[0] if missing else parts}")
    return [str(Path(path).absolute()) for path in found]  # workers stand in other folders


def _columns(path: str, user: str | None, item: str | None) -> tuple[str, str]:
    names = pl.scan_parquet(path).collect_schema().names()
    found = []
    for role, given in (("user", user), ("item", item)):
        name = find_column(role, names, given)
        if name is None:
            raise DataError(f"{path} has no column of {role}s: name it with {named(role, ...)}")
        found.append(name)
    return found[0], found[1]


def _numbered(ray: Any, paths: list[str], columns: tuple[str, str]) -> _Numbered:
    """Two passes over the parts: the ids there are, then the events by their numbers."""
    distinct = ray.remote(num_cpus=1)(_distinct)
    ids = ray.get([distinct.remote(path, columns) for path in paths])
    users, items = (Vocabulary.of(pl.concat([one[n] for one in ids])) for n in (0, 1))
    events = sum(one[2] for one in ids)
    encoded = ray.remote(num_cpus=1, num_returns=2)(_encoded)
    known = ray.put((users, items, max(events // SAMPLE, 1)))
    refs = [encoded.remote(path, columns, known) for path in paths]
    counted: list[_Counted] = ray.get([ref[1] for ref in refs])
    sample = Shard(*(np.concatenate([c.sample[n] for c in counted]) for n in (0, 1)))
    counts = _Counted(
        np.sum([c.activity for c in counted], axis=0),
        np.sum([c.times for c in counted], axis=0),
        sample,
    )
    return _Numbered(users, items, [ref[0] for ref in refs], counts)


def _distinct(path: str, columns: tuple[str, str]) -> tuple[pl.Series, pl.Series, int]:
    """The ids of a part in order of appearance, and how many events it has."""
    frame = _events(path, columns)
    users, items = (Vocabulary.of(frame[name]).ids for name in columns)
    return users, items, len(frame)


def _encoded(
    path: str, columns: tuple[str, str], known: tuple[Vocabulary, Vocabulary, int]
) -> tuple[Shard, _Counted]:
    frame, (users, items, step) = _events(path, columns), known
    user, item = (v.numbers(frame[name]) for v, name in zip((users, items), columns))
    some = np.flatnonzero(user % step == 0)  # as `repeat_stats` takes them
    counts = (tally(user, len(users)), tally(item, len(items)))
    return Shard(user, item), _Counted(*counts, Shard(user[some], item[some]))


def _events(path: str, columns: tuple[str, str]) -> pl.DataFrame:
    return pl.read_parquet(path, columns=list(columns)).drop_nulls()


def _task(recipe: Any, options: FMPairOptions, found: _Numbered) -> tuple[Task, Settings]:
    """What is to be learned, with no events in it, and by which settings."""
    from fmpair.engine.strata.partition import choose_blocks  # which compiles kernels

    none = np.zeros(0, np.int32)
    data = Dataset(found.users, found.items, none, none, pl.DataFrame())
    space = FeatureSpace.fit(data, options.fields, options.normalize, None)
    problem = problem_of(options, space, data)._replace(drawn=found.counted.times > 0)
    activity, times = found.counted.activity, found.counted.times
    sizes = (int((activity > 0).sum()), int((times > 0).sum()), int(activity.sum()))
    if sizes[1] < 2:
        raise DataError("the events name only one item: ranking needs at least two")
    sample = found.counted.sample
    sampled = problem._replace(user=sample.user, item=sample.item)
    settings = settings_of(replace(options, blocks=options.blocks or 1), space, sampled)
    blocks = options.blocks or choose_blocks(*sizes, settings.n_negatives)
    task = Task(recipe, options, space, problem, data.frame_kind)
    return task, settings._replace(blocks=blocks)


def _seen(ray: Any, found: _Numbered) -> Rows:
    """The items of each user and how often, from all shards."""
    shards = ray.get(found.shards)
    user, item = (np.concatenate([shard[n] for shard in shards]) for n in (0, 1))
    return distinct_pairs(user, item, len(found.users))


def _nobody(found: _Numbered) -> Rows:
    """Rows with the same counts by item, and with some for the same users; whose is not known."""
    active, items = found.counted.activity > 0, len(found.items)
    lengths, first = active.astype(np.int64), int(np.argmax(active))
    lengths[first] = items
    start = starts(lengths)
    column, value = np.zeros(start[-1], np.int32), np.zeros(start[-1], np.float32)
    mine = slice(int(start[first]), int(start[first + 1]))
    column[mine], value[mine] = np.arange(items), found.counted.times
    return Rows(start, column, value)
