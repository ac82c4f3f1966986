"""Any text as the name of a file, which never leads out of its folder."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import count

LONGEST = 100  # characters
OTHER = re.compile(r"[^\w+,.-]+", re.ASCII)  # what some system would not have in a name
RESERVED = {"con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)),
            *(f"lpt{n}" for n in range(10))}  # fmt: skip


def file_name(text: str, taken: Collection[str] = ()) -> str:
    """A name that any system allows, and that none of those taken has.

    Letters of ASCII, digits and `_+-.,` stay as they are, anything else becomes a dash.
    """
    plain = OTHER.sub("-", text).strip("-.")[:LONGEST]
    if not plain or plain.partition(".")[0].lower() in RESERVED:
        plain = f"experiment-{plain}".rstrip("-")
    lower = {name.lower() for name in taken}  # some systems do not tell cases apart
    names = (plain if number == 1 else f"{plain}-{number}" for number in count(1))
    return next(name for name in names if name.lower() not in lower)
