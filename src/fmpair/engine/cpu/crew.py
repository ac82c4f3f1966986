"""Threads that stay in compiled code from one epoch of plain pairs to the next.

An epoch of a small set takes a few milliseconds; to start sixteen threads from the interpreter
takes one or two of them, since each needs the interpreter's lock in turn.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from math import fsum

import numpy as np

from fmpair.engine.cpu.dealing import Dealer
from fmpair.engine.cpu.epoch import pair_epochs, plan_for, run_part
from fmpair.engine.cpu.flow import LEFT, call, finished, flow_for
from fmpair.engine.cpu.rounds import Part
from fmpair.engine.cpu.state import State
from fmpair.engine.cpu.worker import step_of, workers
from fmpair.rng import streams

LEAST_PAUSE, MOST_PAUSE = 5e-5, 0.05  # seconds between two looks whether an epoch is done
SHARE = 0.01  # of the time that it has taken so far: who looks more often takes time from threads
SURE = 0.9  # of the time that the quickest epoch so far took: not done sooner


class Crew:
    """The threads of one layout, whose arrays all epochs change in place.

    epochs: how many they were called to; took: the seconds of the quickest. parts: each one's work
    from an epoch on, as a function of that epoch. ahead: the next epoch, and its streams.
    """

    def __init__(self, state: State, pool: ThreadPoolExecutor):
        self.layout, self.settings, self.pool = state.layout, state.settings, pool
        self.epochs, self.took, self.running = 0, 0.0, set[Future[None]]()
        self.plan, self.rates = plan_for(state, 0), np.array(step_of(state.settings, 0))
        threads = workers(state.settings)
        self.flow = flow_for(state.settings.blocks, threads, LEFT)
        self.missing = np.zeros(threads, np.uint8)
        self.ahead = (0, self.plan.state)
        part = pair_epochs(state, self.plan, self.flow, self.rates)
        self.parts = [part(Part(n, threads)) for n in range(threads)]

    def epoch(self, number: int, rate: float, dealer: Dealer | None) -> tuple[float, int]:
        """One epoch: (sum of losses, steps). dealer: who looks ahead while threads work."""
        self.plan.state[:] = self._streams(number)
        self.rates[:] = step_of(self.settings, rate)
        self.epochs += 1
        call(self.flow, self.epochs, self.missing)
        if self.missing.any():
            self._start(np.flatnonzero(self.missing))
        try:
            self.ahead = (number + 1, self._streams(number + 1))
            if dealer is not None:
                dealer.look_ahead(number)
            self._await()
        except BaseException:
            self.dismiss()
            raise
        return fsum(self.plan.loss.tolist()), int(self.plan.steps.sum())

    def _streams(self, number: int) -> np.ndarray:
        """Of an epoch's cells, which are made while the threads are at the one before."""
        if self.ahead[0] == number:
            return self.ahead[1]
        return streams(len(self.plan.state), self.settings.seed, number)

    def _start(self, missing: np.ndarray) -> None:
        """Those threads that are not there."""
        self.running = {future for future in self.running if not future.done()}
        for n in missing:
            part = partial(self.parts[n], self.epochs)
            self.running.add(self.pool.submit(run_part, part, self.flow.stopped))

    def _await(self) -> None:
        """Until all threads have done the epoch; an interrupt comes here."""
        began, took, wanted = time.perf_counter(), 0.0, self.epochs * len(self.parts)
        while finished(self.flow) < wanted:
            if self.flow.stopped[0]:
                for future in self.running:
                    future.result()  # one of them says why
                return
            took = time.perf_counter() - began
            pause = max(SHARE * took, SURE * self.took - took, LEAST_PAUSE)
            time.sleep(min(pause, MOST_PAUSE))
        self.took = min(took, self.took or took)  # some make a partition too

    def dismiss(self) -> None:
        """End all threads' work; they stop within an epoch."""
        self.flow.stopped[0] = 1
        wait(self.running)

