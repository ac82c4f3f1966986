"""The warning beside a verdict whose numbers repeats make too good."""

import io
from dataclasses import replace

import pytest
from rich.console import Console
from toy_results import results_of

from fmpair.evaluation import Protocol
from fmpair.report.model_comparison import comparison
from fmpair.report.output import terminal, write
from fmpair.report.sections import sections
from fmpair.report.verdict import context_leakage_table, headline, repeat_warnings, verdict

WARNING = (
    "full ranking: 40 of 100 test events (40%) repeat an item that their user had in training. "
    "Other seen items are excluded, which makes repeated items easy to find: the result is too "
    "high. Set seen: none to rank all items, or relevant: new to evaluate on new items only."
)


def repeating(count, **protocol):
    """Results of two folds with 50 test events each, some of which repeat."""
    made = results_of({("A", 0, 0): {"ndcg@10": [0.1, 0.2]}}, Protocol(**protocol))
    same = {"before": "train", "figure": "same_pair", "share": count / 100}
    figures = [
        {**same, "after": "test", "count": count // 2},
        {**same, "after": "validation", "count": 50},
    ]
    leakage = [{"fold": n, "lines": [], "figures": figures} for n in range(2)]
    sizes = {"hash": "h", "train": 9, "validation": 50, "test": 50}
    folds = [{"fold": n, **sizes} for n in range(2)]
    split = {"hash": "s", "folds": folds}
    return replace(made, manifest={**made.manifest, "leakage": leakage, "split": split})


def test_many_repeats_without_seen_items_are_a_warning():
    assert repeat_warnings(repeating(40, seen="train")) == [WARNING]


@pytest.mark.parametrize(
    ("count", "options"), [(10, {"seen": "train"}), (40, {"seen": "none"}), (0, {"seen": "train"})]
)
def test_few_repeats_or_all_items_ranked_need_no_warning(count, options):
    assert repeat_warnings(repeating(count, **options)) == []


def test_results_that_say_nothing_of_repeats_need_no_warning():
    assert repeat_warnings(results_of({("A", 0, 0): {"ndcg@10": [0.1, 0.2]}})) == []


def test_the_warning_is_below_the_verdict_in_every_output(tmp_path):
    results = repeating(40, seen="train")
    page = write(results, tmp_path)
    assert f"<li>{WARNING}</li>" in page.read_text("utf-8")
    lines = (tmp_path / "report.md").read_text("utf-8").splitlines()
    assert lines[2].startswith("**A reaches") and lines[4] == f"- Warning: {WARNING}"
    shown = io.StringIO()
    Console(file=shown, width=1000).print(terminal(results))
    assert shown.getvalue().rstrip().endswith(f"Warning: {WARNING}")


def with_context(world, **columns):
    rows = [
        {"column": name, "of_item": 0.1, "of_column": share, "degree": degree}
        for name, (share, degree) in columns.items()
    ]
    return replace(world, manifest={**world.manifest, "context": rows})


def said(results):
    return headline(results, comparison(results, "full ranking"))


def test_without_a_suspicion_the_verdict_stands(world):
    plain = f"full ranking: {verdict(comparison(world, 'full ranking'))}"
    assert said(world) == plain
    assert said(with_context(world, daytime=(0.4, "none"))) == plain


def test_a_leak_is_named_before_the_gain(world):
    told = said(with_context(world, daytime=(0.97, "certain"), place=(0.1, "none")))
    assert told.startswith(
        "Do not trust this result: context reveals the item "
        "(daytime: the item explains 97% of it). "
    )
    assert told.endswith(verdict(comparison(world, "full ranking")))


def test_a_suspicion_is_named_after_it(world):
    told = said(with_context(world, daytime=(0.65, "suspect")))
    assert told.endswith("Context may reveal the item (daytime: the item explains 65% of it): "
                         "see Leakage.")  # fmt: skip


@pytest.mark.parametrize("change", [{"context": ()}, {"kind": "popularity"}])
def test_a_winner_without_context_is_not_suspected(world, change):
    leaking = with_context(world, daytime=(0.97, "certain"))
    models = tuple(replace(model, **change) for model in leaking.experiment.models)
    clean = replace(leaking, experiment=replace(leaking.experiment, models=models))
    assert said(clean) == f"full ranking: {verdict(comparison(clean, 'full ranking'))}"


def test_the_section_of_leakage_says_what_each_column_gives_away(world):
    results = with_context(world, price=(0.97, "certain"), place=(0.1, "none"))
    tables = [comparison(results, label) for label in results.experiment.protocols]
    [part] = [one for one in sections(results, tables) if one.title == "Leakage"]
    table = part.tables[0]
    assert table.title == "What context columns reveal about the item"
    assert [[cell.text for cell in row][:2] for row in table.rows] == [
        ["price", "yes: it describes the item"],
        ["place", "no"],
    ]
    assert context_leakage_table({}) is None


def several(baselines, models):
    """Results of baselines and models by name and mean; each of 200 users has a value near it."""
    noise = [0.01 * (n % 5 - 2) for n in range(200)]
    means = {**baselines, **models}
    made = results_of(
        {(name, 0, 0): {"ndcg@10": [mean + e for e in noise[::way]]}
         for (name, mean), way in zip(means.items(), [1, -1] * len(means))}
    )  # fmt: skip
    kept = tuple(
        each if each.name in models else replace(each, kind="popularity")
        for each in made.experiment.models
    )
    return replace(made, experiment=replace(made.experiment, models=kept))


def sentence_on(baselines, models):
    return said(several(baselines, models)).replace("\xa0", " ")


def test_the_best_baseline_is_named_not_the_weakest():
    told = sentence_on({"popularity": 0.1, "markov": 0.31, "ease": 0.2}, {"FM": 0.35})
    assert told == (
        "FM beats the best of 3 baselines (markov: NDCG@10 0.3100 → 0.3500, p < .001, Holm)."
    )


def test_matrix_factorization_and_models_of_other_libraries_are_baselines():
    made = several({"popularity": 0.1}, {"als": 0.3, "lib": 0.2, "bpr": 0.15, "FM": 0.35})
    kinds = {"als": "implicit-als", "lib": "implicit", "bpr": "bpr-mf"}
    models = tuple(
        replace(each, kind=kinds.get(each.name, each.kind)) for each in made.experiment.models
    )
    made = replace(made, experiment=replace(made.experiment, models=models))
    assert said(made).startswith("FM beats the best of 4 baselines (als: NDCG@10 0.3000 → 0.3500")


def test_the_next_model_is_named_beside_the_best_baseline():
    told = sentence_on({"popularity": 0.1, "markov": 0.2}, {"A": 0.4, "B": 0.3, "C": 0.15})
    assert told.startswith("A beats the best of 2 baselines (markov: NDCG@10 0.2000 → 0.4000, ")
    assert told.endswith("; it is 33 % above B (p < .001, Holm).")
    close = sentence_on({"popularity": 0.1, "markov": 0.2}, {"A": 0.4, "B": 0.4})
    assert "; it is not significantly better than B (p = 1.000)." in close


def test_a_baseline_that_is_best_is_said_to_be():
    told = sentence_on({"popularity": 0.1, "markov": 0.4}, {"A": 0.2, "B": 0.3})
    assert told == (
        "No model beats the best of 2 baselines, markov: NDCG@10 0.4000. B is worse: 0.3000 "
        "(p < .001, Holm)."
    )
    close = sentence_on({"popularity": 0.1, "markov": 0.4}, {"A": 0.3999})
    assert "A is not significantly worse: 0.3999" in close
    assert "A has the same: 0.4000" in sentence_on({"popularity": 0.1, "markov": 0.4}, {"A": 0.4})


def test_one_baseline_is_no_choice_of_baselines():
    told = sentence_on({"popularity": 0.1}, {"A": 0.4, "B": 0.3})
    assert told.startswith("A is best: NDCG@10 0.4000, 33 % above B (p < .001, Holm)")
