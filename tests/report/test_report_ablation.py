import io
from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from test_merge import run
from toy_results import results_of

from fmpair.config.experiment import Ablation, Comparison
from fmpair.evaluation.statistics import holm, t_test
from fmpair.report.comparison import comparison
from fmpair.report.merge_runs import merged
from fmpair.report.result_tables import fields_sheets
from fmpair.report.table_formats import latex
from fmpair.report.write import terminal, write

NOISE = np.random.default_rng(0).normal(0, 0.02, (8, 400))
BASE = np.tile([0.4, 0.6], 200)
# Daytime is worth .1, and so are both its names; noise costs .05; moon is nothing but noise.
MEANS = {
    "FM": 0.1, "none": 0.05, "no noise": 0.15, "no day": 0.0, "no moon": 0.1,
    "day": 0.15, "noise": 0.0, "moon": 0.05,
}  # fmt: skip
WITHOUT = {"noise": "no noise", "day": "no day", "moon": "no moon"}
ONLY = {"day": "day", "noise": "noise", "moon": "moon"}


def values(sign=1):
    return {name: BASE + sign * gain + NOISE[n] for n, (name, gain) in enumerate(MEANS.items())}


def results(metric="ndcg@10", only=ONLY, sign=1, leave_out=(), test="t"):
    units = {(name, 0, 0): {metric: found} for name, found in values(sign).items()
             if name not in leave_out}  # fmt: skip
    made = results_of(units, metrics=(metric,), compare=Comparison(test=test))
    asked = (Ablation("FM", "none", WITHOUT, only),)
    return replace(made, experiment=replace(made.experiment, ablations=asked))


@cache
def compared():
    """The results as they are by default, compared once: intervals take a while."""
    return comparison(results(), "full ranking")


def worth_of(made):
    return comparison(made, "full ranking").fields["FM"]


def test_fields_stand_in_order_of_what_they_add_below_all_of_them():
    found = compared().fields["FM"]
    assert found["field"].to_list() == ["all fields", "day", "moon", "noise"]
    assert found["verdict"].to_list() == ["helps", "helps", "no difference", "hurts"]
    assert found["difference"].to_list() == pytest.approx([0.05, 0.1, 0.0, -0.05], abs=0.01)
    assert found["alone"].to_list() == pytest.approx([0.6, 0.65, 0.55, 0.5], abs=0.01)
    assert found["without"].to_list() == pytest.approx([0.55, 0.5, 0.6, 0.65], abs=0.01)


def test_a_field_alone_is_marked_against_none():
    found = compared().fields["FM"]
    assert found["mark"].to_list() == ["", "+", "=", "-"]
    assert found["gain"].to_list()[1:] == pytest.approx([0.1, 0.0, -0.05], abs=0.01)


def test_an_error_that_falls_is_help():
    found = worth_of(results("mae", sign=-1))
    assert found["field"].to_list() == ["all fields", "day", "moon", "noise"]
    assert found["verdict"].to_list() == ["helps", "helps", "no difference", "hurts"]
    assert found["difference"][1] < 0


def test_p_values_are_corrected_over_all_tests_of_the_table_and_no_others():
    all_values = values()
    pairs = [("FM", "none"), *(("FM", name) for name in WITHOUT.values())]
    pairs += [("none", name) for name in ONLY.values()]
    raw = [t_test(all_values[a], all_values[b]) for a, b in pairs]
    found = {row["field"]: row for row in compared().fields["FM"].to_dicts()}
    got = [found[name]["p"] for name in ("all fields", *WITHOUT)]
    got += [found[name]["p_gain"] for name in ONLY]
    assert got == pytest.approx(holm(raw))


def test_a_model_that_failed_leaves_its_field_without_a_verdict():
    found = worth_of(results(leave_out=("no day",)))
    assert found["field"].to_list() == ["all fields", "moon", "noise", "day"]
    last = found.row(-1, named=True)
    assert (last["without"], last["difference"], last["verdict"]) == (None, None, None)
    [sheet] = fields_sheets(comparison(results(leave_out=("no day",)), "full ranking"))
    assert [cell.text for cell in sheet.rows[-1]][1:5] == ["–"] * 4


def test_nobody_wins_by_a_metric_that_only_describes():
    assert worth_of(results("coverage@10"))["verdict"].to_list() == [None] * 4


def test_a_run_in_which_nothing_finished_has_no_table_of_fields():
    made = results()
    assert (
        comparison(replace(made, values=made.values.clear(), units={}), "full ranking").fields == {}
    )


def test_the_column_of_fields_alone_is_there_where_it_was_asked():
    [both] = fields_sheets(compared())
    [without] = fields_sheets(comparison(results(only={}), "full ranking"))
    assert both.columns[-2:] == ("Without it", "Only it") and without.columns == both.columns[:-1]
    assert len(both.notes) == 3 and len(without.notes) == 2
    told = "FM has NDCG@10 0.5993 with all fields and 0.5497 with none."
    assert without.notes[0].startswith(told)
    assert latex(both).isascii() and r"\textbf{hurts}" in latex(both)


def test_the_page_the_files_and_the_terminal_have_the_table(tmp_path):
    made = results()
    text = write(made, tmp_path).read_text("utf-8")
    assert "Which fields help: full ranking" in text and "<b>hurts</b>" in text
    for suffix in ("csv", "md", "tex"):
        assert (tmp_path / "tables" / f"full-ranking-fields-fm.{suffix}").stat().st_size > 100
    kept = pl.read_csv(tmp_path / "tables" / "full-ranking-fields-fm.csv")
    assert kept["verdict"].to_list() == worth_of(made)["verdict"].to_list()
    assert "Which fields help FM: NDCG@10" in (tmp_path / "report.md").read_text("utf-8")
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(terminal(made))
    shown = console.export_text()
    assert "Which fields help FM: NDCG@10" in shown and "hurts" in shown


def test_runs_put_side_by_side_leave_the_tables_of_fields_behind():
    one = run({"a": 0.0, "a with no field": 0.1})
    asked = (Ablation("a", "a with no field", {"day": "a with no field"}),)
    one = replace(one, experiment=replace(one.experiment, ablations=asked))
    both = merged({"one": one, "two": run({"a": 0.2})})
    assert comparison(both, "full ranking").fields == {}
