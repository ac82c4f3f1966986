"""Rules: conditions, limits, boosts and diversity, on a catalogue whose answers are known."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, load
from fmpair.errors import Notice, OptionError
from fmpair.fitted.recommender import from_factors
from fmpair.fitted.rules import Rules, condition, rules_of
from fmpair.models import ItemKNN, Popularity

# Item n has the score 10 - n for everybody: the plain list is 0, 1, 2, ...
ITEMS = {
    "item": list(range(10)),
    "brand": ["a", "a", "a", "b", "b", "c", None, "c", "b", "a"],
    "price": [5.0, 15.0, 25.0, 35.0, None, 45.0, 55.0, 65.0, 75.0, 85.0],
    "stock": [True, True, False, True, True, None, True, False, True, True],
    "tags": [["x"], ["x", "y"], ["y"], [], None, ["z"], ["x"], ["y"], ["z"], ["x"]],
    "since": [dt.date(2020 + n, 1, 1) for n in range(10)],
    "sizes": [[1, 2], [2, 2], *[[3, 4]] * 8],
}
CLICKS = {"user": ["u", "v", *["w"] * 10], "item": [9, 0, *range(10)]}
DATA = Dataset.from_frame(CLICKS, items=ITEMS)


def model_of(vectors):
    users = np.zeros((3, vectors.shape[1]), np.float32)
    order = DATA.items.ids.to_numpy()
    bias = (10 - order).astype(np.float32)
    return from_factors(Popularity(), DATA, users, vectors[order].astype(np.float32), bias)


MODEL = model_of(np.zeros((10, 0)))


def listed(n=10, model=MODEL, **rules):
    answer = model.answer("u", n, exclude_seen=False, **rules)
    frame = model.recommend("u", n, exclude_seen=False, **rules)
    assert frame["item"].to_list() == answer.items  # a frame and a request agree
    np.testing.assert_allclose(frame["score"].to_list(), answer.scores)
    return answer.items


@pytest.mark.parametrize(
    ("where", "items"),
    [
        ("brand=b", [3, 4, 8]),
        ("brand=b,c", [3, 4, 5, 7, 8]),
        ("not brand=b,c", [0, 1, 2, 9]),  # an item without a brand fulfils no condition
        ("brand!=a", [3, 4, 5, 7, 8]),
        ("price<=25", [0, 1, 2]),
        ("price < 25", [0, 1]),
        ("price>75", [9]),
        ("price>=75", [8, 9]),
        ("not price<=25", [3, 5, 6, 7, 8, 9]),
        ("price=5,85", [0, 9]),
        ("stock=true", [0, 1, 3, 4, 6, 8, 9]),
        ("not stock=true", [2, 7]),
        ("tags=y", [1, 2, 7]),
        ("not tags=x", [2, 3, 5, 7, 8]),
        ("since>=2027-01-01", [7, 8, 9]),
        ("sizes=2", [0, 1]),
        ("sizes=1", [0]),
        (["price<=55", "stock=true", "not brand=a"], [3]),
    ],
)
def test_a_condition_keeps_the_items_for_which_it_holds(where, items):
    assert listed(where=where) == items


@pytest.mark.parametrize(
    ("where", "items"),
    [("kind=tea", [0, 1]), ("kind=cup", [1, 2]), ("kind=tea|cup", [1]), ("not kind=tea", [2])],
)
def test_text_with_values_between_bars_is_a_list_of_them(where, items):
    kinds = pl.DataFrame({"item": [0, 1, 2], "kind": ["tea", "tea|cup", "cup"]})
    model = Popularity().fit(Dataset.from_frame(CLICKS, items=kinds, display=["kind"]))
    assert sorted(listed(model=model, where=where)) == items
    answer = model.answer("u", where="kind=tee", exclude_seen=False)
    assert answer.empty.endswith("Did you mean kind=tea?")


def test_a_limit_takes_the_best_of_each_value_and_goes_on_down_the_list():
    assert listed(limit={"brand": 1}) == [0, 3, 5, 6]
    assert listed(3, limit={"brand": 1}) == [0, 3, 5]
    assert listed(limit={"tags": 1}) == [0, 2, 3, 4, 5]  # an item counts for each of its values
    assert listed(limit={"brand": 2, "tags": 1}) == [0, 2, 3, 4, 5]


def test_a_limit_looks_deeper_than_the_first_candidates():
    count = 2000
    table = {"item": range(count), "shop": ["big"] * (count - 2) + ["one", "two"]}
    data = Dataset.from_frame({"user": [1] * count, "item": range(count)}, items=table)
    bias = (count - data.items.ids.to_numpy()).astype(np.float32)
    empty = np.zeros((count, 0), np.float32)
    model = from_factors(Popularity(), data, empty[:1], empty, bias)
    answer = model.answer(1, 5, limit={"shop": 1}, exclude_seen=False)
    assert answer.items == [0, count - 2, count - 1]


def test_a_boost_is_added_to_the_score_and_is_a_term_of_its_own():
    assert listed(3, boost={"brand": {"b": 2.5}}) == [0, 3, 1]
    rules = {"boost": {"brand": {"b": 2.5, "c": -1}, "stock": {True: 0.25}}, "explain": True}
    answer = MODEL.answer("u", 10, exclude_seen=False, **rules)
    terms = dict(zip(answer.items, answer.terms))
    for item, score in zip(answer.items, answer.scores):
        assert sum(value for *_, value in terms[item]) == pytest.approx(score)
    assert ("", "boost brand=b", 2.5) in terms[3] and ("", "boost stock=true", 0.25) in terms[3]
    assert not [term for term in terms[2] if term[1].startswith("boost")]
    explained = MODEL.explain("u", 3, boost=rules["boost"])
    assert explained.rows() == [tuple(term) for term in terms[3]]
    with pytest.raises(OptionError, match="unknown item column 'brnd'"):
        MODEL.explain("u", 3, boost={"brnd": {"b": 1}})


def test_limits_that_cannot_be_met_leave_a_short_list():
    assert listed(10, limit={"brand": 1}) == [0, 3, 5, 6]  # item 6 has no brand
    assert listed(10, limit={"tags": 1}, diversity=0.0) == [0, 2, 3, 4, 5]


def test_rules_compose_with_each_other_and_with_candidates():
    rules = {"where": "stock=true", "limit": {"brand": 1}, "boost": {"brand": {"a": -8}}}
    assert listed(**rules) == [3, 6, 0]
    assert listed(candidates=[0, 3, 4, 6], exclude_shown={6}, **rules) == [3, 0]
    seen = MODEL.answer("v", 10, where="brand=a")
    assert seen.items == [1, 2, 9]


@pytest.mark.parametrize("count", [1, 300])
def test_all_users_get_lists_under_rules(count):
    frame = MODEL.recommend(["u", "v"] * count, 2, where="brand=a", exclude_seen=False)
    assert frame["item"].to_list() == [0, 1] * 2 * count


def test_diversity_prefers_items_unlike_those_before():
    # items 0 to 4 point one way, 5 to 9 the other: a diverse list alternates
    vectors = np.array([[1.0, 0.0]] * 5 + [[0.0, 1.0]] * 5)
    model = model_of(vectors)
    assert listed(4, model) == [0, 1, 2, 3]
    assert set(listed(2, model, diversity=0.6)) == {0, 5}
    assert listed(4, model, diversity=0.0) == [0, 1, 2, 3]


def test_diversity_of_an_empty_list_is_an_empty_list():
    answer = model_of(np.eye(10)).answer("u", 3, candidates=[0], exclude_shown=[0], diversity=0.5)
    assert answer.items == []


def test_neighbours_can_be_diverse_and_a_model_without_vectors_says_so():
    rng = np.random.default_rng(0)
    events = pl.DataFrame({"user": rng.integers(0, 9, 99), "item": rng.integers(0, 10, 99)})
    model = ItemKNN().fit(Dataset.from_frame(events.unique(maintain_order=True), items=ITEMS))
    plain, other = (model.answer(1, 4, exclude_seen=False, diversity=d).items for d in (0.0, 1.0))
    assert plain[0] == other[0] and plain != other
    assert model.answer(1, 9, where="brand=b", exclude_seen=False).items
    with pytest.raises(
        OptionError, match=r"^diversity: a model without vectors, .* has no similarities"
    ):
        MODEL.answer("u", 3, diversity=0.5)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"where": "price>1000"}, "no item is left by where 'price>1000'"),
        (
            {"where": ["brand=a", "brand=b"]},
            "no item is left by where 'brand=b' after where 'brand=a'",
        ),
        ({"where": ["brand=a", "price>1000"]}, "no item is left by where 'price>1000'"),
        ({"where": "brand=a", "candidates": []}, "by candidates: none is given or known"),
        ({"where": "brand=A"}, "no item is left by where 'brand=A'. Did you mean brand=a?"),
        ({"where": "brand=c", "exclude_shown": [5, 7]}, "no item is left by exclude_shown"),
        ({"where": "price<10", "exclude": [0]}, "are excluded, removed or were seen before"),
    ],
)
def test_an_empty_list_says_which_rule_emptied_it(rules, reason):
    assert reason in MODEL.answer("u", **rules).empty
    with pytest.warns(Notice, match="1 of 1 lists are empty: "):
        assert not len(MODEL.recommend("u", **rules))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"candidates": []}, "no item is left by candidates: none is given or known"),
        ({"candidates": [1], "exclude": [1]}, "no item is left by candidates: all are excluded"),
        ({"exclude": list(range(10))}, "all items are excluded, removed or were seen before"),
        ({"exclude": list(range(9)), "exclude_seen": False}, ""),
    ],
)
def test_an_empty_list_without_rules_says_why_too(options, reason):
    answer = MODEL.answer("u", **options)
    assert bool(answer.items) == (not reason)
    assert answer.empty.startswith(reason) and bool(answer.empty) == bool(reason)


@pytest.mark.parametrize(
    ("boost", "idle", "hint"),
    [
        ({"brand": {"bb": 1, "b": 2}}, "brand=bb", r"brand=bb: .*\. Did you mean brand=b\?"),
        ({"tags": {"X": 1}}, "tags=X", r"tags=X: .*\. Did you mean tags=x\?"),
        ({"price": {7: 1}}, "price=7", "price=7: no item has this value$"),
    ],
)
def test_a_boost_of_a_value_that_no_item_has_says_which_was_meant(boost, idle, hint):
    assert MODEL.answer("u", boost=boost).idle == (idle,)
    with pytest.warns(Notice, match=hint):
        MODEL.recommend("u", boost=boost)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"where": "prize<4"}, "where: unknown item column 'prize'. Did you mean 'price'"),
        ({"where": "brand<4"}, "where 'brand<4': 'brand' holds text, and < compares numbers"),
        ({"where": "price<x"}, "where 'price<x': 'price' takes a number, not 'x'"),
        ({"where": "price<1,2"}, "< takes one value, not 2"),
        ({"where": "price"}, "where 'price' is not a condition: write 'category=shoes,bags'"),
        ({"where": " " * 200_000}, "is not a condition"),  # at once: no search goes back
        ({"where": "brand=a\rb"}, "is not a condition"),
        ({"where": "=a"}, "where '=a' is not a condition"),
        ({"where": "price=" + "9" * 400}, "'price' takes a number"),
        ({"where": "stock=maybe"}, "'stock' takes true or false, not 'maybe'"),
        ({"where": "since>soon"}, "takes a time such as 2024-01-31, not 'soon'"),
        ({"where": [3]}, "where=3 is not a condition: write 'category=shoes,bags'"),
        ({"where": 3}, "where=3 is no list of conditions: write 'category=shoes,bags'"),
        ({"limit": {"brand": 0}}, "limit={'brand': 0}: the number must be whole and at least 1"),
        ({"limit": {"brand": True}}, "limit={'brand': True}: the number must be whole"),
        ({"limit": "brand"}, "limit='brand' gives no number per column: write limit={'brand': 2}"),
        ({"limit": {"brnd": 1}}, "limit: unknown item column 'brnd'"),
        (
            {"boost": {"brand": 0.3}},
            "boost={'brand': 0.3} gives no number per value: write boost={'brand': {'ACME': 0.3}}",
        ),
        ({"boost": {"brand": {"a": "much"}}}, "boost={'brand': {'a': 'much'}}: the number must be"),
        ({"boost": {"brand": {"a": float("inf")}}}, "boost={'brand': {'a': inf}}: the number must"),
        (
            {"boost": {"brand": {"a": 1e39}}},
            "{'a': 1e+39}}: the number must be from -1,000,000,000 to 1,000,000,000",
        ),
        ({"diversity": 1.5}, "diversity must be from 0 to 1, not 1.5"),
        ({"exclude_shown": "7d"}, "exclude_shown='7d' needs the lists that users were shown"),
        ({"exclude_shown": "7x"}, "exclude_shown must be a time such as '30d' or '12h', not '7x'"),
        ({"exclude_shown": 7}, "exclude_shown=7 is neither a list of items nor a time such as 7d"),
    ],
)
def test_a_bad_rule_is_refused_in_one_line(rules, reason):
    with pytest.raises(OptionError) as error:
        MODEL.recommend("u", **rules)
    assert reason in str(error.value) and "\n" not in str(error.value)


def test_values_with_commas_are_quoted():
    assert condition('maker="Ben, Jerry",Mars').values == ("Ben, Jerry", "Mars")


@pytest.mark.parametrize("meant", ["Ben, Jerry", "Ben Jerry", '"Ben, Jery"'])
def test_a_condition_without_quotes_around_a_comma_is_told_with_them(meant):
    makers = {"item": [1, 2], "maker": ["Ben, Jerry", "Mars"]}
    data = Dataset.from_frame({"user": ["u", "v"], "item": [1, 2]}, items=makers)
    answer = Popularity().fit(data).answer("u", where=f"maker={meant}")
    assert answer.empty.endswith('. Did you mean maker="Ben, Jerry"?')


def test_rules_are_added_up_and_come_back_as_options():
    first = rules_of(where="brand=a", limit={"brand": 1}, boost={"brand": {"a": 1}}, diversity=0.2)
    both = first + Rules(("stock=true",), (("brand", 2),), (("brand", "a", 3.0),))
    assert both.options() == {
        "where": ["brand=a", "stock=true"],
        "limit": {"brand": 2},
        "boost": {"brand": {"a": 3.0}},
        "diversity": 0.2,
    }
    assert rules_of(**both.options()) == both
    assert rules_of() is None and rules_of(diversity=0) is None
    assert listed(where="stock=true", rules=rules_of(where="brand=a", limit={"brand": 1})) == [0]


def test_a_diversity_of_0_replaces_that_of_named_rules():
    named = rules_of(diversity=0.7, where="stock=true")
    assert (named + rules_of(diversity=0.2, where="brand=a")).diversity == 0.2
    vectors = np.tile(np.float32([1, 0]), (10, 1))
    vectors[9] = 0, 1  # the only item unlike the others
    model = model_of(vectors)
    assert 9 in model.answer("v", 3, rules=named).items
    assert model.answer("v", 3, rules=named, diversity=0).items == [1, 3, 4]


def test_an_error_and_an_empty_list_name_the_rules_they_come_from():
    named = Rules(("price<=10", "brand=b"), file="rules.yaml", name="front_page")
    said = MODEL.answer("u", where="price>0", rules=named).empty
    assert said == (
        "no item is left by where 'brand=b' of the rules 'front_page' "
        "after where 'price<=10' of the rules 'front_page'"
    )
    wrong = Rules(limit=(("brnd", 2),), file="rules.yaml", name="front_page")
    with pytest.raises(OptionError, match=r"^rules.yaml: front_page: limit: unknown item column"):
        MODEL.recommend("u", where="price>0", rules=wrong)
    with pytest.raises(OptionError, match=r"^where: unknown item column 'prize'"):
        MODEL.recommend("u", where="prize>0", rules=named)


def test_each_user_of_a_frame_is_spared_what_that_user_was_shown():
    shown = pl.DataFrame({"user": ["u", "u", "v", "x"], "item": ["0", "1", "2", "77"]})
    lists = MODEL.recommend(["u", "v", "w"], 2, exclude_seen=False, exclude_shown=shown)
    assert lists["item"].to_list() == [2, 3, 0, 1, 0, 1]
    ruled = MODEL.recommend(
        ["u", "v"], 2, exclude_seen=False, exclude_shown=shown, where="brand=a", candidates=[1, 2]
    )
    assert ruled.select("user", "item").rows() == [("u", 2), ("v", 1)]
    stranger = pl.DataFrame({"user": ["x", "u"], "item": [0, 1]})
    both = MODEL.recommend(
        ["x", "u"], 1, exclude_seen=False, exclude_shown=stranger, unknown="popular"
    )
    assert both["item"].to_list() == [1, 0]
    with pytest.raises(LookupError, match="the frame of exclude_shown needs a column 'user'"):
        MODEL.recommend("u", exclude_shown=shown.select("item"))


def test_the_lists_shown_replace_the_time_of_named_rules():
    named = rules_of(exclude_shown="7d", where="brand=a")
    shown = pl.DataFrame({"user": ["u"], "item": [0]})
    asked = {"exclude_seen": False, "rules": named}
    assert MODEL.recommend("u", 2, exclude_shown=shown, **asked)["item"].to_list() == [1, 2]
    assert MODEL.answer("u", 2, exclude_shown=[1], **asked).items == [0, 2]
    assert MODEL.answer("u", 2, exclude_shown=[], **asked).items == [0, 1]
    with pytest.raises(OptionError, match="exclude_shown='7d' needs the lists"):
        MODEL.answer("u", 2, **asked)


def test_rules_need_columns_of_items():
    model = Popularity().fit({"user": [1, 2], "item": [3, 4]})
    with pytest.raises(OptionError, match="the model knows no columns of items: fit it with items"):
        model.recommend(1, where="brand=a")
    assert model.recommend(1, exclude_shown=[4], exclude_seen=False)["item"].to_list() == [3]


def test_rules_hold_for_a_model_from_a_file_and_for_a_changed_catalogue(tmp_path):
    MODEL.save(tmp_path / "m")
    model = load(tmp_path / "m")
    assert listed(model=model, where="price<=25") == [0, 1, 2]
    none = np.zeros(0, np.int32)
    served = model.in_service(none, none, none.astype(np.int64))
    assert served.answer("u", where="price<=25", exclude_seen=False).items == [0, 1, 2]
    change = {"item": [0, 4, 77], "price": [99.0, 1.0, 2.0]}
    served.live.catalogue = served.catalogue.changed(change)
    assert served.answer("u", where="price<=25", exclude_seen=False).items == [1, 2, 4]
