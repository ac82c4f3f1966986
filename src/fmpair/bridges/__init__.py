"""Recipes that train with other libraries; what they learned is kept as arrays.

    from fmpair.bridges import Implicit, LightFM

Each is imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["Cornac", "Implicit", "LensKit", "LightFM", "MyFM", "RecBole"]

if TYPE_CHECKING:
    from fmpair.bridges.cornac import Cornac
    from fmpair.bridges.implicit import Implicit
    from fmpair.bridges.lenskit import LensKit
    from fmpair.bridges.lightfm import LightFM
    from fmpair.bridges.myfm import MyFM
    from fmpair.bridges.recbole import RecBole


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fmpair.bridges' has no attribute {name!r}")
    return getattr(import_module(f"fmpair.bridges.{name.lower()}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
