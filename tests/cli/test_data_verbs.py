import json

import polars as pl

from fmpair.data import public_sets


def test_list_names_every_public_set(fmpair):
    result = fmpair("data", "list")
    assert [line.split(",")[0] for line in result.out.splitlines()[1:]] == public_sets.names()


def test_describe_gives_figures(fmpair, files):
    result = fmpair("data", "describe", files / "events.csv", "--users", files / "users.csv")
    figures = dict(line.split(",", 1) for line in result.out.splitlines() if '"' not in line)
    assert (figures["users"], figures["items"], figures["events"]) == ("30", "20", "600")


def test_fetch_prints_the_folder(fmpair, tmp_path, monkeypatch):
    known = public_sets.find("depaul-movie")
    (tmp_path / known.name).mkdir()
    for file in known.files:
        (tmp_path / known.name / file.name).write_text("x")
    monkeypatch.setenv(public_sets.VARIABLE, str(tmp_path))
    result = fmpair("data", "fetch", known.name)
    assert (result.code, result.out) == (0, f"{tmp_path / known.name}\n")


def test_fetch_of_an_unknown_set_names_the_nearest(fmpair):
    result = fmpair("data", "fetch", "ml-100")
    assert result.code == 1 and "Did you mean 'ml-100k'?" in result.err


def test_convert_keeps_the_events(fmpair, files, tmp_path):
    target = tmp_path / "e.parquet"
    assert fmpair("data", "convert", files / "events.csv", target).code == 0
    assert pl.read_parquet(target).equals(pl.read_csv(files / "events.csv"))


def test_convert_works_between_standard_streams(fmpair):
    result = fmpair("data", "convert", "-", "-", "--to", "jsonl", stdin=b"user,item\na,x\n")
    assert json.loads(result.out) == {"user": "a", "item": "x"}
    assert result.err == ""


def test_convert_to_a_strange_format_names_the_known(fmpair, files, tmp_path):
    result = fmpair("data", "convert", files / "events.csv", tmp_path / "e", "--to", "cvs")
    assert result.code == 1 and "Did you mean 'csv'?" in result.err


def test_make_writes_events_users_and_items(files):
    names = ("events", "users", "items")
    tables = {name: pl.read_parquet(files / f"{name}.parquet") for name in names}
    assert {name: len(table) for name, table in tables.items()} == {
        "events": 600, "users": 30, "items": 20,
    }  # fmt: skip
    assert set(tables["events"]["item"]) <= set(tables["items"]["item"])


def test_make_says_why_it_cannot(fmpair, tmp_path):
    (tmp_path / "file").write_text("")
    result = fmpair("data", "make", tmp_path / "file" / "folder")
    assert result.code == 1 and result.err.startswith("error: cannot make ")
    result = fmpair("data", "make", tmp_path, "--users", 0)
    assert result.code == 1 and "--users must be at least 1, not 0" in result.err


def test_data_that_no_machine_holds_are_not_made(fmpair, tmp_path):
    result = fmpair("data", "make", tmp_path / "huge", "--users", 10**12)
    assert result.code == 1 and not (tmp_path / "huge").exists()
    assert result.err.startswith("error: generated data needs ")
    assert "1,000,000,000,000 users" in result.err and result.err.count("\n") == 1
