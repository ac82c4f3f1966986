"""A part of the paper is run by the ordinary runner, and goes on where it stopped."""

from importlib.resources import files as resources
from pathlib import Path

import pytest

from fmpair.config.option_schema import options_of
from fmpair.config.read import read
from fmpair.errors import UnknownError
from fmpair.experiment.folder import results
from fmpair.models.catalog import find
from fmpair.reproduction import run as reproduction
from fmpair.reproduction.run import ALL, FOLDER, PAPER_SECTIONS, QUICK_EVENTS, files, quick

pytestmark = pytest.mark.slow

TINY = """\
data: {generate: {users: 40, items: 30, events: 900}}
split: {kind: folds, count: 2}
models:
  - {kind: popularity, name: Most-Popular}
  - {kind: fm-pair, name: FM-Pair, factors: 2, epochs: 2}
metrics: [recall@10]
views: []
compare: {baseline: FM-Pair}
output: {refit: false}
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The paper as one small experiment."""
    path = tmp_path / "table2-movielens-legacy.yaml"
    path.write_text(TINY)
    monkeypatch.setattr(reproduction, "files", lambda part: [path])
    return tmp_path / "runs"


def test_an_experiment_gets_a_folder_and_a_report_of_its_own(tiny):
    found = reproduction.reproduce("table2", tiny)
    assert list(found) == ["table2-movielens-legacy"]
    assert (tiny / "table2-movielens-legacy" / "report.html").is_file()
    assert results(tiny / "table2-movielens-legacy").cells["error"].null_count() == 4


def test_what_is_done_is_not_done_again(tiny):
    reproduction.reproduce("table2", tiny)
    before = {path: path.stat().st_mtime_ns for path in tiny.rglob("cells/*.json")}
    reproduction.reproduce("table2", tiny)
    assert before == {path: path.stat().st_mtime_ns for path in tiny.rglob("cells/*.json")}


def test_two_runs_agree_to_the_digit(tiny, tmp_path):
    runs = [reproduction.reproduce("table2", place) for place in (tiny, tmp_path / "again")]
    summaries = [found["table2-movielens-legacy"] for found in runs]
    first, second = (each.comparisons["full ranking"].rows for each in summaries)
    assert first.equals(second)


def test_what_was_never_run_is_left_out(tiny):
    assert reproduction.read_summaries(tiny) == {}


def test_results_go_where_they_are_told(tmp_path):
    path = FOLDER / "table2-movielens-legacy.yaml"
    found = reproduction.experiment_of(path, tmp_path)
    assert Path(found.output.folder) == tmp_path / "table2-movielens-legacy"


STEMS = [path.stem for path in files(ALL)]


def test_the_files_are_shipped_with_the_package():
    shipped = {entry.name for entry in (resources("fmpair.reproduction") / "experiments").iterdir()}
    assert {f"{stem}.yaml" for stem in STEMS} <= shipped


def test_every_file_but_those_they_extend_belongs_to_a_part():
    left = {path.stem for path in FOLDER.glob("*.yaml")} - set(STEMS)
    assert left == {"base", "legacy", "clean"}


@pytest.mark.parametrize("part", PAPER_SECTIONS)
def test_every_part_has_files_and_only_its_own(part):
    assert files(part)
    assert all(path.stem.startswith(f"{part}-") for path in files(part))


def test_an_unknown_part_is_told_with_the_nearest():
    with pytest.raises(UnknownError, match="Did you mean 'table2'"):
        files("tabel2")


@pytest.mark.parametrize("stem", STEMS)
def test_a_file_is_sound_and_named_after_itself(stem):
    assert read(FOLDER / f"{stem}.yaml").name == stem


@pytest.mark.parametrize("stem", STEMS)
def test_a_file_says_how_to_run_it(stem):
    text = (FOLDER / f"{stem}.yaml").read_text("utf-8")
    assert f"fmpair run examples/paper/{stem}.yaml" in text


def test_tables_have_both_protocols_on_every_set():
    wanted = {f"table2-{name}" for name in ("movielens", "frappe", "amazon", "xing")}
    wanted |= {"table3-movielens", "table3-frappe", "table4-books", "table4-music"}
    assert {f"{name}-{way}" for name in wanted for way in ("legacy", "clean")} <= set(STEMS)


def test_legacy_and_clean_rank_against_what_they_say():
    legacy = read(FOLDER / "table2-frappe-legacy.yaml")
    clean = read(FOLDER / "table2-frappe-clean.yaml")
    assert [p.label for p in legacy.protocols.values()] == ["first1000"]
    assert [p.label for p in clean.protocols.values()] == ["uni1000", "all"]
    assert len(clean.seeds) == 2


def test_what_a_verdict_turns_on_has_six_seeds():
    turning = {
        "table2-frappe-clean": ("BPR-MF", "FM-Pair"),
        "table2-movielens-legacy": ("BPR-MF", "FM-Pair"),
        "table2-xing-legacy": ("BPR-MF", "FM-Pair"),
        "table3-frappe-clean": ("FM-Pair", "FM-Pair-Context", "FM-Pair-Context, order three"),
        "table3-frappe-legacy": ("FM-Pair", "FM-Pair-Context"),
        "table4-books-clean": ("Target only", "All domains", "FM-Pair-CD"),
        "table4-music-legacy": ("Target only", "All domains", "FM-Pair-CD"),
    }
    for stem, names in turning.items():
        experiment = read(FOLDER / f"{stem}.yaml")
        counts = {model.name: len(model.seeds or experiment.seeds) for model in experiment.models}
        assert all(counts[name] == 6 for name in names), stem
        assert sum(counts.values()) < 6 * len(counts) or len(names) == len(counts)


@pytest.mark.parametrize("stem", STEMS)
def test_no_model_of_the_paper_learns_from_histories(stem):
    for model in read(FOLDER / f"{stem}.yaml").models:
        known = options_of(find(model.kind)).known
        if "history" in known:
            assert model.options.get("history", known["history"].default) == 0


def test_times_are_measured_on_many_events_and_at_ten_sizes_or_more():
    for stem in ("complexity-movielens", "complexity-xing", "complexity-contexts"):
        experiment = read(FOLDER / f"{stem}.yaml")
        assert len(experiment.models) >= 10
        assert experiment.filters[-1].options["events"] >= 3_000_000
    assert quick(experiment).filters[0].options["events"] == QUICK_EVENTS


def test_quick_is_the_same_experiment_on_few_events():
    whole = read(FOLDER / "table2-movielens-legacy.yaml")
    small = quick(whole)
    assert [model.name for model in small.models] == [model.name for model in whole.models]
    assert small.filters[-1].options == {"count": QUICK_EVENTS}
    assert small.split.options["count"] == 2 and small.seeds == (0,)
    assert all(model.options.get("epochs", 1) <= 2 for model in small.models)


def test_quick_leaves_a_split_without_folds_as_it_is():
    whole = read(FOLDER / "complexity-movielens.yaml")
    assert quick(whole).split == whole.split
