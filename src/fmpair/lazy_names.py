"""Public names of a package that are imported when first used, so that importing it is quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package.

    homes: public name -> the module below the package that defines it. A name must not be that of
    a module of the package, which would hide it once the module is imported.
    """

    def get(name: str) -> Any:
        if name not in homes:
            near = get_close_matches(name, homes, 1)
            hint = f". Did you mean {near[0]!r}?" if near else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return get, lambda: sorted(homes)
