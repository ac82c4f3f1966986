"""The pages of results quote what the results files hold; experiments of examples can be read."""

import re
import sys
from pathlib import Path

import pytest

from fmpair.config.read import read

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import leaderboard_page  # noqa: E402
import published  # noqa: E402
import recipes  # noqa: E402

QUOTING = ("README.md", "docs/benchmarks.md", "docs/sequences.md", "docs/side_by_side.md")
FIGURE = re.compile(r"(?<![\w.])\.\d{3,4}\b")


@pytest.fixture(scope="module")
def rows():
    return leaderboard_page.read_results()


def test_the_tables_of_the_pages_are_those_that_the_results_make(rows):
    for path, text in leaderboard_page.pages(rows).items():
        assert (ROOT / path).read_text("utf-8") == text, (
            f"benchmarks/leaderboard.py --write: {path}"
        )


@pytest.mark.parametrize("path", QUOTING)
def test_a_page_quotes_no_figure_that_the_results_lack(path, rows):
    made = (make(rows) for make in (leaderboard_page.board, leaderboard_page.overview))
    known = set(FIGURE.findall(" ".join(made))) | set(FIGURE.findall(leaderboard_page.front(rows)))
    assert not set(FIGURE.findall((ROOT / path).read_text("utf-8"))) - known


def test_the_tables_of_recipes_are_those_that_the_results_make():
    page = (ROOT / "docs/model.md").read_text("utf-8")
    results = recipes.tables(recipes.RESULTS)
    figures = set(re.findall(r"0(\.\d{4}) \|", results))
    assert len(figures) > 20
    assert not figures - set(FIGURE.findall(page))


def test_a_figure_that_no_result_has_is_found(rows):
    shown = leaderboard_page.board(rows)
    changed = [{**row, "values": {m: v + 0.1 for m, v in row["values"].items()}} for row in rows]
    assert set(FIGURE.findall(shown)) - set(FIGURE.findall(leaderboard_page.board(changed)))


def test_every_result_names_its_split_version_and_machine(rows):
    for row in rows:
        assert row["split"] and row["version"] and row["machine"] and row["seconds"] >= 0
        assert row["set"] in leaderboard_page.SECTIONS and row["model"] in leaderboard_page.LABELS


def test_results_of_a_set_are_of_one_split_for_each_seed(rows):
    for name in leaderboard_page.SECTIONS:
        own = [r for r in rows if r["set"] == name and not leaderboard_page.unlike(r)]
        seeds = {row["seed"] for row in own}
        for seed in seeds:
            assert len({row["split"] for row in own if row["seed"] == seed}) == 1, name


def test_published_rows_have_a_linked_source_and_a_set():
    for row in published.ROWS:
        assert re.fullmatch(r"\[[^]]+\]\(https://[^)]+\)", row.source), row
        assert row.set in leaderboard_page.SECTIONS and len(row.values) == 2


@pytest.mark.parametrize("way", ["damping", "popularity_power"])
def test_the_page_about_popularity_reduces_it_step_by_step(way):
    found = read(ROOT / "examples" / "benchmarks" / "popularity.yaml")
    for loss in ("bpr", "softmax"):
        own = [m.options for m in found.models if m.options.get("loss", "bpr") == loss]
        steps = [options[way] for options in own if way in options]
        assert steps == sorted(steps) and len(steps) > 2
