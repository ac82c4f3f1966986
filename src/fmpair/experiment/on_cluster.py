"""Carrying out cells as tasks of a Ray cluster, which need nothing of this machine's disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from fmpair.cluster.failure import telling
from fmpair.cluster.tasks import each
from fmpair.experiment.cell import Cell
from fmpair.experiment.job_context import JobContext
from fmpair.experiment.pool import Execute
from fmpair.experiment.prepare import PreparedData
from fmpair.experiment.work import Outcome


def on_cluster(ray: Any) -> Execute:
    """An executor whose cells run on the machines of a cluster, a core each unless they say more.

    The prepared data lie in the object store; outcomes come back and are kept by this process. A
    cell whose machine is lost runs on another; one that is lost again and again gives None.
    """
    return partial(_by_tasks, ray, [])


def _by_tasks(
    ray: Any, stored: list[Any], work: JobContext, cells: Iterable[Cell]
) -> Iterator[tuple[Cell, dict[str, Any] | None]]:
    """stored: the ref of the prepared data, once they lie there."""
    with telling():
        if not stored:
            stored.append(ray.put(work.bench()))
        for cell, outcome in each(ray, _outcome, (work, stored[0]), cells, work.threads or 1):
            yield cell, None if outcome is None else work.keep(cell, outcome)


def _outcome(work: JobContext, bench: PreparedData, cell: Cell) -> Outcome:
    found = work.outcome(bench, cell)
    return found if work.keep_models else replace(found, model=None)  # which would only travel
