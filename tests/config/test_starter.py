from datetime import date, timedelta
from pathlib import Path

import polars as pl
import pytest

from fmpair import config
from fmpair.config.document import parse_yaml
from fmpair.config.experiment import Step
from fmpair.config.read import validate
from fmpair.config.starter import scalar, starter
from fmpair.errors import DataError, Notice
from fmpair.evaluation.protocol import PRESETS
from fmpair.experiment.prepared import prepare
from fmpair.testing import daytime_log, purchase_log


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def events(users=20, each=6, **columns):
    """Each user has `each` events with other items; columns: functions of the row's number."""
    rows = range(users * each)
    frame = {"user": [f"u{n % users}" for n in rows], "item": [f"i{n * 7 % 31}" for n in rows]}
    return pl.DataFrame(
        {**frame, **{name: [make(n) for n in rows] for name, make in columns.items()}}
    )


def started(frame, path="clicks.csv", **options):
    """The experiment that the starter of a file makes, read and split as a run would."""
    frame.write_parquet(path) if path.endswith("parquet") else frame.write_csv(path)
    with open("a.yaml", "w") as file:
        file.write(starter(path, **options))
    found = validate("a.yaml")
    bench = prepare(found.data, found.filters, found.split)
    assert len(bench.splits[0].test) and len(bench.splits[0].train)
    return found


def day(n):
    return str(date(2024, 1, 1) + timedelta(days=n))


@pytest.mark.parametrize("path", ["clicks.csv", "clicks.parquet"])
def test_context_is_compared_with_and_without(path):
    found = started(events(daytime=lambda n: ("am", "pm", None)[n % 3]), path)
    assert [model.name for model in found.models] == [
        "popularity", "ease", "FM-Pair without context", "FM-Pair with context",
    ]  # fmt: skip
    assert [model.context for model in found.models] == [None, None, (), None]
    assert found.split == Step("holdout", {"test": 0.2, "seed": 0})
    assert "context:daytime" in found.views


def test_counts_stand_in_comments(folder):
    events(daytime=lambda n: ("am", "pm", None)[n % 3]).write_csv("c.csv")
    text = starter("c.csv")
    assert "# 120 events of 20 users with 31 items." in text
    assert "# context daytime: 2 values, missing in 40 events" in text


def test_times_ask_for_a_split_by_time():
    assert started(events(timestamp=lambda n: n)).split == Step("leave_last_out", {"count": 1})
    assert started(events(100, 1, timestamp=lambda n: n)).split == Step("by_time", {"test": 0.2})


def sessions(count, each, gap):
    """Each session has `each` clicks within minutes, `gap` seconds after the one before."""
    rows = range(count * each)
    return pl.DataFrame({
        "session_id": [f"s{n // each}" for n in rows],
        "item": [f"i{n * n % 31}" for n in rows],
        "timestamp": [1_700_000_000 + gap * (n // each) + 20 * (n % each) for n in rows],
    })  # fmt: skip


def test_sessions_that_come_once_are_held_out_whole_and_asked_click_by_click():
    found = started(sessions(200, 3, 3600), user="session_id")
    assert found.split == Step("by_session", {"test": 0.2})
    assert dict(found.protocols) == {"sessions": PRESETS["sessions"]}
    assert found.metrics == ("mrr@20", "hit@20") and found.compare.baseline == "v-sknn"
    assert [model.kind for model in found.models][:4] == [
        "popularity", "markov-chain", "v-sknn", "ease",
    ]  # fmt: skip


def test_users_who_come_back_are_not_sessions():
    back = sessions(200, 3, 3600).with_columns(session_id=pl.Series([n % 60 for n in range(600)]))
    found = started(back, user="session_id")
    assert found.split.kind == "leave_last_out" and "sessions" not in found.protocols


def test_times_are_found_under_any_name():
    assert started(events(bought=day)).data.options["timestamp"] == "bought"
    numbers = events(event_time=lambda n: 1_700_000_000 + n)
    assert started(numbers).data.options["timestamp"] == "event_time"


def test_a_public_set_needs_no_starter():
    with pytest.raises(DataError, match=r"ml-100k is a public set.*write data: {set: ml-100k}"):
        starter("ml-100k")


def test_ratings_become_clicks():
    found = started(events(rating=lambda n: 1 + n % 7))
    assert found.filters == (Step("above_mean"),)
    assert started(events(rating=lambda n: 1)).filters == ()


def test_columns_that_are_no_context_are_put_where_they_belong():
    frame = pl.DataFrame({
        "user": [f"u{n % 20}" for n in range(400)], "item": [f"i{n % 80}" for n in range(400)],
        "genre": [f"g{n % 80 % 7}" for n in range(400)], "session": [f"s{n}" for n in range(400)],
        "constant": ["x"] * 400, "place": [("home", "work")[n // 80 % 2] for n in range(400)],
    })  # fmt: skip
    options = started(frame).data.options
    assert options["context"] == ["place"]
    assert options["item_columns"] == ["genre"]
    assert options["session"] == "session"
    assert options["ignore"] == ["constant"]


def test_odd_names_and_ids_survive():
    frame = events(**{"no": lambda n: ("a", "b")[n % 2], "a: b # c": lambda n: ("x", "y")[n % 2]})
    frame = frame.with_columns(user="00" + pl.col("user").str.slice(1)).rename({"user": "who, me"})
    found = started(frame, "my clicks [1].csv", user="who, me")
    assert found.data.options["context"] == ["no", "a: b # c"]
    assert found.data.options["user"] == "who, me"


@pytest.mark.parametrize(
    "text", ["a", "no", "null", "1", "1e3", "a b", "é", "~", "- x", "a\nb", ""]
)
def test_text_is_read_back_as_it_was(text):
    assert parse_yaml(f"[{scalar(text)}]", "x").values == [text]


def test_the_path_is_relative_to_where_the_file_will_lie(folder):
    (folder / "data").mkdir()
    (folder / "files").mkdir()
    events().write_csv("data/c.csv")
    text = starter("data/c.csv", beside="files")
    assert "path: ../data/c.csv" in text
    (folder / "files" / "a.yaml").write_text(text)
    assert config.read("files/a.yaml").data.path == str(folder / "files" / "../data/c.csv")


def test_what_it_cannot_make_out_is_said():
    pl.DataFrame({"a": ["x"], "item": ["y"]}).write_csv("c.csv")
    with pytest.raises(DataError, match="no user column found among a, item"):
        starter("c.csv")
    events().with_columns(user=pl.when(pl.col("item") != "i0").then("user")).write_csv("c.csv")
    with pytest.warns(Notice, match="left out 4 of 120 rows without a user"):
        starter("c.csv")


def test_ratings_that_some_events_lack_are_left_out_and_named():
    Path("gaps.csv").write_text("user,item,rating\nu,a,1\nu,b,\nv,a,5\nv,b,4\n")
    text = starter("gaps.csv")
    assert "# left out rating: missing in 1 of 4 events; drop those to use it" in text
    assert "ignore: [rating]" in text and "above_mean" not in text


@pytest.mark.parametrize(
    "name", ["a\nmodels: [evil]\nb", "x\u2028y", "\x7f\x85", "*a: &b {#", "😀\x1b[2J"]
)
def test_a_column_of_any_name_stays_a_name(tmp_path, name):
    events = pl.DataFrame({"user": list("aabbcc"), "item": list("xyxyxz"), name: list("ababba")})
    events.write_parquet(tmp_path / "e.parquet")
    (tmp_path / "a.yaml").write_text(starter(tmp_path / "e.parquet", beside=tmp_path), "utf-8")
    experiment = config.read(tmp_path / "a.yaml")
    assert list(experiment.data.options["context"]) == [name]
    kinds = [model.kind for model in experiment.models]
    assert kinds == ["popularity", "ease", "fm-pair", "fm-pair"]


def test_kinds_of_events_get_two_proposals_that_work():
    frame = events(event_type=lambda n: ("view", "view", "buy", "cart")[n % 4])
    text = Path("a.yaml")
    started(frame)
    found = text.read_text()
    assert "  # event_weights: {view: 1, cart: 3, buy: 5}\n" in found
    assert "    # levels: [view, cart, buy]   #" in found
    text.write_text(found.replace("# event_weights", "event_weights").replace("# levels", "levels"))
    experiment = validate("a.yaml")
    assert experiment.data.options["event_weights"] == {"view": 1, "cart": 3, "buy": 5}
    assert experiment.models[-1].options["levels"] == ["view", "cart", "buy"]
    bench = prepare(experiment.data, experiment.filters, experiment.split)
    assert set(bench.data.columns["weight"]) == {1, 3, 5}


def kinds(found):
    return [model.kind for model in found.models if model.kind != "fm-pair"]


def test_baselines_fit_the_data():
    assert kinds(started(events())) == ["popularity", "ease"]
    assert kinds(started(events(timestamp=lambda n: n))) == ["popularity", "markov-chain", "ease"]
    months = started(events(bought=day))
    assert kinds(months) == ["popularity", "popular-lately", "markov-chain", "ease"]
    assert months.compare.baseline == "markov-chain"
    many = events(users=4_100, each=1).with_columns(item=pl.int_range(pl.len()))
    assert kinds(started(many)) == ["popularity", "item-knn"]


def test_content_is_proposed_where_new_items_have_attributes():
    # every day has three items of its own
    frame = events(users=20, each=6, day=lambda n: n // 20)
    frame = frame.with_columns(
        item=pl.format("i{}", pl.col("day") * 3 + pl.int_range(pl.len()) % 3)
    )
    table = pl.DataFrame({"item": frame["item"].unique(maintain_order=True)})
    table.with_columns(kind=pl.Series(["calm", "loud"] * 9)).write_csv("items.csv")
    found = started(frame.rename({"day": "timestamp"}), items="items.csv")
    assert kinds(found) == ["popularity", "markov-chain", "content-profile", "content-knn", "ease"]
    assert found.protocols["new items"].id == "user/cold/seen=train/relevant=cold"
    assert found.views[-1] == "events" and found.compare.baseline == "markov-chain"
    assert "100% of the test events are of new items" in Path("a.yaml").read_text()


@pytest.mark.parametrize(
    ("columns", "name", "parts"),
    [
        ({"at": lambda n: f"2024-01-0{1 + n // 24} {n % 24:02d}:30:00"}, "time",
         ["hour", "weekday", "since"]),
        ({"bought": day, "place": lambda n: "ab"[n % 2]}, "context and time",
         ["weekday", "since"]),
    ],
)  # fmt: skip
def test_real_times_are_proposed_as_context_of_one_more_model(columns, name, parts):
    last = started(events(**columns)).models[-1]
    assert last.name == f"FM-Pair with {name}"
    assert last.options["fields"] == {"timestamp": {"kind": "time", "parts": parts}}


def test_numbers_in_order_have_no_hours():
    names = [model.name for model in started(events(timestamp=lambda n: n)).models]
    assert names[-1] == "FM-Pair"


def test_merging_is_offered_if_a_quarter_of_the_events_repeat_the_one_before():
    purchase_log(80, 40, 1_000).write_csv("shop.csv")
    text = starter("shop.csv")
    said = "of the events repeat the item of the user's event before within 30 minutes (view, cart"
    assert f"  # 25% {said}" in text
    assert "\n  # merge_repeats: 30\n" in text
    Path("a.yaml").write_text(text.replace("# merge_repeats: 30", "merge_repeats: 30"))
    found = validate("a.yaml")
    assert len(prepare(found.data, found.filters, found.split).data) == 750
    daytime_log(80, 40, 1_000).write_csv("day.csv")
    assert "merge_repeats" not in starter("day.csv")


def test_what_the_caller_asks_for_is_written_into_the_file(folder):
    purchase_log(80, 40, 1_000).write_csv("shop.csv")
    pl.DataFrame({"product_id": ["sku-00001"], "brand": ["x"]}).write_csv("items.csv")
    (folder / "files").mkdir()
    options = {"merge_repeats": 20.0, "refunds": "keep", "items": "items.csv"}
    text = starter("shop.csv", beside="files", **options)
    assert "  refunds: keep\n  merge_repeats: 20.0\n  items: ../items.csv\n" in text
    assert "# merge_repeats" not in text
    assert "# 750 events of" in text


def test_refunds_are_left_out_with_a_line():
    frame = events(event_type=lambda n: "refund" if n % 9 == 3 else "buy", price=lambda n: n % 7)
    frame.write_csv("c.csv")
    with pytest.warns(Notice, match="left out 13 of 120 events that are refunds"):
        assert "# 107 events of 20 users" in starter("c.csv")


def test_several_seeds_are_proposed():
    assert started(events()).seeds == (0, 1, 2)


def test_a_log_with_some_times_is_told_what_the_missing_ones_cost():
    started(events(time=lambda n: None if n == 7 else f"2024-01-01T12:{n // 60:02}:{n % 60:02}"))
    text = Path("a.yaml").read_text()
    assert "# 1 event has no time (with --missing drop-untimed" in text
    assert "There are no times" not in text
