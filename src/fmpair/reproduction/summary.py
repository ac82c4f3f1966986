"""What is kept of a run: its tables, times and curves, without single units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from fmpair.config.experiment import Experiment
from fmpair.experiment.results import Results
from fmpair.report.comparison import Table, comparison


@dataclass(frozen=True, eq=False)
class Summary:
    """tables: a comparison per protocol, the main one first; the rest as in Results."""

    experiment: Experiment
    tables: Mapping[str, Table]
    cells: pl.DataFrame
    curves: pl.DataFrame
    manifest: Mapping[str, Any]

    @property
    def models(self) -> list[str]:
        return [model.name for model in self.experiment.models]

    def row(self, model: str, metric: str, label: str | None = None) -> dict[str, Any] | None:
        """The row of a table that a model has; label: of the protocol, by default the main one."""
        chosen = label or next(iter(self.tables))
        if chosen not in self.tables:
            return None
        name = self.experiment.protocols[chosen].name(metric)
        return next((r for r in self.tables[chosen].of(name) if r["model"] == model), None)

    def epoch_seconds(self) -> pl.DataFrame:
        """(model, fold, seed, seconds): the fastest epoch of each fit.

        Whatever else a machine does only adds. The first epoch is left out: what must be compiled
        is compiled there.
        """
        keys = ["model", "fold", "seed"]
        each = self.curves.filter(pl.col("metric").is_null()).sort(*keys, "epoch")
        each = each.with_columns(pl.col("seconds").diff().over(keys).alias("seconds"))
        return each.group_by(keys, maintain_order=True).agg(pl.col("seconds").min())


def summary(results: Results) -> Summary:
    """The tables of a run, with their tests."""
    tables = {label: comparison(results, label) for label in results.experiment.protocols}
    return Summary(results.experiment, tables, results.cells, results.curves, results.manifest)
