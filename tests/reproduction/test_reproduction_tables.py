"""What stands under the tables beside the paper's."""

import polars as pl

from fmpair.reproduction.paper_tables import distances


def beside(*rows):
    return pl.DataFrame(rows, ["model", "paper", "legacy"], orient="row")


def test_orders_and_distances_are_told_of_models_both_have():
    frame = beside(("A", 0.2, 0.15), ("B", 0.1, 0.25), ("ours only", None, 0.9), ("C", 0.05, None))
    assert distances(frame) == (
        "Best first: in the paper A, B; under legacy B, A. "
        "Legacy minus paper: A -0.0500, B +0.1500.",
    )


def test_an_order_that_is_met_is_the_same():
    (note,) = distances(beside(("A", 0.2, 0.3), ("B", 0.1, 0.1)))
    assert "in the paper A, B; under legacy the same." in note


def test_one_model_has_no_order():
    assert distances(beside(("A", 0.2, 0.3), ("B", None, 0.1))) == ()
