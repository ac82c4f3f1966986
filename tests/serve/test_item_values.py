"""Values of items have one form: that of their column, before and after a restart."""

import json

import numpy as np
import polars as pl
import pytest
from asking import ask

from fmpair import FMPair
from fmpair.data import Dataset
from fmpair.errors import DataError
from fmpair.events.event import ItemChange
from fmpair.features import Field
from fmpair.serve.application import Application
from fmpair.serve.item_push import bodies, read_changes
from fmpair.serve.item_values import Column, MisfitError, normal
from fmpair.serve.live_models import LiveModels
from fmpair.serve.service import Service

WIDTH = 4


def vector(item):
    """Even items point one way, odd ones another."""
    return [float(item % 2), 1.0 - item % 2, 0.1, item / 100]


def texts(vectors):
    return ["|".join(map(str, one)) for one in vectors]


@pytest.fixture(scope="module", params=["list", "array", "text"])
def path(request, tmp_path_factory):
    """A model of users who choose even items or odd ones, with vectors of three types."""
    vectors = [vector(n) for n in range(24)]
    titles = {
        "list": pl.Series(vectors, dtype=pl.List(pl.Float32)),
        "array": pl.Series(vectors, dtype=pl.Array(pl.Float64, WIDTH)),
        "text": pl.Series(texts(vectors)),
    }[request.param]
    draw = np.random.default_rng(1)
    user = np.repeat(np.arange(40), 6)
    item = 2 * draw.integers(12, size=len(user)) + user % 2
    log = {
        "user": [f"u{n}" for n in user],
        "item": [f"i{n}" for n in item],
        "timestamp": user + 1e9,
    }
    items = pl.DataFrame({
        "item": [f"i{n}" for n in range(24)], "in_stock": [True] * 23 + [False],
        "price": [n / 2 for n in range(24)], "category": ["tea", "cups", "mats"] * 8,
        "made": pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 1, 24), eager=True),
        "titles": titles,
    })  # fmt: skip
    recipe = FMPair(
        factors=4, epochs=20, history=0, order=2, times=False, dropout=0, seed=1, threads=1,
        fields={"titles": Field(kind="vector")},
    )  # fmt: skip
    data = Dataset.from_frame(pl.DataFrame(log).unique(["user", "item"], maintain_order=True))
    file = tmp_path_factory.mktemp("shop") / "model.fmpair"
    recipe.fit(data.with_items(items, display=["made"])).save(file)
    return file


def started(path, store):
    return Application(Service(LiveModels(path, store), store))


def put(service, *changes):
    return ask(service, "/v1/items", {"items": list(changes)}, method="PUT")


def row(service, item):
    return service.service.models.of(None)[1].catalogue.row(item)


def test_accepted_values_of_other_types_are_the_same_after_a_restart(path, store, caplog):
    service, other = started(path, store), started(path, store)
    for change in ({"item": "i1", "in_stock": False}, {"item": "i2", "in_stock": 0},
                   {"item": "i3", "in_stock": "FALSE", "price": "7.5"}, {"item": "i4", "price": 3},
                   {"item": "i5", "category": 12, "new": 1}, {"item": "i6", "new": 2.5},
                   {"item": "i7", "made": "2024-05-01T18:30:00"}):  # fmt: skip
        assert put(service, change).status == 200, change
    ask(other, "/v1/recommend", {"user": "u1"})
    other.service.models.follow()
    for one in (service, other, started(path, store)):
        assert [row(one, f"i{n}")["in_stock"] for n in (1, 2, 3, 4)] == [False, False, False, True]
        assert [row(one, item)["price"] for item in ("i3", "i4")] == [7.5, 3.0]
        assert row(one, "i5")["category"] == "12" and str(row(one, "i7")["made"]) == "2024-05-01"
        assert (row(one, "i5")["new"], row(one, "i6")["new"]) == (1.0, 2.5)
    stored = {change.item: change.columns for change in store.items(0, 99)}
    assert stored["i2"] == {"in_stock": False} and stored["i3"]["price"] == 7.5
    assert "do not fit" not in caplog.text


def test_one_bad_stored_value_drops_only_itself(path, store, caplog):
    changes = [ItemChange("i1", {"price": 9, "in_stock": 0}), ItemChange("i2", {"price": "cheap"}),
               ItemChange("i3", {"titles": [1, 2]}), ItemChange("i4", {"titles": [1, 0, 0, 0]}),
               ItemChange("i5", {"price": True, "in_stock": False})]  # fmt: skip
    store.put_items(changes, [json.dumps(change.columns) for change in changes])
    service = started(path, store)
    assert (row(service, "i1")["price"], row(service, "i1")["in_stock"]) == (9, False)
    assert (row(service, "i2")["price"], row(service, "i5")["price"]) == (1.0, 2.5)
    assert row(service, "i5")["in_stock"] is False
    assert str(row(service, "i4")["titles"]).strip("[]")[0] == "1"
    assert "price of 'i2' (takes a number, not 'cheap')" in caplog.text


@pytest.mark.parametrize("spelled", [list, lambda numbers: texts([numbers])[0]])
def test_a_new_item_is_ranked_by_its_vector_also_after_a_restart(path, store, spelled):
    service = started(path, store)
    new = [{"item": name, "titles": spelled(vector(n))} for n, name in ((2, "even"), (3, "odd"))]
    new.append({"item": "none", "titles": None})
    found = put(service, *new)
    assert (found.status, found.json) == (200, {"taken": 3, "new": 3, "unranked": 0})
    for one in (service, started(path, store)):
        for user, better, worse in (("u0", "even", "odd"), ("u1", "odd", "even")):
            asked = {"user": user, "n": 30, "candidates": ["even", "odd", "none"]}
            ranked = [one["item"] for one in ask(one, "/v1/recommend", asked).json["items"]]
            assert ranked.index(better) < ranked.index(worse) and "none" in ranked
        assert "titles" not in row(one, "none")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"titles": [0.1] * 9}, "item 'i1': 'titles' must be a list of 4 numbers, not 9"),
        ({"titles": [1, 2, "x", 4]}, "must be a list of 4 numbers, but the one at 3 is 'x'"),
        ({"titles": [1, 2, 1e300, 4]}, "must be a list of 4 numbers, but the one at 3 is 1e+300"),
        ({"titles": [1, 2, None, 4]}, "must be a list of 4 numbers, but the one at 3 is null"),
        ({"tags": ["a", None]}, "'tags' must be a list without null, but the one at 2 is null"),
        ({"titles": 7}, "item 'i1': 'titles' must be a list of 4 numbers, not 7"),
        ({"titles": "red|blue"}, "must be a list of 4 numbers, not 'red|blue'"),
        ({"price": True}, "item 'i1': 'price' takes a number, not true"),
        ({"price": "cheap"}, "item 'i1': 'price' takes a number, not 'cheap'"),
        ({"in_stock": 2}, "item 'i1': 'in_stock' takes true or false, not 2"),
        ({"category": ["a"]}, "item 'i1': 'category' takes text, not a list"),
        ({"made": 3}, "item 'i1': 'made' takes a date such as '2024-01-31', not 3"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_one_line_that_names_the_item(
    path, store, change, said
):
    service = started(path, store)
    found = put(service, {"item": "i2", "price": 4}, {"item": "i1", **change})
    assert found.status == 422 and found.json["detail"].endswith(said)
    assert found.json["detail"].startswith("item 'i1': ") and store.items(0, 9) == []


def test_a_new_column_takes_the_type_of_its_first_value(path, store):
    service = started(path, store)
    mixed = put(service, {"item": "i1", "sold": 3}, {"item": "i2", "sold": False})
    assert mixed.json["detail"] == "item 'i2': 'sold' takes a number, not false"
    assert put(service, {"item": "i1", "sold": None}).status == 200
    assert put(service, {"item": "i1", "sold": "out"}, {"item": "i2", "sold": 4}).status == 200
    for one in (service, started(path, store)):
        assert [row(one, item)["sold"] for item in ("i1", "i2")] == ["out", "4"]


def test_a_single_item_needs_no_list_around_it(path, store):
    service = started(path, store)
    assert ask(service, "/v1/items", {"item": "i1", "price": 8}, method="PUT").json["taken"] == 1
    assert row(service, "i1")["price"] == 8
    wrong = ask(service, "/v1/items", {"item": "i1", "price": [[1]]}, method="PUT")
    assert wrong.status == 422 and "`$[...]" in wrong.json["detail"]
    empty = put(service, {"item": "i1", "price": 8}, {"item": "", "price": 8})
    assert empty.json["detail"].startswith("invalid item id ''")
    assert empty.json["detail"].endswith(" - at `$.items[1].item`")


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["a", "b", "b"], "item 'b' is in rows 2 and 3: give one row per item"),
        ([7, 8, 7], "item 7 is in rows 1 and 3: give one row per item"),
        (["a", "", "b"], "row 2 of the table names no item"),
        ([1, 2, None], "row 3 of the table names no item"),
    ],
)
def test_a_push_names_the_rows_of_items_that_are_missing_or_named_twice(ids, said):
    with pytest.raises(DataError, match=said):
        list(bodies(pl.DataFrame({"item": ids, "price": [1, 2, 3]})))


def test_a_file_of_two_columns_names_an_item_of_two_prices_and_lists_two_tags(tmp_path):
    file = tmp_path / "items.csv"
    file.write_text("item,price\n0082,2\n0083,3\n0083,4\n")
    with pytest.raises(DataError, match="item '0083' is in rows 2 and 3"):
        list(bodies(read_changes(file)))
    file.write_text("item,tag\n0083,red\n0083,blue\n")
    (body,) = bodies(read_changes(file))
    assert json.loads(body) == {"items": [{"item": "0083", "tag": ["red", "blue"]}]}


def test_a_pushed_table_of_vectors_is_taken(path, store):
    service = started(path, store)
    table = pl.DataFrame({"item": ["new"], "titles": [vector(2)]})
    for kind in (pl.List(pl.Float64), pl.Array(pl.Float32, WIDTH)):
        (body,) = bodies(table.with_columns(pl.col("titles").cast(kind)))
        assert ask(service, "/v1/items", json.loads(body), method="PUT").status == 200


@pytest.mark.parametrize(
    ("value", "dtype", "wanted"),
    [
        ("007", pl.Int64(), 7), ("1e3", pl.Float64(), 1000.0), (1.0, pl.Boolean(), True),
        (True, pl.String(), "true"), ("a", pl.List(pl.String()), ["a"]),
        (["2", 3], pl.List(pl.Int64()), [2, 3]),
        ("2024-01-31T12:00:00+02:00", pl.Datetime("us"), "2024-01-31T10:00:00"),
    ],
)  # fmt: skip
def test_what_converts_exactly_takes_the_type_of_its_column(value, dtype, wanted):
    found = normal(value, Column(dtype))
    assert found == wanted and type(found) is type(wanted)
    assert normal(found, Column(dtype)) == wanted


@pytest.mark.parametrize("value", ["nan", "1_000", "", True, [1], {"a": 1.0}, float("inf")])
def test_what_is_not_a_number_is_none(value):
    with pytest.raises(MisfitError, match="takes a number"):
        normal(value, Column(pl.Float64()))
