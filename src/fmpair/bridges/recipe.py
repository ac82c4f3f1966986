"""What the recipes of all bridges check alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fmpair import checks
from fmpair.errors import OptionError


def check(recipe: Any) -> None:
    """The options that every bridge has; the settings are checked by the library itself."""
    if not isinstance(recipe.settings, Mapping):
        raise OptionError(f"settings must be a mapping of names to values, not {recipe.settings!r}")
    checks.whole("seed", recipe.seed, 0)
    checks.threads(recipe.threads)
