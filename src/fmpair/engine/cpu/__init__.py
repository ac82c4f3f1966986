"""The CPU engine: compiled kernels, cells of a round side by side on threads."""

from fmpair.engine.cpu.training import begin

__all__ = ["begin"]
