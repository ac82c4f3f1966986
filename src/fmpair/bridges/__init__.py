"""Recipes that train with other libraries; fitted models only store arrays.

    from fmpair.bridges import Implicit, LightFM

Each is imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fmpair.lazy_names import lazy_names

__all__ = ["Cornac", "Implicit", "LensKit", "LightFM", "MyFM", "RecBole"]

if TYPE_CHECKING:
    from fmpair.bridges.cornac import Cornac
    from fmpair.bridges.implicit import Implicit
    from fmpair.bridges.lenskit import LensKit
    from fmpair.bridges.lightfm import LightFM
    from fmpair.bridges.myfm import MyFM
    from fmpair.bridges.recbole import RecBole

__getattr__, __dir__ = lazy_names(__name__, {name: name.lower() for name in __all__})
