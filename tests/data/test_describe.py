"""The figures of the paper's Table 1 and more."""

import sys
from dataclasses import replace
from datetime import datetime

import numpy as np
import polars as pl
import pytest

from fmpair.data import Dataset, synthetic
from fmpair.data.describe import describe, figures, fingerprint

EVENTS = pl.DataFrame(
    {
        "user": [1, 1, 1, 2],
        "item": ["a", "a", "b", "b"],
        "rating": [1, 2, 3, 4],
        "timestamp": [10, 30, 20, 5],
        "domain": ["x", "x", "y", "y"],
        "place": ["home", None, "home", "work"],
    }
)
ITEMS = pl.DataFrame({"item": ["a", "c"], "genres": [["War", "Drama"], ["War"]]})
FIGURES = figures(Dataset.from_frame(EVENTS, items=ITEMS))


def test_sizes_and_sparsity():
    assert FIGURES["users"] == 2
    assert FIGURES["items"] == 3
    assert FIGURES["events"] == 4
    assert FIGURES["distinct pairs"] == 3
    assert FIGURES["duplicate events"] == 1
    assert FIGURES["sparsity %"] == 50


def test_activity_of_users_and_items():
    assert FIGURES["events per user, min"] == 1
    assert FIGURES["events per user, mean"] == 2
    assert FIGURES["events per user, max"] == 3
    assert FIGURES["items without events"] == 1


def test_context_attributes_domains_and_times():
    assert FIGURES["context place, distinct values"] == 2
    assert FIGURES["context place, missing %"] == 25
    assert FIGURES["item attribute genres, distinct values"] == 2
    assert FIGURES["domain x, events"] == 2
    assert FIGURES["domain y, items"] == 1
    assert (FIGURES["first timestamp"], FIGURES["last timestamp"]) == ("5", "30")


def test_the_table_is_long_and_readable():
    table = describe(Dataset.from_frame(EVENTS))
    assert table.columns == ["name", "value"]
    assert table.row(0) == ("users", "2")
    assert dict(table.rows())["sparsity %"] == "25.00"


@pytest.mark.parametrize("scale", [1, 1000, 1_000_000])
def test_numbers_that_are_times_are_told_as_dates(scale):
    times = [1_600_000_402 * scale, 1_700_000_000 * scale]
    data = Dataset.from_frame({"user": ["a", "b"], "item": [1, 2], "timestamp": times})
    found = figures(data)
    assert found["first timestamp"] == "2020-09-13 12:33:22 UTC"
    assert found["last timestamp"] == "2023-11-14 22:13:20 UTC"


COLUMNS = {
    "user": ["ann", "bob", "bob"],
    "item": [7, 8, 7],
    "rating": [4.0, 3.5, 1.0],
    "timestamp": [datetime(2024, 1, 1), datetime(2024, 1, 2), datetime(2024, 1, 3)],
    "place": ["home", None, "work"],
    "size": [1, None, 3],
    "tags": [["a", "b"], [], None],
}
USERS = {"user": ["ann", "bob"], "age": [30, 40], "member": [True, None]}


def data(events=COLUMNS, users=USERS):
    return Dataset.from_frame(events, users=users)


def test_it_is_the_same_on_every_machine():
    assert fingerprint(data()) == "61a13bed001cdcc8afccd92eb903a70afdd66742d023d495fadaf1c4601c55e0"


def test_the_kind_of_frame_does_not_matter():
    pandas = pytest.importorskip("pandas")
    flat = {name: values for name, values in COLUMNS.items() if name != "tags"}
    expected = fingerprint(data(flat))
    assert fingerprint(data(pandas.DataFrame(flat), pandas.DataFrame(USERS))) == expected
    pytest.importorskip("pyarrow")
    assert fingerprint(data(pl.DataFrame(flat).to_arrow())) == expected


def test_neither_do_types_that_mean_the_same():
    frame = pl.DataFrame(COLUMNS)
    same = frame.with_columns(
        pl.col("place").cast(pl.Categorical), pl.col("size").cast(pl.Float32),
        pl.col("timestamp").cast(pl.Datetime("ns")), pl.col("item").cast(pl.UInt8),
    )  # fmt: skip
    assert fingerprint(data(same)) == fingerprint(data(frame))


@pytest.mark.parametrize(
    "change",
    [
        {"user": ["ann", "bob", "ann"]}, {"user": ["ann", "rob", "rob"]}, {"item": [7, 8, 8]},
        {"item": [7, 9, 7]}, {"rating": [4.0, 3.5, 1.5]}, {"place": ["home", "", "work"]},
        {"place": [None, "home", "work"]}, {"place": ["homew", None, "ork"]},
        {"size": [1, 0, 3]}, {"size": [1.5, None, 3]}, {"tags": [["a"], ["b"], None]},
        {"tags": [["a", "b"], None, []]}, {"tags": [["ab"], [], None]},
        {"timestamp": [datetime(2024, 1, 1, 0, 0, 1), *COLUMNS["timestamp"][1:]]},
    ],
)  # fmt: skip
def test_any_change_of_an_event_changes_it(change):
    changed, plain = data({**COLUMNS, **change}, users=None), data(users=None)
    assert fingerprint(changed) != fingerprint(plain)


def test_so_does_any_change_of_columns_tables_context_and_order():
    plain = data()
    others = [
        data(users={**USERS, "age": [30, 41]}),
        data(users={**USERS, "member": [True, False]}),
        data({("where" if name == "place" else name): v for name, v in COLUMNS.items()}),
        replace(plain, context=plain.context[:-1]),
        replace(plain, columns=plain.columns.select(reversed(plain.columns.columns))),
        plain.take(np.array([0, 2, 1])),
        plain.take(np.array([0, 1])),
        replace(plain, item_table=pl.DataFrame({"kind": ["x", "y"]})),
    ]
    prints = {fingerprint(one) for one in [plain, *others]}
    assert len(prints) == len(others) + 1


def test_structs_and_large_numbers_count():
    def printed(values):
        columns = pl.DataFrame({"user": [1], "item": [1], "x": values})
        return fingerprint(Dataset.from_frame(columns, context=["x"]))

    whole = [pl.Series([n], dtype=pl.UInt64) for n in (2**64 - 1, 2**64 - 2, 2**53, 2**53 + 1)]
    nested = [pl.Series([{"a": 1, "b": b}]) for b in ("x", "y")]
    assert len({printed(values) for values in whole + nested}) == 6


def test_it_does_not_depend_on_the_chunks_a_frame_has():
    world = synthetic.make(users=20, items=20, events=300).data
    frame = world.frame()
    parts = pl.concat([frame.head(100), frame.slice(100)], rechunk=False)
    assert parts["user"].n_chunks() == 2
    assert fingerprint(Dataset.from_frame(parts)) == fingerprint(Dataset.from_frame(frame))


def test_cells_cannot_move_between_pieces_unnoticed(monkeypatch):
    monkeypatch.setattr(sys.modules["fmpair.data.describe"], "PIECE", 2)
    moved = {**COLUMNS, "tags": [["a"], ["b"], None]}
    assert fingerprint(data()) != fingerprint(data(moved))
