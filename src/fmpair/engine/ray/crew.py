"""The worker processes of a training: started where the cluster has room, ended together."""

from __future__ import annotations

from typing import Any

from fmpair.cluster.connection import cores
from fmpair.engine.ray.part import rows_of
from fmpair.engine.ray.worker import Worker
from fmpair.errors import MachineError

FIRST = 120.0  # seconds until one process must have started
OTHERS = 20.0  # seconds that the others have after it; a machine may just have gone away


class Crew:
    """Worker processes; most: how many there may be, None for as many as there are cores."""

    def __init__(self, ray: Any, blocks: int, most: int | None = None) -> None:
        self.ray, self.blocks, self.most = ray, blocks, most
        self.workers: list[Any] = []

    @property
    def rows(self) -> list[range]:
        """The user blocks of each worker."""
        count = len(self.workers)
        return [rows_of(self.blocks, (number, count)) for number in range(count)]

    def start(self) -> None:
        """Start as many as there are cores, or user blocks."""
        ray, free = self.ray, cores(self.ray)
        kind = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(Worker)
        made = [kind.remote() for _ in range(min(self.blocks, self.most or free, free))]
        asked = {worker.ready.remote(): worker for worker in made}
        done, _ = ray.wait(list(asked), num_returns=1, timeout=FIRST)
        if done:
            done, _ = ray.wait(list(asked), num_returns=len(asked), timeout=OTHERS)
        self.workers = [asked[ref] for ref in asked if ref in done and self._began(ref)]
        for worker in made:
            if worker not in self.workers:
                ray.kill(worker)
        if not self.workers:
            raise MachineError(
                f"no process was started on the Ray cluster within {FIRST:.0f} seconds: its {free} "
                "cores are all at work; try again later, or add machines"
            )

    def _began(self, ref: Any) -> bool:
        try:
            return self.ray.get(ref)
        except self.ray.exceptions.RayActorError:
            return False

    def all(self, method: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        """Call a method of each worker with its own arguments, and wait; the answers."""
        calls = [
            getattr(worker, method).remote(*own) for worker, own in zip(self.workers, arguments)
        ]
        return self.ray.get(calls)

    def dismiss(self) -> None:
        """End all of them, whatever they do."""
        for worker in self.workers:
            self.ray.kill(worker)
        self.workers = []
