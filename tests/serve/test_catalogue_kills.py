"""Ten thousand changed items reach all workers, and survive the kill of any process."""

import os
import signal
import time
from pathlib import Path

import polars as pl
import pytest
from postgres_server import emptied, postgres
from under_load import Service, until

from fmpair import FMPair
from fmpair.cli import run
from fmpair.data import synthetic

__all__ = ["postgres"]

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]
NEW = 9_990
ASKED = 12  # times by connections of their own, so that both workers answer


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model that has learned which items are books and which are films."""
    data = synthetic.make(users=40, items=60, events=1500).data
    kinds = data.items.ids.to_frame("item").with_columns(kind=pl.col("item").str.head(4))
    path = tmp_path_factory.mktemp("model") / "model.fmpair"
    recipe = FMPair(factors=8, epochs=2, history=0, order=2, times=False, seed=1)
    recipe.fit(data.with_items(kinds)).save(path)
    return path


def push(tmp_path, service, frame):
    path = tmp_path / "items.parquet"
    frame.write_parquet(path)
    assert run(["items", "push", str(path), "--url", f"http://127.0.0.1:{service.port}"]) == 0


def lists(service):
    """What the workers list, each answer once: all items, new ones too."""
    body = {"user": "user-000", "n": 1000, "exclude_seen": False}
    answers = [service.ask("/v1/recommend", body)[1]["items"] for _ in range(ASKED)]
    return {tuple(one["item"] for one in answer) for answer in answers}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_push_is_in_all_answers_and_survives_kills(model, tmp_path, request, kind, capsys):
    url = f"sqlite:{tmp_path / 'events.db'}"
    if kind == "postgresql":
        url = emptied(request.getfixturevalue("postgres"))
    with Service(model, "--events", url, workers=2) as service:
        (before,) = lists(service)
        gone, changed = before[:10], {"kind": "film", "price": 9.5}
        rows = [{"item": item, "removed": True} for item in gone]
        rows += [{"item": f"new-{n}", "removed": None, **changed} for n in range(NEW)]
        push(tmp_path, service, pl.DataFrame(rows, infer_schema_length=None))
        assert "changed 10,000 items, 9,990 of them new" in capsys.readouterr().err
        began = time.monotonic()
        found = until(lambda: len(now := lists(service)) == 1 and now != {before} and now)
        took = time.monotonic() - began
        ((listed,)) = found
        assert len(listed) == 1000 and not set(listed) & set(gone)
        assert any(item.startswith("new-") for item in listed)

        first = until(service.workers)
        os.kill(first[0], signal.SIGKILL)
        until(lambda: len(service.workers()) == 2 and set(service.workers()) != set(first))
        assert until(lambda: answered(service)) == {listed}
        service.kill_all()
        service.start()
        assert lists(service) == {listed}
    with capsys.disabled():
        print(f"\n{kind}: 10,000 items in all answers {took:.2f} s after the push")


def answered(service):
    try:
        return lists(service)
    except OSError:
        return None
