"""The report of a run: comparisons of models, tables, figures, one page."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Public name -> its module. Loaded when first used, so that importing the package is quick.
_HOMES = {
    "ModelComparison": "model_comparison",
    "comparison": "model_comparison",
    "headline": "verdict",
    "merged": "merge_runs",
    "terminal": "output",
    "write": "output",
}

__all__ = ["ModelComparison", "comparison", "headline", "merged", "terminal", "write"]

if TYPE_CHECKING:
    from fmpair.report.merge_runs import merged
    from fmpair.report.model_comparison import ModelComparison, comparison
    from fmpair.report.output import terminal, write
    from fmpair.report.verdict import headline


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fmpair.report' has no attribute {name!r}")
    return getattr(import_module(f"fmpair.report.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
