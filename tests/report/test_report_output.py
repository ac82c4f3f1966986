import io
import random
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import polars as pl
import pytest
from rich.console import Console
from toy_results import results_of

from fmpair.config.experiment import Comparison
from fmpair.report import figures
from fmpair.report.output import terminal, write
from fmpair.report.table_formats import wraprec_results

pytestmark = pytest.mark.slow

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


def test_the_pages_policy_allows_nothing_but_its_own_style(written):
    text = written.read_text("utf-8")
    policy = next(v for _, v in read(written).attributes if v and v.startswith("default-src"))
    assert text.index("Content-Security-Policy") < text.index("<title>") < text.index("<style>")
    assert policy.split("; ") == [
        "default-src 'none'", "style-src 'unsafe-inline'", "base-uri 'none'", "form-action 'none'",
    ]  # fmt: skip
    assert not re.search(r'<[^>]*\son[a-z]+="|javascript:', text)


HOSTILE = [
    "=1+1",
    "@a",
    "نموذج א",
    "a\u202eb",
    "\x1b[31mred\x00",
    "$\\frac{",
    "_x",
    "\u2069\u2067z",
    "数" * 200,
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The folder of a report whose models, protocol, groups and errors have names like these."""
    rng = random.Random(0)
    units = {(name, 0, 0): {"ndcg@10": [rng.random() for _ in range(20)]} for name in HOSTILE}
    made = results_of(units)
    bad = made.cells.head(1).with_columns(
        cell=pl.lit("x"), model=pl.lit("=bad"), error=pl.lit("=\x1b]0;title\x07 \u202e")
    )
    label, protocol = "عربي", made.experiment.protocols["full ranking"]
    other = "=数"
    values = made.values.with_columns(protocol=pl.lit(label))
    views = [
        {"model": name, "fold": 0, "seed": 0, "protocol": label, "view": "context:=day",
         "group": group, "units": 10, "metric": "ndcg@10", "value": 0.5}
        for name in HOSTILE for group in ("=cmd", "עברית")
    ]  # fmt: skip
    experiment = replace(
        made.experiment, name="\u202e=run", protocols={label: protocol, other: protocol}
    )
    made = replace(
        made, experiment=experiment, cells=pl.concat([made.cells, bad]),
        values=pl.concat([values, made.values.with_columns(protocol=pl.lit(other))]),
        views=pl.DataFrame(views, made.views.schema),
        units=dict.fromkeys((label, other), made.units["full ranking"]),
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("hostile")
    write(made, folder)
    return folder, made


def test_no_control_character_reaches_anything_a_person_reads(hostile):
    folder, made = hostile
    for path in (*folder.glob("*.html"), *folder.rglob("*.md"), *folder.rglob("*.tex")):
        text = path.read_text("utf-8")
        assert not re.search(
            "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066\u2067]", text
        ), path
    shown = Console(file=io.StringIO(), width=200, force_terminal=False)
    shown.print(terminal(made))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", shown.file.getvalue())


def test_a_name_from_right_to_left_turns_nothing_beside_it(hostile):
    folder, _ = hostile
    text = (folder / "report.html").read_text("utf-8")
    text = re.sub(r"(?s)<(pre|title|svg)\b.*?</\1>", "", text)
    found = list(re.finditer("[\u0590-\u08ff]+", text))
    assert len(found) >= 20
    for name in found:
        before = text[: name.start()]
        sentence = before.rfind("\u2068") > before.rfind("\u2069")
        cell = re.search(r"<bdi>(<[bu]>)?[^<]*$", before)
        assert sentence or cell, text[name.start() - 60 : name.end() + 20]


def test_every_model_stands_in_every_legend_whatever_its_name(hostile):
    folder, _ = hostile
    figures = [path.read_text("utf-8") for path in folder.glob("figures/*.svg")]
    assert len(figures) > 2
    for svg in figures:
        assert all(f">{name}<" in svg for name in ("=1+1", "@a", "$\\frac{", "_x"))


def test_no_csv_of_a_report_holds_a_formula(hostile):
    folder, made = hostile
    count = 0
    for path in folder.rglob("*.csv"):
        frame = pl.read_csv(path, infer_schema=False)
        for text in [*frame.columns, *(cell for column in frame for cell in column if cell)]:
            count += text.startswith("'")
            assert not re.match(r"[=+@\t\r-].", text) or re.fullmatch(r"[+-]?[\d.e+-]+", text)
    assert count > 20
    exact = folder.with_name("exact")
    write(made, exact, exact=True)
    assert "=1+1" in pl.read_csv(exact / "results.csv")["model"].to_list()


def test_tables_of_protocols_in_other_letters_are_all_there(hostile):
    folder, _ = hostile
    assert {"table.csv", "table-2.csv"} <= {path.name for path in folder.glob("tables/*.csv")}
    page = read(folder / "report.html")
    assert len(page.ids) == len(set(page.ids))


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
    for name in ("seconds of fits and evaluations", "peak memory in MB", "machine, memory in GB"):
        assert name in text, "a reader knows what is measured, and in which unit"
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
    monkeypatch.setattr(figures, "available", lambda: False)
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
    colour = figures.PALETTE[3].lower()  # of the fourth model
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


def test_names_of_models_are_whole_on_a_terminal_of_80_columns():
    names = ("popular-lately", "markov-chain", "FM-Pair with time")
    units = {(name, 0, 0): {"ndcg@10": [0.1, 0.2, 0.4], "recall@10": [0.1, 0.2, 0.3]}
             for name in names}  # fmt: skip
    shown = io.StringIO()
    Console(file=shown, width=80).print(terminal(results_of(units)))
    assert all(name in shown.getvalue() for name in names)


def test_a_narrow_terminal_leaves_out_metrics_but_the_main_one_and_says_so():
    metrics = ("recall@10", "ndcg@10", "mrr@10", "hit@10", "precision@10")
    names = ("popularity", "FM-Pair without context")
    units = {(name, 0, 0): {m: [0.1, 0.2, 0.4] for m in metrics} for name in names}
    results = results_of(units, metrics=metrics, compare=Comparison(names[1], "ndcg@10"))

    def lines(width):
        shown = io.StringIO()
        Console(file=shown, width=width).print(terminal(results))
        return shown.getvalue()

    narrow = lines(80)
    assert "popularity" in narrow and "NDCG@10" in narrow and "Detectable" in narrow
    assert "Too wide for here: " in narrow and "Precision@10, train s" in narrow
    assert "Too wide" not in lines(160) and "Precision@10" in lines(160)


def test_a_list_of_files_that_was_tampered_with_removes_nothing_else(world, tmp_path):
    (tmp_path / "precious").write_text("kept")
    place = tmp_path / "report"
    (place / "tables" / "mine").mkdir(parents=True)
    (place / "tables" / "old.csv").write_text("old")
    (place / ".report").write_bytes(
        f"../precious\n{tmp_path}/precious\ntables/../../precious\ntables/mine\n\xff\n"
        "tables/..\ntables/old.csv".encode("latin-1")
    )
    write(world, place)
    assert (tmp_path / "precious").read_text() == "kept" and (place / "tables" / "mine").is_dir()
    assert not (place / "tables" / "old.csv").exists()


def test_wide_tables_say_that_they_scroll_and_where_the_p_values_are(written):
    text = written.read_text("utf-8")
    table = text[text.index("<table>") : text.index("</table>")]
    columns = re.findall(r'<th scope="col"[^>]*><bdi>([^<]*)', table)
    assert f'<p class="hint">Scroll sideways: {len(columns)} columns →</p>' in text
    assert "p\N{NO-BREAK SPACE}(Holm)" in columns
    style = text[text.index("<style>") : text.index("</style>")]
    assert ".scroll::-webkit-scrollbar" in style and "overflow-x: auto" in style
