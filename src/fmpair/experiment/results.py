"""The results of a run: all that a report needs, as frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from fmpair.config.experiment import Experiment


@dataclass(frozen=True, eq=False)
class Results:
    """The tables of one run; fold and seed number a model's repeats.

    cells: one row per model, fold and seed: cell (its hash), model, options (JSON), fold, seed,
        error (null: it went well), train_seconds, judge_seconds, epoch_seconds (mean, null where
        there are no epochs), epochs, peak_mb.
    values: (cell, model, fold, seed, protocol, metric, value, corrected, coverage); protocol is the
        key of experiment.protocols, metric as `Protocol.name` writes it; corrected may be null.
    views: (model, fold, seed, protocol, view, group, units, metric, value).
    curves: (model, fold, seed, epoch, seconds, loss, part, metric, value); metric null: loss only.
    trials: (model, fold, trial, options (JSON), metric, value, seconds, error) of tuning.
    units: by protocol a frame (model, fold, seed, unit, row, user, item, one column per metric).
    manifest: provenance: see `experiment.manifest`.
    """

    experiment: Experiment
    cells: pl.DataFrame
    values: pl.DataFrame
    views: pl.DataFrame
    curves: pl.DataFrame
    trials: pl.DataFrame
    units: Mapping[str, pl.DataFrame]
    manifest: Mapping[str, Any]
