"""Prepare pages for Sphinx: insert generated parts, redirect links to files outside docs/.

A page includes a generated part with a line `<!-- generated: command line -->`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import command_line
import experiment_file
import measures
import model_list

GENERATED = {
    "command line": command_line.page,
    "experiment file": experiment_file.page,
    "models": model_list.page,
    "metrics": measures.metrics,
    "protocols": measures.protocols,
}
MARK = re.compile(r"^<!-- generated: (.+) -->$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")

# File outside docs/ -> its page on the site.
ELSEWHERE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "explanation/architecture.md",
    "CONTRIBUTING.md": "explanation/contributing.md",
    "CHANGELOG.md": "explanation/changes.md",
    "benchmarks/README.md": "explanation/speed.md",
}
DOCS = Path(__file__).parents[1]


def prepared(app: Any, name: str, source: list[str]) -> None:
    """Rewrite the text of a page in place; `source` has one element."""
    text = MARK.sub(lambda found: GENERATED[found[1]](), source[0])
    folder = (DOCS / name).parent
    source[0] = LINK.sub(lambda found: turned(folder, found[1]), text)


def turned(folder: Path, target: str) -> str:
    """Return the link, or the link to the site's page of a file outside docs/."""
    try:
        place = (folder / target).resolve().relative_to(DOCS.parent)
    except ValueError:
        return target
    if place.as_posix() not in ELSEWHERE:
        return target
    return Path(os.path.relpath(DOCS / ELSEWHERE[place.as_posix()], folder)).as_posix()


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", prepared)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
