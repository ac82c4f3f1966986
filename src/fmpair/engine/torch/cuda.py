"""Device resources: a memory plan made before training, and steps replayed as CUDA graphs."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from fmpair.checks import memory
from fmpair.engine.contract import Parameters, Problem, Settings
from fmpair.engine.torch.events import BLOCK, BLOCK_EVENT, Minibatch, event_bytes
from fmpair.errors import OptionError, named

LOG = logging.getLogger("fmpair")
SHARE = 0.9  # largest share of the free memory to use
COPIES = 5  # of every table: values, gradients, two optimizer states, the last epoch's values
SIDE = 10  # bytes per number of an item vector: gradient, float32 and bfloat16
EVENTS_SHARE = 0.25  # of the memory, for events; if they are larger, they stay in main memory
MIN_ROWS = 32  # rows of scores at once; fewer are too slow
MAX_BYTES = 8 << 30  # of scores at once; more is no faster
WARM = 3  # plain steps before one is recorded


class MemoryPlan(NamedTuple):
    """How training fits into memory.

    rows_at_once: rows of scores held at once. whole: whether that covers a whole minibatch.
    in_main_memory: whether events stay in main memory. block: events prepared at a time.
    """

    rows_at_once: int
    whole: bool
    in_main_memory: bool
    block: int


def free_memory(device: torch.device) -> int:
    """Return the free bytes of a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return memory()


def plan_of(
    problem: Problem,
    parameters: Parameters,
    settings: Settings,
    batch: int,
    device: torch.device,
) -> MemoryPlan:
    """Plan the memory of training; raise OptionError if it does not fit."""
    free = int(SHARE * free_memory(device))
    factors = parameters.users.shape[1]
    tables = 4 * COPIES * sum(table.size for table in parameters)
    tables += SIDE * problem.items * factors
    stored, block = event_bytes(problem), BLOCK
    while block > batch and BLOCK_EVENT * block > EVENTS_SHARE * free:
        block //= 2
    events = BLOCK_EVENT * min(len(problem.user), block)
    in_main_memory = stored > EVENTS_SHARE * free
    events += 0 if in_main_memory else stored
    columns = problem.items if settings.all_items else settings.n_negatives
    columns *= 1 if settings.loss == "softmax" else factors + 8
    row = (4 if device.type == "cuda" else 8) * columns + 16 * factors
    left = min(free - tables - events, MAX_BYTES)
    rows = min(left // row, batch)
    if rows < min(MIN_ROWS, batch):
        needed = tables + events + MIN_ROWS * row
        vectors = sum(len(table) for table in parameters if table.ndim == 2)
        raise OptionError(
            f"training on {device.type} needs {needed / 2**30:,.1f} GB for {vectors:,} vectors of "
            f"{factors:,} factors and {problem.items:,} items, but only {free / 2**30:,.1f} GB are "
            f"free: lower {named('factors')}, or use {named('device', 'cpu')}"
        )
    needed = tables + events + rows * row
    LOG.info(
        "%s: using %.1f of %.1f GB free; %d rows of scores at once%s",
        device.type,
        needed / 2**30,
        free / 2**30,
        rows,
        ", events stay in main memory" if in_main_memory else "",
    )
    return MemoryPlan(int(rows), rows >= batch, in_main_memory, block)


class Replay:
    """A training step, recorded as a CUDA graph once minibatches repeat their shapes.

    step: updates the tables and adds its loss to a running total; the tensors it reads must keep
    their addresses between epochs. generator: used by the step. A larger minibatch is recorded
    again; a smaller one (the last of an epoch) runs without the graph.
    """

    def __init__(
        self, step: Callable[[Minibatch], None], generator: torch.Generator, device: torch.device
    ):
        self.step, self.generator = step, generator
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: list[torch.Tensor] = []
        self.shapes: list[torch.Size] = []
        self.size, self.warm, self.able = 0, 0, device.type == "cuda"

    def __call__(self, batch: Minibatch) -> None:
        tensors = _tensors(batch)
        shapes = [tensor.shape for tensor in tensors]
        if not self.able:
            self.step(batch)
        elif batch.size < self.size:  # the last of an epoch
            _on_own_stream(lambda: self.step(batch))
        elif self.graph is not None and shapes == self.shapes:
            for recorded, new in zip(self.inputs, tensors):
                recorded.copy_(new)
            self.graph.replay()
        else:
            self._prepare(batch, shapes)

    def _prepare(self, batch: Minibatch, shapes: list[torch.Size]) -> None:
        """Run a step that is not recorded yet; record it after WARM steps of the same shapes."""
        if shapes != self.shapes:
            self.shapes, self.size, self.warm, self.graph = shapes, batch.size, 0, None
        if self.warm < WARM:
            self.warm += 1
            _on_own_stream(lambda: self.step(batch))
        else:
            self._record(batch)

    def _record(self, batch: Minibatch) -> None:
        """Record the step of a minibatch and run it."""
        self.inputs = [tensor.clone() for tensor in _tensors(batch)]
        recorded = _with_tensors(batch, self.inputs)
        graph = torch.cuda.CUDAGraph()
        try:
            graph.register_generator_state(self.generator)
            # thread_local: another thread may copy events while this one records
            recording = torch.cuda.graph(graph, capture_error_mode="thread_local")
            with _no_garbage_collection(), recording:
                self.step(recorded)
        except RuntimeError as error:  # an operation that cannot be recorded
            LOG.info("training without CUDA graphs: %s", str(error).splitlines()[0])
            torch.cuda.synchronize()
            self.able = False
            self.step(batch)
            return
        # Recording resets the offset of random numbers on its own stream, and a replay sets it on
        # this one. Without waiting, a busy GPU may do it in the wrong order.
        torch.cuda.synchronize()
        self.graph = graph
        graph.replay()


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Pause garbage collection: freeing an older graph would abort the recording."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _on_own_stream(step: Callable[[], None]) -> None:
    """Run a step on a separate stream, as recording does."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)


def _tensors(batch: Minibatch) -> list[torch.Tensor]:
    c = batch.chosen
    return [batch.user, batch.situation, batch.event, c.row, c.item, c.weight, c.start]


def _with_tensors(batch: Minibatch, tensors: list[torch.Tensor]) -> Minibatch:
    chosen = batch.chosen._replace(**dict(zip(("row", "item", "weight", "start"), tensors[3:])))
    return Minibatch(tensors[0], tensors[1], tensors[2], chosen)
