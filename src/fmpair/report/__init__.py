"""The report of a run: tables, figures, one page."""
