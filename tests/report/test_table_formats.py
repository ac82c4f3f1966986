import io

import polars as pl
import pytest

from fmpair.report.table_formats import csv


def first_cells(content):
    """The first column as a spreadsheet would get it."""
    return pl.read_csv(io.BytesIO(content), infer_schema=False)["name"].to_list()


@pytest.mark.parametrize("text", [
    "=1+1", "+A1", "-A1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", '=HYPERLINK("x","y")',
    "-1+cmd|'x'!A1", "=-1", "＝1", "＠a", "=\n1",
])  # fmt: skip
def test_what_a_spreadsheet_would_run_begins_with_a_quote(text):
    content = csv(pl.DataFrame({"name": [text], "mean": [-0.5]}))
    assert first_cells(content) == [f"'{text}"]
    assert first_cells(csv(pl.DataFrame({"name": [text]}), exact=True)) == [text]


@pytest.mark.parametrize(
    "text", ["-0.5", "+3", "-1e-05", ".5", "-", "+", "FM-Pair", "a=1", "'=1", ""]
)
def test_numbers_marks_and_ordinary_names_stay_as_they_are(text):
    frame = pl.DataFrame({"name": [text], "other": ["x"]})
    assert csv(frame) == csv(frame, exact=True)


def test_numbers_of_number_columns_stay_numbers_and_missing_ones_missing():
    frame = pl.DataFrame({"a": [-0.5, None], "b": [-3, 4], "c": ["=x", None]})
    again = pl.read_csv(io.BytesIO(csv(frame)))
    assert again["a"].to_list() == [-0.5, None] and again["b"].to_list() == [-3, 4]
    assert again["c"].to_list() == ["'=x", None]


def test_headings_and_categories_are_text_too():
    kinds = pl.Categorical, pl.Enum(["@b"])
    frame = pl.DataFrame([pl.Series("=a", ["@b"], kinds[0]), pl.Series("^.*$", ["@b"], kinds[1])])
    assert csv(frame) == b"'=a,^.*$\n'@b,'@b\n"
    assert csv(pl.DataFrame()) == csv(pl.DataFrame(), exact=True)
