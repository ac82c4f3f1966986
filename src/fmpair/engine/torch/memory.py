"""What training takes of a device's memory, told before it is taken; chunks that fit."""

from __future__ import annotations

import logging
from typing import NamedTuple

import torch

from fmpair.capacity import memory
from fmpair.engine.contract import Parameters, Problem, Settings
from fmpair.errors import OptionError, named

LOG = logging.getLogger("fmpair")
SHARE = 0.9  # of the free memory, what is taken at most
COPIES = 5  # of every table: itself, its slopes, two of the optimizer, the last epoch's
SIDE = 10  # bytes of a folded item's number: its slope, itself, and itself in short
EVENT = 96  # bytes of an event on the device, those of ordering it included
EVENTS_SHARE = 0.25  # of the memory, above which events stay beside the device
LEAST_ROWS = 32  # of scores at once, below which nothing is quick any more
MOST_BYTES = 8 << 30  # of scores at once: more is no quicker


class Plan(NamedTuple):
    """rows_at_once: rows of scores that are held, whole: whether that is all of a minibatch's.

    beside: whether events stay in main memory.
    """

    rows_at_once: int
    whole: bool
    beside: bool


def free_memory(device: torch.device) -> int:
    """Bytes that may be taken of a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return memory()


def plan_of(
    problem: Problem,
    parameters: Parameters,
    settings: Settings,
    batch: int,
    device: torch.device,
) -> Plan:
    """How training fits into the memory; OptionError where it does not."""
    free = int(SHARE * free_memory(device))
    factors = parameters.users.shape[1]
    tables = 4 * COPIES * sum(table.size for table in parameters)
    tables += SIDE * problem.items * factors
    beside = EVENT * len(problem.user) > EVENTS_SHARE * free
    events = 0 if beside else EVENT * len(problem.user)
    columns = problem.items if settings.all_items else settings.n_negatives * (factors + 8)
    row = (4 if device.type == "cuda" else 8) * columns + 16 * factors
    left = min(free - tables - events, MOST_BYTES)
    rows = min(left // row, batch)
    if rows < min(LEAST_ROWS, batch):
        needed = tables + events + LEAST_ROWS * row
        rows_told = sum(len(table) for table in parameters if table.ndim == 2)
        raise OptionError(
            f"training on {device.type} needs {needed / 2**30:,.1f} GB for {rows_told:,} vectors "
            f"of {factors:,} factors and {problem.items:,} items, and {free / 2**30:,.1f} GB of "
            f"its memory are free: lower {named('factors')}, or use {named('device', 'cpu')}"
        )
    needed = tables + events + rows * row
    LOG.info(
        "%s: %.1f of %.1f GB that are free; %d rows of scores at once%s",
        device.type,
        needed / 2**30,
        free / 2**30,
        rows,
        ", events stay in main memory" if beside else "",
    )
    return Plan(int(rows), rows >= batch, beside)
