import io
from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from test_merge_runs import run
from toy_results import results_of

from fmpair.config.experiment import Ablation, Comparison
from fmpair.errors import DataError, OptionError
from fmpair.evaluation import Protocol
from fmpair.evaluation.statistics import effect_size, holm, randomisation_test, t_test, wilcoxon
from fmpair.report.model_comparison import comparison, merged
from fmpair.report.output import terminal, write
from fmpair.report.result_tables import field_tables
from fmpair.report.significance import by_unit
from fmpair.report.table_formats import latex


def test_models_and_units_come_in_one_order():
    models = [f"m{n}" for n in np.random.default_rng(0).permutation(40)]
    units = pl.concat(
        pl.DataFrame({"model": [name] * 50, "fold": [0] * 50, "unit": range(50), "user": range(50),
                      "item": [None] * 50, "ndcg@10": noisy(0.5, 1, 50)})
        for name in models
    )  # fmt: skip
    for _ in range(10):
        found = by_unit(units, ["ndcg@10"])
        assert list(found) == models
        assert all(frame["unit"].to_list() == list(range(50)) for frame in found.values())


def noisy(mean, seed, size=200):
    return np.random.default_rng(seed).normal(mean, 0.1, size)


def row_of(table, model, metric=None):
    return next(row for row in table.of(metric or table.metric) if row["model"] == model)


def test_mean_and_standard_deviation_are_over_folds_and_seeds():
    results = results_of({
        ("a", 0, 0): {"ndcg@10": [0.1, 0.3]}, ("a", 0, 1): {"ndcg@10": [0.3, 0.5]},
        ("a", 1, 0): {"ndcg@10": [0.6, 0.6]}, ("a", 1, 1): {"ndcg@10": [0.4, 0.4]},
    })  # fmt: skip
    row = row_of(comparison(results, "full ranking"), "a")
    # The four repeats have means .2, .4, .6 and .4.
    assert row["mean"] == pytest.approx(0.4)
    assert row["sd"] == pytest.approx((0.08 / 3) ** 0.5)
    assert (row["repeats"], row["units"]) == (4, 4)


def test_seeds_of_a_unit_are_averaged_before_they_are_paired():
    units = {}
    for seed in range(5):  # the same evidence five times over
        units["a", 0, seed] = {"ndcg@10": [0.5, 0.6, 0.4, 0.7]}
        units["b", 0, seed] = {"ndcg@10": [0.4, 0.5, 0.3, 0.6]}
    row = row_of(comparison(results_of(units), "full ranking"), "b")
    assert row["p"] == pytest.approx(2 / 2**4)  # four units, all one way: exact


@pytest.mark.parametrize(
    ("name", "test"), [("randomisation", randomisation_test), ("t", t_test), ("wilcoxon", wilcoxon)]
)
def test_p_values_are_those_of_the_chosen_test_corrected_by_holm(name, test):
    values = {model: noisy(0.5, n) + 0.01 * n for n, model in enumerate("abc")}
    units = {(model, 0, 0): {"ndcg@10": found} for model, found in values.items()}
    compare = Comparison(baseline="a", test=name)
    table = comparison(results_of(units, compare=compare), "full ranking")
    best = max(values, key=lambda model: values[model].mean())
    pairs = {frozenset(("a", "b")), frozenset(("a", "c")), frozenset((best, "b"))}
    pairs |= {frozenset((best, model)) for model in "abc" if model != best}
    pairs = sorted(pairs - {frozenset((best,))}, key=sorted)
    raw = [test(values[min(pair)], values[max(pair)]) for pair in pairs]
    expected = dict(zip(pairs, holm(raw)))
    for model in "bc":
        row = row_of(table, model)
        assert row["p"] == pytest.approx(expected[frozenset(("a", model))], rel=0.1)
        assert row["effect"] == pytest.approx(effect_size(values[model], values["a"]))
        assert row["difference"] == pytest.approx(values[model].mean() - values["a"].mean())


def test_marks_appear_exactly_when_the_test_says_so():
    units = {
        ("base", 0, 0): {"ndcg@10": noisy(0.5, 1)},
        ("same", 0, 0): {"ndcg@10": noisy(0.5, 1) + np.tile([0.01, -0.01], 100)},
        ("good", 0, 0): {"ndcg@10": noisy(0.6, 1)},
        ("equal", 0, 0): {"ndcg@10": noisy(0.6, 1) - np.tile([0.011, -0.01], 100)},
        ("bad", 0, 0): {"ndcg@10": noisy(0.4, 1)},
    }
    table = comparison(results_of(units, compare=Comparison("base")), "full ranking")
    marks = {row["model"]: row["mark"] for row in table.of("ndcg@10")}
    assert marks == {"base": "", "same": "=", "good": "+", "equal": "+", "bad": "-"}
    for row in table.of("ndcg@10"):
        assert (row["mark"] in ("+", "-")) == (row["p"] is not None and row["p"] < table.level)
    assert [row["model"] for row in table.of("ndcg@10") if row["best"]] == ["good"]
    assert [row["model"] for row in table.of("ndcg@10") if row["near_best"]] == ["equal"]


def by_user(results, count):
    """The units of each model dealt out to so many users."""
    frame = results.units["full ranking"].with_columns(
        user=pl.format("u{}", pl.col("unit") % count)
    )
    return replace(results, units={"full ranking": frame})


def test_users_are_what_is_tested_and_drawn():
    gain = np.tile(np.random.default_rng(2).normal(0.02, 0.05, 10), 20)
    units = {
        ("a", 0, 0): {"ndcg@10": noisy(0.5, 1)},
        ("b", 0, 0): {"ndcg@10": noisy(0.5, 1) + gain},
    }
    results = results_of(units, compare=Comparison("a", test="t"))
    alone = row_of(comparison(results, "full ranking"), "b")
    row = row_of(comparison(by_user(results, 10), "full ranking"), "b")
    assert (alone["users"], row["users"], row["units"]) == (200, 10, 200)
    assert alone["p"] < 0.001 and row["p"] == pytest.approx(t_test(gain[:10], gain[:10] * 0))
    assert row["detectable"] > 3 * alone["detectable"]


def test_the_variance_between_seeds_and_folds_enters():
    moved = [0.08, -0.04, 0.06, -0.02]
    for fold in (lambda n: (0, n), lambda n: (n, 0)):  # four seeds, then four folds
        units = {}
        for n, shift in enumerate(moved):
            units["a", *fold(n)] = {"ndcg@10": noisy(0.5, n)}
            units["b", *fold(n)] = {"ndcg@10": noisy(0.5, n) + 0.01 + shift}
        results = results_of(units, compare=Comparison("a"))
        row = row_of(comparison(results, "full ranking"), "b")
        assert row["difference"] == pytest.approx(0.03)
        assert row["p"] > 0.1  # every unit gains the same: over units alone there is no doubt
        assert row["mark"] == "" and not row["same"]
        assert row["detectable"] > 0.05


def test_a_model_that_is_level_is_shown_to_be_and_one_that_may_not_be_is_not():
    wave = np.tile([0.02, -0.02], 100)
    units = {
        ("base", 0, 0): {"ndcg@10": noisy(0.5, 1)},
        ("level", 0, 0): {"ndcg@10": noisy(0.5, 1) + wave},
        ("vague", 0, 0): {"ndcg@10": noisy(0.5, 1) + 10 * wave},
    }
    table = comparison(results_of(units, compare=Comparison("base")), "full ranking")
    assert [row["mark"] for row in table.of("ndcg@10")] == ["", "=", ""]
    narrow = Comparison("base", margin=0.001)
    table = comparison(results_of(units, compare=narrow), "full ranking")
    assert [row["mark"] for row in table.of("ndcg@10")] == ["", "", ""]


def test_without_a_baseline_models_are_tested_against_the_best_of_each_metric():
    units = {
        ("a", 0, 0): {"ndcg@10": noisy(0.6, 1), "recall@10": noisy(0.4, 2)},
        ("b", 0, 0): {"ndcg@10": noisy(0.5, 1), "recall@10": noisy(0.5, 2)},
    }
    table = comparison(results_of(units, metrics=("ndcg@10", "recall@10")), "full ranking")
    assert {row["baseline"] for row in table.of("ndcg@10")} == {"a"}
    assert {row["baseline"] for row in table.of("recall@10")} == {"b"}
    assert row_of(table, "b")["mark"] == "-"


def test_lower_is_better_for_errors_and_rmse_takes_the_root_of_its_interval():
    protocol = Protocol()
    units = {("a", 0, 0): {"rmse": noisy(1.0, 1) ** 2}, ("b", 0, 0): {"rmse": noisy(0.8, 1) ** 2}}
    results = results_of(units, protocol, ("rmse",), Comparison("a"))
    results = replace(results, values=results.values.with_columns(pl.col("value").sqrt()))
    row = row_of(comparison(results, "full ranking"), "b")
    assert row["best"] and row["mark"] == "+" and row["difference"] < 0
    assert row["low"] < row["mean"] < row["high"]


def test_a_metric_that_only_describes_has_no_winner():
    units = {
        ("a", 0, 0): {"ndcg@10": noisy(0.6, 1), "novelty@10": noisy(3, 1)},
        ("b", 0, 0): {"ndcg@10": noisy(0.5, 1), "novelty@10": noisy(4, 1)},
    }
    table = comparison(results_of(units, metrics=("ndcg@10", "novelty@10")), "full ranking")
    for row in table.of("novelty@10"):
        assert (row["best"], row["near_best"], row["mark"], row["p"]) == (False, False, "", None)


def test_a_metric_without_values_per_unit_has_a_mean_and_no_interval():
    units = {("a", 0, 0): {"ndcg@10": [0.5, 0.6], "gini@10": [None, None]}}
    results = results_of(units, metrics=("ndcg@10", "gini@10"))
    gini = pl.when(pl.col("metric") == "gini@10").then(0.7).otherwise("value")
    results = replace(results, values=results.values.with_columns(value=gini))
    row = row_of(comparison(results, "full ranking"), "a", "gini@10")
    assert (row["mean"], row["low"], row["high"]) == (0.7, None, None)


def test_a_model_that_lacks_a_fold_is_compared_on_those_both_have():
    units = {
        ("a", 0, 0): {"ndcg@10": noisy(0.5, 1)}, ("a", 1, 0): {"ndcg@10": noisy(0.9, 2)},
        ("b", 0, 0): {"ndcg@10": noisy(0.6, 1)},
    }  # fmt: skip
    row = row_of(comparison(results_of(units, compare=Comparison("a")), "full ranking"), "b")
    assert row["difference"] == pytest.approx(0.1)
    assert row["mark"] == "+"


def test_models_judged_on_other_units_are_refused():
    units = {("a", 0, 0): {"ndcg@10": [0.1, 0.2, 0.3]}, ("b", 0, 0): {"ndcg@10": [0.1, 0.2]}}
    with pytest.raises(DataError, match="not evaluated on the same units"):
        comparison(results_of(units), "full ranking")


def test_a_protocol_by_another_name_is_refused_with_the_nearest():
    results = results_of({("a", 0, 0): {"ndcg@10": [0.1]}})
    with pytest.raises(OptionError, match="Did you mean 'full ranking'"):
        comparison(results, "full rankings")


def test_a_table_has_one_protocol_only(world):
    for label, protocol in world.experiment.protocols.items():
        table = comparison(world, label)
        assert table.protocol == protocol.id
        assert table.metrics == tuple(protocol.name(metric) for metric in world.experiment.metrics)


def test_sampled_metrics_carry_their_sample_and_a_corrected_estimate(world):
    table = comparison(world, "one-plus-random")
    whole = comparison(world, "full ranking")
    for row, full in zip(table.of("recall@10[uni30]"), whole.of("recall@10")):
        assert row["corrected"] < row["mean"]
        assert row["corrected"] == pytest.approx(full["mean"], abs=0.05)
        assert full["corrected"] is None


def test_users_put_together_to_be_drawn_leave_the_interval_as_it_is():
    values = np.random.default_rng(3).random((2, 12_000))
    units = {(model, 0, 0): {"auc": found} for model, found in zip("ab", values)}
    row = row_of(comparison(results_of(units, metrics=("auc",)), "full ranking"), "a")
    half = 1.96 * values[0].std(ddof=1) / 12_000**0.5
    assert row["low"] == pytest.approx(values[0].mean() - half, abs=2e-4)
    assert row["high"] == pytest.approx(values[0].mean() + half, abs=2e-4)


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
    [table] = field_tables(comparison(results(leave_out=("no day",)), "full ranking"))
    assert [cell.text for cell in table.rows[-1]][1:5] == ["–"] * 4


def test_nobody_wins_by_a_metric_that_only_describes():
    assert worth_of(results("coverage@10"))["verdict"].to_list() == [None] * 4


def test_a_run_in_which_nothing_finished_has_no_table_of_fields():
    made = results()
    assert (
        comparison(replace(made, values=made.values.clear(), units={}), "full ranking").fields == {}
    )


def test_the_column_of_fields_alone_is_there_where_it_was_asked():
    [both] = field_tables(compared())
    [without] = field_tables(comparison(results(only={}), "full ranking"))
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
