"""How threads keep the order of the rounds of an epoch, without the interpreter.

A cell needs its user block and its item block as the round before left them. The user block
belongs to the thread; the item block was last used with the next user block. So a cell waits for
that one neighbour only, and threads may be some rounds apart. Where cells share tables, all threads
wait for each other after every round.
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

LINE = 8  # int64 numbers per cache line: one counter each, so that threads do not share a line
SPINS = 4_000  # checks of a counter before a thread sleeps, some hundred microseconds
NAP = 50  # microseconds of sleep between two checks
STAY = 200  # sleeps between two epochs before a thread ends
FEW_SPINS = 400  # checks between two epochs, when others may need the core
GONE, ONCE = -1, -2  # values of `Synchronization.called` that are no epoch
SLEEP = "fmpair_sleep"  # the name under which compiled code finds the system's function
PAUSE = "llvm.x86.sse2.pause"
ARM = platform.machine().lower() in ("arm64", "aarch64")


class Synchronization(NamedTuple):
    """Counters that the threads of an epoch share, each on its own cache line.

    done: int64 [blocks * LINE], rounds completed by each user block. arrived: int64 [LINE], how
    often threads have reached a barrier. finished: int64 [LINE], epochs completed, summed over
    threads. stopped: int64 [LINE], 1 to end all threads. called: int64 [threads * LINE], the epoch
    that each thread was last called to, from 1; GONE if it has ended, ONCE to end after one epoch.
    """

    done: np.ndarray
    arrived: np.ndarray
    finished: np.ndarray
    stopped: np.ndarray
    called: np.ndarray


def synchronization_for(blocks: int, threads: int = 1, called: int = ONCE) -> Synchronization:
    """Return the counters before the first round of the first epoch."""
    zeros = (np.zeros(n * LINE, np.int64) for n in (blocks, 1, 1, 1))
    return Synchronization(*zeros, np.full(threads * LINE, called, np.int64))


def _find_sleep() -> None:
    """Register the system's function that sleeps for microseconds (on Windows, milliseconds)."""
    if sys.platform == "win32":
        function = ctypes.WinDLL("kernel32").Sleep
    else:
        function = ctypes.CDLL(None).usleep
    binding.add_symbol(SLEEP, ctypes.cast(function, ctypes.c_void_p).value)


_find_sleep()
_sleep = types.ExternalFunction(SLEEP, types.int32(types.uint32))
_TIME = np.uint32(1 if sys.platform == "win32" else NAP)


def _atomic(signature, emit):
    """Return what an intrinsic returns; emit(builder, pointer, *values) builds its instruction."""

    def generate(context, builder, signature, arguments):
        array, index, *values = arguments
        data = context.make_array(signature.args[0])(context, builder, array).data
        value = emit(builder, builder.gep(data, [index]), *values)
        return context.get_dummy_value() if signature.return_type == types.void else value

    return signature, generate


@intrinsic
def load(typing, counters, index):
    """Return counters[index], and see all that its writer wrote before."""
    signature = types.int64(counters, types.int64)
    return _atomic(signature, lambda builder, at: builder.load_atomic(at, "acquire", 8))


@intrinsic
def store(typing, counters, index, value):
    """Set counters[index] = value, after all that was written before."""
    signature = types.void(counters, types.int64, types.int64)
    return _atomic(signature, lambda builder, at, new: builder.store_atomic(new, at, "release", 8))


@intrinsic
def increment(typing, counters, index):
    """Add 1 to counters[index] atomically."""
    step = ir.Constant(ir.IntType(64), 1)
    signature = types.void(counters, types.int64)
    return _atomic(signature, lambda builder, at: builder.atomic_rmw("add", at, step, "acq_rel"))


@intrinsic
def _swap(typing, counters, index, value):
    """Set counters[index] = value and return the old value."""
    signature = types.int64(counters, types.int64, types.int64)
    return _atomic(
        signature, lambda builder, at, new: builder.atomic_rmw("xchg", at, new, "acq_rel")
    )


@intrinsic
def _swap_if(typing, counters, index, old, new):
    """Set counters[index] = new if it is `old`; return whether it was."""

    def emit(builder, at, old, new):
        return builder.extract_value(builder.cmpxchg(at, old, new, "acq_rel", "acquire"), 1)

    return _atomic(types.boolean(counters, types.int64, types.int64, types.int64), emit)


@intrinsic
def _relax(typing):
    """Tell the core that this thread is waiting."""

    def generate(context, builder, signature, arguments):
        name, hint = ("llvm.aarch64.hint", [ir.Constant(ir.IntType(32), 1)]) if ARM else (PAUSE, [])
        kind = ir.FunctionType(ir.VoidType(), [value.type for value in hint])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, name), hint)
        return context.get_dummy_value()

    return types.void(), generate


@kernel
def wait(counters, index, least, stopped):
    """Wait until counters[index] >= least; return False if all threads should stop."""
    looks = 0
    while load(counters, index) < least:
        if load(stopped, 0) != 0:
            return False
        looks += 1
        if looks < SPINS:
            _relax()
        else:
            _sleep(_TIME)
    return load(stopped, 0) == 0


@kernel
def wait_for_cell(sync, block, turn):
    """Wait until the cell of a user block may start in a round; return False to stop."""
    done, _, _, stopped, _ = sync
    blocks = len(done) // LINE
    after = (block + 1) % blocks * LINE
    return wait(done, block * LINE, turn, stopped) and wait(done, after, turn, stopped)


@kernel
def barrier(arrived, stopped, threads, times):
    """Wait until all threads have arrived `times` times; return False to stop."""
    increment(arrived, 0)
    return wait(arrived, 0, threads * times, stopped)


@kernel
def call(sync, epoch, missing):
    """Call all threads to an epoch; missing: uint8 [threads], set to 1 where a thread has ended."""
    for n in range(len(missing)):
        missing[n] = _swap(sync.called, n * LINE, epoch) == GONE


@kernel
def finished_epochs(sync):
    """Return the epochs completed, summed over threads, and see all that they wrote."""
    return load(sync.finished, 0)


@kernel
def wait_for_epoch(sync, thread, epoch):
    """After an epoch, wait for the next call; return False if this thread should end."""
    _, _, finished, stopped, called = sync
    increment(finished, 0)
    looks, slot = 0, thread * LINE
    while load(called, slot) <= epoch:
        if load(stopped, 0) != 0 or load(called, slot) == ONCE:
            return False
        looks += 1
        if looks < FEW_SPINS:
            _relax()
        elif looks < FEW_SPINS + STAY:
            _sleep(_TIME)
        elif _swap_if(called, slot, epoch, GONE):
            return False
    return load(stopped, 0) == 0
