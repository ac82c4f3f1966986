"""Experiments: run one, estimate its cost, read its results back.

    from fmpair.experiment import results, run

`run` and `estimate` are also names of modules of this package, so they are imported here at once:
a lazy attribute would be hidden by the module of its name.
"""

from fmpair.experiment.estimate import Estimate, estimate
from fmpair.experiment.folder import Results, results
from fmpair.experiment.run import Stopped, run

__all__ = ["Estimate", "Results", "Stopped", "estimate", "results", "run"]
