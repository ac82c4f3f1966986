"""The tables of docs/side_by_side.md, from the runs of its two experiments.

    python benchmarks/side_by_side.py RUN [RUN ...] [--write]

Prints them; --write puts each after the line of the page that names its experiment.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from fmpair.experiment.results import Results, results
from fmpair.report.model_comparison import comparison
from fmpair.report.result_tables import main_table
from fmpair.report.run_tables import times_table, tuning_table
from fmpair.report.table_formats import markdown

PAGE = Path(__file__).parent.parent / "docs" / "side_by_side.md"


def main() -> None:
    text = PAGE.read_text("utf-8")
    for folder in (word for word in sys.argv[1:] if not word.startswith("--")):
        found = results(folder)
        tables = tables_of(found)
        print(tables)
        line = f"<!-- tables of the report: {found.experiment.name} -->"
        rest = re.escape(line) + r".*?(?=^## |\Z)"
        text = re.sub(rest, lambda _: f"{line}\n\n{tables}\n", text, flags=re.S | re.M)  # noqa: B023
    if "--write" in sys.argv:
        PAGE.write_text(text, "utf-8")


def tables_of(found: Results) -> str:
    """Results under each protocol, times, and what tuning chose."""
    sheets = [main_table(comparison(found, label)) for label in found.experiment.protocols]
    tuned = tuning_table(found)
    sheets += [times_table(found), *([tuned] if tuned else [])]
    return "\n".join(f"### {sheet.title}\n\n{markdown(sheet)}" for sheet in sheets).rstrip() + "\n"


if __name__ == "__main__":
    main()
