"""Folding and explaining: both are the textbook factorization machine, taken apart."""

from functools import cache
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmpair import Dataset, FMPair
from fmpair.engine.contract import Parameters
from fmpair.errors import UnknownError

USERS, ITEMS = 6, 7


@cache
def rich_model():
    """A model with every role, single and several values, numbers and gaps."""
    rng = np.random.default_rng(0)
    events = {
        "user": rng.integers(0, USERS, 40), "item": rng.integers(0, ITEMS, 40),
        "time": rng.choice(["day", "night"], 40), "heat": rng.normal(size=40),
    }  # fmt: skip
    users = {"user": range(USERS), "age": rng.uniform(20, 60, USERS), "sex": [*"fmfmf", None]}
    tags = [["a", "b"], ["b"], None, ["c", "a"], ["d"], ["a", "b", "c"], []]
    items = {"item": range(ITEMS), "tags": tags, "price": rng.uniform(1, 9, ITEMS)}
    data = Dataset.from_frame(pl.DataFrame(events), users=users, items=items)
    return FMPair(factors=3, epochs=1).fit(data)


def with_random_parameters(seed):
    rng = np.random.default_rng(seed)
    tables = (rng.normal(0, 0.5, t.shape).astype(np.float32) for t in rich_model().parameters)
    return rich_model().replaced(parameters=Parameters(*tables))


def textbook_score(model, query, item, rng):
    """w . x + sum over all pairs a < b of <v_a, v_b> x_a x_b, x = query features + item features.

    query: a one-row frame. The weights of the query side are drawn: they exist, but cancel.
    """
    p = model.parameters
    user = model.space.users.number(query["user"][0])
    vectors, weights = [p.users[user]], [rng.normal()]
    profile = model.user_rows.take(np.array([user]))
    context = model.space.context_rows(query)[0]
    for rows in (profile, context):
        for column, value in zip(rows.column, rows.value):
            vectors.append(value * p.query[column])
            weights.append(value * rng.normal())
    vectors.append(p.items[item])
    weights.append(p.item_bias[item])
    own = model.item_rows.take(np.array([item]))
    for column, value in zip(own.column, own.value):
        vectors.append(value * p.features[column])
        weights.append(value * p.feature_bias[column])
    return sum(weights) + sum(float(a @ b) for a, b in combinations(vectors, 2))


queries = st.fixed_dictionaries(
    {
        "user": st.integers(0, USERS - 1),
        "time": st.sampled_from(["day", "night", None]),
        "heat": st.one_of(st.none(), st.floats(-2, 2)),
    }
)
item_numbers = st.integers(0, ITEMS - 1)


def as_frame(query):
    schema = {"user": pl.Int64, "time": pl.String, "heat": pl.Float64}
    return pl.DataFrame([query], schema=schema)


@given(st.integers(0, 10**6), queries, item_numbers, item_numbers)
@settings(max_examples=80, deadline=None)
def test_folding_equals_the_textbook_machine_up_to_terms_of_the_query(seed, query, i, j):
    model, frame = with_random_parameters(seed), as_frame(query)
    q = model.query_vectors(frame)[0]
    folded = model.item_vectors @ q + model.item_constants
    wanted = [textbook_score(model, frame, n, np.random.default_rng(seed)) for n in (i, j)]
    assert folded[i] - folded[j] == pytest.approx(wanted[0] - wanted[1], abs=1e-4)


@given(st.integers(0, 10**6), queries, item_numbers)
@settings(max_examples=80, deadline=None)
def test_an_explanation_adds_up_to_the_score(seed, query, number):
    model, frame = with_random_parameters(seed), as_frame(query)
    item = int(model.item_ids[number])
    context = {name: query[name] for name in ("time", "heat")}
    terms = model.explain(query["user"], item, context=context)
    score = model.score(frame.with_columns(item=pl.lit(item)))["score"][0]
    assert terms["value"].sum() == pytest.approx(score, abs=1e-4)


def test_an_explanation_names_each_pair_of_features_once_largest_first():
    terms = with_random_parameters(1).explain(0, 3, context={"time": "day"})
    assert terms.columns == ["query", "item", "value"]
    pairs = terms.select("query", "item").rows()
    assert len(set(pairs)) == len(pairs)
    assert {"user=0", "time=day"} <= set(terms["query"])
    assert {"item=3", "tags=a", "tags=c", "price"} <= set(terms["item"])
    assert ("", "item=3 x price") in pairs
    assert not any("tags" in item for query, item in pairs if query == "")
    sizes = terms["value"].abs().to_list()
    assert sizes == sorted(sizes, reverse=True)


@cache
def model_of_contents(**options):
    """A model of items with two vectors and a list; user u has items u, u + 6 and u + 12."""
    rng = np.random.default_rng(3)
    number = np.arange(18)
    events = {"user": number % 6, "item": number}
    text = np.eye(6)[number % 6] + 0.01 * rng.normal(size=(18, 6))
    items = {"item": number, "text": text, "image": rng.normal(size=(18, 4)), "tags": [["a"]] * 18}
    data = Dataset.from_frame(events, items=items)
    quick = {"factors": 4, "epochs": 2, "times": False, "threads": 1, "regularization": 0.1}
    model = FMPair(**(quick | {"history": 0, "order": 2} | options)).fit(data)
    tables = (rng.normal(0, 0.5, t.shape).astype(np.float32) for t in model.parameters)
    return model.replaced(parameters=Parameters(*tables))


def of_text(terms):
    return terms.filter(pl.col("item").str.contains("text") | pl.col("query").str.contains("text"))


@pytest.mark.parametrize("order", [2, 3])
def test_a_vector_of_the_item_has_one_term_and_names_the_items_behind_it(order):
    model = model_of_contents(order=order)
    terms = model.explain(2, 8)
    (term,) = of_text(terms).rows(named=True)
    assert (term["query"], term["item"]) == ("user=2", "text (like 2, 14)")
    score = model.score({"user": [2], "item": [8]})["score"][0]
    assert terms["value"].sum() == pytest.approx(score, abs=1e-5)
    if order == 2:
        first, encoder = next(f for f in model.space.item.of_role("item") if f[1].name == "text")
        x = model.item_rows.take(np.array([model.item_number(8)]))
        part = x.column - first < encoder.size
        w = model.parameters.features[x.column[part]]
        wanted = x.value[part] @ w @ model.user_vectors[model.user_number(2)]
        assert term["value"] == pytest.approx(wanted, abs=1e-5)


def test_the_items_of_a_visitor_and_new_events_of_a_user_are_behind_a_vector():
    model = model_of_contents()
    asked = {"n": 18, "explain": True, "exclude_seen": False}
    answer = model.answer(history=[3], **asked)
    terms = answer.terms[answer.items.index(9)]
    assert [item for _, item, _ in terms if "text" in item] == ["text (like 3)"]
    event = (np.array([n], np.int32) for n in (model.user_number(2), model.item_number(4)))
    live = model.in_service(*event, np.array([0]))
    assert "text (like 4)" in live.explain(2, 10)["item"].to_list()


def test_a_context_left_open_explains_nothing():
    terms = with_random_parameters(1).explain(0, 3)
    assert not any(name.startswith(("time", "heat")) for name in terms["query"])


def test_an_explanation_of_someone_unknown_is_refused_unless_described():
    model = with_random_parameters(1)
    with pytest.raises(UnknownError, match="unknown user 77"):
        model.explain(77, 3)
    terms = model.explain(77, 3, user_features={"sex": "f"})
    assert "sex=f" in terms["query"].to_list()
    assert not any(name.startswith("user=") for name in terms["query"])
    with pytest.raises(UnknownError, match="unknown item 99"):
        model.explain(0, 99)


@pytest.mark.parametrize("user", [None, 3], ids=["a visitor", "a known user"])
@given(seed=st.integers(0, 1000), history=st.lists(st.integers(0, ITEMS - 1), max_size=5))
@settings(max_examples=20)
def test_what_each_item_of_a_history_adds_is_a_term(user, seed, history):
    model = with_random_parameters(seed)
    asked = {"history": history, "context": {"time": "day"}, "exclude_seen": False}
    answer = model.answer(user, 3, explain=True, **asked)
    for score, terms in zip(answer.scores, answer.terms):
        assert sum(value for _, _, value in terms) == pytest.approx(score, abs=1e-4)
    named = {query for query, _, _ in answer.terms[0] if query.startswith("history=")}
    assert named == {f"history={item}" for item in history}
