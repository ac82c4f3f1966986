"""The CPU engine: compiled kernels, cells of a round side by side on threads."""

from fmpair.jit import require_compiler

require_compiler()  # else the import below would fail, and say less

from fmpair.engine.cpu.cpu_training import begin  # noqa: E402

__all__ = ["begin"]
