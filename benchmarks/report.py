"""Answers as tables: printed, as CSV files, and as sections of the README."""

from __future__ import annotations

import csv
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from environment import HERE
from measure import Answer, Check

README = HERE / "README.md"


def text(name: str, answer: Answer) -> str:
    """An answer as Markdown, which reads well on a terminal too."""
    parts = []
    for title, rows in answer.tables.items():
        if title.endswith("curve"):  # many rows, for the plot only
            continue
        heading = "" if title == name else f"{title}:\n\n"
        parts.append(heading + _table(rows))
    if answer.checks:
        parts.append(_table([_promise(check) for check in answer.checks]))
    return "\n\n".join([*parts, *answer.notes])


def _promise(check: Check) -> dict[str, Any]:
    target = f"{'<=' if check.at_most else '>='} {_cell(check.target)}"
    return {"promise": check.claim, "target": target, "measured": check.value, "": check.verdict}


def write_csv(answer: Answer, folder: Path) -> None:
    """One file per table."""
    folder.mkdir(parents=True, exist_ok=True)
    for title, rows in answer.tables.items():
        with (folder / f"{title.replace(' ', '-')}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def write_section(name: str, answer: Answer) -> None:
    """Put an answer, with machine and commit, between its marks in the README."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    section = f"{begin}\n{machine()}\n\n{text(name, answer)}\n{end}"
    old = README.read_text()
    README.write_text(re.sub(f"{begin}.*?{end}", lambda _: section, old, flags=re.DOTALL))


def machine() -> str:
    """Processor, cores, system, Python and commit in one line."""
    commit = _said("git", "-C", str(HERE), "rev-parse", "--short", "HEAD") or "unknown"
    changed = _said("git", "-C", str(HERE), "status", "--porcelain", "--", "../src")
    return (
        f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, commit {commit}{' with changes' if changed else ''}"
    )


def hardware(device: str) -> str:
    """Return the processor and its cores, or the GPU."""
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    return f"{_processor()}, {os.cpu_count()} cores"


def _processor() -> str:
    for line in _said("lscpu").splitlines():
        if line.startswith("Model name"):
            return line.split(":", 1)[1].strip()
    return _said("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor() or "unknown"


def _said(*command: str) -> str:
    """What a command prints; nothing where it fails or does not exist."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _table(rows: list[dict[str, Any]]) -> str:
    """Rows as a Markdown table with aligned columns."""
    names = list(rows[0])
    cells = [names, *([_cell(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[n]) for line in cells) for n in range(len(names))]
    cells.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths)) + " |" for line in cells
    )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
