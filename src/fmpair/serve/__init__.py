"""Serve a model file over HTTP, with a web page to try it (extra `serve`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fmpair.lazy_names import lazy_names

if TYPE_CHECKING:
    from fmpair.serve.settings import Arms

__all__ = ["Arms"]

__getattr__, __dir__ = lazy_names(__name__, {"Arms": "settings"})
