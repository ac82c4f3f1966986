"""Kernels: functions compiled when first called, and kept on disk for the next time.

Numba's own cache goes by the file that a function stands in, and would go on running old code after
a change of what it calls in another. So dispatchers are given a cache that goes by all sources,
`kernel_cache`. It needs names that are private to Numba: they are used here only, and where they
have changed, code is compiled anew in every process and all else works.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import pickle
from collections.abc import Callable
from typing import Any

from fmpair import kernel_cache
from fmpair.compile_time import CLOCK, compiling
from fmpair.errors import TrainingError

LOG = logging.getLogger("fmpair")

# Not the flags that deny NaN: divergence must be seen.
FAST = {"reassoc", "contract", "arcp", "nsz", "afn"}
# What Numba's settings change in compiled code, beside the processor it is for.
SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT")
UNKNOWN_NUMBA = "this version of Numba hands it out in another way than those known"

try:
    import numba

    MISSING = "NUMBA_DISABLE_JIT is set" if getattr(numba.config, "DISABLE_JIT", 0) else ""
except Exception as error:  # not installed, too old for NumPy, no executable memory, ...
    MISSING = f"numba cannot be imported ({error})"
if MISSING:
    LOG.warning("nothing can be compiled: %s. Lists are made without, more slowly", MISSING)


def _time_compiling() -> None:
    """Let the clock stand still for every function that Numba compiles."""
    try:
        from numba.core import event

        class Timer(event.Listener):
            def on_start(self, event: Any) -> None:
                CLOCK.stop()

            def on_end(self, event: Any) -> None:
                CLOCK.go_on()

        event.register("numba:compile", Timer())
    except Exception as error:  # then compiling counts as what it is a part of
        LOG.debug("cannot tell how long Numba compiles: %r", error)


if not MISSING:
    _time_compiling()
kernel_cache.stamp()  # now, before any source that is imported later can have been edited


def kernel(
    function: Callable | None = None, *, plain: Callable | bool = False, **options: Any
) -> Any:
    """A function compiled for the types it is called with; it does not hold the interpreter.

    plain: what takes its place where nothing can be compiled, True for the function as it is; a
    call is refused where nothing does. A saved model must be able to answer without a compiler.
    options: those of numba.njit, such as fastmath.
    """

    def made(function: Callable) -> Any:
        if MISSING:
            return (function if plain is True else plain) or _refusing(function)
        dispatcher = numba.njit(nogil=True, **options)(function)
        if hasattr(dispatcher, "_cache"):
            dispatcher._cache = OnDisk(function)
        else:
            kernel_cache.lose(function.__qualname__, UNKNOWN_NUMBA)
        return dispatcher

    return made if function is None else made(function)


def inline(function: Callable) -> Any:
    """A small function that becomes a part of the kernels that call it."""
    return function if MISSING else numba.njit(nogil=True, inline="always")(function)


def require_compiler() -> None:
    """TrainingError where nothing can be compiled."""
    if MISSING:
        raise TrainingError(
            f"learning needs Numba's compiler, which does not work here: {MISSING}. What is "
            "learned already can be loaded and asked all the same"
        )


def _refusing(function: Callable) -> Callable:
    @functools.wraps(function)
    def refuse(*_: Any) -> None:
        require_compiler()

    return refuse


class OnDisk:
    """What a dispatcher asks for compiled code, and gives it to: Numba's interface of a cache."""

    def __init__(self, function: Callable) -> None:
        self.function = function

    @functools.cached_property  # Numba asks for it whenever it is asked what it compiled
    def cache_path(self) -> str:
        return str(kernel_cache.folders()[0].path)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The compiled function for a signature, None where there is none."""
        with compiling():
            return self._fetched(signature, target)

    def _fetched(self, signature: Any, target: Any) -> Any:
        try:
            from numba.core.compiler import CompileResult

            target.refresh()
            content = kernel_cache.find(self._name(signature, target.codegen()))
            if content is None:
                return None
            found = CompileResult._rebuild(target, *pickle.loads(content))
        except Exception as error:  # whatever it is, compiling anew mends it
            LOG.debug("cannot use what is kept of %s: %r", self.function.__qualname__, error)
            return None
        return found if tuple(found.signature.args) == _arguments(signature) else None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was compiled for a signature."""
        try:
            from numba.core.serialize import dumps

            if result.library.has_dynamic_globals or result.lifted:
                return  # addresses of this process are in it
            name, content = self._name(signature, result.codegen), dumps(result._reduce())
        except Exception as error:
            kernel_cache.lose(self.function.__qualname__, f"{UNKNOWN_NUMBA} ({error!r})")
        else:
            kernel_cache.keep(name, content)

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def flush(self) -> None: ...

    def _name(self, signature: Any, codegen: Any) -> str:
        """By function, types, processor and Numba's settings."""
        settings = [repr(getattr(numba.config, name, None)) for name in SETTINGS]
        key = (repr(signature), codegen.magic_tuple(), settings)
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
        module = self.function.__module__.removeprefix("fmpair.")
        return f"{module}.{self.function.__qualname__}-{digest}"


def _arguments(signature: Any) -> tuple:
    """The argument types of a signature, which may be no more than these."""
    return tuple(getattr(signature, "args", signature))
