"""Prepare a run: read, filter and split the events; set unspecified options of the experiment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fmpair.config.data_columns import uses_ratings
from fmpair.config.data_section import TABLES, around_split, needs_training
from fmpair.config.experiment import Candidate, Experiment, Source, Step
from fmpair.config.option_schema import function_of, options_of
from fmpair.data import Dataset, public_sets
from fmpair.data import splits as splitting
from fmpair.data.describe import fingerprint, low_ratings_note
from fmpair.data.parts import PARTS, Split
from fmpair.data.read import read, read_contents
from fmpair.data.vector_files import vector_files
from fmpair.device import CPU, resolve_device
from fmpair.errors import DataError, OptionError
from fmpair.evaluation.protocol import experiment_protocol
from fmpair.models.catalog import find
from fmpair.threads import check_process
from fmpair.training.search import canonical

PART = "__part"  # a temporary column: the part each event belongs to, as a position in PARTS
DEFAULT_PROTOCOL = "full ranking"  # its label
DEVICE = "device"


@dataclass(frozen=True, eq=False)
class PreparedData:
    """The events of a run and the split of every fold, with their identity.

    data, splits: before the filters that need a training part. late: those filters, in order.
    fingerprint: of the data and the late filters. hashes: of the splits.
    """

    data: Dataset
    fingerprint: str
    splits: tuple[Split, ...]
    hashes: tuple[str, ...]
    late: tuple[Step, ...] = ()

    def fold(self, number: int) -> tuple[Dataset, Split]:
        """Return the events of a fold after all filters, and their split."""
        split = self.splits[number]
        if not self.late:
            return self.data, split
        part = np.full(len(self.data), -1, np.int8)
        for position, rows in enumerate((split.train, split.validation, split.test)):
            part[rows] = position
        data = self._filtered(_with_part(self.data, part))
        part = data.columns[PART].to_numpy()
        filtered = Split(*(np.flatnonzero(part == position) for position in range(len(PARTS))))
        if not (len(filtered.train) and len(filtered.test)):
            raise DataError(f"the filter {self.late[0].kind} leaves no training or no test events")
        return replace(data, columns=data.columns.drop(PART)), filtered

    def whole(self) -> Dataset:
        """Return all events after all filters, as if all of them were for training."""
        return self._filtered(self.data)

    def removed(self) -> str:
        """Return how many test events, of all folds, the late filters remove; empty without any."""
        before = sum(len(split.test) for split in self.splits)
        after = sum(len(self.fold(n)[1].test) for n in range(len(self.splits)) if self.late)
        if not self.late or after == before:
            return ""
        names = " and ".join(step.kind for step in self.late)
        return f"{before - after:,} of {before:,} test events removed by {names}, after the split"

    def _filtered(self, data: Dataset) -> Dataset:
        for step in self.late:
            options = dict(step.options)
            if needs_training(step) and PART in data.columns.columns:
                options["training"] = data.columns[PART].to_numpy() == PARTS.index("train")
            data = function_of("filter", step)(data, **options)
        return data


def prepare(source: Source, steps: Sequence[Step], split: Step) -> PreparedData:
    """Read, filter and split the events; results are cached per process."""
    check_process()
    spec = canonical([asdict(source), [asdict(step) for step in steps], asdict(split)])
    return _prepared(spec, canonical([_stamp(Path(path)) for path in source_files(source)]))


@lru_cache(maxsize=1)
def _prepared(spec: str, stamp: str) -> PreparedData:
    """Implement `prepare`; stamp: file sizes and times, so that changed files are read again."""
    source, every, split = json.loads(spec)
    steps, late = around_split([Step(**step) for step in every])
    data = _read(Source(**source))
    for step in steps:
        data = function_of("filter", step)(data, **step.options)
    sizes = None
    if PART in data.columns.columns:
        part = data.columns[PART].to_numpy()
        sizes = [int(np.count_nonzero(part == position)) for position in range(len(PARTS))]
        data = replace(data, columns=data.columns.drop(PART))
    splits = tuple(_splits(data, sizes, Step(**split)))
    name = fingerprint(data)
    if late:
        name = sha256(f"{name} {canonical([asdict(step) for step in late])}".encode()).hexdigest()
    return PreparedData(data, name, splits, tuple(split.hash for split in splits), tuple(late))


def source_files(source: Source) -> list[str]:
    """Return the files or folders the events and attribute tables are read from."""
    options = (source.options.get(name) for name in TABLES)
    tables = [table.get("path") if isinstance(table, dict) else table for table in options]
    tables += vector_files(source.options.get("vectors"))
    paths = [source.path, source.train, source.validation, source.test, *tables]
    files = [str(path) for path in paths if isinstance(path, str | Path)]
    return [*files, str(public_sets.fetch(source.set))] if source.set else files


def files_of(path: Path) -> list[Path]:
    """Return the file itself, or the files of a folder sorted by name."""
    return sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]


def _stamp(path: Path) -> list[Any]:
    if not path.exists():
        return []  # the reader reports missing files
    files = files_of(path)
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]


def _read(source: Source) -> Dataset:
    if source.generate is not None:
        from fmpair.data.synthetic import make

        return make(**source.generate).data
    if source.set is not None:
        return _read_public(source.set, source.options)
    if source.path is not None:
        return read(source.path, **source.options)
    return _read_parts(source)


def _read_public(name: str, options: Mapping[str, Any]) -> Dataset:
    data, trained = public_sets.load_all(name, **options)
    if public_sets.find(name).test is None:
        return data
    return _with_parts(data, {"train": trained, "test": len(data) - trained})


def _read_parts(source: Source) -> Dataset:
    """Read the given train, validation and test files into one dataset."""
    paths = {name: getattr(source, name) for name in PARTS if getattr(source, name) is not None}
    if not {"train", "test"} <= set(paths):
        raise OptionError("data needs one of path, set and generate, or both train and test")
    parts = {name: read_contents(path, **source.options) for name, path in paths.items()}
    try:
        events = pl.concat([part.events for part in parts.values()], how="vertical_relaxed")
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"the given files do not have the same columns: {reason}") from error
    data = replace(parts["train"], events=events).dataset()
    return _with_parts(data, {name: len(part.events) for name, part in parts.items()})


def _with_parts(data: Dataset, sizes: dict[str, int]) -> Dataset:
    """Add the temporary column to events whose parts follow each other."""
    counts = [sizes.get(name, 0) for name in PARTS]
    return _with_part(data, np.repeat(np.arange(len(PARTS), dtype=np.int8), counts))


def _with_part(data: Dataset, part: np.ndarray) -> Dataset:
    """part: int8 [events], positions in PARTS; filters keep the column."""
    column = pl.Series(PART, part)
    columns = data.columns.with_columns(column) if data.columns.width else column.to_frame()
    return replace(data, columns=columns)


def _splits(data: Dataset, sizes: list[int] | None, step: Step) -> list[Split]:
    function, options = function_of("split", step), dict(step.options)
    if function is splitting.given and "parts" not in options:
        if sizes is None:
            raise OptionError(
                "split 'given' needs data with their own split: train and test files, or a public "
                "set that has one; the filter merge_duplicates removes the split"
            )
        options["parts"] = sizes
    splits = function(data, **options)
    return splits if isinstance(splits, list) else [splits]


def low_ratings(experiment: Experiment, data: Dataset) -> str:
    """Return a line if events with low ratings count as positive; empty if a filter decides."""
    return "" if uses_ratings(experiment) else low_ratings_note(data)


def with_defaults(experiment: Experiment, prepared: PreparedData) -> Experiment:
    """Return the experiment with default protocol and device set.

    The data determine a missing protocol. The device is stored in the model options,
    because results depend on it; the default, the CPU, is omitted.
    """
    device = resolve_device(experiment.run.device)
    protocols = experiment.protocols
    if not protocols:
        test = prepared.data.take(prepared.splits[0].test)
        protocols = {DEFAULT_PROTOCOL: experiment_protocol(prepared.data, test)}
    return replace(
        experiment,
        protocols=protocols,
        models=tuple(_on_device(model, device) for model in experiment.models),
    )


def _on_device(model: Candidate, device: str) -> Candidate:
    configured = model.options.get(DEVICE)
    if configured is None and (device == CPU or DEVICE not in options_of(find(model.kind)).known):
        return model
    device = device if configured is None else resolve_device(str(configured))
    options = {name: value for name, value in model.options.items() if name != DEVICE}
    return replace(model, options=options if device == CPU else {**options, DEVICE: device})
