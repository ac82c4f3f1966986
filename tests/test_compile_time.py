"""Compiling is not counted as learning."""

import gc

import numpy as np
import pytest

from fmpair import FMPair, jit
from fmpair.kernel_cache import CLOCK, Clock, compiling
from fmpair.testing import day_and_night
from fmpair.training.epochs import epochs


def test_a_clock_stands_still_while_it_is_stopped_also_within():
    clock = Clock()
    clock.stop()
    first = clock.now()
    clock.stop()
    clock.go_on()
    assert clock.now() == first and clock.depth == 1
    clock.go_on()
    assert clock.now() >= first and clock.spent > 0


def test_what_is_compiled_stops_the_clock():
    before = CLOCK.spent

    @jit.kernel
    def tripled(values):
        return values * 3

    assert tripled(np.arange(3)).tolist() == [0, 3, 6]
    assert CLOCK.spent > before and CLOCK.depth == 0


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_not_searched_for_while_kernels_are_compiled(enabled, monkeypatch):
    monkeypatch.setattr(jit.OnDisk, "load_overload", lambda *_: None)  # nothing was compiled before
    monkeypatch.setattr(jit.OnDisk, "save_overload", lambda *_: None)
    event = pytest.importorskip("numba.core.event")
    found, before = [], gc.isenabled()

    class Look(event.Listener):
        def on_start(self, _):
            found.append(gc.isenabled())

        def on_end(self, _):
            found.append(gc.isenabled())

    @jit.kernel
    def halved(values):
        return values / 2

    @jit.kernel
    def doubled(values):
        return halved(values) * 4

    look = Look()
    event.register("numba:compile", look)
    (gc.enable if enabled else gc.disable)()
    try:
        doubled(np.arange(3))
    finally:
        (gc.enable if before else gc.disable)()
        event.unregister("numba:compile", look)
    *during, after = found  # the last to end is the outer one
    assert len(during) >= 3 and not any(during) and after == enabled


def test_an_epoch_that_does_nothing_but_compile_takes_no_time(monkeypatch):
    ticks = iter(range(100))
    monkeypatch.setattr("fmpair.kernel_cache.time.perf_counter", lambda: float(next(ticks)))

    def learn(number):
        with compiling():
            for _ in range(50):
                next(ticks)
        return 0.5

    (epoch,) = epochs(1, learn, lambda: None)
    assert epoch.seconds < 5


def test_epochs_of_a_model_have_a_time_each():
    made = [
        epoch.seconds for epoch in FMPair(factors=2, epochs=2, threads=1).train(day_and_night())
    ]
    assert len(made) == 2 and min(made) > 0
