"""Steps recorded once as a CUDA graph and played again, so that their launches cost nothing."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from fmpair.capacity import memory
from fmpair.engine.contract import Parameters, Problem, Settings
from fmpair.engine.torch.events import Batch
from fmpair.errors import OptionError, named

# What training takes of a device's memory, told before it is taken; chunks that fit.


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


WARM = 3  # steps that are taken one by one before one is recorded


class Replay:
    """A step, played where minibatches are alike in size, and taken one by one where they are not.

    step: moves the tables, and adds its loss to a total of its own. What it reads must stay in its
    place between epochs. generator: of the draws within it. shapes, size: of what is recorded, or
    is to be after some steps; one that grows is recorded anew.
    """

    def __init__(
        self, step: Callable[[Batch], None], generator: torch.Generator, device: torch.device
    ):
        self.step, self.generator = step, generator
        self.graph: torch.cuda.CUDAGraph | None = None
        self.given: list[torch.Tensor] = []
        self.shapes: list[torch.Size] = []
        self.size, self.warm, self.able = 0, 0, device.type == "cuda"

    def __call__(self, batch: Batch) -> None:
        tensors = _tensors(batch)
        shapes = [tensor.shape for tensor in tensors]
        if not self.able:
            self.step(batch)
        elif batch.size < self.size:  # the last of an epoch
            _apart(lambda: self.step(batch))
        elif self.graph is not None and shapes == self.shapes:
            for own, new in zip(self.given, tensors):
                own.copy_(new)
            self.graph.replay()
        else:
            self._prepare(batch, shapes)

    def _prepare(self, batch: Batch, shapes: list[torch.Size]) -> None:
        """Take a step that is not recorded yet; after some of these sizes, record it."""
        if shapes != self.shapes:
            self.shapes, self.size, self.warm, self.graph = shapes, batch.size, 0, None
        if self.warm < WARM:
            self.warm += 1
            _apart(lambda: self.step(batch))
        else:
            self._record(batch)

    def _record(self, batch: Batch) -> None:
        """Record the step of a minibatch, and take it."""
        self.given = [tensor.clone() for tensor in _tensors(batch)]
        own = _with_tensors(batch, self.given)
        graph = torch.cuda.CUDAGraph()
        try:
            graph.register_generator_state(self.generator)
            with _nothing_collected(), torch.cuda.graph(graph):
                self.step(own)
        except RuntimeError as error:  # a part that cannot be recorded
            LOG.info("steps are taken one by one: %s", str(error).splitlines()[0])
            torch.cuda.synchronize()
            self.able = False
            self.step(batch)
            return
        self.graph = graph
        graph.replay()


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """No garbage is collected meanwhile: an older graph among it would end the recording."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _apart(step: Callable[[], None]) -> None:
    """Take a step on a stream of its own, as recording will."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)


def _tensors(batch: Batch) -> list[torch.Tensor]:
    chosen = batch.chosen
    return [
        batch.user,
        batch.situation,
        batch.event,
        chosen.row,
        chosen.item,
        chosen.weight,
        chosen.start,
    ]


def _with_tensors(batch: Batch, tensors: list[torch.Tensor]) -> Batch:
    chosen = batch.chosen._replace(**dict(zip(("row", "item", "weight", "start"), tensors[3:])))
    return Batch(tensors[0], tensors[1], tensors[2], chosen)
