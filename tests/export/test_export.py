"""What is exported answers as the model does: the same items in the same order."""

import datetime
from functools import cache

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair
from fmpair import export as onnx
from fmpair.bridges.adapter import Requirement
from fmpair.errors import DataError, OptionError, UnknownError
from fmpair.export import FORMATS, export
from fmpair.models import EASE
from fmpair.testing import day_and_night, two_tastes

DATA = day_and_night()
ASKED = pl.DataFrame({"user": ["u1", "u2", "u3"], "time": ["day", "night", None]})


@cache
def learned():
    return FMPair(factors=4, epochs=20, seed=1).fit(DATA)


def described(seed=0, users=30, items=40):
    """Text ids, attributes of both sides, context, and times: every part of a query vector."""
    rng = np.random.default_rng(seed)
    user, item = rng.integers(users, size=600), rng.integers(items, size=600)
    events = pl.DataFrame(
        {
            "user": [f"user {n}" for n in user],
            "item": [f"ïtem {n}" for n in item],
            "time": 1_700_000_000 + np.arange(600) * 3600,
            "place": rng.choice(["home", "work"], 600),
        }
    )
    people = {"user": [f"user {n}" for n in range(users)], "age": rng.integers(20, 60, users)}
    things = {"item": [f"ïtem {n}" for n in range(items)], "kind": rng.choice(["a", "b"], items)}
    return Dataset.from_frame(events, users=people, items=things)


@cache
def learned_from_all():
    return FMPair(factors=6, epochs=4, seed=1, history=3).fit(described())


DESCRIBED_ASKED = pl.DataFrame({"user": ["user 1", "user 2"], "place": ["home", "work"]})


def queries(model, asked):
    """float32 [queries, factors + 1]: as the README of an index would say it."""
    vectors = model.query_vectors(asked)
    return np.column_stack([vectors, np.ones(len(vectors))]).astype(np.float32)


def lists(model, asked):
    """Per query what the model itself recommends, (items, scores) [queries, 10]."""
    out = model.recommend(asked, n=10, exclude_seen=False)
    return [
        out[name].to_numpy().reshape(len(asked), 10)
        for name in (model.space.id_columns[1], "score")
    ]


def loaded(path):
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def ranked_by_arrays(path, asked, n):
    arrays = loaded(path)
    scores = asked @ arrays["item_vectors"].T
    best = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    return arrays["item_ids"][best], np.take_along_axis(scores, best, axis=1)


def ranked_by_onnx(path, asked, n):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(["items", "scores"], {"query": asked, "n": np.array([n], np.int64)})


def ranked_by_usearch(path, asked, n, ids):
    index = pytest.importorskip("usearch.index").Index.restore(str(path))
    found = index.search(asked, n)
    return ids[np.asarray(found.keys, np.int64)], 1 - np.asarray(found.distances)


MODELS = {
    "whole numbers": (learned, ASKED),
    "texts": (learned_from_all, DESCRIBED_ASKED),
    "damped": (lambda: learned().damped(0.5), ASKED),
}


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize(("made", "asked"), MODELS.values(), ids=MODELS)
def test_the_ten_best_are_those_that_the_model_recommends(made, asked, to, tmp_path):
    if to != "npz":
        pytest.importorskip(to)
    model = made()
    path = tmp_path / f"model.{to}"
    export(model, path)
    given = queries(model, asked)
    if to == "npz":
        items, scores = ranked_by_arrays(path, given, 10)
    elif to == "onnx":
        items, scores = ranked_by_onnx(path, given, 10)
    else:
        items, scores = ranked_by_usearch(path, given, 10, model.item_ids)
    own_items, own_scores = lists(model, asked)
    assert np.asarray(items).tolist() == own_items.tolist()
    np.testing.assert_allclose(scores, own_scores, rtol=1e-4, atol=1e-5)


def test_a_visitor_asks_an_index_by_the_vector_of_a_history(tmp_path):
    asked = pl.DataFrame({"history": [["ïtem 3", "ïtem 4"]], "place": ["home"]})
    export(learned_from_all(), tmp_path / "model.npz")
    items, _ = ranked_by_arrays(tmp_path / "model.npz", queries(learned_from_all(), asked), 12)
    left = [item for item in items[0].tolist() if item not in ("ïtem 3", "ïtem 4")]
    own = learned_from_all().recommend(asked, n=10)["item"].to_list()
    assert left[:10] == own


def test_the_vector_of_a_user_in_context_is_a_sum_of_exported_ones(tmp_path):
    export(learned(), tmp_path / "model.npz")
    arrays = loaded(tmp_path / "model.npz")
    labels = arrays["context_labels"].tolist()
    assert sorted(labels) == ["time=day", "time=night"]
    user = arrays["user_ids"].tolist().index("u2")
    summed = arrays["user_vectors"][user] + arrays["context_vectors"][labels.index("time=night")]
    asked = queries(learned(), pl.DataFrame({"user": ["u2", "nobody"], "time": ["night", None]}))
    np.testing.assert_allclose(summed, asked[0], atol=1e-6)
    np.testing.assert_allclose(arrays["usual_user"], asked[1], atol=1e-6)


def test_what_a_context_adds_is_left_out_where_it_depends_on_the_rest(tmp_path):
    whole = FMPair(factors=2, epochs=1, normalize=True).fit(DATA)
    export(whole, tmp_path / "model.npz")
    arrays = loaded(tmp_path / "model.npz")
    assert arrays["context_labels"].shape == (0,) and arrays["context_vectors"].shape == (0, 3)


def test_more_items_than_there_are_cannot_be_listed_by_a_graph(tmp_path):
    pytest.importorskip("onnx")
    export(learned(), tmp_path / "model.onnx")
    items, _ = ranked_by_onnx(tmp_path / "model.onnx", queries(learned(), ASKED), 1000)
    assert items.shape == (3, 20)


def test_ids_that_are_dates_become_text(tmp_path):
    days = [datetime.date(2024, 5, 1 + n % 7) for n in range(40)]
    events = pl.DataFrame({"user": [n % 8 for n in range(40)], "item": days})
    export(FMPair(factors=2, epochs=1).fit(events), tmp_path / "model.npz")
    assert "2024-05-03" in loaded(tmp_path / "model.npz")["item_ids"].tolist()


def test_a_name_without_a_format_asks_for_one(tmp_path):
    with pytest.raises(OptionError, match="give to, one of npz, onnx, usearch"):
        export(learned(), tmp_path / "model.bin")
    export(learned(), tmp_path / "model.bin", to="npz")
    assert loaded(tmp_path / "model.bin")["item_vectors"].shape == (20, 5)
    with pytest.raises(OptionError, match="Did you mean 'npz'"):
        export(learned(), tmp_path / "model.npz", to="npy")


def test_scores_that_are_no_products_are_refused_before_a_file_is_made(tmp_path):
    with pytest.raises(OptionError, match="EASE cannot be exported"):
        export(EASE().fit(two_tastes()), tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_library_that_is_missing_is_named_with_the_command_that_installs_it(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(onnx, "ONNX", Requirement("no_such_module", "onnx", "onnx"))
    with pytest.raises(UnknownError, match=r"pip install 'fmpair\[onnx\]'"):
        export(learned(), tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_said_first(tmp_path):
    with pytest.raises(DataError, match="there is no folder"):
        export(learned(), tmp_path / "nowhere" / "model.npz")
