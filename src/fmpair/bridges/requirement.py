"""The library a bridge leads to: whether it is installed, and which version."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from importlib import import_module, metadata
from importlib.util import find_spec
from types import ModuleType

from fmpair.errors import UnknownError


@dataclass(frozen=True)
class Requirement:
    """module: what is imported; distribution: what pip installs; extra: fmpair's name for it."""

    module: str
    distribution: str
    extra: str

    def check(self) -> None:
        """Raise, with the command that installs it, where the library is not there."""
        if self.module not in sys.modules and find_spec(self.module) is None:
            raise UnknownError(
                f"{self.distribution} is not installed: pip install 'fmpair[{self.extra}]'"
            )

    def load(self, submodule: str = "") -> ModuleType:
        """The library, or a module of it: `load("als")`."""
        self.check()
        name = f"{self.module}.{submodule}" if submodule else self.module
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what a library says while loading is not for us
                return import_module(name)
        except ImportError as error:
            raise UnknownError(
                f"{name} of {self.distribution} cannot be imported: {error}"
            ) from error

    def provenance(self) -> dict[str, str]:
        """What the report says of the library: its name and version."""
        try:
            version = metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            version = "unknown"
        return {"library": self.distribution, "version": version}
