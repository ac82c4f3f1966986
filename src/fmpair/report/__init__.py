"""The report of a run: comparisons of models, tables, figures, one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fmpair.lazy_names import lazy_names

# Public name -> its module.
_HOMES = {
    "ModelComparison": "model_comparison",
    "comparison": "model_comparison",
    "headline": "verdict",
    "merged": "model_comparison",
    "terminal": "output",
    "write": "output",
}

__all__ = ["ModelComparison", "comparison", "headline", "merged", "terminal", "write"]

if TYPE_CHECKING:
    from fmpair.report.model_comparison import ModelComparison, comparison, merged
    from fmpair.report.output import terminal, write
    from fmpair.report.verdict import headline

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
