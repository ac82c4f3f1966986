"""Silent connections are closed: no request, or no reader; test_real_server.py has a real one."""

import asyncio
from types import SimpleNamespace

from fmpair.serve.connections import HEAD_TIMEOUT, READ_TIMEOUT, SilentConnections


class Connection:
    def __init__(self, cycle=None, timer=None):
        self.cycle, self.timeout_keep_alive_task = cycle, timer
        self.closed = False
        self.unread = 0
        self.transport = SimpleNamespace(
            close=self._close, abort=self._close, get_write_buffer_size=lambda: self.unread
        )

    def _close(self):
        self.closed = True


def test_a_silent_connection_is_closed_after_a_while():
    answered, at_work = (SimpleNamespace(response_complete=done) for done in (True, False))
    silent, begun = Connection(), Connection(answered)  # the head of a second request is begun
    busy, between = Connection(at_work), Connection(answered, timer=object())
    clock = [0.0]
    idle = SilentConnections(lambda: {silent, begun, busy, between}, lambda: clock[0])
    for clock[0] in (0.0, HEAD_TIMEOUT - 1):
        asyncio.run(idle.close())
    assert not any(one.closed for one in (silent, begun, busy, between))
    clock[0] = HEAD_TIMEOUT
    asyncio.run(idle.close())
    assert silent.closed and begun.closed and not busy.closed and not between.closed


def test_a_connection_answered_meanwhile_gets_its_full_time_again():
    clock, one = [0.0], Connection()
    idle = SilentConnections(lambda: [one], lambda: clock[0])
    asyncio.run(idle.close())
    one.timeout_keep_alive_task, clock[0] = object(), 6.0
    asyncio.run(idle.close())
    one.timeout_keep_alive_task, clock[0] = None, HEAD_TIMEOUT
    asyncio.run(idle.close())
    assert not one.closed


def test_a_client_that_never_reads_is_dropped_and_a_slow_one_is_not():
    at_work = SimpleNamespace(response_complete=False)
    deaf, slow, busy = (Connection(at_work) for _ in range(3))
    clock = [0.0]
    idle = SilentConnections(lambda: [deaf, slow, busy], lambda: clock[0])
    for clock[0] in (0.0, READ_TIMEOUT / 2, READ_TIMEOUT, READ_TIMEOUT * 2):
        deaf.unread, slow.unread = 100_000, int(100_000 - clock[0])
        asyncio.run(idle.close())
    assert deaf.closed and not slow.closed and not busy.closed
