"""Fields of kind `vector`: what a column of vectors becomes, and what a model does with it."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fmpair import Dataset, Field, FMPair, load
from fmpair.errors import DataError
from fmpair.export import export
from fmpair.features import FeatureSpace
from fmpair.features.encoder import Encoder
from fmpair.training.growth import with_items
from fmpair.training.regularisation import item_groups, vector_owners

RNG = np.random.default_rng(0)
VECTORS = RNG.normal(1, 1, (40, 4)).astype(np.float32)
QUICK = {"factors": 6, "epochs": 3, "times": False, "order": 2, "threads": 1, "blocks": 1}


def matrix(values, **options):
    """The rows that have a vector, and the features of each: [rows, dimensions]."""
    column = values if isinstance(values, pl.Series) else pl.Series("v", values)
    encoder = Encoder.fit("item", column, Field(**options))
    rows, unseen = encoder.encode(column)
    assert unseen == 0
    return np.flatnonzero(np.diff(rows.start)), rows.value.reshape(-1, encoder.size)


def test_vectors_are_centred_and_have_length_one():
    row, found = matrix(VECTORS)
    wanted = VECTORS - VECTORS.mean(axis=0)
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert len(row) == 40


def test_vectors_may_be_standardised_or_left_as_they_are():
    _, standard = matrix(VECTORS, standardize=True, normalize=False)
    np.testing.assert_allclose(standard.std(axis=0), 0.5, rtol=1e-3)  # the usual length is 1
    _, plain = matrix(VECTORS, standardize=False, normalize=False)
    np.testing.assert_allclose(plain / plain[0, 0], VECTORS / VECTORS[0, 0], rtol=1e-4)


@pytest.mark.parametrize("missing", [None, [], [0.0, 0.0]])
def test_a_missing_vector_has_no_features(missing):
    row, found = matrix(
        pl.Series("v", [[1.0, 2.0], missing, [3.0, 1.0]], dtype=pl.List(pl.Float64))
    )
    assert row.tolist() == [0, 2]
    assert found.shape == (2, 2)


def test_text_and_whole_numbers_are_vectors_where_asked_for():
    wanted = matrix([[1.0, 2.0], [3.0, 1.0]])[1]
    for values in (["[1, 2]", "[3, 1]"], [[1, 2], [3, 1]]):
        np.testing.assert_array_equal(matrix(values, kind="vector", separator=",")[1], wanted)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0, 2.0], [1.0]], "the vector of row 1 has 1 number, but most have 2: give all the"),
        ([[1.0], [1.0, 2.0], [2.0, 3.0]], "the vector of row 0 has 1 number, but most have 2"),
        ([[1.0, 2.0], [1.0, float("nan")]], "the vector of row 1 has NaN"),
        ([[1.0, 2.0], [1.0, None]], "the vector of row 1 has NaN"),
    ],
)
def test_wrong_vectors_are_refused(values, message):
    with pytest.raises(DataError, match=message):
        matrix(values)


def test_a_query_with_a_vector_of_another_length_is_refused():
    encoder = Encoder.fit("context", pl.Series("v", VECTORS), Field())
    with pytest.raises(DataError, match="row 0 has 2 numbers, but those of the model have 4"):
        encoder.encode(pl.Series("v", [[1.0, 2.0]]))


def with_wrong(vectors, number, vector):
    """The vectors as lists, with another one in this place."""
    return [vector if n == number else list(v) for n, v in enumerate(vectors.tolist())]


@pytest.mark.parametrize(
    ("vector", "fault"),
    [
        ([1.0, 2.0], "has 2 numbers, but most have 4: give all the same length"),
        ([1.0, float("nan"), 0.0, 1.0], "has NaN, missing, infinite or too large numbers"),
    ],
)
def test_a_wrong_vector_is_named_by_its_item_user_or_event(vector, fault):
    rows = np.arange(40)
    ids = [f"i{n}" for n in rows[::-1]]  # the rows of the table are in another order
    events = pl.DataFrame({"user": [f"u{n % 30}" for n in rows], "item": [f"i{n}" for n in rows]})
    wrong = with_wrong(VECTORS, 7, vector)
    cases = {
        "item 'i32'": Dataset.from_frame(events, items={"item": ids, "v": wrong}),
        "user 'u7'": Dataset.from_frame(
            events, users={"user": [f"u{n}" for n in rows], "v": wrong}
        ),
        "an event of user 'u7' with item 'i7'": Dataset.from_frame(
            events.with_columns(pl.Series("v", wrong)), context=["v"]
        ),
    }
    for owner, data in cases.items():
        with pytest.raises(DataError, match=f"^column 'v': the vector of {owner} {fault}"):
            FeatureSpace.fit(data)


def test_an_error_of_a_vector_crosses_processes():
    with pytest.raises(DataError) as error:
        matrix([[1.0, 2.0], [1.0]])
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


@pytest.mark.parametrize("kind", [pd.DataFrame, pa.table, pl.DataFrame, dict])
def test_every_frame_may_have_vectors(kind):
    lists = VECTORS.tolist() if kind is not pl.DataFrame else VECTORS
    items = kind({"item": np.arange(40), "title": lists})
    data = Dataset.from_frame({"user": [1, 2], "item": [3, 4]}, items=items)
    assert Encoder.fit("item", data.item_table["title"], Field()).size == 4


def test_owners_of_a_one_hot_vector_are_those_of_the_category():
    kind = RNG.integers(0, 5, 400)
    data = Dataset.from_frame(
        {"user": [0, 1], "item": [0, 1]}, items={"item": np.arange(400), "kind": np.eye(5)[kind]}
    )
    plain = {"kind": Field(standardize=False)}
    space = FeatureSpace.fit(data, plain)
    rows = space.item_rows(data.item_table, 400)
    share = np.bincount(kind) / 400
    owners = vector_owners(np.zeros(5), space.item, 400, rows)
    np.testing.assert_allclose(owners, 400 * (share**2).sum(), rtol=0.02)
    groups = item_groups(space.item, rows, np.arange(400))
    np.testing.assert_allclose(groups.share, share, rtol=1e-5)


@pytest.fixture(scope="module")
def model():
    """A model of items, users and contexts with a vector each; items 30 to 39 have no events."""
    rng = np.random.default_rng(1)
    user = rng.integers(0, 30, 400)
    events = pl.DataFrame(
        {"user": user, "item": rng.integers(0, 30, 400), "mood": rng.normal(0, 1, (400, 3))}
    )
    data = Dataset.from_frame(
        events,
        context=["mood"],
        users={"user": np.arange(30), "taste": rng.normal(0, 1, (30, 2))},
        items={"item": np.arange(40), "title": VECTORS, "kind": (np.arange(40) % 3).astype(str)},
    )
    return FMPair(**QUICK, history=0).fit(data)


def test_the_terms_of_a_score_have_one_for_each_vector(model):
    mood = {"mood": [0.1, -0.3, 0.5]}
    terms = model.explain(3, 35, context=mood)
    score = model.score({"user": [3], "item": [35], "mood": [mood["mood"]]})["score"][0]
    assert terms["value"].sum() == pytest.approx(score, abs=1e-5)
    names = set(terms.filter(pl.col("item") == "item=35")["query"])
    assert names == {"user=3", "taste", "mood", ""}
    titles = terms.filter(pl.col("item").str.starts_with("title"), pl.col("query") == "user=3")
    assert len(titles) == 1
    known = set(model.space.items.ids.gather(model.seen.row(model.user_number(3))))
    like = titles["item"][0].removeprefix("title (like ").removesuffix(")").split(", ")
    assert {int(item) for item in like} <= known


def test_a_model_with_vectors_is_saved_and_loaded(model, tmp_path):
    model.save(tmp_path / "m.fmpair")
    again = load(tmp_path / "m.fmpair")
    question = {"user": 3, "context": {"mood": [0.1, -0.3, 0.5]}, "n": 5}
    assert again.answer(**question) == model.answer(**question)
    assert again.space.item.encoders[0] == model.space.item.encoders[0]


def test_an_update_takes_in_new_items_by_their_vectors(model):
    new = Dataset.from_frame(
        {"user": [3, 99], "item": [41, 2], "mood": [[0.0, 1.0, 2.0]] * 2},
        context=["mood"],
        items={"item": [41, 2], "title": VECTORS[:2], "kind": ["1", "2"]},
    )
    grown = model.update(new, epochs=1)
    assert len(grown.item_rows.row(grown.item_number(41))) == 5
    folded = model.fold_in({"user": [99], "item": [2], "mood": [[0.0, 1.0, 2.0]]}, epochs=1)
    assert np.array_equal(folded.parameters.features, model.parameters.features)


def test_a_vector_of_a_question_may_mix_whole_numbers_and_fractions(model):
    whole, mixed = (
        {"user": 3, "context": {"mood": mood}, "n": 3} for mood in ([1.0, 0.5, 2.0], [1, 0.5, 2])
    )
    assert model.answer(**whole) == model.answer(**mixed)
    asked = model.recommend([3], 3, context=mixed["context"])
    assert asked["item"].to_list() == model.answer(**mixed).items
    named = [
        model.recommend(["new"], 3, user_features={"taste": taste}, unknown="features")["item"]
        for taste in ([1.0, 0.5], [1, 0.5])
    ]
    assert named[0].equals(named[1])


def test_an_update_names_the_item_of_a_vector_of_another_length(model):
    new = Dataset.from_frame(
        {"user": [3, 3], "item": [2, 77], "mood": [[0.0, 1.0, 2.0]] * 2},
        context=["mood"],
        items={"item": [77, 2], "title": [[1.0, 2.0], [1.0, 2.0, 3.0, 4.0]]},
    )
    with pytest.raises(DataError, match="item 77 has 2 numbers, but those of the model have 4"):
        model.update(new, epochs=1)


def test_a_question_with_a_vector_of_another_length_is_refused(model):
    with pytest.raises(DataError, match="of the query has 1 number, but those of the model have 3"):
        model.answer(user=3, context={"mood": [0.5]}, n=2)
    with pytest.raises(DataError, match="of row 1 has 1 number, but those of the model have 3"):
        model.recommend(pl.DataFrame({"user": [3, 4], "mood": [[0.1, 0.2, 0.3], [0.5]]}))


OTHERWISE = {"title": Field(standardize=True, normalize=False), "image": Field(scale=2.0)}


@pytest.mark.parametrize(
    "options", [{}, {"fields": OTHERWISE}, {"loss": "bpr"}], ids=["usual", "otherwise", "bpr"]
)
def test_other_programs_place_a_new_item_by_what_is_exported(options, tmp_path):
    images = (VECTORS @ RNG.normal(size=(4, 3))).astype(np.float32)
    data = Dataset.from_frame(
        {"user": RNG.integers(0, 20, 200), "item": RNG.integers(0, 40, 200)},
        items={"item": np.arange(40), "title": VECTORS, "image": images},
    )
    model = FMPair(**QUICK, history=0, **options).fit(data)
    given = {"title": VECTORS[3] * 1.5 + 1, "image": images[9] - images[2]}
    attributes = pl.DataFrame({name: [vector.tolist()] for name, vector in given.items()})
    grown = with_items(model, pl.Series([77]), attributes)
    export(model, tmp_path / "v.npz")
    with np.load(tmp_path / "v.npz") as file:
        total, linear, squares = np.zeros(file["item_vectors"].shape[1] - 1), 0.0, 0.0
        for name, vector in given.items():
            of = {key: file[f"vector.{name}.{key}"] for key in ("mean", "spread", "length")}
            x = (vector - of["mean"]) / of["spread"]
            x *= np.clip(np.linalg.norm(x), *of["length"]) / np.linalg.norm(x)
            total += x @ file[f"vector.{name}.matrix"]
            if "new.length" not in file:
                linear += x @ file[f"vector.{name}.bias"]
                squares += x**2 @ file[f"vector.{name}.squares"]
        constant = file["new.constant"]
        if "new.length" in file:
            total *= file["new.length"] / np.linalg.norm(total)
        else:
            constant = constant + linear + (total @ total - squares) / 2
    number = grown.item_number(77)
    np.testing.assert_allclose(total, grown.item_vectors[number], atol=1e-5)
    assert constant == pytest.approx(grown.item_constants[number], abs=1e-5)
    assert ("loss" in options) == (linear != 0)
