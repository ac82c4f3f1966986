"""The warning beside a verdict whose numbers repeats make too good."""

import io
from dataclasses import replace

import pytest
from rich.console import Console
from toy_results import results_of

from fmpair.evaluation import Protocol
from fmpair.report.verdict import cautions
from fmpair.report.write import terminal, write

SAID = (
    "full ranking: 40 of 100 test events (40%) repeat an item that their user had in training. Of "
    "a user's seen items only the repeated one is ranked, which makes it easy to find: the number "
    "is higher than what a user meets. Write seen: none instead, which ranks all items, or "
    "relevant: new, which asks for new ones only."
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


def test_many_repeats_under_seen_train_are_warned_of_in_the_words_of_the_file():
    assert cautions(repeating(40, seen="train")) == [SAID]


@pytest.mark.parametrize(
    ("count", "options"), [(10, {"seen": "train"}), (40, {"seen": "none"}), (0, {"seen": "train"})]
)
def test_few_repeats_or_all_items_ranked_need_no_warning(count, options):
    assert cautions(repeating(count, **options)) == []


def test_results_that_say_nothing_of_repeats_need_no_warning():
    assert cautions(results_of({("A", 0, 0): {"ndcg@10": [0.1, 0.2]}})) == []


def test_the_warning_stands_below_the_verdict_in_every_form(tmp_path):
    results = repeating(40, seen="train")
    page = write(results, tmp_path)
    assert f"<li>{SAID}</li>".replace("'", "&#39;") in page.read_text("utf-8")
    lines = (tmp_path / "report.md").read_text("utf-8").splitlines()
    assert lines[2].startswith("**A reaches") and lines[4] == f"- Warning: {SAID}"
    shown = io.StringIO()
    Console(file=shown, width=1000).print(terminal(results))
    assert shown.getvalue().rstrip().endswith(f"Warning: {SAID}")
