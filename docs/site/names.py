"""Resolve references to names that the site does not document.

A name that exists is shown as text; a name that does not exist fails the build.
"""

from __future__ import annotations

from pydoc import ErrorDuringImport, locate
from typing import Any


def shown(app: Any, environment: Any, node: Any, content: Any) -> Any:
    """Return the text of a reference to an undocumented name of fmpair, or None."""
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
