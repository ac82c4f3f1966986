"""Order three: the fold is the textbook machine's, and everything that ranks goes by it."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest

import fmpair
from fmpair import Dataset, FMPair
from fmpair.arrays import Rows
from fmpair.engine.contract import Parameters
from fmpair.errors import OptionError
from fmpair.solvers.anova import triples_of as all_triples
from fmpair.testing.known_answers import opposite_tastes

USERS, ITEMS, EVENTS = 6, 7, 60


def events():
    rng = np.random.default_rng(0)
    return pl.DataFrame({
        "user": rng.integers(0, USERS, EVENTS), "item": rng.integers(0, ITEMS, EVENTS),
        "daytime": rng.choice(["day", "night"], EVENTS), "heat": rng.normal(size=EVENTS),
        "timestamp": rng.permutation(EVENTS),
    })  # fmt: skip


def data():
    users = {"user": range(USERS), "age": [20, 30, 40, 50, 60, 70], "sex": [*"fmfmf", None]}
    tags = [["a", "b"], ["b"], None, ["c", "a"], ["d"], ["a", "b", "c"], []]
    items = {"item": range(ITEMS), "tags": tags}
    return Dataset.from_frame(events(), users=users, items=items)


def model_of(**options):
    """A model of every role with random tables, far from zero."""
    own = {"factors": 5, "factors3": 3, "order": 3, "epochs": 1, "loss": "bpr"}
    model = FMPair(**{**own, **options}).fit(data())
    rng = np.random.default_rng(1)
    tables = (rng.normal(0, 0.5, t.shape).astype(np.float32) for t in model.parameters)
    return model.replaced(parameters=Parameters(*tables))


def query(**more):
    return pl.DataFrame({"user": [2], "daytime": ["day"], "heat": [0.3], **more})


def parts_of(model, frame, item):
    """(vectors of triples of the query's features, times their values, and of the item's)."""
    p, user, item = model.parameters, model.user_number(frame["user"][0]), model.item_number(item)
    rows = [model.user_rows.take(np.array([user])), model.space.context_rows(frame)[0]]
    before = model.encoder.past_rows(np.array([user]))
    rows += [before] if before is not None else []
    own = model.item_rows.take(np.array([item]))
    of_query = [p.users[user], *(x * p.query[c] for r in rows for c, x in zip(r.column, r.value))]
    of_item = [p.items[item], *(x * p.features[c] for c, x in zip(own.column, own.value))]
    return np.array(of_query)[:, 5:], np.array(of_item)[:, 5:]


def anova(vectors):
    """The textbook's sum over all triples."""
    count = len(vectors)
    rows = Rows(np.array([0, count]), np.arange(count, dtype=np.int32), np.ones(count, np.float32))
    return float(all_triples(vectors.astype(np.float64), rows)[0])


@pytest.mark.parametrize("history", [0, 3])
def test_the_fold_is_the_textbooks_sum_of_all_triples_between_the_sides(history):
    model, two = model_of(history=history), model_of(history=history)
    p = two.parameters
    for table in (p.users, p.items, p.query, p.features):
        table[:, 5:] = 0
    for item in range(ITEMS):
        pair = query(item=[item])
        ours = model.score(pair)["score"][0] - two.score(pair)["score"][0]
        of_query, of_item = parts_of(model, query(), item)
        both = anova(np.vstack([of_query, of_item]))
        assert ours == pytest.approx(both - anova(of_query) - anova(of_item), abs=1e-5)


@pytest.mark.parametrize("history", [0, 3])
def test_an_explanation_names_every_triple_and_adds_up_to_the_score(history):
    model = model_of(history=history)
    terms = model.explain(2, 5, context={"daytime": "day", "heat": 0.3})
    score = model.score(query(item=[5]))["score"][0]
    assert terms["value"].sum() == pytest.approx(score, abs=1e-5)
    names = {(row["query"], row["item"]) for row in terms.to_dicts()}
    assert ("user=2 x daytime=day", "item=5") in names
    assert ("daytime=day", "item=5 x tags=a") in names


def test_vectors_are_longer_and_their_product_is_the_score():
    model = model_of(history=0)
    vectors = model.query_vectors(query())
    assert vectors.shape == (1, 5 + 3 + 3)
    products = model.item_vectors @ vectors[0] + model.item_constants
    every = pl.DataFrame({"item": model.item_ids})
    scores = model.score(query().join(every, how="cross"))["score"]
    np.testing.assert_allclose(products, scores, atol=1e-5)
    best = model.recommend(2, n=3, context={"daytime": "day", "heat": 0.3}, exclude_seen=False)
    assert best["item"].to_list() == model.item_ids[np.argsort(-products)[:3]].tolist()


def test_only_the_fields_named_as_pairs_meet():
    model = model_of(history=0, pairs=[["user", "daytime"]], loss="softmax")
    assert model.item_vectors.shape == (ITEMS, 5 + 3)  # no two features of an item do
    terms = model.explain(2, 5, context={"daytime": "day", "heat": 0.3})
    met = {name for name in terms["query"] if " x " in name}
    assert met == {"user=2 x daytime=day"}
    score = model.score(query(item=[5]))["score"][0]
    assert terms["value"].sum() == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize(
    ("pairs", "line"),
    [
        ([["user", "dytime"]], "unknown field of pairs 'dytime'. Did you mean 'daytime'?"),
        ([["user", "tags"]], "pairs: 'user' and 'tags' are fields of the query and of the item"),
        ("user", "pairs must be a list of two fields each, such as"),
        ([["user"]], "pairs must be a list of two fields each, such as"),
    ],
)
def test_pairs_that_cannot_be_are_refused_in_a_line(pairs, line):
    with pytest.raises(OptionError, match=line.replace("?", r"\?").replace("[", r"\[")):
        FMPair(order=3, pairs=pairs, epochs=1).fit(data())


@pytest.mark.parametrize("options", [{"pairs": [["user", "daytime"]]}, {"factors3": 8}])
def test_options_of_order_three_are_refused_of_order_two(options):
    with pytest.raises(OptionError, match="requires order=3"):
        FMPair(**options)


def test_ids_alone_make_no_triple_and_so_a_machine_of_order_two():
    frame = events().select("user", "item")
    two, three = (FMPair(order=order, epochs=3, factors=4).fit(frame) for order in (2, 3))
    assert three.item_vectors.tobytes() == two.item_vectors.tobytes()


def test_a_saved_model_gives_the_same_answers(tmp_path):
    model = model_of(history=3, pairs=[["user", "daytime"], ["history", "history"]])
    model.save(tmp_path / "m.fmpair")
    again = fmpair.load(tmp_path / "m.fmpair")
    asked = {"context": {"daytime": "night"}, "exclude_seen": False}
    assert again.recommend(n=5, **asked).equals(model.recommend(n=5, **asked))
    assert again.space.pairing == model.space.pairing


IN_THREE = {"factors": 6, "factors3": 10}  # few, most of them for terms of order three


def share_right(model, users, when):
    """Of the ten best items, the share that toys.opposite_tastes calls right."""
    found = model.recommend(users, n=10, context={"time": when}, exclude_seen=False)
    number = found["user"].str.slice(1).cast(pl.Int64)
    return float(((found["item"] + number + (when == "night")) % 2 == 0).mean())


def test_users_want_opposite_things_in_the_same_context():
    data = opposite_tastes()
    users = [f"u{n}" for n in range(40)]
    for order, own, low, high in ((2, {"factors": 8}, 0.3, 0.7), (3, IN_THREE, 0.95, 1.0)):
        model = FMPair(order=order, **own).fit(data)
        right = np.mean([share_right(model, users, when) for when in ("day", "night")])
        assert low <= right <= high


def test_new_users_and_new_events_are_learned_with_their_triples():
    data = opposite_tastes()
    model = FMPair(order=3, **IN_THREE).fit(data)
    item = np.arange(0, 20, 2)
    mine = pl.DataFrame({
        "user": ["u1000"] * 20, "item": [*item, *(item + 21)],
        "time": ["day"] * 10 + ["night"] * 10,
    })  # fmt: skip
    for go_on in (model.fold_in, model.update):
        assert share_right(go_on(mine), ["u1000"], "day") > 0.8


def test_every_pair_of_fields_stands_once_in_an_explanation():
    model = model_of(history=0)
    terms = model.explain(2, 5, context={"daytime": "day", "heat": 0.3})
    own = [name for name in terms["query"].unique() if name and " x " not in name]
    assert {name for name in terms["query"] if " x " in name} <= {
        f"{a} x {b}" for a, b in [*combinations(own, 2), *((b, a) for a, b in combinations(own, 2))]
    }
