"""Where the models of an experiment learn: settled when a run begins, a part of their options."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fmpair.config.data_section import TABLES, by_place, needs_training
from fmpair.config.experiment import Candidate, Experiment, Source, Step
from fmpair.config.option_schema import function_of, options_of
from fmpair.data import Dataset, public_sets
from fmpair.data import splits as splitting
from fmpair.data.describe import fingerprint
from fmpair.data.parts import PARTS, Split
from fmpair.data.read import read, read_contents
from fmpair.device import CPU, settled
from fmpair.errors import DataError, OptionError, in_file, spelled
from fmpair.evaluation.protocol import default_protocol, default_protocol_reason
from fmpair.experiment.cell import canonical
from fmpair.models.catalog import find
from fmpair.threads import check_process

# From the source of the events to the parts of every fold.


MARK = "__part"  # which given part an event is of, while filters are at work


@dataclass(frozen=True, eq=False)
class PreparedData:
    """What models are compared on: events and the split of every fold, with what names them.

    data, splits: before the filters that need a training part; late: these filters, in order.
    fingerprint: of the data and of what the late filters are. hashes: of the splits.
    """

    data: Dataset
    fingerprint: str
    splits: tuple[Split, ...]
    hashes: tuple[str, ...]
    late: tuple[Step, ...] = ()

    def fold(self, number: int) -> tuple[Dataset, Split]:
        """The events of a fold after all filters, and how they are split."""
        split = self.splits[number]
        if not self.late:
            return self.data, split
        part = np.empty(len(self.data), np.int8)
        for place, rows in enumerate((split.train, split.validation, split.test)):
            part[rows] = place
        data = self._filtered(_with_mark(self.data, part))
        part = data.columns[MARK].to_numpy()
        kept = Split(*(np.flatnonzero(part == place) for place in range(len(PARTS))))
        if not (len(kept.train) and len(kept.test)):
            raise DataError(
                f"the filter {self.late[0].kind} leaves nothing to train on or nothing to test on"
            )
        return replace(data, columns=data.columns.drop(MARK)), kept

    def whole(self) -> Dataset:
        """All events after all filters, as if all of them were for training."""
        return self._filtered(self.data)

    def _filtered(self, data: Dataset) -> Dataset:
        for step in self.late:
            options = dict(step.options)
            if needs_training(step) and MARK in data.columns.columns:
                options["training"] = data.columns[MARK].to_numpy() == PARTS.index("train")
            data = function_of("filter", step)(data, **options)
        return data


def prepare(source: Source, steps: Sequence[Step], split: Step) -> PreparedData:
    """The events read, filtered and split, all as the experiment says; a process does it once."""
    check_process()
    spec = canonical([asdict(source), [asdict(step) for step in steps], asdict(split)])
    return _prepared(spec, canonical([_stamp(Path(path)) for path in source_files(source)]))


def source_files(source: Source) -> list[str]:
    """The files or folders the events are read from, tables of attributes among them."""
    given = (source.options.get(name) for name in TABLES)
    tables = [table.get("path") if isinstance(table, dict) else table for table in given]
    named = [source.path, source.train, source.validation, source.test, *tables]
    found = [str(path) for path in named if isinstance(path, str | Path)]
    return [*found, str(public_sets.fetch(source.set))] if source.set else found


def files_of(path: Path) -> list[Path]:
    """The file itself, or the files of a folder in order of their names."""
    return sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]


@lru_cache(maxsize=1)
def _prepared(spec: str, stamp: str) -> PreparedData:
    """stamp: sizes and times of the files, so that changed ones are read again."""
    source, every, split = json.loads(spec)
    steps, late = by_place([Step(**step) for step in every])
    data = _read(Source(**source))
    for step in steps:
        data = function_of("filter", step)(data, **step.options)
    sizes = None
    if MARK in data.columns.columns:
        part = data.columns[MARK].to_numpy()
        sizes = [int(np.count_nonzero(part == number)) for number in range(len(PARTS))]
        data = replace(data, columns=data.columns.drop(MARK))
    splits = tuple(_splits(data, sizes, Step(**split)))
    name = fingerprint(data)
    if late:
        name = sha256(f"{name} {canonical([asdict(step) for step in late])}".encode()).hexdigest()
    return PreparedData(data, name, splits, tuple(one.hash for one in splits), tuple(late))


def _read(source: Source) -> Dataset:
    if source.generate is not None:
        from fmpair.data.synthetic import make

        return make(**source.generate).data
    if source.set is not None:
        return _public(source.set, source.options)
    if source.path is not None:
        return read(source.path, **source.options)
    return _given_files(source)


def _public(name: str, options: Any) -> Dataset:
    if public_sets.find(name).test is None:
        return public_sets.load(name, **options)
    train, test = public_sets.load_parts(name, **options)
    return _marked(public_sets.load(name, **options), {"train": len(train), "test": len(test)})


def _given_files(source: Source) -> Dataset:
    """The given parts one after the other, over shared vocabularies."""
    paths = {name: getattr(source, name) for name in PARTS if getattr(source, name) is not None}
    if not {"train", "test"} <= set(paths):
        raise OptionError("data needs one of path, set and generate, or both train and test")
    found = {name: read_contents(path, **source.options) for name, path in paths.items()}
    together = [contents.events for contents in found.values()]
    try:
        both = pl.concat(together, how="vertical_relaxed")
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"the given files do not have the same columns: {reason}") from error
    data = replace(found["train"], events=both).dataset()
    return _marked(data, {name: len(contents.events) for name, contents in found.items()})


def _marked(data: Dataset, sizes: dict[str, int]) -> Dataset:
    """With a column that says which part an event is of; filters take it along."""
    counts = [sizes.get(name, 0) for name in PARTS]
    return _with_mark(data, np.repeat(np.arange(len(PARTS), dtype=np.int8), counts))


def _with_mark(data: Dataset, part: np.ndarray) -> Dataset:
    """part: int8 [events], a place of PARTS."""
    mark = pl.Series(MARK, part)
    return replace(
        data, columns=data.columns.with_columns(mark) if data.columns.width else mark.to_frame()
    )


def _splits(data: Dataset, sizes: list[int] | None, step: Step) -> list[Split]:
    function, options = function_of("split", step), dict(step.options)
    if function is splitting.given and "parts" not in options:
        if sizes is None:
            raise OptionError(
                "split 'given' needs given parts: files train and test, or a public set that has "
                "its own; the filter merge_duplicates loses them"
            )
        options["parts"] = sizes
    found = function(data, **options)
    return found if isinstance(found, list) else [found]


def _stamp(path: Path) -> list[Any]:
    if not path.exists():
        return []  # the reader says what is missing
    files = files_of(path)
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]


# What an experiment leaves to its data.


LABEL = "full ranking"


def with_default_protocol(experiment: Experiment, data: Dataset) -> Experiment:
    """The experiment with a protocol, which the data choose where it has none."""
    if experiment.protocols:
        return experiment
    return replace(experiment, protocols={LABEL: default_protocol(data)})


def why(experiment: Experiment, data: Dataset) -> str:
    """The reason for what `settled` chooses; empty where the experiment says it all."""
    if experiment.protocols:
        return ""
    return f"protocol: {spelled(default_protocol_reason(data), in_file)}"


DEVICE = "device"


def located(experiment: Experiment) -> Experiment:
    """The experiment whose models are told where they learn, since results depend on it.

    A model that says so itself keeps to that; the CPU, which is usual, is not said.
    """
    device = settled(experiment.run.device)
    return replace(experiment, models=tuple(_located(m, device) for m in experiment.models))


def _located(model: Candidate, device: str) -> Candidate:
    given = model.options.get(DEVICE)
    if given is None and (device == CPU or DEVICE not in options_of(find(model.kind)).known):
        return model
    where = device if given is None else settled(str(given))
    options = {name: value for name, value in model.options.items() if name != DEVICE}
    return replace(model, options=options if where == CPU else {**options, DEVICE: where})
