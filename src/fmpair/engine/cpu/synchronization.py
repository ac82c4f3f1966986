"""How the threads of an epoch keep to the order of the rounds, without the interpreter.

A cell needs its user block and its item block as the round before left them. The user block is
its thread's own; the item block was last with the next user block. So a cell waits for that one
neighbour to have come as far, and threads may be some rounds apart. Where cells share tables, all
wait for all after a round.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from typing import NamedTuple

import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from fmpair.jit import kernel

LINE = 8  # int64 numbers of a cache line: one counter each, so that threads do not share one
SPINS = 4_000  # looks at a counter before a thread sleeps, some hundred microseconds
NAP = 50  # microseconds asleep between two looks
STAY = 200  # such sleeps between two epochs, after which a thread does not wait for the next
FEW_SPINS = 400  # between two epochs, when others have work for the core
LEFT, ONCE = -1, -2  # in the place of an epoch's number, see `Flow`
SLEEP = "fmpair_sleep"  # under which name compiled code finds the system's function
PAUSE = "llvm.x86.sse2.pause"
ARM = platform.machine().lower() in ("arm64", "aarch64")


class Flow(NamedTuple):
    """done: int64 [blocks * LINE], rounds that each user block has behind it.

    arrived: int64 [LINE], how often threads have come to a point where all wait for all.
    finished: int64 [LINE], how many epochs threads have behind them, all together.
    stopped: int64 [LINE], 1 where all shall end as soon as they can.
    called: int64 [threads * LINE], the epoch that each thread was last called to, counted from 1;
    LEFT where it is not there, ONCE where it ends with the first.
    """

    done: np.ndarray
    arrived: np.ndarray
    finished: np.ndarray
    stopped: np.ndarray
    called: np.ndarray


def flow_for(blocks: int, threads: int = 1, called: int = ONCE) -> Flow:
    """Before the first round of the first epoch."""
    zeros = (np.zeros(n * LINE, np.int64) for n in (blocks, 1, 1, 1))
    return Flow(*zeros, np.full(threads * LINE, called, np.int64))


def _find_sleep() -> None:
    """Name the system's function that sleeps for a number of microseconds (Windows: 1,000)."""
    if sys.platform == "win32":
        function = ctypes.WinDLL("kernel32").Sleep
    else:
        function = ctypes.CDLL(None).usleep
    binding.add_symbol(SLEEP, ctypes.cast(function, ctypes.c_void_p).value)


_find_sleep()
_sleep = types.ExternalFunction(SLEEP, types.int32(types.uint32))
_TIME = np.uint32(1 if sys.platform == "win32" else NAP)


def _place(context, builder, array, value, index):
    data = context.make_array(array)(context, builder, value).data
    return builder.gep(data, [index])


@intrinsic
def seen(typing, counters, index):
    """counters[index], with all that its writer wrote before."""

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, signature.args[0], *arguments)
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(counters, types.int64), generate


@intrinsic
def tell(typing, counters, index, value):
    """counters[index] = value, after all that was written before."""

    def generate(context, builder, signature, arguments):
        counters, index, value = arguments
        place = _place(context, builder, signature.args[0], counters, index)
        builder.store_atomic(value, place, "release", 8)
        return context.get_dummy_value()

    return types.void(counters, types.int64, types.int64), generate


@intrinsic
def count_up(typing, counters, index):
    """counters[index] += 1, by however many threads at once."""

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, signature.args[0], *arguments)
        builder.atomic_rmw("add", place, ir.Constant(ir.IntType(64), 1), "acq_rel")
        return context.get_dummy_value()

    return types.void(counters, types.int64), generate


@intrinsic
def _swap(typing, counters, index, value):
    """counters[index] = value; what it was before."""

    def generate(context, builder, signature, arguments):
        counters, index, value = arguments
        place = _place(context, builder, signature.args[0], counters, index)
        return builder.atomic_rmw("xchg", place, value, "acq_rel")

    return types.int64(counters, types.int64, types.int64), generate


@intrinsic
def _swap_if(typing, counters, index, old, new):
    """Whether counters[index] was `old`; only then it becomes `new`."""

    def generate(context, builder, signature, arguments):
        counters, index, old, new = arguments
        place = _place(context, builder, signature.args[0], counters, index)
        pair = builder.cmpxchg(place, old, new, "acq_rel", "acquire")
        return builder.extract_value(pair, 1)

    return types.boolean(counters, types.int64, types.int64, types.int64), generate


@intrinsic
def _relax(typing):
    """Tell the core that this thread only waits."""

    def generate(context, builder, signature, arguments):
        name, hint = ("llvm.aarch64.hint", [ir.Constant(ir.IntType(32), 1)]) if ARM else (PAUSE, [])
        kind = ir.FunctionType(ir.VoidType(), [value.type for value in hint])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, name), hint)
        return context.get_dummy_value()

    return types.void(), generate


@kernel
def wait(counters, index, least, stopped):
    """Until counters[index] is at least so much: True, or False where all shall stop."""
    looks = 0
    while seen(counters, index) < least:
        if seen(stopped, 0) != 0:
            return False
        looks += 1
        if looks < SPINS:
            _relax()
        else:
            _sleep(_TIME)
    return seen(stopped, 0) == 0


@kernel
def wait_for_cell(flow, block, turn):
    """Until the cell of a user block in a round may begin: True, or False where all shall stop."""
    done, _, _, stopped, _ = flow
    blocks = len(done) // LINE
    after = (block + 1) % blocks * LINE
    return wait(done, block * LINE, turn, stopped) and wait(done, after, turn, stopped)


@kernel
def meet(arrived, stopped, threads, times):
    """Wait until all threads are here for the given time: True, or False where all shall stop."""
    count_up(arrived, 0)
    return wait(arrived, 0, threads * times, stopped)


@kernel
def call(flow, epoch, missing):
    """Call all threads to an epoch; missing: uint8 [threads], 1 for those that are not there."""
    for n in range(len(missing)):
        missing[n] = _swap(flow.called, n * LINE, epoch) == LEFT


@kernel
def finished(flow):
    """How many epochs threads have behind them, with all that they wrote."""
    return seen(flow.finished, 0)


@kernel
def goes_on(flow, thread, epoch):
    """After an epoch, until the next is called: True, or False where this thread ends."""
    _, _, finished, stopped, called = flow
    count_up(finished, 0)
    looks, place = 0, thread * LINE
    while seen(called, place) <= epoch:
        if seen(stopped, 0) != 0 or seen(called, place) == ONCE:
            return False
        looks += 1
        if looks < FEW_SPINS:
            _relax()
        elif looks < FEW_SPINS + STAY:
            _sleep(_TIME)
        elif _swap_if(called, place, epoch, LEFT):
            return False
    return seen(stopped, 0) == 0
