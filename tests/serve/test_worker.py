"""Connections without requests are closed; see test_real_server.py for a real one."""

import asyncio
from types import SimpleNamespace

from fmpair.serve.worker import HEAD_TIMEOUT, IdleConnections


class Connection:
    def __init__(self, cycle=None, timer=None):
        self.cycle, self.timeout_keep_alive_task = cycle, timer
        self.closed = False
        self.transport = SimpleNamespace(close=self._close)

    def _close(self):
        self.closed = True


def test_a_silent_connection_is_closed_after_a_while():
    answered, at_work = (SimpleNamespace(response_complete=done) for done in (True, False))
    silent, begun = Connection(), Connection(answered)  # the head of a second request is begun
    busy, between = Connection(at_work), Connection(answered, timer=object())
    clock = [0.0]
    idle = IdleConnections(lambda: {silent, begun, busy, between}, lambda: clock[0])
    for clock[0] in (0.0, HEAD_TIMEOUT - 1):
        asyncio.run(idle.close_idle())
    assert not any(one.closed for one in (silent, begun, busy, between))
    clock[0] = HEAD_TIMEOUT
    asyncio.run(idle.close_idle())
    assert silent.closed and begun.closed and not busy.closed and not between.closed


def test_a_connection_answered_meanwhile_gets_its_full_time_again():
    clock, one = [0.0], Connection()
    idle = IdleConnections(lambda: [one], lambda: clock[0])
    asyncio.run(idle.close_idle())
    one.timeout_keep_alive_task, clock[0] = object(), 6.0
    asyncio.run(idle.close_idle())
    one.timeout_keep_alive_task, clock[0] = None, HEAD_TIMEOUT
    asyncio.run(idle.close_idle())
    assert not one.closed
