import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from toy_results import results_of

from fmpair.config.experiment import Comparison
from fmpair.report.model_comparison import comparison
from fmpair.report.result_tables import details_table, main_table, view_table
from fmpair.report.run_tables import (
    failures_table,
    leakage_table,
    leakage_verdict,
    options_text,
    times_table,
    tuning_table,
)
from fmpair.report.sections import sections, warnings
from fmpair.report.table import (
    NO_BREAK,
    ReportTable,
    TableCell,
    figure,
    metric_title,
    p_claim,
    p_value,
    percent,
    seconds,
    slug,
)
from fmpair.report.table_formats import latex, markdown
from fmpair.report.verdict import verdict

STEADY = np.tile([0.4, 0.6], 50)


def three(gap=0.1):
    """A baseline, and two above it that cannot be told apart."""
    jitter = np.tile([0.01, -0.008, 0.001, -0.001], 25)
    values = {"base": STEADY, "near": STEADY + gap, "top": STEADY + gap + jitter}
    units = {(model, 0, 0): {"ndcg@10": found} for model, found in values.items()}
    return results_of(units, compare=Comparison("base"))


def test_the_main_table_shows_mean_mark_difference_and_p():
    table = main_table(comparison(three(), "full ranking"))
    cells = {row[0].text: dict(zip(table.columns, row)) for row in table.rows}
    assert cells["top"]["NDCG@10"] == TableCell("0.6005", "", "+", bold=True)
    assert cells["near"]["NDCG@10"] == TableCell("0.6000", "", "+", underlined=True)
    assert cells["base"]["NDCG@10"] == TableCell("0.5000")
    assert cells["near"]["vs base"] == TableCell("+20\N{NO-BREAK SPACE}%", "+0.1000")
    assert any("+: significantly better than base" in note for note in table.notes)


def test_what_an_unmarked_value_of_another_metric_would_have_shown_is_beside_it():
    ahead, jitter = STEADY + 0.1, np.tile([0.01, -0.008, 0.001, -0.001], 25)
    units = {
        ("base", 0, 0): {"ndcg@10": STEADY, "recall@10": STEADY},
        ("top", 0, 0): {"ndcg@10": ahead, "recall@10": STEADY + jitter},
    }
    two = results_of(units, metrics=("ndcg@10", "recall@10"), compare=Comparison("base"))
    table = main_table(comparison(two, "full ranking"))
    cells = dict(zip(table.columns, table.rows[1]))
    assert cells["NDCG@10"].detail == "" and cells["Recall@10"].detail == "(0.0018)"
    assert any("In parentheses: the detectable difference." in note for note in table.notes)
    plain = main_table(comparison(three(), "full ranking"))
    assert not any("In parentheses" in note for note in plain.notes)


def test_the_notes_name_the_test_its_users_and_its_variance():
    told = " ".join(main_table(comparison(three(), "full ranking")).notes).replace(NO_BREAK, " ")
    assert "paired randomisation test over 100 users, differences summed by user" in told
    assert "Each model was fitted once: the test compares these fitted models" in told
    assert "3 seeds of each model would show whether the recipes differ" in told
    found = comparison(three(), "full ranking")
    alike = replace(found, seedless=("base", "near", "top"))  # another fit of them is the same
    assert "fitted once" not in " ".join(main_table(alike).notes)
    units = {
        (model, fold, seed): {"ndcg@10": STEADY + 0.1 * (model == "b") + 0.01 * seed}
        for model in "ab" for fold in range(2) for seed in range(3)
    }  # fmt: skip
    told = " ".join(main_table(comparison(results_of(units), "full ranking")).notes)
    assert "Tests and intervals include the variance between 2 folds and 3 seeds." in told


def test_an_equivalent_model_is_marked_beside_the_detectable_difference():
    wave = np.tile([0.01, -0.01, -0.01, 0.01], 25)
    units = {("a", 0, 0): {"ndcg@10": STEADY}, ("b", 0, 0): {"ndcg@10": STEADY + wave}}
    table = comparison(results_of(units, compare=Comparison("a")), "full ranking")
    table = main_table(table)
    cells = dict(zip(table.columns, table.rows[1]))
    assert cells["NDCG@10"].mark == "=" and "0.5000⁼" in markdown(table)
    assert cells["Detectable"] == TableCell("0.0028")  # 2.8 standard errors of .001
    assert any(
        "=: equivalent to the best, within 1 % (" in note.replace(NO_BREAK, " ")
        for note in table.notes
    )


def test_coverage_gets_a_column_where_a_list_is_missing(world):
    results = three()
    assert "Coverage" not in main_table(comparison(results, "full ranking")).columns
    half = replace(results, values=results.values.with_columns(coverage=pl.lit(0.5)))
    assert main_table(comparison(half, "full ranking")).columns[-1] == "Coverage"


def test_every_number_has_a_row_per_model_and_metric(world):
    table = details_table(comparison(world, "full ranking"))
    assert len(table.rows) == 4 * 2
    assert table.data.columns[:3] == ["model", "metric", "mean"]


def test_a_view_weighs_folds_by_their_units():
    views = pl.DataFrame({
        "model": "base", "fold": [0, 1], "seed": 0, "protocol": "full ranking",
        "view": "popularity", "group": "head", "units": [1, 3], "metric": "ndcg@10",
        "value": [0.8, 0.4],
    })  # fmt: skip
    results = replace(three(), views=views)
    table = view_table(results, comparison(results, "full ranking"), "popularity")
    assert table.columns == ("Model", "head (4)")
    assert table.rows == ((TableCell("base"), TableCell("0.5000", bold=True)),)


@pytest.mark.parametrize("few", [True, False])
def test_quality_by_events_of_the_item_is_shown_where_some_have_few(few):
    groups = ["above 100", "11 to 100", "0"] if few else ["above 100", "11 to 100", "4 to 10"]
    views = pl.DataFrame({
        "model": "base", "fold": 0, "seed": 0, "protocol": "full ranking", "view": "events",
        "group": groups, "units": [5, 4, 3], "metric": "ndcg@10", "value": [0.3, 0.2, 0.1],
    })  # fmt: skip
    results = replace(three(), views=views)
    parts = sections(results, [comparison(results, "full ranking")])
    shown = [part for part in parts if part.title.startswith("By group")]
    if not few:
        assert not any(part.tables for part in shown)
        return
    table, drawn = shown[0].tables[0], shown[0].figures[0]
    assert table.columns == ("Model", "0 (3)", "11 to 100 (4)", "above 100 (5)")
    assert drawn.title == table.title == "NDCG@10 by number of training events of the item"


def test_times_are_means_of_the_repeats_that_went_well():
    results = three()
    cells = results.cells.with_columns(
        train_seconds=pl.Series([1.0, 2.0, 3.0]), error=pl.Series([None, None, "broke"])
    )
    rows = times_table(replace(results, cells=cells)).rows
    assert [(row[0].text, row[1].text) for row in rows] == [("base", "1.00"), ("near", "2.00")]


def tuned(cell, *trials):
    """The results of a tuned model in one fold; trials: (options, value, chosen)."""
    results = three()
    name = results.experiment.models[0].name
    keys = {"model": name, "fold": 0, "metric": "ndcg@10", "seconds": 1.0}
    rows = [
        {**keys, "trial": number + 1, "options": options, "value": value, "chosen": chosen}
        for number, (options, value, chosen) in enumerate(trials)
    ]
    cells = results.cells.with_columns(options=pl.lit(cell))
    return replace(results, cells=cells, trials=pl.DataFrame(rows, results.trials.schema))


def test_tuning_names_the_setting_of_the_cells_and_its_value_on_validation():
    trials = ('{"k":1}', 0.3, False), ('{"k":2}', 0.2, True)
    table = tuning_table(tuned('{"k":2}', *trials))
    assert [cell.text for cell in table.rows[0]][1:4] == ["k 2", "0", "NDCG@10 0.2000"]
    assert not any("the time ended" in note for note in table.notes)


def test_tuning_says_where_the_time_ended_before_a_trial_had_all_epochs():
    trials = ('{"epochs":2,"rate":0.2}', 0.3, True), ('{"epochs":2,"rate":0.4}', 0.1, False)
    table = tuning_table(tuned('{"epochs":8,"rate":0.1}', *trials))
    assert [cell.text for cell in table.rows[0]][1:4] == [
        "epochs 8, rate 0.1", "0", "NDCG@10 0.3000"
    ]  # fmt: skip
    assert "fold 0: the time ended before a trial of this setting had all" in table.notes[1]


def test_failures_have_a_table_only_where_something_failed():
    results = three()
    assert failures_table(results) is None
    cells = results.cells.with_columns(error=pl.Series([None, None, "out of memory"]))
    rows = failures_table(replace(results, cells=cells)).rows
    assert [cell.text for cell in rows[0]] == ["top", "out of memory", "0", "0"]


def test_latex_is_balanced_and_escaped():
    row = (
        TableCell("my_model & 50%"),
        TableCell("0.5", "± 0.1", "−", True),
        TableCell("< .001", underlined=True),
    )
    table = ReportTable("a-b", "50 % of {x}_1", ("Model", "NDCG@10", "p"), (row,), pl.DataFrame())
    text = latex(table)
    assert r"my\_model \& 50\%" in text and r"\{x\}\_1" in text
    assert r"\textbf{0.5}$^{-}$ {\scriptsize $\pm$ 0.1}" in text
    bare = text.replace(r"\{", "").replace(r"\}", "")
    assert bare.count("{") == bare.count("}")
    assert bare.replace(r"\$", "").count("$") % 2 == 0
    for name in ("table", "tabular"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") == 1
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0]
    assert body.count("&") - body.count(r"\&") == 2


def test_latex_of_a_real_table_has_no_sign_that_latex_would_take_for_its_own(world):
    text = latex(main_table(comparison(world, "one-plus-random")))
    assert text.isascii()
    assert "_" not in text.replace(r"\_", "")


def test_markdown_marks_the_best_and_those_beside_it():
    text = markdown(main_table(comparison(three(), "full ranking")))
    lines = text.splitlines()
    assert lines[0].startswith("| Model | NDCG@10 |")
    assert "**0.6005⁺**" in text and "*0.6000⁺*" in text
    assert "Italic: not significantly different" in text
    assert len({line.count("|") for line in lines[:5]}) == 1


def test_the_verdict_says_who_is_best_by_how_much_and_how_surely():
    units = {("slow", 0, 0): {"ndcg@10": STEADY}, ("good", 0, 0): {"ndcg@10": STEADY + 0.05}}
    told = verdict(comparison(results_of(units), "full ranking"))
    said = "good is best: NDCG@10 0.5500, 10 % above slow (p < .001, Holm)."
    assert told.replace(NO_BREAK, " ") == said


def test_the_verdict_does_not_claim_what_the_test_does_not_show():
    told = verdict(comparison(three(), "full ranking")).replace(NO_BREAK, " ")
    assert told.startswith("top has the highest NDCG@10, 0.6005, but is not significantly better")
    assert "near (p = " in told and "20 % above base (p < .001, Holm)" in told


def test_the_verdict_of_one_model_and_of_none():
    one = results_of({("a", 0, 0): {"ndcg@10": [0.5, 0.5]}})
    assert "no other model" in verdict(comparison(one, "full ranking"))
    none = replace(one, values=one.values.clear(), units={})
    assert verdict(comparison(none, "full ranking")).startswith("No model finished")


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (figure(0.23124), "0.2312"), (figure(-31.54), "−31.5"), (figure(1204.4), "1,204"),
        (figure(None), "–"), (p_value(0.0004), "< .001"), (p_value(0.0123), ".012"),
        (p_value(1.0), "1.000"), (p_claim(0.2), "p = .200"), (p_claim(0.0001), "p < .001"),
        (percent(0.1234), "12 %"), (percent(-0.012), "−1.2 %"),
        (seconds(0.01234), "0.0123"), (seconds(1234.5), "1,234"),
        (metric_title("ndcg@10[uni1000]"), "NDCG@10[uni1000]"), (metric_title("hit@5"), "Hit@5"),
        (slug("Full ranking: A/B"), "full-ranking-a-b"),
    ],
)  # fmt: skip
def test_numbers_and_names_as_a_reader_wants_them(made, shown):
    assert made.replace(NO_BREAK, " ") == shown


def test_options_are_told_in_words():
    assert options_text(json.dumps({"factors": 16, "rate": 0.123456})) == "factors 16, rate 0.1235"
    assert options_text("{}") == options_text(None) == "defaults"


def test_a_metric_that_is_perfect_everywhere_is_a_warning():
    units = {
        ("a", 0, 0): {"ndcg@10": [1.0, 1.0], "recall@10": [0.0, 0.0], "coverage@10": [1.0, 1.0]},
        ("b", 0, 0): {"ndcg@10": [1.0, 1.0], "recall@10": [0.0, 0.5], "coverage@10": [1.0, 1.0]},
    }
    results = results_of(units, metrics=("ndcg@10", "recall@10", "coverage@10"))
    told = warnings(results, [comparison(results, "full ranking")])
    assert told == [
        "full ranking: NDCG@10 is exactly 1 for every list of a, b: check candidates, seen items "
        "and ids before you trust it.",
        "full ranking: Recall@10 is exactly 0 for every list of a: check candidates, seen items "
        "and ids before you trust it.",
    ]


def test_counts_of_leakage_are_whole_unless_they_are_means():
    def counts(*found):
        keys = {"before": "train", "after": "test", "figure": "same_pair", "share": 0.1}
        folds = [
            {"fold": fold, "figures": [{**keys, "count": count}]}
            for fold, count in enumerate(found)
        ]
        return [row[3].text for row in leakage_table(folds).rows]

    assert (counts(2), counts(2, 3), counts(20_000)) == (["2"], ["2.5"], ["20,000"])


def test_the_leakage_table_says_what_is_a_problem():
    found = [
        {"before": "train", "after": "test", "figure": name, "count": count, "share": count / 10}
        for name, count in (("older", 4), ("unseen_users", 2), ("same_event", 0))
    ]
    folds = [{"fold": 0, "lines": [], "figures": found}]
    told = {row[0].text: row[2].text for row in leakage_table(folds).rows}
    assert told["older"].startswith("only for forecasts")
    assert told["unseen users"].startswith("no: makes the task harder")
    assert told["same event"] == "no"
    assert leakage_verdict(folds).startswith("The split is not by time")
    found[2]["count"] = 3
    assert "a problem unless users repeat" in leakage_verdict(folds)
    assert leakage_verdict([{"fold": 0, "figures": []}]).startswith("No problem was found")
