"""Steps recorded once as a CUDA graph and played again, so that their launches cost nothing."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from fmpair.engine.torch.events import Batch

LOG = logging.getLogger("fmpair")
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
