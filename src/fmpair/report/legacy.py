"""WrapRec's result file: its columns and units, for scripts that read them."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from fmpair.experiment.results import Results
from fmpair.metrics.metric import Metric

# Spelled as WrapRec spells them; times are whole milliseconds.
HEAD = (
    "ExpeimentId",
    "ModelId",
    "SplitId",
    "ContainerId",
    "AllowDuplicates",
    "CurrentIter",
    "EpochTime",
)
TIMES = (
    "TrainTime",
    "EvaluationTime",
    "PureTrainTime",
    "PureEvaluationTime",
    "TotalTime",
    "PureTotalTime",
)
TAIL = ("TestedCases", "CandidatesMode", "NumCandidates", "CutOff")
MEASURES = {
    "precision": "Precision",
    "recall": "Recall",
    "map": "MAP",
    "mrr": "MRR",
    "ndcg": "NDCG",
    "rmse": "RMSE",
    "mae": "MAE",
    "auc": "AUC",
    "hit": "Hit",
    "coverage": "%Coverage",
}


def wraprec_results(results: Results) -> pl.DataFrame:
    """One row per repeat, protocol and cut-off; columns of parameters are those of all models.

    WrapRec writes a new header whenever the model changes; here one header has them all.
    """
    good = {row["cell"]: row for row in results.cells.to_dicts() if row["error"] is None}
    values: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in results.values.to_dicts():
        metric = Metric.parse(row["metric"].partition("[")[0])
        key = (row["cell"], row["protocol"], metric.cutoff)
        factor = 100 if metric.name == "coverage" else 1
        if metric.name in MEASURES and row["cell"] in good:
            values.setdefault(key, {})[MEASURES[metric.name]] = factor * row["value"]
    options = {cell: json.loads(row["options"] or "{}") for cell, row in good.items()}
    names = list(dict.fromkeys(name for found in options.values() for name in found))
    measures = [name for name in MEASURES.values() if any(name in row for row in values.values())]
    columns = [*HEAD, *names, *TIMES, *TAIL, *measures, "EvalMethod"]
    rows = [
        _head(results, good[cell])
        | {name: _text(options[cell].get(name)) for name in names}
        | _times(good[cell])
        | _tail(results, good[cell], label, cutoff)
        | found
        for (cell, label, cutoff), found in values.items()
    ]
    return pl.DataFrame(
        [{name: row.get(name) for name in columns} for row in rows],
        schema={name: pl.Float64 if name in measures else pl.String for name in columns},
        strict=False,
    )


def _head(results: Results, cell: dict[str, Any]) -> dict[str, Any]:
    source = results.experiment.data
    container = source.set or source.path or source.train or "generated"
    filters = [step.kind.replace("-", "_") for step in results.experiment.filters]
    values = (
        results.experiment.name,
        cell["model"],
        f"fold{cell['fold']}-seed{cell['seed']}",
        container.rsplit("/", 1)[-1],
        str("merge_duplicates" not in filters),
        _text(cell["epochs"]),
        _milliseconds(cell["epoch_seconds"]),
    )
    return dict(zip(HEAD, values))


def _times(cell: dict[str, Any]) -> dict[str, Any]:
    """WrapRec's pure times leave out the reading, which is not in ours to begin with."""
    train, judge = cell["train_seconds"], cell["judge_seconds"]
    total = None if train is None or judge is None else train + judge
    found = [_milliseconds(value) for value in (train, judge, train, judge, total, total)]
    return dict(zip(TIMES, found))


def _tail(results: Results, cell: dict[str, Any], label: str, cutoff: int) -> dict[str, Any]:
    protocol = results.experiment.protocols[label]
    units = results.units.get(label)
    tested = None
    if units is not None:
        same = (pl.col(name) == cell[name] for name in ("model", "fold", "seed"))
        tested = len(units.filter(*same))
    modes = {"all": "UNION", "file": "EXPLICIT"}
    return {
        "TestedCases": _text(tested),
        "CandidatesMode": modes.get(protocol.candidates, "TRAINING"),
        "NumCandidates": str(protocol.n) if protocol.drawn else "max",
        "CutOff": str(cutoff) if cutoff else None,
        "EvalMethod": "OPR" if protocol.unit == "interaction" else "UserBased",
    }


def _milliseconds(value: float | None) -> str | None:
    return None if value is None else str(round(1000 * value))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
