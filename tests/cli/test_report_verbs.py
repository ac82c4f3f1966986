import json

import polars as pl
import pytest

from fmpair.cli import run

pytestmark = pytest.mark.slow

FILE = """
data: {{generate: {{users: 40, items: 30, events: 900, seed: {world}}}}}
split: {{kind: folds, count: 2, seed: {split}}}
models:
  - popularity
  - {{kind: fm-pair, name: FM-Pair, factors: 4, epochs: {epochs}, history: 0, order: 2,
     times: false}}
protocols: {{full ranking: {{seen: {seen}}}}}
metrics: [ndcg@10]
views: []
output: {{refit: false}}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of five runs: two alike, and three that differ from them in one thing each."""
    folder = tmp_path_factory.mktemp("runs")
    settings = {"world": 0, "split": 0, "epochs": 2, "seen": "none"}
    for name, change in {
        "first": {}, "second": {"epochs": 8}, "data": {"world": 1}, "split": {"split": 1},
        "protocol": {"seen": "train"},
    }.items():  # fmt: skip
        file = folder / f"{name}.yaml"
        file.write_text(FILE.format(**settings | change))
        with pytest.MonkeyPatch.context() as changed:  # the test of `report` draws
            changed.setattr("fmpair.report.figures.available", lambda: False)
            assert run(["run", str(file), "--folder", str(folder / name), "--quiet"]) == 0
    return folder


def test_report_writes_the_page_anew_and_prints_its_path(fmpair, runs, tmp_path):
    result = fmpair("report", runs / "first", "-o", tmp_path / "new")
    assert (result.code, result.out.strip()) == (0, str(tmp_path / "new" / "report.html"))
    page = (tmp_path / "new" / "report.html").read_bytes()
    assert b"<h1><bdi>first</bdi></h1>" in page and b"FM-Pair" in page
    assert fmpair("report", runs / "first").code == 0
    assert (runs / "first" / "report.html").read_bytes() == page


def test_the_report_of_a_folder_without_results_says_how_to_make_them(fmpair, tmp_path):
    result = fmpair("report", tmp_path)
    assert result.code == 1 and "holds no results: create them with fmpair run" in result.err


def test_compare_puts_models_of_both_runs_into_one_table(fmpair, runs, tmp_path):
    shown = fmpair("compare", runs / "first", runs / "second")
    assert shown.code == 0
    for name in ("popularity", "FM-Pair", "(first)", "(second)", "NDCG@10"):
        assert name in shown.out
    target = tmp_path / "both.csv"
    assert fmpair("compare", runs / "first", runs / "second", "-o", target).code == 0
    frame = pl.read_csv(target)
    assert frame["model"].to_list() == ["popularity", "FM-Pair (first)", "FM-Pair (second)"]
    assert frame["p"].is_not_null().sum() == 2


@pytest.mark.parametrize(("suffix", "sign"), [("md", "| --- |"), ("tex", r"\toprule")])
def test_compare_writes_what_the_suffix_says(fmpair, runs, tmp_path, suffix, sign):
    target = tmp_path / f"both.{suffix}"
    assert fmpair("compare", runs / "first", runs / "second", "-o", target).code == 0
    assert sign in target.read_text("utf-8")


def test_compare_writes_tables_for_papers_beside_a_tex_file(fmpair, runs, tmp_path):
    target = tmp_path / "both.tex"
    assert fmpair("compare", runs / "first", runs / "second", "-o", target).code == 0
    for width, kind in (("column", "{table}"), ("page", "{table*}")):
        text = (tmp_path / f"both-{width}.tex").read_text("utf-8")
        assert rf"\begin{kind}" in text and "FM-Pair (second)" in text


@pytest.mark.parametrize(
    ("other", "said"),
    [("data", "data fingerprint"), ("split", "split hash"), ("protocol", "protocol id")],
)
def test_compare_names_what_keeps_two_runs_apart(fmpair, runs, other, said):
    result = fmpair("compare", runs / "first", runs / other)
    assert result.code == 1 and result.out == ""
    assert result.err.count("\n") == 1 and said in result.err


def test_compare_refuses_a_suffix_it_cannot_write(fmpair, runs, tmp_path):
    result = fmpair("compare", runs / "first", runs / "second", "-o", tmp_path / "x.docx")
    assert result.code == 1 and ".csv, .md, .tex" in result.err


def test_the_manifest_stands_in_the_report(fmpair, runs):
    manifest = json.loads((runs / "first" / "manifest.json").read_text())
    page = (runs / "first" / "report.html").read_text("utf-8")
    assert manifest["data"]["fingerprint"] in page and manifest["split"]["hash"] in page
