"""The page is made of results: nothing that was not run stands on it."""

import polars as pl
import pytest
from paper_runs import by_factors, judged, timed

from fmpair.reproduction.page import sections, verdict, write, write_page
from fmpair.reproduction.paper import TABLE2, TABLE3, TABLE4, claims
from fmpair.reproduction.paper_tables import (
    comparison_table,
    evidence_table,
    order_note,
    sparse_table,
)

pytestmark = pytest.mark.slow

METHODS = {"Most-Popular": 0.1168, "FM-Map": 0.07, "BPR-MF": 0.2237, "FM-Pair": 0.2266}

LEAK = {"FM-Pair": 0.2, "FM-Pair, leaked genres": 0.3, "FM-Pair, leaked genres of value 1": 0.7}


@pytest.fixture
def found():
    return {
        "table1-movielens": judged("FM-Pair", METHODS),
        "table2-movielens-legacy": judged("FM-Pair", METHODS),
        "table3-leak-legacy": judged("FM-Pair", LEAK),
        "epoch-time-movielens": timed({"BPR-MF": 0.01, "FM-Pair": 0.01, "GPFM": 1.0}),
        "complexity-movielens": by_factors(0.001),
        "ablation-frappe": judged("no context", {"no context": 0.4, "with context=city": 0.5}),
    }


def titles(parts):
    return [part.title.partition(":")[0] for part in parts]


def test_what_was_run_has_a_section_and_what_was_not_has_none(found):
    told = titles(sections(found))
    assert {"Verdicts", "Table 1", "Table 2", "Table 3", "Time of an epoch", "Complexity",
            "Errata"} <= set(told)  # fmt: skip
    assert "Table 4" not in told and "Convergence" not in told


def test_the_papers_number_stands_beside_ours(found):
    printed = TABLE2["movielens"]
    sheet = comparison_table("table2-movielens", "MovieLens", found, printed, "recall@10")
    row = next(row for row in sheet.rows if row[0].text == "BPR-MF")
    assert [cell.text for cell in row[1:3]] == ["0.2278", "0.2237"]
    assert row[4].text == "–"  # clean was not run


def test_every_set_has_a_table_only_where_it_was_run(found):
    assert comparison_table("table2-xing", "XING", found, TABLE2["xing"], "recall@10") is None


def test_the_page_and_its_images_are_written(found, tmp_path):
    page = write(found, tmp_path)
    text = (tmp_path / "reproduction.md").read_text("utf-8")
    assert page.name == "report.html" and "0.2237" in page.read_text("utf-8")
    named = {
        line.split("(images/")[1].rstrip(")") for line in text.splitlines() if "(images/" in line
    }
    assert named == {path.name for path in (tmp_path / "images").iterdir()}
    assert {"layout-machine.svg", "layout-domains.svg", "epoch-time.svg"} <= named


def test_the_same_results_give_the_same_page(found, tmp_path):
    first = write_page(found, tmp_path / "a").read_bytes()
    assert first == write_page(found, tmp_path / "b").read_bytes()


def test_thinned_targets_stand_above_the_whole_one():
    means = {"Target only": 0.2, "All domains": 0.1, "FM-Pair-CD": 0.3}
    whole = {name: 2 * mean for name, mean in means.items()}
    runs = {
        "ablation-sparse-music-5": judged("Target only", means),
        "table4-music-clean": judged("Target only", whole),
    }
    sheet = sparse_table(runs)
    shown = [[cell.text for cell in row[:6]] for row in sheet.rows]
    assert shown == [
        ["Music", "5", "0.2000", "0.1000", ".001", "0.3000"],
        ["Music", "no limit", "0.4000", "0.2000", ".001", "0.6000"],
    ]
    assert sparse_table({"table4-music-clean": judged("Target only", whole)}) is None


def test_the_leak_is_told_with_its_numbers(found):
    errata = next(part for part in sections(found) if part.title == "Errata")
    assert any("0.2000 to 0.3000" in text and "0.7000" in text for text in errata.text)


def test_the_papers_numbers_are_shares():
    printed = [one for table in (TABLE2, TABLE3, TABLE4) for part in table.values()
               for one in part.values()]  # fmt: skip
    assert all(0 <= one.mean < 0.3 and (one.sd is None or 0 < one.sd < 0.03) for one in printed)


def test_the_first_line_names_the_claims_of_each_verdict(found):
    assert verdict(found).startswith("Verdicts by claim of the paper. 1, 2: holds under legacy.")
    assert verdict({}).endswith("1, 2, 3, 4, 5, 6, 7, 8: not run.")


def test_a_comparison_that_was_not_run_has_a_dash():
    found = {"table2-frappe-clean": judged("FM-Pair", METHODS)}
    rows = [[cell.text for cell in row] for row in evidence_table(claims(found)).rows]
    assert rows[0][:3] == ["1", "BPR-MF vs FM-Pair: Frappe", "–"]
    assert rows[0][3].startswith("0.2237 vs 0.2266")


def beside(*rows):
    return pl.DataFrame(rows, ["model", "paper", "legacy"], orient="row")


def test_orders_and_distances_are_told_of_models_both_have():
    frame = beside(("A", 0.2, 0.15), ("B", 0.1, 0.25), ("ours only", None, 0.9), ("C", 0.05, None))
    assert order_note(frame) == (
        "Order of the models in the paper, best first: A, B. Under legacy: B, A.",
        "Legacy minus paper: A -0.0500, B +0.1500.",
    )


def test_an_order_that_is_met_is_the_same():
    order, _ = order_note(beside(("A", 0.2, 0.3), ("B", 0.1, 0.1)))
    assert order.endswith("best first: A, B. Under legacy: the same.")


def test_one_model_has_no_order():
    assert order_note(beside(("A", 0.2, 0.3), ("B", None, 0.1))) == ()
