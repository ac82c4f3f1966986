"""What requests and events name that a model does not know, and rules by name."""

from dataclasses import replace

import polars as pl
import pytest
from asking import ask

from fmpair import Dataset, FMPair
from fmpair.fitted.rules import rules_of
from fmpair.serve.application import Application
from fmpair.serve.live_models import LiveModels
from fmpair.serve.service import Service

LOG = pl.DataFrame(
    {
        "user": ["ann", "ben", "Jürgen, 3"] * 8,
        "item": ["boot", "bag", "hat, blue", "belt"] * 6,
        "event_type": ["view", "buy", "view", "cart"] * 6,
        "daytime": ["day", "night"] * 12,
    }
).filter((pl.col("user") != "ann") | (pl.col("item") != "belt"))
ITEMS = pl.DataFrame(
    {"item": ["boot", "bag", "hat, blue", "belt"], "brand": ["a", "a", "b", "b"], "stock": [1] * 4}
)
RECIPE = FMPair(factors=2, epochs=2, history=0, order=2, times=False, seed=1, threads=1)
RULES = {
    "fresh": rules_of(exclude_shown="7d", limit={"brand": 1}),
    "new": rules_of(exclude_shown="1h"),
}


@pytest.fixture(scope="module")
def weighted(tmp_path_factory):
    """A model that knows the event types view, cart and buy."""
    path = tmp_path_factory.mktemp("models") / "model.fmpair"
    weights = {"view": 1, "cart": 3, "buy": 5}
    RECIPE.fit(Dataset.from_frame(LOG, items=ITEMS, event_weights=weights)).save(path)
    return path


@pytest.fixture
def service(weighted, store):
    application = Application(Service(LiveModels(weighted, store), store, rules=RULES))
    return Application(
        replace(application.service, metrics=application.metrics), counters=application.metrics
    )


def tell(service, *events):
    return ask(service, "/v1/events", {"events": list(events)})


def counted(service, name):
    line = f"fmpair_unknown_{name}_total "
    return next(
        float(text.removeprefix(line))
        for text in service.metrics.text().splitlines()
        if text.startswith(line)
    )


@pytest.mark.parametrize(
    ("event", "unknown", "counter", "refused"),
    [
        ({"user": "new", "item": "boot", "event": "buy"}, [], None, None),
        ({"user": "ann", "item": "boots"}, ["item"], "items", "unknown item 'boots'. Did you mean"),
        (
            {"user": "ann", "item": "BELT "},
            ["item"],
            "items",
            "unknown item 'BELT '. Did you mean 'belt'? Known: 'boot', 'bag', 'hat, blue'",
        ),
        (
            {"user": "ann", "item": "boot", "event": "bye"},
            ["event"],
            "event_types",
            "unknown event type 'bye'. Did you mean 'buy'? Known: view, cart, buy - at "
            "`$.events[1].event`",
        ),
        (
            {"user": "ann", "item": "boot", "context": {"daytime": "noon"}},
            ["context.daytime"],
            "values",
            "unknown value 'noon' of context 'daytime' - at `$.events[1].context.daytime`",
        ),
        (
            {"user": "ann", "item": "boot", "context": {"daytim": "day"}},
            ["context.daytim"],
            "values",
            "unknown context 'daytim'. Did you mean 'daytime'?",
        ),
    ],
)
def test_an_event_is_stored_and_what_is_unknown_of_it_is_named_and_counted(
    service, store, event, unknown, counter, refused
):
    good = {"user": "Jürgen, 3", "item": "hat, blue", "event": "cart", "value": 5}
    told = tell(service, good, event)
    assert told.json.get("unknown", []) == [f"events[1].{part}" for part in unknown]
    assert told.json["taken"] == 2 and store.position() == 2
    assert counter is None or counted(service, counter) == 1
    strict = Application(replace(service.service, strict=True))
    told = tell(strict, {**good, "id": "1"}, {**event, "id": "2"})
    assert told.status == (404 if refused else 200)
    assert refused is None or refused in told.json["detail"]
    assert store.position() == (2 if refused else 4)  # nothing of a refused request


def test_a_pushed_item_is_known_to_events(service):
    ask(service, "/v1/items", {"items": [{"item": "scarf", "stock": 2}]}, method="PUT")
    assert "unknown" not in tell(service, {"user": "ann", "item": "scarf"}).json


def test_a_model_without_event_types_takes_any(store, tmp_path):
    RECIPE.fit(LOG.drop("event_type")).save(tmp_path / "model.fmpair")
    plain = Application(Service(LiveModels(tmp_path / "model.fmpair", store), store))
    assert "unknown" not in tell(plain, {"user": "ann", "item": "boot", "event": "kauf"}).json


def test_named_rules_leave_out_what_was_shown_within_their_time(service):
    asked = {"user": "ann", "n": 4, "exclude_seen": False}
    listed = lambda **more: [  # noqa: E731
        one["item"] for one in ask(service, "/v1/recommend", {**asked, **more}).json["items"]
    ]
    everything = listed()
    shown = listed(n=1, log=True)
    fresh = listed(rules="fresh")
    assert len(fresh) == 2 and not set(shown) & set(fresh)
    assert listed(rules="new", exclude_shown=[]) == everything  # replaces the time
    assert listed(rules="new", exclude_shown=[everything[1]]) == [shown[0], *everything[2:]]
    told = ask(service, "/v1/recommend", {**asked, "exclude_shown": ["boot", "gone"]}).json
    assert told["unknown"] == ["exclude_shown"]
    batch = {"questions": [{**asked, "rules": "new"}, asked]}
    first, second = ask(service, "/v1/recommend/batch", batch).json["answers"]
    assert [one["item"] for one in first["items"]] == everything[1:]
    assert [one["item"] for one in second["items"]] == everything
    listed(log=True)
    empty = ask(service, "/v1/recommend", {**asked, "rules": "new"}).json["empty"]
    assert empty == "no item is left by exclude_shown '1h'"


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (
            "recommend/batch",
            {"questions": [{}, {"user": "ann", "where": "nothing=1"}]},
            "where: unknown item column 'nothing'. Known: brand, stock - at `$.questions[1]`",
        ),
        (
            "recommend/batch",
            {"questions": [{"rules": "fresh"}, {"rules": "frsh"}]},
            "unknown rules 'frsh'. Did you mean 'fresh'? Known: fresh, new - at `$.questions[1]`",
        ),
        (
            "events",
            {"events": [{"user": "u", "item": "boot"}, {"user": "u", "item": "x", "time": "soon"}]},
            "invalid time 'soon': use seconds since 1970, or text such as 2024-01-31 18:30:00 - at "
            "`$.events[1].time`",
        ),
        (
            "events",
            {"events": [{"user": "u", "item": "boot"}, {"user": "", "item": "boot"}]},
            "invalid user id '': use text of 1 to 1024 characters - at `$.events[1]`",
        ),
    ],
)
def test_an_error_names_the_question_or_event_of_a_batch(service, store, path, body, said):
    found = ask(service, f"/v1/{path}", body)
    assert (found.status, found.json["detail"]) == (422, said)
    assert store.position() == 0


def test_columns_to_show_that_no_item_has_are_named_beside_similar_items(service):
    found = ask(service, "/v1/similar", {"item": "boot", "show": ["brand", "title"]}).json
    assert found["unknown"] == ["show.title"] and found["similar"][0]["columns"].keys() == {"brand"}
    assert "unknown" not in ask(service, "/v1/similar", {"item": "boot", "show": ["brand"]}).json


def fresh_list(service):
    answer = ask(service, "/v1/recommend", {"user": "eve", "n": 4})
    return [row["item"] for row in answer.json["items"]]


def test_refunds_are_stored_and_counted_and_change_no_list(service):
    before = fresh_list(service)
    refunds = [
        {"user": "eve", "item": before[0], "event": "Refund"},
        {"user": "eve", "item": before[1], "event": "buy", "value": -20},
    ]
    bought = {"user": "eve", "item": before[2], "event": "buy", "value": 20}
    assert tell(service, *refunds).json == {"taken": 2, "position": 2, "refunds": 2}
    assert fresh_list(service) == before
    assert tell(service, bought).json == {"taken": 1, "position": 3}
    assert before[2] not in fresh_list(service)
    assert "\nfmpair_refunds_total 2\n" in service.metrics.text()


def test_a_model_that_took_refunds_as_choices_does_so_in_service(store, tmp_path):
    path = tmp_path / "model.fmpair"
    RECIPE.fit(Dataset.from_frame(LOG, refunds="keep")).save(path)
    service = Application(Service(LiveModels(path, store), store))
    first = fresh_list(service)[0]
    told = tell(service, {"user": "eve", "item": first, "event": "refund"})
    assert told.json == {"taken": 1, "position": 1}
    assert first not in fresh_list(service)
