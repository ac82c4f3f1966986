"""Names that have no place on the site: those that exist stay as they are, others are mistakes.

A signature may name what is of no use to most readers; a name that nobody knows fails the build.
"""

from __future__ import annotations

from pydoc import ErrorDuringImport, locate
from typing import Any


def shown(app: Any, environment: Any, node: Any, content: Any) -> Any:
    """The text of a reference to something of fmpair that the site does not describe."""
    name = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not name.startswith("fmpair."):
        return None
    try:
        return content if locate(name) is not None else None
    except ErrorDuringImport:
        return None


def setup(app: Any) -> dict[str, bool]:
    app.connect("missing-reference", shown)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
