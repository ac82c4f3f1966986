import io
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import polars as pl
import pytest
from rich.console import Console
from toy_results import results_of

from fmpair.report import style
from fmpair.report.legacy import wraprec_results
from fmpair.report.terminal import terminal
from fmpair.report.write import write

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("report")]

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Reader(HTMLParser):
    """The page's text and attributes; every tag must be closed in turn."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.attributes, self.ids = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.attributes += attributes
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag("meta", attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(path):
    reader = Reader()
    reader.feed(path.read_text("utf-8"))
    reader.close()
    assert reader.open == []
    return reader


def files_of(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def written(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return write(world, folder)


def test_the_page_stands_alone(written):
    text = written.read_text("utf-8")
    assert not re.search(r"https?://|//[a-z]+\.|<script|<link|@import|<img|src=", text)
    addresses = [v for name, v in read(written).attributes if name.endswith("href")]
    assert addresses and all(address.startswith("#") for address in addresses)


def test_every_place_the_page_links_to_is_there_once(written):
    page = read(written)
    assert len(page.ids) == len(set(page.ids))
    places = {v[1:] for name, v in page.attributes if name.endswith("href")}
    assert places <= set(page.ids)


def test_the_page_names_every_model_metric_and_protocol(written, world):
    text = "".join(read(written).text)
    for model in world.experiment.models:
        assert model.name in text
    for name in ("NDCG@10", "Recall@10[uni30]", "interaction/all/seen=none", "5e1f", "a1b2"):
        assert name in text
    for title in ("Learning curves", "Tuning", "Times and memory", "Data", "Leakage", "Provenance"):
        assert title in text
    assert "fmpair run context.yaml" in text
    assert "Failures" not in text


def test_all_files_are_written(written, world):
    names = {str(path) for path in files_of(written.parent)}
    assert {"report.html", "report.md", "results.csv", "results.parquet", "wraprec.csv"} <= names
    for stem in ("full-ranking", "one-plus-random-details", "times", "tuning", "splits"):
        assert {f"tables/{stem}.{suffix}" for suffix in ("csv", "md", "tex")} <= names
    for stem in ("full-ranking-ndcg-10", "full-ranking-by-context-daytime", "learning-loss"):
        assert {f"figures/{stem}.{suffix}" for suffix in ("svg", "png")} <= names
    assert not any(name.endswith(".part") for name in names)
    long = pl.read_parquet(written.parent / "results.parquet")
    assert len(long) == len(world.values)
    assert set(long["protocol_id"]) == {p.id for p in world.experiment.protocols.values()}


def test_writing_twice_gives_the_same_bytes(written, world, tmp_path):
    write(world, tmp_path)
    assert files_of(tmp_path) == files_of(written.parent)


def test_a_later_report_takes_the_place_of_an_earlier_one_and_of_nothing_else(
    world, tmp_path, monkeypatch
):
    monkeypatch.setattr(style, "available", lambda: False)
    write(world, tmp_path)
    own = tmp_path / "tables" / "mine.csv"
    own.write_text("kept")
    write(replace(world, trials=world.trials.clear()), tmp_path)
    names = {str(path) for path in files_of(tmp_path)}
    assert not any("tuning" in name for name in names)
    assert "tables/times.csv" in names and own.read_text() == "kept"


def test_figures_change_no_setting_of_the_callers(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    write(results_of({("alone", 0, 0): {"ndcg@10": [0.5, 0.7]}}), tmp_path)
    assert list((tmp_path / "figures").iterdir())
    assert dict(matplotlib.rcParams) == before


def test_a_model_has_one_colour_everywhere(written):
    colour = style.PALETTE[3].lower()  # of the fourth model
    for name in ("full-ranking-ndcg-10", "full-ranking-by-popularity", "learning-loss"):
        assert colour in (written.parent / "figures" / f"{name}.svg").read_text("utf-8").lower()


def test_without_matplotlib_the_page_has_no_figures_and_says_how_to_get_them(
    world, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    page = write(world, tmp_path)
    text = page.read_text("utf-8")
    assert "<svg" not in text and "pip install &#39;fmpair[report]&#39;" in text
    assert list((tmp_path / "figures").iterdir()) == []


def test_a_run_with_failures_and_without_curves_says_so(tmp_path):
    units = {("good", 0, 0): {"ndcg@10": [0.5, 0.6, 0.7]}, ("bad", 0, 0): {"ndcg@10": [0.1] * 3}}
    results = results_of(units)
    error = pl.Series([None, "KeyError: <b>no</b> such column"])
    results = replace(
        results,
        cells=results.cells.with_columns(error=error),
        values=results.values.filter(pl.col("model") == "good"),
        units={k: v.filter(pl.col("model") == "good") for k, v in results.units.items()},
    )
    page = write(results, tmp_path)
    text = "".join(read(page).text)
    assert "1 of 2 repeats failed" in text and "KeyError: <b>no</b> such column" in text
    assert "Learning curves" not in text
    assert (tmp_path / "tables" / "failures.csv").exists()


def test_a_run_in_which_nothing_finished_still_has_a_page(tmp_path):
    results = results_of({("bad", 0, 0): {"ndcg@10": [0.5]}})
    results = replace(
        results, cells=results.cells.with_columns(error=pl.lit("broke")),
        values=results.values.clear(), units={},
    )  # fmt: skip
    text = "".join(read(write(results, tmp_path)).text)
    assert "No model finished" in text and "broke" in text


def test_a_single_model_is_reported_without_a_test(tmp_path):
    page = write(results_of({("alone", 0, 0): {"ndcg@10": [0.5, 0.7]}}), tmp_path)
    assert "alone reaches NDCG@10 0.6000" in "".join(read(page).text)


def test_ids_of_a_model_are_escaped_in_page_and_tables(tmp_path):
    name = 'a <b> & "c" | d_e'
    page = write(results_of({(name, 0, 0): {"ndcg@10": [0.5, 0.7]}}), tmp_path)
    assert name in "".join(read(page).text)
    assert r"a \<b> & " in (tmp_path / "report.md").read_text("utf-8")


def test_wraprec_gets_a_row_per_repeat_protocol_and_cut_off(world):
    frame = wraprec_results(world)
    assert len(frame) == 4 * 2 * 2  # models, folds, protocols; all metrics have one cut-off
    assert frame.columns[:7] == ["ExpeimentId", "ModelId", "SplitId", "ContainerId",
                                 "AllowDuplicates", "CurrentIter", "EpochTime"]  # fmt: skip
    row = frame.filter(
        pl.col("ModelId") == "FM-Pair, 4 factors", pl.col("NumCandidates") == "30"
    ).row(0, named=True)
    assert (row["factors"], row["TrainTime"], row["TotalTime"]) == ("4", "1250", "1500")
    assert (row["CutOff"], row["TestedCases"], row["EvalMethod"]) == ("10", "1200", "OPR")
    means = world.values.filter(
        pl.col("model") == "FM-Pair, 4 factors", pl.col("metric") == "recall@10[uni30]"
    )
    assert row["Recall"] == pytest.approx(means["value"][0])


def test_the_terminal_shows_a_table_per_protocol_and_the_verdict(world):
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(terminal(world))
    text = console.export_text()
    assert "Full ranking" in text and "One-plus-random" in text and "[uni30]" in text
    assert "FM-Pair with context" in text
