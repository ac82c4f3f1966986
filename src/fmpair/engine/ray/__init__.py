"""The strata plan on a Ray cluster: user blocks stay on a worker, item blocks travel."""

from fmpair.jit import require_compiler

require_compiler()  # before the import below fails with a less helpful message

from fmpair.engine.ray.ray_training import begin  # noqa: E402

__all__ = ["begin"]
