"""Logs whose truth is known: init and run end in the true verdict, and fit leaves noise alone."""

import re

import pytest

from fmpair import Dataset, FMPair, Protocol, config, evaluate
from fmpair.config.starter import starter
from fmpair.data.splits import by_time
from fmpair.experiment.run import run
from fmpair.report.model_comparison import comparison
from fmpair.report.verdict import headline
from fmpair.testing import daytime_log, session_log, shop_log

pytestmark = pytest.mark.slow

IDS = ["event_time", "user_id", "product_id", "device"]
OVERRIDES = [*(f"models.{n}.factors=8" for n in (6, 5, 4)), "output.refit=false", "seeds=[0]"]
SIZE = {"users": 250, "items": 150, "events": 8_000}


def proposed(frame, folder, monkeypatch, overrides=OVERRIDES):
    """The experiment that init writes for the log."""
    monkeypatch.chdir(folder)
    frame.write_csv("shop.csv")
    (folder / "a.yaml").write_text(starter("shop.csv"))
    return config.read("a.yaml", overrides)


def judged(frame, folder, monkeypatch, overrides=OVERRIDES):
    """(the experiment that init writes for the log, what the run's report says first)."""
    experiment = proposed(frame, folder, monkeypatch, overrides)
    results = run(experiment)
    assert results.cells["error"].null_count() == len(results.cells)
    return experiment, headline(results, comparison(results, "full ranking"))


def wins(told):
    """Whether the report says that context helps."""
    found = told.startswith("FM-Pair with context") and "above FM-Pair without context" in told
    return found or "context gives" in told


NO_CONTEXT = ("price", "session_id", "shop", "logged_ms", "event_type")


@pytest.mark.parametrize("column", NO_CONTEXT)
def test_what_says_nothing_of_the_next_choice_is_no_context(column, tmp_path, monkeypatch):
    experiment = proposed(shop_log(**SIZE).select(*IDS, column), tmp_path, monkeypatch)
    assert experiment.data.options["context"] == ["device"]
    assert experiment.data.options["timestamp"] == "event_time"


# Runs without promotions differ in columns that are no context, as the test before shows.
@pytest.mark.parametrize(
    ("column", "promotions"),
    [("price", True), *(pytest.param(column, False, marks=pytest.mark.thorough)
                        for column in NO_CONTEXT)],
)  # fmt: skip
def test_what_says_nothing_of_the_next_choice_does_not_win(
    column, promotions, tmp_path, monkeypatch
):
    log = shop_log(**SIZE, promotions=promotions).select(*IDS, column)
    experiment, told = judged(log, tmp_path, monkeypatch)
    assert experiment.data.options["context"] == ["device"]
    assert experiment.data.options["timestamp"] == "event_time"
    assert not wins(told), told
    assert "best of 4 baselines" in told and "FM-Pair" in told


def test_a_context_that_decides_wins(tmp_path, monkeypatch):
    log = shop_log(**SIZE, decides=True)
    experiment, told = judged(log, tmp_path, monkeypatch)
    assert experiment.data.options["context"] == ["device", "daytime"]
    assert wins(told), told
    assert "beats the best of 4 baselines" in told
    assert "reveal the item" not in told


@pytest.mark.thorough  # of a known result: test_verdict.py
def test_a_price_that_is_forced_to_be_context_is_headlined_as_a_leak(tmp_path, monkeypatch):
    log = shop_log(**SIZE).select(*IDS, "price")
    monkeypatch.chdir(tmp_path)
    log.write_csv("shop.csv")
    text = starter("shop.csv").replace("context: [device]", "context: [device, price]")
    text = text.replace("item_columns: [price]", "leaks: [price]")
    (tmp_path / "a.yaml").write_text(text)
    results = run(config.read("a.yaml", OVERRIDES))
    told = headline(results, comparison(results, "full ranking"))
    assert told.startswith("Do not trust this result: context reveals the item (price: ")
    assert "beats the best of 4 baselines" in told


@pytest.mark.thorough
def test_habits_make_the_markov_chain_the_baseline_that_is_named(tmp_path, monkeypatch):
    _, told = judged(session_log(**SIZE), tmp_path, monkeypatch, OVERRIDES[1:])
    assert "the best of 4 baselines" in told
    assert re.search("baselines.{1,3}markov-chain: NDCG@10", told), told


@pytest.mark.thorough
def test_an_hour_that_matters_is_found_in_the_timestamp(tmp_path, monkeypatch):
    log = daytime_log(400, 200, 12_000)
    _, told = judged(log, tmp_path, monkeypatch, ["output.refit=false"])
    assert told.startswith("FM-Pair with time beats the best of 4 baselines (ease: "), told


def test_fit_on_the_raw_log_is_as_good_as_with_columns_set_by_hand(tmp_path):
    log = shop_log(**SIZE)
    by_hand = log.select("user_id", "product_id", "device", "daytime")
    rows = by_time(Dataset.from_frame(log), 0.2)
    found = {}
    for name, frame in (("raw", log), ("by hand", by_hand)):
        train, _, test = rows.parts(Dataset.from_frame(frame))
        model = FMPair(factors=8, history=0).fit(train)
        model.save(tmp_path / "m")
        recall = evaluate(model, train, test, Protocol(seen="none"), ["recall@10"]).means
        found[name] = recall["recall@10"], (tmp_path / "m").stat().st_size
    assert found["raw"][0] >= 0.97 * found["by hand"][0]
    assert found["raw"][1] <= 1.2 * found["by hand"][1]
