"""Connections that never say what they want are closed."""

import asyncio
from types import SimpleNamespace

from fmpair.serve.access_control import LONGEST, Patience


class Connection:
    def __init__(self, cycle=None, timer=None):
        self.cycle, self.timeout_keep_alive_task = cycle, timer
        self.closed = False
        self.transport = SimpleNamespace(close=self._close)

    def _close(self):
        self.closed = True


def test_a_connection_that_says_nothing_is_closed_after_a_while():
    answered, at_work = (SimpleNamespace(response_complete=done) for done in (True, False))
    silent, begun = Connection(), Connection(answered)  # the head of a second request is begun
    busy, between = Connection(at_work), Connection(answered, timer=object())
    clock = [0.0]
    patience = Patience(lambda: {silent, begun, busy, between}, lambda: clock[0])
    for clock[0] in (0.0, LONGEST - 1):
        asyncio.run(patience.look())
    assert not any(one.closed for one in (silent, begun, busy, between))
    clock[0] = LONGEST
    asyncio.run(patience.look())
    assert silent.closed and begun.closed and not busy.closed and not between.closed


def test_one_that_was_answered_meanwhile_has_its_time_again():
    clock, one = [0.0], Connection()
    patience = Patience(lambda: [one], lambda: clock[0])
    asyncio.run(patience.look())
    one.timeout_keep_alive_task, clock[0] = object(), 6.0
    asyncio.run(patience.look())
    one.timeout_keep_alive_task, clock[0] = None, LONGEST
    asyncio.run(patience.look())
    assert not one.closed
