import io
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from toy_results import results_of

from fmpair.config.experiment import Comparison, Source, Step
from fmpair.evaluation import Protocol
from fmpair.report.model_comparison import comparison
from fmpair.report.output import terminal
from fmpair.report.result_tables import main_table, one_fit_note
from fmpair.report.table_formats import csv, latex, paper_tables


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


METRICS = ("ndcg@10", "recall@10", "hit@10", "mrr@10")
RNG = np.random.default_rng(0)
BASE = RNG.random(200)
UNITS = {
    "pop_ularity": BASE,
    "same": BASE + RNG.normal(0.001, 0.05, 200),
    "better": BASE + RNG.normal(0.1, 0.05, 200),
}


def compared(seeds=1, unit="user"):
    units = {
        (model, 0, seed): dict.fromkeys(METRICS, values + 0.001 * seed * (model == "better"))
        for model, values in UNITS.items()
        for seed in range(seeds)
    }
    options = Comparison(baseline="pop_ularity")
    found = results_of(units, Protocol(unit=unit), METRICS, options)
    return found, comparison(found, "full ranking")


@pytest.fixture(scope="module")
def one():
    return compared()


def test_a_column_has_three_metrics_and_stars_for_p(one):
    text = paper_tables(one[1])["column"]
    assert r"\begin{table}" in text and "Model & NDCG@10 & Recall@10 & Hit@10 \\\\" in text
    rows = {line.strip().partition(" &")[0]: line for line in text.splitlines() if " & " in line}
    assert rows["better"].count("$^{***}$") == 3 and rows["better"].count(r"\textbf{") == 3
    # beside what is not significant stands what would have been found
    assert len(re.findall(r"\.\d{4} \{\\scriptsize \(\.0\d{3}\)\}", rows["same"])) == 3
    assert r"pop\_ularity" in rows
    assert "0." not in rows["better"]  # no leading zeros


def test_the_caption_says_what_is_averaged_and_what_one_fit_can_show(one):
    caption = next(
        line for line in paper_tables(one[1])["column"].splitlines() if "caption" in line
    )
    assert "Means over 200 users, one list each" in caption
    assert "the smallest difference that would have been found" in caption
    assert "compares these fitted models" in caption and "3 seeds of each" in caption
    events = compared(unit="interaction")[1]
    assert "200 test events, one list each" in paper_tables(events)["page"]


def test_the_caption_names_data_split_protocol_seeds_test_correction_and_direction(one):
    caption = paper_tables(one[1])["column"].split(r"\caption{")[1].splitlines()[0]
    for part in (
        "{Full ranking. Data: generated. Split: folds. Protocol: user/all/seen=",
        "Seeds: 1. ",
        "Test: paired randomisation test over 200 users. ",
        "Correction: Holm, for all comparisons of a metric. ",
        "Stars: significantly higher than pop\\_ularity (*, **, ***: p $<$ .05, .01, .001). ",
        "with a power of 80 \\% before the correction.",
    ):
        assert part in "{" + caption
    experiment = replace(
        one[0].experiment,
        data=Source(path="/home/ann/plays.csv"),
        split=Step("folds", {"count": 3}),
        filters=(Step("core", {"users": 5}), Step("above_mean")),
        compare=Comparison(baseline="better", test="wilcoxon"),
    )
    other = comparison(replace(one[0], experiment=experiment), "full ranking")
    caption = paper_tables(other)["page"]
    steps = r"Filters: core (users 5), above\_mean. Split: folds (count 3). "
    assert f"Data: plays.csv. {steps}" in caption and "ann" not in caption
    assert "Wilcoxon" in caption and "significantly lower than better (" in caption
    report = latex(main_table(other))
    assert rf"\caption{{Full ranking. Data: plays.csv. {steps}Protocol: " in report


def test_a_page_has_all_metrics_and_no_deviation_of_a_deterministic_model():
    _, several = compared(seeds=2)
    text = paper_tables(several)["page"]
    rows = {line.strip().partition(" &")[0]: line for line in text.splitlines() if " & " in line}
    assert r"\begin{table*}" in text and "MRR@10" in text
    assert rows["better"].count(r"$\pm$ .0007") == 4 and "pm" not in rows["same"]
    assert "fitted once" not in text
    table = main_table(several)
    assert [cell.detail for cell in table.rows[0][1:3]] == ["", ""]


def test_one_fit_finds_what_a_test_by_user_finds_and_says_what_it_is_about(one):
    _, table = one
    marks = {row["model"]: row["mark"] for row in table.of("ndcg@10")}
    assert marks == {"pop_ularity": "", "same": marks["same"], "better": "+"}
    assert "3 seeds of each model would show whether the recipes differ" in one_fit_note(table)
    assert one_fit_note(compared(seeds=2)[1]) == ""
    # every unit has the same item here, so nothing can be said of other seeds
    by_event = compared(unit="interaction")[1].of("ndcg@10")[1]
    assert by_event["with_seeds"] is not None and by_event["with_seeds"] >= by_event["detectable"]


def test_the_terminal_shows_what_was_detectable(one):
    from rich.console import Console

    console = Console(width=160, record=True, file=io.StringIO())
    console.print(terminal(one[0]))
    text = console.export_text()
    assert "Detectable" in text and "these fitted models" in text
