"""The reference engine: plain NumPy, the definition of what every engine learns."""

from fmpair.engine.reference.training import begin

__all__ = ["begin"]
