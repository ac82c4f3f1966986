"""What came out of a run, for people: tables, figures, one page."""
