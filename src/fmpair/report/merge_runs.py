"""Models of several runs in one table, where data, split and protocol are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from fmpair.errors import DataError
from fmpair.experiment.results import Results

HASH_SHOWN = 16  # letters


def merged(runs: Mapping[str, Results]) -> Results:
    """The runs, by name, as one: their models side by side under the protocols all of them have.

    How to compare is as in the first run. A model's name that two runs have gets the run's name.
    Nothing else of the runs is kept: no views, curves, trials or tables of fields.
    """
    if len(runs) < 2:
        raise DataError("name two runs or more to compare")
    found = list(runs.values())
    _check(runs)
    ids = _common_protocols(found)
    first = found[0].experiment
    names = _names(runs)
    parts = [_renamed(run, own, ids) for run, own in zip(found, names)]
    metrics = [m for m in first.metrics if all(m in run.experiment.metrics for run in found)]
    if not metrics:
        raise DataError("the runs have no metric in common")
    models = tuple(model for part in parts for model in part.experiment.models)
    kept = {label: first.protocols[label] for label in ids.values()}
    chosen = first.compare
    metric = chosen.metric if chosen.metric in metrics else metrics[0]
    baseline = names[0].get(chosen.baseline) if chosen.baseline else None
    return replace(
        found[0],
        experiment=replace(
            first,
            name=" and ".join(runs),
            models=models,
            protocols=kept,
            metrics=tuple(metrics),
            compare=replace(chosen, metric=metric, baseline=baseline),
            ablations=(),
        ),
        cells=pl.concat([part.cells for part in parts]),
        values=pl.concat([part.values for part in parts]),
        units={
            label: _units([part.units[label] for part in parts if label in part.units])
            for label in kept
        },
        views=found[0].views.clear(),
        curves=found[0].curves.clear(),
        trials=found[0].trials.clear(),
    )


def _check(runs: Mapping[str, Results]) -> None:
    """Refuse runs with other data, splits or protocols, in one line that says what differs."""
    (first, known), *others = runs.items()
    for name, other in others:
        pairs = {
            "data fingerprint": [_told(run, "data", "fingerprint") for run in (known, other)],
            "split hash": [_told(run, "split", "hash") for run in (known, other)],
        }
        differ = [f"{what} ({a} and {b})" for what, (a, b) in pairs.items() if a != b]
        if not _common_protocols([known, other]):
            ids = [
                ", ".join(p.id for p in run.experiment.protocols.values()) for run in (known, other)
            ]
            differ.append(f"protocol id ({ids[0]} and {ids[1]})")
        if differ:
            raise DataError(
                f"{first} and {name} cannot share a table, for these differ: {'; '.join(differ)}"
            )


def _told(run: Results, part: str, name: str) -> str:
    found = run.manifest.get(part, {}).get(name)
    if not found:
        raise DataError(f"the manifest of {run.experiment.name} lacks the {part}'s {name}")
    return str(found)[:HASH_SHOWN]


def _common_protocols(runs: Sequence[Results]) -> dict[str, str]:
    """{protocol id: its label in the first run} of those that every run has."""
    first, *others = [
        {protocol.id: label for label, protocol in run.experiment.protocols.items()} for run in runs
    ]
    return {id: label for id, label in first.items() if all(id in other for other in others)}


def _names(runs: Mapping[str, Results]) -> list[dict[str, str]]:
    """For each run {a model's name: its name in the table}.

    The very same cells, as of a baseline that all runs have, stand there once: in the first run.
    """
    same: dict[frozenset[str], str] = {}
    own: list[list[str]] = []
    for run in runs.values():
        own.append([])
        for model in run.experiment.models:
            cells = frozenset(run.cells.filter(pl.col("model") == model.name)["cell"])
            if cells not in same or not cells:
                same[cells] = model.name
                own[-1].append(model.name)
    every = [name for names in own for name in names]
    return [
        {name: name if every.count(name) == 1 else f"{name} ({run})" for name in names}
        for run, names in zip(runs, own)
    ]


def _renamed(run: Results, names: Mapping[str, str], labels: Mapping[str, str]) -> Results:
    """The run under the names of the table, less the protocols that are not in `labels`."""
    own = {
        label: labels[protocol.id]
        for label, protocol in run.experiment.protocols.items()
        if protocol.id in labels
    }
    model = pl.col("model").replace_strict(names, return_dtype=pl.String)
    models = [one for one in run.experiment.models if one.name in names]
    ours = pl.col("model").is_in(list(names))
    protocol = pl.col("protocol").replace_strict(own, return_dtype=pl.String)
    # Runs that share a cell share its hash; here each row needs its own.
    cell = pl.concat_str([model, pl.col("cell")], separator="/")
    values = run.values.filter(ours, pl.col("protocol").is_in(list(own)))
    renamed = tuple(replace(one, name=names[one.name]) for one in models)
    return replace(
        run,
        experiment=replace(run.experiment, models=renamed),
        cells=run.cells.filter(ours).with_columns(model, cell.alias("cell")),
        values=values.with_columns(model, protocol, cell.alias("cell")),
        units={
            own[label]: frame.filter(ours).with_columns(model)
            for label, frame in run.units.items()
            if label in own
        },
    )


def _units(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """One below the other; a metric that not all have is null where it is missing."""
    return pl.concat(frames, how="diagonal_relaxed")
