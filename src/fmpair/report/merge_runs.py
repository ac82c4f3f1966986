"""Merge runs with the same data, split and protocols, to compare their models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from fmpair.errors import DataError
from fmpair.experiment.results import Results

HASH_SHOWN = 16  # characters


def merged(runs: Mapping[str, Results]) -> Results:
    """Merge runs, given by name: all models, under the protocols that all runs have.

    The comparison options are those of the first run. A model name that two runs have is followed
    by the run's name. Views, curves, trials and field effects are dropped.
    """
    if len(runs) < 2:
        raise DataError("comparing needs at least two runs")
    each = list(runs.values())
    _check(runs)
    ids = _common_protocols(each)
    first = each[0].experiment
    names = _names(runs)
    parts = [_renamed(run, new_names, ids) for run, new_names in zip(each, names)]
    metrics = [m for m in first.metrics if all(m in run.experiment.metrics for run in each)]
    if not metrics:
        raise DataError("the runs have no metric in common")
    models = tuple(model for part in parts for model in part.experiment.models)
    shared = {label: first.protocols[label] for label in ids.values()}
    options = first.compare
    metric = options.metric if options.metric in metrics else metrics[0]
    baseline = names[0].get(options.baseline) if options.baseline else None
    return replace(
        each[0],
        experiment=replace(
            first,
            name=" and ".join(runs),
            models=models,
            protocols=shared,
            metrics=tuple(metrics),
            compare=replace(options, metric=metric, baseline=baseline),
            ablations=(),
        ),
        cells=pl.concat([part.cells for part in parts]),
        values=pl.concat([part.values for part in parts]),
        units={
            label: pl.concat(  # a metric that only some runs have is null in the others
                [part.units[label] for part in parts if label in part.units], how="diagonal_relaxed"
            )
            for label in shared
        },
        views=each[0].views.clear(),
        curves=each[0].curves.clear(),
        trials=each[0].trials.clear(),
    )


def _check(runs: Mapping[str, Results]) -> None:
    """Raise DataError if data, split or protocols differ, naming what differs."""
    (first, known), *others = runs.items()
    for name, other in others:
        differ = []
        for part, field in (("data", "fingerprint"), ("split", "hash")):
            a, b = (_fingerprint(run, part, field) for run in (known, other))
            differ += [f"{part} {field} ({a} and {b})"] if a != b else []
        if not _common_protocols([known, other]):
            ids = [
                ", ".join(p.id for p in run.experiment.protocols.values()) for run in (known, other)
            ]
            differ.append(f"protocol id ({ids[0]} and {ids[1]})")
        if differ:
            raise DataError(f"cannot compare {first} and {name}: different {'; '.join(differ)}")


def _fingerprint(run: Results, part: str, name: str) -> str:
    value = run.manifest.get(part, {}).get(name)
    if not value:
        raise DataError(f"the manifest of {run.experiment.name} has no {part} {name}")
    return str(value)[:HASH_SHOWN]


def _common_protocols(runs: Sequence[Results]) -> dict[str, str]:
    """{protocol id: its label in the first run} of the protocols that all runs have."""
    first, *others = [
        {protocol.id: label for label, protocol in run.experiment.protocols.items()} for run in runs
    ]
    return {id: label for id, label in first.items() if all(id in other for other in others)}


def _names(runs: Mapping[str, Results]) -> list[dict[str, str]]:
    """For each run {model name: its name in the merged run}.

    Equal cells, such as those of a common baseline, are kept in the first run only.
    """
    known: set[frozenset[str]] = set()
    names_by_run: list[list[str]] = []
    for run in runs.values():
        names_by_run.append([])
        for model in run.experiment.models:
            cells = frozenset(run.cells.filter(pl.col("model") == model.name)["cell"])
            if cells not in known or not cells:
                known.add(cells)
                names_by_run[-1].append(model.name)
    every = [name for names in names_by_run for name in names]
    return [
        {name: name if every.count(name) == 1 else f"{name} ({run})" for name in names}
        for run, names in zip(runs, names_by_run)
    ]


def _renamed(run: Results, names: Mapping[str, str], labels: Mapping[str, str]) -> Results:
    """Rename models and protocols; drop protocols that are not in `labels`."""
    renamed_labels = {
        label: labels[protocol.id]
        for label, protocol in run.experiment.protocols.items()
        if protocol.id in labels
    }
    new_name = pl.col("model").replace_strict(names, return_dtype=pl.String)
    is_merged = pl.col("model").is_in(list(names))
    protocol = pl.col("protocol").replace_strict(renamed_labels, return_dtype=pl.String)
    # Runs that share a cell share its hash; merged rows need distinct ones.
    cell = pl.concat_str([new_name, pl.col("cell")], separator="/")
    values = run.values.filter(is_merged, pl.col("protocol").is_in(list(renamed_labels)))
    models = tuple(
        replace(model, name=names[model.name])
        for model in run.experiment.models
        if model.name in names
    )
    return replace(
        run,
        experiment=replace(run.experiment, models=models),
        cells=run.cells.filter(is_merged).with_columns(new_name, cell.alias("cell")),
        values=values.with_columns(new_name, protocol, cell.alias("cell")),
        units={
            renamed_labels[label]: frame.filter(is_merged).with_columns(new_name)
            for label, frame in run.units.items()
            if label in renamed_labels
        },
    )
