"""Kernels: functions compiled on first call, and cached on disk.

Numba's own cache checks only the file of a function, and would run old code after a change in a
file that it calls. So dispatchers get a cache that depends on all sources, `kernel_cache`. This
needs private names of Numba, used here only; where these have changed, every process compiles its
kernels, and everything else works.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import logging
import pickle
from collections.abc import Callable
from typing import Any

from fmpair import kernel_cache
from fmpair.errors import TrainingError
from fmpair.kernel_cache import CLOCK, compiling

LOG = logging.getLogger("fmpair")

# Without the flags that assume no NaN: divergence must be visible.
FAST = {"reassoc", "contract", "arcp", "nsz", "afn"}
# Settings of Numba that change compiled code.
SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT")
UNKNOWN_NUMBA = "this version of Numba has an unknown cache interface"

try:
    import numba

    MISSING = "NUMBA_DISABLE_JIT is set" if getattr(numba.config, "DISABLE_JIT", 0) else ""
except Exception as error:  # not installed, too old for NumPy, no executable memory, ...
    MISSING = f"numba cannot be imported ({error})"
if MISSING:
    LOG.warning("nothing can be compiled: %s. Ranking falls back to slower code", MISSING)


def _watch_compiling() -> None:
    """Stop the clock and the search for garbage while Numba compiles.

    Compiling makes many objects that stay. Searching them took 6 % of the time of a first fit.
    """
    try:
        from numba.core import event

        class Watch(event.Listener):
            def __init__(self) -> None:
                self.enabled: list[bool] = []  # before each compilation under way

            def on_start(self, event: Any) -> None:
                CLOCK.stop()
                self.enabled.append(gc.isenabled())
                gc.disable()

            def on_end(self, event: Any) -> None:
                if self.enabled.pop():
                    gc.enable()
                CLOCK.go_on()

        event.register("numba:compile", Watch())
    except Exception as error:  # then compiling counts as training time
        LOG.debug("cannot measure the compile time of Numba: %r", error)


if not MISSING:
    _watch_compiling()
kernel_cache.stamp()  # now, before any source imported later can be edited


def kernel(
    function: Callable | None = None, *, plain: Callable | bool = False, **options: Any
) -> Any:
    """Compile a function for the types it is called with; it releases the interpreter's lock.

    plain: the replacement where nothing can be compiled, True for the function itself; without one,
    a call raises. A saved model must work without a compiler. options: of numba.njit.
    """

    def made(function: Callable) -> Any:
        if MISSING:
            return (function if plain is True else plain) or _refusing(function)
        # Without wrappers compiling takes an eighth less: kernels are no callbacks of C code, and
        # those that are inlined are called by kernels only.
        inner = bool(options.get("forceinline"))
        options.update(no_cfunc_wrapper=True, no_cpython_wrapper=inner)
        dispatcher = numba.njit(nogil=True, **options)(function)
        if hasattr(dispatcher, "_cache"):
            dispatcher._cache = OnDisk(function)
        else:
            kernel_cache.lose(function.__qualname__, UNKNOWN_NUMBA)
        return dispatcher

    return made if function is None else made(function)


def inline(function: Callable) -> Any:
    """Compile a small function that is inlined into the kernels that call it."""
    return function if MISSING else numba.njit(nogil=True, inline="always")(function)


def unless_none(function: Callable, absent: Callable) -> Any:
    """Return a function that calls `absent` where its first argument is None, else `function`.

    Both take the same arguments. Kernels decide it by type: a function with two returns, one of
    them None, would have an optional result, and each caller a second version.
    """

    def either(first: Any, *others: Any) -> Any:
        return absent(first, *others) if first is None else function(first, *others)

    if MISSING:
        return either
    from numba import types
    from numba.extending import overload

    @overload(either, strict=False)
    def choose(first: Any, *others: Any) -> Callable:
        return absent if isinstance(first, types.NoneType) else function

    return either


def require_compiler() -> None:
    """Raise TrainingError if nothing can be compiled."""
    if MISSING:
        raise TrainingError(
            f"training needs Numba's compiler, which does not work here: {MISSING}. Saved models "
            "can still be loaded and used"
        )


def _refusing(function: Callable) -> Callable:
    @functools.wraps(function)
    def refuse(*_: Any) -> None:
        require_compiler()

    return refuse


class OnDisk:
    """Numba's interface of a cache, backed by `kernel_cache`."""

    def __init__(self, function: Callable) -> None:
        self.function = function

    @functools.cached_property  # Numba asks for it often
    def cache_path(self) -> str:
        return str(kernel_cache.folders()[0].path)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the compiled function for a signature, or None."""
        try:
            with compiling():
                from numba.core.compiler import CompileResult
                from numba.core.runtime import rtsys

                # Not `target.refresh()`, which also loads what compiling needs: half a second.
                rtsys.initialize(target)
                content = kernel_cache.find(self._name(signature, target.codegen()))
                if content is None:
                    return None
                result = CompileResult._rebuild(target, *pickle.loads(content))
        except Exception as error:  # compiling again helps in any case
            LOG.debug("cannot use the cached code of %s: %r", self.function.__qualname__, error)
            return None
        arguments = tuple(getattr(signature, "args", signature))  # it may be these only
        return result if tuple(result.signature.args) == arguments else None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Store the code compiled for a signature."""
        try:
            from numba.core.serialize import dumps

            if result.library.has_dynamic_globals or result.lifted:
                return  # it holds addresses of this process
            name, content = self._name(signature, result.codegen), dumps(result._reduce())
        except Exception as error:
            kernel_cache.lose(self.function.__qualname__, f"{UNKNOWN_NUMBA} ({error!r})")
        else:
            kernel_cache.keep(name, content)

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def flush(self) -> None: ...

    def _name(self, signature: Any, codegen: Any) -> str:
        """Return a name that depends on function, types, processor and Numba's settings."""
        settings = [repr(getattr(numba.config, name, None)) for name in SETTINGS]
        key = (repr(signature), codegen.magic_tuple(), settings)
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
        module = self.function.__module__.removeprefix("fmpair.")
        return f"{module}.{self.function.__qualname__}-{digest}"
