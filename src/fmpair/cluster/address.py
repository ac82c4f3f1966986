"""Where work runs beyond this process: `ray`, or `ray://host:port`. Needs no Ray itself."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fmpair.errors import OptionError, named

RAY = "ray"
PORT = 6379  # of a cluster's head, unless it was started with another
FORM = re.compile(r"ray(?:://([^:/\s]+)(?::(\d{1,5}))?)?")
EXTRA = "Ray is not installed: pip install 'fmpair[ray]'"


def check_on(on: str) -> None:
    """Raise OptionError where `on` is no address of a cluster, or Ray is not installed."""
    address_of(on)
    if find_spec(RAY) is None:
        raise OptionError(f"{named('on', on)} cannot be used: {EXTRA}")


def address_of(on: str) -> tuple[str, int] | None:
    """(host, port) of the cluster's head; None for the one connected, or a new one here."""
    found = FORM.fullmatch(on) if isinstance(on, str) else None
    if found is None or int(found[2] or PORT) > 65_535:
        raise OptionError(f"{named('on')} must be ray or ray://HOST:PORT, not {on!r}")
    return (found[1], int(found[2] or PORT)) if found[1] else None


def library() -> Any:
    """The module ray: imported when first asked for, since few need it."""
    return import_module(RAY)
