"""Changes of items reach every answer, and outlive whoever took them in."""

import shutil
import time

import numpy as np
import polars as pl
import pytest
from asking import ask

from fmpair import FMPair, load
from fmpair.data import Dataset
from fmpair.events.event import ItemChange
from fmpair.fitted.question import Question
from fmpair.fitted.rules import rules_of
from fmpair.serve.application import Application
from fmpair.serve.live_catalogue import Changes
from fmpair.serve.live_models import LiveModels
from fmpair.serve.service import Service
from fmpair.training.growth import with_items

KINDS = ("book", "film")


def shop():
    """Users who choose items of one kind only: even items are books, odd ones films."""
    draw = np.random.default_rng(1)
    user = np.repeat(np.arange(40), 6)
    item = 2 * draw.integers(12, size=len(user)) + user % 2
    return pl.DataFrame(
        {
            "user": [f"u{number}" for number in user],
            "item": [f"i{number}" for number in item],
            "timestamp": 1_700_000_000 + np.arange(len(user)),
        }
    ).unique(["user", "item"], maintain_order=True)


def items():
    numbers = range(24)
    return pl.DataFrame(
        {"item": [f"i{n}" for n in numbers], "kind": [KINDS[n % 2] for n in numbers]}
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two models: one that has learned the kinds of items, and one that has not."""
    folder = tmp_path_factory.mktemp("shop")
    recipe = FMPair(
        factors=4, epochs=30, history=2, order=2, times=False, dropout=0, seed=1, threads=1
    )
    log = Dataset.from_frame(shop())
    recipe.fit(log.with_items(items())).save(folder / "kinds.fmpair")
    recipe.fit(log).save(folder / "plain.fmpair")
    return folder


@pytest.fixture
def service(files, store):
    return Application(Service(LiveModels(files / "kinds.fmpair", store), store))


def put(service, *changes):
    return ask(service, "/v1/items", {"items": list(changes)}, method="PUT")


def listed(service, user="u0", **more):
    body = {"user": user, "n": 30, "exclude_seen": False, **more}
    return [one["item"] for one in ask(service, "/v1/recommend", body).json["items"]]


def soon(condition):
    """Whether something comes true before long: a list waits for changes only for a moment."""
    return any(condition() or time.sleep(0.02) for _ in range(500))


def score(service, item, user="u0"):
    return ask(service, "/v1/score", {"user": user, "items": [item]}).json["items"][0]["score"]


def test_a_new_item_is_ranked_by_its_attributes(service):
    before = {item: score(service, item) for item in ("i0", "i1", "i7")}
    new = [{"item": "new book", "kind": "book"}, {"item": "new film", "kind": "film"}]
    assert put(service, *new).json == {"taken": 2, "new": 2, "unranked": 0}
    for user, better, worse in (("u0", "new book", "new film"), ("u1", "new film", "new book")):
        ranks = listed(service, user)
        assert len(ranks) == 26 and ranks.index(better) < ranks.index(worse)
        assert ranks.index(worse) > 12  # among the items of the other kind
    assert {item: score(service, item) for item in before} == before
    one = ask(service, "/v1/explain", {"user": "u0", "item": "new book"}).json
    assert sum(term["value"] for term in one["terms"]) == pytest.approx(one["score"], abs=1e-5)
    assert any("kind=book" in term["item"] for term in one["terms"])
    event = {"events": [{"user": "u0", "item": "new book"}]}
    assert ask(service, "/v1/events", event).status == 200
    assert "new book" not in listed(service, exclude_seen=True)
    assert ask(service, "/v1/similar", {"item": "new book", "n": 3}).status == 200
    assert ask(service, "/v1/items?prefix=new").json["count"] == 2


def test_a_removed_item_is_in_no_answer_until_it_comes_back(service):
    (best, *others), near = listed(service), ask(service, "/v1/similar", {"item": "i0"}).json
    assert put(service, {"item": best, "removed": True}).status == 200
    assert listed(service) == others
    assert listed(service, candidates=[best, others[0]]) == [others[0]]
    assert ask(service, "/v1/score", {"user": "u0", "items": [best]}).json["items"] == []
    assert ask(service, "/v1/score", {"user": "u0", "items": [best]}).json["unknown"] == ["items"]
    for path, body in (("explain", {"user": "u0", "item": best}), ("similar", {"item": best})):
        refused = ask(service, f"/v1/{path}", body)
        assert refused.status == 404
        assert refused.json["detail"].startswith(f"item '{best}' is removed: PUT /v1/items")
    batch = ask(service, "/v1/recommend/batch", {"questions": [{"user": "u0", "n": 30}] * 2}).json
    assert all(best not in [i["item"] for i in one["items"]] for one in batch["answers"])
    assert best not in ask(service, "/v1/items?n=100").json["ids"]
    gone = near["similar"][0]["id"]
    put(service, {"item": gone, "removed": True})
    after = ask(service, "/v1/similar", {"item": "i0"}).json["similar"]
    left = [one["id"] for one in near["similar"] if one["id"] not in (best, gone)]
    assert [one["id"] for one in after][: len(left)] == left
    assert [one["rank"] for one in after] == list(range(1, 11))
    put(service, {"item": best, "removed": False}, {"item": gone, "removed": None})
    assert listed(service) == [best, *others]


def test_a_changed_attribute_changes_the_score(service):
    book = listed(service, "u0")[0]
    before = score(service, book)
    put(service, {"item": book, "kind": "film", "price": 3})
    assert score(service, book) < before
    model = service.service.models.of(None)[1]
    assert model.catalogue.row(book) == {"kind": "film", "price": 3}


def test_a_push_does_not_compute_the_mean_user_again(files):
    model = load(files / "kinds.fmpair")
    pushed = with_items(model, pl.Series(["new"]), pl.DataFrame({"kind": ["book"]}))
    assert len(pushed.item_ids) == len(model.item_ids) + 1
    assert pushed.mean_user is model.mean_user


def test_columns_that_are_not_named_stay_and_null_erases(service):
    catalogue = lambda: service.service.models.of(None)[1].catalogue  # noqa: E731
    put(service, {"item": "i3", "price": 5, "tags": ["a", "b"]}, {"item": "i4", "in_stock": True})
    put(service, {"item": "i3", "price": 6.5})
    assert catalogue().row("i3") | {"kind": ""} == {"price": 6.5, "tags": ["a", "b"], "kind": ""}
    put(service, {"item": "i3", "tags": None})
    assert "tags" not in catalogue().row("i3") and catalogue().row("i4")["in_stock"] is True


def test_an_erased_attribute_has_no_effect_at_once_and_after_a_new_start(files, store):
    before = load(files / "kinds.fmpair")
    bare = with_items(before, pl.Series(["bare"]), pl.DataFrame({"kind": [None]}))
    first = Application(Service(LiveModels(files / "kinds.fmpair", store), store))
    put(first, {"item": "new", "kind": "book"}, {"item": "bare", "price": 5})
    with_kind, without = score(first, "new"), score(first, "bare")
    assert with_kind != without
    plain = score(first, "i2")
    put(first, {"item": "new", "kind": None}, {"item": "i2", "kind": None})
    assert score(first, "new") == pytest.approx(without, abs=1e-6)
    one = ask(first, "/v1/explain", {"user": "u0", "item": "i2"}).json
    assert not any("kind" in term["item"] for term in one["terms"]) and one["score"] != plain
    again = Application(Service(LiveModels(files / "kinds.fmpair", store), store))
    for item in ("new", "bare", "i2"):
        assert score(again, item) == pytest.approx(score(first, item), abs=1e-6)
    put(first, {"item": "i2", "kind": "book"})
    assert score(first, "i2") == pytest.approx(plain, abs=1e-6)
    assert "bare" in bare.item_ids


def test_a_request_that_began_before_a_change_finishes_with_the_catalogue_it_began_with(service):
    models = service.service.models
    before, rule = models.of("u0")[1], rules_of(where="kind=book")
    put(service, {"item": "new", "kind": "book"}, {"item": "gone", "kind": "book", "removed": True})
    ask(service, "/v1/events", {"events": [{"user": "u0", "item": "new"}]})
    books = [item for item in items()["item"].to_list() if int(item[1:]) % 2 == 0]
    for question in (Question("u0", 30, exclude_seen=False, rules=rule), Question("u0", 30)):
        found = before.answers([question])[0].items
        assert set(found) <= {*items()["item"]}
        assert question.rules is None or sorted(found) == sorted(books)
    assert sorted(listed(service, where="kind=book")) == sorted([*books, "new"])


def test_a_model_without_attributes_does_not_list_new_items_and_says_so(files, store):
    plain = Application(Service(LiveModels(files / "plain.fmpair", store), store))
    found = put(plain, {"item": "new", "kind": "book"}, {"item": "i2", "removed": True})
    assert found.json == {"taken": 2, "new": 1, "unranked": 1}
    assert {"new", "i2"}.isdisjoint(listed(plain)) and len(listed(plain)) == 23


def test_all_is_known_after_a_new_start_and_to_a_new_model(files, store, tmp_path):
    path = tmp_path / "model.fmpair"
    shutil.copy(files / "kinds.fmpair", path)
    models = LiveModels(path, store)
    first = Application(Service(models, store))
    other = Application(Service(LiveModels(path, store), store))  # as another worker
    put(first, {"item": "new", "kind": "book"}, {"item": "i4", "removed": True})
    wanted = listed(first)
    assert "new" in wanted and "i4" not in wanted
    assert soon(lambda: listed(other) == wanted)
    again = Application(Service(LiveModels(path, store), store))
    assert listed(again) == wanted
    assert models.reload() and listed(first) == wanted
    put(other, {"item": "i6", "removed": True})
    left = [item for item in wanted if item != "i6"]
    assert soon(lambda: listed(first) == listed(again) == left)


def test_columns_are_shown_with_the_items_that_have_them(service):
    put(service, {"item": "i2", "title": "Second", "price": 5}, {"item": "i0", "title": "First"})
    asked = {"user": "u0", "candidates": ["i0", "i2", "i4"], "exclude_seen": False}
    found = ask(
        service, "/v1/recommend", {**asked, "show": ["title", "price", "none", "title"]}
    ).json
    assert found["unknown"] == ["show.none"]
    told = {one["item"]: one.get("columns") for one in found["items"]}
    assert told == {"i0": {"title": "First"}, "i2": {"title": "Second", "price": 5}, "i4": {}}
    near = ask(service, "/v1/similar", {"item": "i4", "n": 30, "show": ["title"]}).json["similar"]
    assert {"title": "First"} in [one.get("columns") for one in near]
    listed = ask(service, "/v1/items?prefix=second").json
    assert (listed["ids"], listed["titles"], listed["count"]) == (["i2"], ["Second"], 1)
    assert ask(service, "/v1/model").json["models"][0]["title"] == "title"


def test_a_boost_of_a_value_that_no_item_has_is_named(service):
    put(service, {"item": "i2", "brand": "ACME"})
    asked = {"user": "u0", "boost": {"brand": {"ACME": 1, "acme": 1}}}
    assert ask(service, "/v1/recommend", asked).json["unknown"] == ["boost.brand=acme"]


def test_a_request_may_choose_the_arm_and_is_then_not_stored(files, store):
    models = LiveModels(files / "kinds.fmpair", store, files / "plain.fmpair", 0.5)
    both = Application(Service(models, store, recording=True))
    for arm in ("current", "candidate"):
        found = ask(both, "/v1/recommend", {"user": "u0", "arm": arm, "log": True}).json
        assert found["arm"] == arm
    store.append([])
    assert store.impressions(0, 9) == []
    alone = Application(Service(LiveModels(files / "kinds.fmpair", store), store))
    wrong = ask(alone, "/v1/recommend", {"arm": "candidate"})
    assert wrong.status == 404 and "no candidate model is in service" in wrong.json["detail"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"price": 3}, "no item is named - at `$.items[0]`"),
        ({"item": ""}, "invalid item id ''"),
        ({"item": None}, "invalid item id 'None'"),
        ({"item": 5, "price": 3}, "item 5: the ids of the model's items are text"),
        ({"item": "i1", "removed": "yes"}, "item 'i1': 'removed' must be true or false, not 'yes'"),
        ({"item": "i1", "": 1}, "invalid column ''"),
        ({"item": "i1", "price": "cheap"}, "item 'i1': 'price' takes a number, not 'cheap'"),
        ({"item": "i1", "x": "\0"}, "characters that cannot be stored"),
        ({"item": "i1", "x": [[1]]}, "$.items[0]"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_of_it_stored(service, store, change, said):
    put(service, {"item": "i1", "price": 3})
    found = put(service, change, {"item": "i2", "price": 9})
    assert found.status == 422 and said in found.json["detail"]
    assert [one.item for one in store.items(0, 9)] == ["i1"]


def test_stored_changes_that_do_not_fit_a_new_model_are_left_out(files, caplog):
    model = load(files / "kinds.fmpair")
    log = pl.DataFrame({"user": ["a", "b", "a"], "item": [1, 2, 3]})
    numbers = FMPair(factors=4, epochs=1, history=0, order=2, times=False, threads=1).fit(log)
    changes = Changes.of([ItemChange("i1", {"price": 3}, 1), ItemChange(7, {"price": 4}, 2)])
    assert changes.fitting(numbers).table.rows() == [(7, 4)]
    assert "do not fit the model" in caplog.text and "some ids" in caplog.text
    assert changes.fitting(model).table["item"].to_list() == ["i1", "7"]


def test_columns_that_no_item_had_before_are_named_once(service):
    assert put(service, {"item": "i2", "in_stok": False, "removed": False}).json["new_columns"] == [
        "in_stok"
    ]
    assert "new_columns" not in put(service, {"item": "i3", "in_stok": True}).json
