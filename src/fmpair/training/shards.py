"""Fitting to Parquet files: on a cluster, whose machines read some files each, or on one GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import Rows, distinct_pairs, empty_rows, starts, tally
from fmpair.cluster import RAY, connect, one_line_errors
from fmpair.data import Dataset
from fmpair.data.columns.roles import find_column
from fmpair.data.vocabulary import Vocabulary
from fmpair.device import CPU, CUDA, layout_on, resolve_device
from fmpair.engine import engine
from fmpair.engine.contract import Settings, Shard, ShardSource
from fmpair.errors import DataError, OptionError, named
from fmpair.features import FeatureSpace
from fmpair.features.history_fields import AUTO, history_field
from fmpair.files import check_writable
from fmpair.fitted.recommender import Recommender
from fmpair.training.checkpoint import Checkpoint, identity_of, read, run_with_checkpoint
from fmpair.training.defaults import SAMPLE, factors_of
from fmpair.training.epochs import Epoch, best_epoch
from fmpair.training.loop import Task, learn
from fmpair.training.options import FMPairOptions
from fmpair.training.problem import problem_of, settings_of
from fmpair.training.start import initial


class _Counts(NamedTuple):
    """Statistics of a file: events by user and by item, and all events of a sample of users."""

    activity: np.ndarray
    times: np.ndarray
    sample: Shard


class _Files(NamedTuple):
    """All files: their ids, refs of their shards, and their statistics together."""

    users: Vocabulary
    items: Vocabulary
    shards: list[Any]
    counts: _Counts


def fit_parts(
    recipe: Any,
    parts: str | Path | Sequence[str | Path],
    *,
    on: str | None = None,
    user: str | None = None,
    item: str | None = None,
    context: Sequence[str] = (),
    weight: str | None = None,
    timestamp: str | None = None,
    users: Any = None,
    items: Any = None,
    seen: bool = True,
    progress: bool | Callable[[Epoch], None] = False,
    checkpoint: str | Path | None = None,
) -> Recommender:
    """Fit a recipe to the events of all files, of which only the named columns are read.

    parts: Parquet files or their folder, readable by every machine. on: the cluster, by default
    ray; none is used if the recipe trains on a GPU. user, item: their columns, by default found by
    their names. seen: whether the model stores the items of each user, so that it does not
    recommend them again; this needs all events in one process.
    On a GPU only: context, the columns of the context (text, whole numbers, true and false);
    weight, that of event weights; timestamp, that of times, which `history` needs; users, items,
    tables of attributes; progress, checkpoint as in `fit`.
    """
    options, paths = _supported(recipe), _paths(parts)
    columns = _columns(paths[0], user, item)
    names = (context,) if isinstance(context, str) else tuple(context)
    if options.device != CPU and resolve_device(options.device) != CPU:
        if on is not None:
            raise OptionError(
                f"{named('on')} and {named('device', options.device)} cannot be combined"
            )
        options = _with_history(options, timestamp)
        given = (*columns, names, weight, timestamp)
        how = (seen, progress, checkpoint)
        return _fit_on_device(recipe, options, paths, given, (users, items), how)
    others = (progress, checkpoint is not None, users is not None, items is not None)
    if names or weight or timestamp or any(others):
        raise OptionError(
            f"{named('context')}, {named('weight')}, {named('timestamp')}, {named('users')}, "
            f"{named('items')}, {named('progress')} and {named('checkpoint')} of parts need "
            f"{named('device', CUDA)}"
        )
    return _fit_on_cluster(recipe, _without_history(options), paths, columns, on or RAY, seen)


def _fit_on_device(
    recipe: Any,
    options: FMPairOptions,
    paths: list[str],
    columns: tuple[Any, ...],
    tables: tuple[Any, Any],
    how: tuple[bool, bool | Callable[[Epoch], None], str | Path | None],
) -> Recommender:
    """Fit on the device of the recipe, see `fit_parts`. how: seen, progress, checkpoint."""
    parts = import_module("fmpair.training.device_parts")  # needs PyTorch
    seen, progress, checkpoint = how
    given = (parts.PartColumns(*columns), parts.PartTables(*tables))
    file = None if checkpoint is None else Checkpoint(Path(checkpoint))
    fit, saved = {}, None
    if file is not None:
        check_writable(file.path)
        fit = identity_of(recipe, parts.fingerprint(paths, *given), seen=seen)
        saved = read(file.path, fit) if file.path.exists() else None
    run = parts.run_of(recipe, options, paths, *given)
    if not seen:
        run = run.with_seen(_counted(run.task))
    if file is not None:
        model = run_with_checkpoint(recipe, run, (fit, saved), None, progress, file)
    else:
        model = best_epoch(run, None, progress, recipe.epochs)
    return model if seen else model.replaced(seen=empty_rows(len(model.space.users)))


def _counted(task: Task) -> Rows:
    """Return placeholders for the seen items of a task, see `_placeholder`."""
    problem = task.problem
    with layout_on(task.options.device):
        return _placeholder(tally(problem.user, problem.users), tally(problem.item, problem.items))


def _fit_on_cluster(
    recipe: Any,
    options: FMPairOptions,
    paths: list[str],
    columns: tuple[str, str],
    on: str,
    seen: bool,
) -> Recommender:
    """Fit on a cluster, see `fit_parts`."""
    ray = connect(on)
    with one_line_errors():
        files = _read(ray, paths, columns)
        options = replace(options, factors=factors_of(options, int(files.counts.activity.sum())))
        task, settings = _task(recipe, options, files)
        source = ShardSource(files.counts.activity, files.counts.times, files.shards)
        begin: Any = engine(RAY).begin  # takes the source too
        first = initial(options, task.space)
        training = begin(task.problem, first, settings._replace(on=on), source)
        known = _seen(ray, files) if seen else _placeholder(*files.counts[:2])
        *_, last = learn(replace(task, given=known), training)
        model: Recommender = last.recommender()
    return model if seen else model.replaced(seen=empty_rows(len(files.users)))


def _supported(recipe: Any) -> FMPairOptions:
    """Return the options of a recipe; raise OptionError if one is not supported with parts."""
    if not isinstance(recipe, FMPairOptions):
        raise OptionError(f"{type(recipe).__name__} cannot be fitted to parts: use FMPair")
    unsupported = {
        "positives": recipe.positives != "permutation",
        "regularization_power": recipe.regularization_power != 1,
        "impression_share": bool(recipe.impression_share),
        "order": recipe.order == 3,
        "fields": bool(recipe.fields),
        "levels": getattr(recipe, "levels", None) is not None,
    }
    for name, given in unsupported.items():
        if given:
            raise _unsupported(name)
    return recipe


def _unsupported(name: str) -> OptionError:
    return OptionError(
        f"{named(name)} is not supported with parts, of which only some columns are read: fit on "
        "one machine instead"
    )


def _without_history(options: FMPairOptions) -> FMPairOptions:
    """Return the options of a fit without histories; auto means none with parts."""
    if options.history not in (0, None, AUTO):
        raise _unsupported("history")
    return replace(options, history=0)


def _with_history(options: FMPairOptions, timestamp: str | None) -> FMPairOptions:
    """Return the options; raise OptionError if only one of history and times is given."""
    if timestamp is None:
        if options.history not in (0, None, AUTO):
            raise OptionError(f"{named('history')} of parts needs {named('timestamp', ...)}")
        return replace(options, history=0)
    field = None if options.history == AUTO else history_field(options.history)
    if field is None:
        raise OptionError(
            f"{named('timestamp')} of parts is for histories: give {named('history')} a number of "
            "items, such as 20, or leave out the times"
        )
    if field.per is not None:
        raise OptionError(f"{named('per')} of {named('history')} is not supported with parts")
    return options


def _paths(parts: str | Path | Sequence[str | Path]) -> list[str]:
    if isinstance(parts, str | Path):
        folder = Path(parts)
        paths = sorted(map(str, folder.glob("*.parquet"))) if folder.is_dir() else [str(folder)]
    else:
        paths = [str(path) for path in parts]
    missing = [path for path in paths if not Path(path).is_file()]
    if missing or not paths:
        raise DataError(f"there is no Parquet file {missing[0] if missing else parts}")
    return [str(Path(path).absolute()) for path in paths]  # workers have other working folders


def _columns(path: str, user: str | None, item: str | None) -> tuple[str, str]:
    names = pl.scan_parquet(path).collect_schema().names()
    columns = []
    for role, given in (("user", user), ("item", item)):
        name = find_column(role, names, given)
        if name is None:
            raise DataError(f"{path} has no {role} column: name it with {named(role, ...)}")
        columns.append(name)
    return columns[0], columns[1]


def _read(ray: Any, paths: list[str], columns: tuple[str, str]) -> _Files:
    """Read the files in two passes: first their ids, then their numbered events."""
    distinct = ray.remote(num_cpus=1)(_distinct)
    ids = ray.get([distinct.remote(path, columns) for path in paths])
    users, items = (Vocabulary.of(pl.concat([file[n] for file in ids])) for n in (0, 1))
    events = sum(file[2] for file in ids)
    encoded = ray.remote(num_cpus=1, num_returns=2)(_encoded)
    vocabularies = ray.put((users, items, max(events // SAMPLE, 1)))
    refs = [encoded.remote(path, columns, vocabularies) for path in paths]
    by_file: list[_Counts] = ray.get([ref[1] for ref in refs])
    counts = _Counts(
        np.sum([file.activity for file in by_file], axis=0),
        np.sum([file.times for file in by_file], axis=0),
        Shard(*(np.concatenate([file.sample[n] for file in by_file]) for n in (0, 1))),
    )
    return _Files(users, items, [ref[0] for ref in refs], counts)


def _distinct(path: str, columns: tuple[str, str]) -> tuple[pl.Series, pl.Series, int]:
    """Return the ids of a file in order of appearance, and its number of events."""
    frame = _events(path, columns)
    users, items = (Vocabulary.of(frame[name]).ids for name in columns)
    return users, items, len(frame)


def _encoded(
    path: str, columns: tuple[str, str], vocabularies: tuple[Vocabulary, Vocabulary, int]
) -> tuple[Shard, _Counts]:
    """Return the numbered events of a file, and their statistics."""
    frame, (users, items, step) = _events(path, columns), vocabularies
    user, item = (v.numbers(frame[name]) for v, name in zip((users, items), columns))
    some = np.flatnonzero(user % step == 0)  # as in `repeat_stats`
    counts = (tally(user, len(users)), tally(item, len(items)))
    return Shard(user, item), _Counts(*counts, Shard(user[some], item[some]))


def _events(path: str, columns: tuple[str, str]) -> pl.DataFrame:
    return pl.read_parquet(path, columns=list(columns)).drop_nulls()


def _task(recipe: Any, options: FMPairOptions, files: _Files) -> tuple[Task, Settings]:
    """Return a task without events, and its settings."""
    from fmpair.engine.strata import minibatches
    from fmpair.engine.strata.partition import choose_blocks  # compiles kernels

    none = np.zeros(0, np.int32)
    data = Dataset(files.users, files.items, none, none, pl.DataFrame())
    space = FeatureSpace.fit(data, options.fields, options.normalize, None)
    activity, times, sample = files.counts
    problem = problem_of(options, space, data)._replace(drawn=times > 0)
    sizes = (int((activity > 0).sum()), int((times > 0).sum()), int(activity.sum()))
    if sizes[1] < 2:
        raise DataError("the events have only one item: ranking needs at least two")
    sampled = problem._replace(user=sample.user, item=sample.item)
    blocks = options.blocks or minibatches.choose_blocks(*sizes)
    settings = settings_of(replace(options, blocks=blocks), space, sampled)
    if not settings.in_minibatches:
        blocks = options.blocks or choose_blocks(*sizes, settings.n_negatives)
    task = Task(recipe, options, space, problem, data.frame_kind)
    return task, settings._replace(blocks=blocks)


def _seen(ray: Any, files: _Files) -> Rows:
    """Return the items of each user with counts, from all shards."""
    shards = ray.get(files.shards)
    user, item = (np.concatenate([shard[n] for shard in shards]) for n in (0, 1))
    return distinct_pairs(user, item, len(files.users))


def _placeholder(activity: np.ndarray, times: np.ndarray) -> Rows:
    """Return rows with the right counts by item, non-empty for the right users."""
    active, items = activity > 0, len(times)
    lengths, first = active.astype(np.int64), int(np.argmax(active))
    lengths[first] = items
    start = starts(lengths)
    column, value = np.zeros(start[-1], np.int32), np.zeros(start[-1], np.float32)
    part = slice(int(start[first]), int(start[first + 1]))
    column[part], value[part] = np.arange(items), times
    return Rows(start, column, value)
