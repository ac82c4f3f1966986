"""Compiling is not counted as learning."""

import numpy as np

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
