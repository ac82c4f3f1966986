"""What is written can be read again, and nothing is left half-written."""

import datetime as dt
import io
from types import SimpleNamespace

import pandas as pd
import polars as pl
import pytest

from fmpair.data import Dataset
from fmpair.data.read import read, read_frame
from fmpair.data.write import write
from fmpair.errors import DataError, OptionError

EVENTS = pl.DataFrame(
    {
        "user": ["007", "8", "8"],
        "item": [7, 8, 7],
        "rating": [5.0, 1.0, 2.0],
        "time": ["day", None, "night"],
        "hour": [1.5, 2.0, None],
    }
)
ITEMS = pl.DataFrame({"item": [7, 8], "genres": [["War", "Drama"], None], "new": [True, False]})
DATA = Dataset.from_frame(EVENTS, items=ITEMS)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.parquet", "a.jsonl"])
def test_events_come_back_as_they_were(tmp_path, name):
    write(DATA, tmp_path / name)
    assert read(tmp_path / name).frame().equals(EVENTS)


def test_frames_of_any_kind_can_be_written(tmp_path):
    write(pd.DataFrame({"a": [1, 2]}), tmp_path / "a.csv")
    assert read_frame(tmp_path / "a.csv").rows() == [(1,), (2,)]


def test_lists_are_written_with_bars(tmp_path):
    write(ITEMS.select("genres"), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "genres\nWar|Drama\n\n"
    with pytest.raises(DataError, match=r"column 'x' holds Struct.*write Parquet instead"):
        write(pl.DataFrame({"x": [{"y": 1}]}), tmp_path / "a.csv")


def test_recbole_files_come_back(tmp_path):
    write(DATA, tmp_path / "a.inter")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.inter", "a.item"]
    again = read(tmp_path / "a.inter")
    assert again.frame().equals(EVENTS)
    assert again.item_table["genres"].to_list() == [["War", "Drama"], None]


def test_recbole_times_are_seconds(tmp_path):
    frame = pl.DataFrame({"user": [1], "item": [2], "timestamp": [dt.datetime(1970, 1, 2)]})
    write(frame, tmp_path / "a.inter")
    assert read(tmp_path / "a.inter").columns["timestamp"].to_list() == [86400.0]


def test_recbole_lists_refuse_spaces(tmp_path):
    data = DATA.with_items(pl.DataFrame({"item": [7], "genres": [["Film Noir"]]}))
    with pytest.raises(DataError, match="'genres' contains a space"):
        write(data, tmp_path / "a.inter")


def test_libfm_rows_and_groups(tmp_path):
    write(DATA, tmp_path / "a.libfm")
    assert (tmp_path / "a.libfm").read_text().splitlines() == [
        "5.0 0:1 2:1 4:1 6:1.5 7:1 8:1 9:1",
        "1.0 1:1 3:1 6:2.0",
        "2.0 1:1 2:1 5:1 7:1 8:1 9:1",
    ]
    assert (tmp_path / "a.libfm.groups").read_text().split() == list("0011223445")
    names = ["user", "item", "time", "hour", "genres", "new"]
    again = read_frame(tmp_path / "a.libfm", names=names)
    assert again["user"].to_list() == [0, 1, 1]
    assert again["time"].to_list() == ["4", None, "5"]
    assert again["hour"].to_list() == [1.5, 2.0, None]
    assert again["genres"].to_list() == [["7", "8"], None, ["7", "8"]]
    assert again["rating"].to_list() == [5.0, 1.0, 2.0]


def test_lightgcn_lines_come_back(tmp_path):
    write(DATA, tmp_path / "a.txt", "lightgcn")
    assert (tmp_path / "a.txt").read_text() == "007 7\n8 8 7\n"
    spaced = Dataset.from_frame({"user": ["a b"], "item": [1]})
    with pytest.raises(DataError, match="a user id contains a space"):
        write(spaced, tmp_path / "a.txt", "lightgcn")


def test_sequences_are_written_oldest_first_and_come_back(tmp_path):
    events = {"user": ["b", "a", "b", "b"], "item": [1, 2, 3, 4], "timestamp": [9, 5, 7, 8]}
    write(Dataset.from_frame(events), tmp_path / "a.txt", "sequences")
    assert (tmp_path / "a.txt").read_text() == "b 3 4 1\na 2\n"
    again = read(tmp_path / "a.txt", "sequences")
    write(again, tmp_path / "b.txt", "sequences")
    assert (tmp_path / "b.txt").read_text() == (tmp_path / "a.txt").read_text()
    with pytest.raises(DataError, match="the data have no times"):
        write(Dataset.from_frame({"user": ["a"], "item": [1]}), tmp_path / "a.txt", "sequences")


def test_a_dash_is_standard_output(capsysbinary):
    write(EVENTS.select("user", "item").head(1), "-")
    write(EVENTS.select("user", "item").head(1), "-", "jsonl")
    assert capsysbinary.readouterr().out == b'user,item\n007,7\n{"user":"007","item":7}\n'


def test_all_is_written_to_an_unbuffered_standard_output_that_takes_a_little_at_a_time(monkeypatch):
    taken = bytearray()

    class Slow(io.RawIOBase):
        def write(self, content):
            taken.extend(content[:3])
            return min(len(content), 3)

    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=Slow()))
    write(EVENTS.select("user", "item"), "-")
    assert bytes(taken) == b"user,item\n007,7\n8,8\n8,7\n"


def test_an_unknown_suffix_or_format_is_named(tmp_path):
    with pytest.raises(OptionError, match=r"cannot infer the format of .*a\.xyz"):
        write(DATA, tmp_path / "a.xyz")
    with pytest.raises(OptionError, match=r"unknown format 'parket'\. Did you mean 'parquet'\?"):
        write(DATA, tmp_path / "a", "parket")


def test_an_unwritable_target_is_named(tmp_path):
    with pytest.raises(DataError, match=r"cannot write .*there is no folder"):
        write(DATA, tmp_path / "nowhere" / "a.csv")


def test_an_interrupted_write_keeps_the_old_file(tmp_path, monkeypatch):
    target = tmp_path / "a.csv"
    target.write_text("old")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(DATA, target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_where_one_of_several_files_cannot_be_written_none_is(tmp_path):
    (tmp_path / "a.item").mkdir()
    with pytest.raises(DataError, match=r"cannot write .*a\.item: it is a folder"):
        write(DATA, tmp_path / "a.inter")
    assert [path.name for path in tmp_path.iterdir()] == ["a.item"]
