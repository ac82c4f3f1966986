"""Experiment files: read and check one, write a first one, migrate those of WrapRec.

    from fmpair.config import read, starter

`read` and `starter` are also names of modules of this package, so they are imported here at once:
a lazy attribute would be hidden by the module of its name.
"""

from fmpair.config.experiment import Experiment
from fmpair.config.migration import migrate
from fmpair.config.option_schema import json_schema
from fmpair.config.read import read, read_rules, validate
from fmpair.config.starter import starter

__all__ = ["Experiment", "json_schema", "migrate", "read", "read_rules", "starter", "validate"]
