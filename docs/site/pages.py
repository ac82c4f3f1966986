"""What pages are before Sphinx reads them: generated parts put in, links to other folders turned.

A page asks for a generated part by a line of its own, `<!-- generated: command line -->`.
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

# Files beside docs/ that have a page of the site -> that page.
ELSEWHERE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "explanation/architecture.md",
    "CONTRIBUTING.md": "explanation/contributing.md",
    "CHANGELOG.md": "explanation/changes.md",
    "benchmarks/README.md": "explanation/speed.md",
}
DOCS = Path(__file__).parents[1]


def prepared(app: Any, name: str, source: list[str]) -> None:
    """Rewrite a page's text in place: `source` has one element."""
    text = MARK.sub(lambda found: GENERATED[found[1]](), source[0])
    folder = (DOCS / name).parent
    source[0] = LINK.sub(lambda found: turned(folder, found[1]), text)


def turned(folder: Path, target: str) -> str:
    """The link itself, or that to the page that stands for a file of the checkout."""
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
