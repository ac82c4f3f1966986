"""Events that a service collects: stored in a database, exported, learned from, compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fmpair.lazy_names import lazy_names

if TYPE_CHECKING:
    from fmpair.events.compare import compared
    from fmpair.events.event import Event, Impression
    from fmpair.events.frame import shown_lists
    from fmpair.events.store import open_store

_MODULES = {
    "Event": "event",
    "Impression": "event",
    "compared": "compare",
    "open_store": "store",
    "shown_lists": "frame",
}
__all__ = ["Event", "Impression", "compared", "open_store", "shown_lists"]

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
