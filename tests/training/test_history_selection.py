"""Whether histories are learned from, where that is left to the data."""

import logging

import numpy as np
import polars as pl

from fmpair.cli import run
from fmpair.models import FMPair


def events(ordered, users=400, steps=12, items=40):
    """Users who walk from item to item, or the same events in an order that says nothing."""
    rng = np.random.default_rng(0)
    start = rng.integers(0, items, users)
    rows = [(u, (start[u] + t) % items, t) for u in range(users) for t in range(steps)]
    frame = pl.DataFrame(rows, schema=["user", "item", "timestamp"], orient="row")
    if not ordered:
        frame = frame.with_columns(pl.Series("timestamp", rng.permutation(len(frame))))
    return frame


def test_a_history_is_learned_from_where_order_matters(caplog):
    with caplog.at_level(logging.INFO, "fmpair"):
        model = FMPair(factors=16, epochs=15).fit(events(ordered=True))
    assert model.space.history.last == 10
    said = [record.getMessage() for record in caplog.records]
    first, second = (line for line in said if line.startswith("history:"))  # others: of compiling
    assert "trying whether the last 10 items help, on 948 events of 79 users" in first
    assert "history: learning from the last 10 items (ndcg@10" in second


def test_a_history_is_left_out_where_the_order_says_nothing(caplog):
    rng = np.random.default_rng(1)
    frame = events(ordered=False).with_columns(pl.Series("item", rng.integers(0, 40, 4800)))
    with caplog.at_level(logging.INFO, "fmpair"):
        model = FMPair(factors=16, epochs=15).fit(frame)
    assert model.space.history is None
    assert "history: not using the last 10 items (ndcg@10" in caplog.text
    assert "without); set history=10 to force it" in caplog.text


def test_without_times_there_is_no_history_and_nothing_is_said(caplog):
    with caplog.at_level(logging.INFO, "fmpair"):
        model = FMPair(factors=8, epochs=1).fit(events(ordered=True).drop("timestamp"))
    assert model.space.history is None
    assert "history" not in caplog.text


def test_events_without_a_time_are_counted(caplog):
    frame = events(ordered=True).with_columns(
        pl.when(pl.col("timestamp") > 10).then(None).otherwise("timestamp").alias("timestamp")
    )
    with caplog.at_level(logging.INFO, "fmpair"):
        model = FMPair(factors=8, epochs=1).fit(frame)
    assert model.space.history is None
    assert "400 of 4800 events have no time" in caplog.text


def test_events_without_a_time_do_not_keep_a_model_from_being_learned():
    frame = events(ordered=True).with_columns(
        pl.when(pl.int_range(pl.len()) % 50 == 0)
        .then(float("nan"))
        .otherwise(pl.col("timestamp").cast(pl.Float64))
        .alias("timestamp")
    )
    for part in (None, 0.2):
        model = FMPair(factors=8, epochs=1).fit(frame, validation=part)
        assert model.space.history is None


def test_an_updated_model_keeps_what_was_settled():
    frame = events(ordered=True)
    model = FMPair(factors=16, epochs=15).fit(frame)
    assert model.update(frame.head(5), epochs=1).space.history == model.space.history


def test_the_command_line_shows_the_decision_unless_it_is_quiet(tmp_path, capsys):
    path = tmp_path / "events.csv"
    frame = events(ordered=False, users=60)
    frame.write_csv(path)
    fit = ["fit", str(path), "-o", str(tmp_path / "model"), "--epochs", "1", "--factors", "4"]
    assert run(fit) == 0
    shown = capsys.readouterr().err
    assert "history: trying whether" in shown and "set --history 10 to force it" in shown
    assert run([*fit, "--quiet"]) == 0
    assert "history" not in capsys.readouterr().err
