"""A table as the bodies of requests that change items."""

import json
from datetime import date
from decimal import Decimal

import polars as pl

from fmpair.serve.item_push import MAX_BYTES, MAX_ITEMS, bodies


def sent(table):
    return [json.loads(body)["items"] for body in bodies(table)]


def test_empty_cells_are_left_out_and_other_values_are_plain():
    table = pl.DataFrame(
        {
            "product_id": ["a", "b", "c"],
            "price": [1.5, None, float("nan")],
            "until": [date(2024, 1, 31), None, None],
            "cost": [Decimal("0.25"), Decimal("1.00"), None],
            "tags": [["x"], None, []],
            "stock": [3, 0, -1],
        }
    )
    assert sent(table) == [
        [
            {
                "item": "a",
                "price": 1.5,
                "until": "2024-01-31",
                "cost": 0.25,
                "tags": ["x"],
                "stock": 3,
            },
            {"item": "b", "cost": 1.0, "stock": 0},
            {"item": "c", "tags": [], "stock": -1},
        ]
    ]


def test_rows_are_sent_once_and_in_order_however_many_and_long_they_are():
    many = pl.DataFrame({"item": range(2 * MAX_ITEMS + 1)})
    assert [len(part) for part in sent(many)] == [MAX_ITEMS, MAX_ITEMS, 1]
    long = pl.DataFrame({"item": range(50), "text": ["é" * 50_000] * 50})
    parts = list(bodies(long))
    assert len(parts) > 1 and max(map(len, parts)) <= MAX_BYTES
    assert [row["item"] for part in sent(long) for row in part] == list(range(50))
    assert list(bodies(many.head(0))) == []
