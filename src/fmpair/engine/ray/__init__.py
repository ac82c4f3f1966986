"""The strata plan over the machines of a Ray cluster: users stay, blocks of items travel."""

from fmpair.jit import require_compiler

require_compiler()  # else the import below would fail, and say less

from fmpair.engine.ray.ray_training import begin  # noqa: E402

__all__ = ["begin"]
