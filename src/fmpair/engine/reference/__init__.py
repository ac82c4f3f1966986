"""The reference engine: plain NumPy, the definition of what every engine learns."""

from fmpair.engine.reference.reference_training import begin

__all__ = ["begin"]
